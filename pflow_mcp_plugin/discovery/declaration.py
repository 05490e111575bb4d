"""What an object schema declares: which keys it names, which it demands, whether it takes others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from pflow_mcp_plugin.discovery.document import Document

_VISITS = 200


@attrs.frozen(kw_only=True)
class Declaration:
    """What is declared of an object.

    Keys of the form `__name__` are not ours to pass and are left out.

    Attributes:
        properties: Each key with its schema, untouched; also keys that are only demanded.
        required: The keys that every such object must have.
        open: Whether other keys are welcome: the schema says so, or makes no sense.
    """

    properties: Mapping[str, Any]
    required: frozenset[str]
    open: bool


def declaration(schema: Any, document: Document | None = None) -> Declaration:
    """Return what a schema declares; never raises, whatever the schema is.

    Args:
        schema: An object schema, perhaps put together by `allOf`, `anyOf`, `oneOf` or `$ref`.
        document: The document it is part of, if it is only a part.
    """
    within = document or Document(schema)
    properties, required = _gather(within, schema)
    keys = [key for key in dict.fromkeys((*properties, *required)) if not _is_reserved(key)]
    return Declaration(
        properties={key: properties.get(key, True) for key in keys},
        required=frozenset(required),
        open=_is_open(within.resolve(schema)),
    )


def _gather(document: Document, schema: Any) -> tuple[dict[str, Any], list[str]]:
    properties: dict[str, Any] = {}
    required: list[str] = []
    waiting = [(schema, True)]
    for _ in range(_VISITS):  # references can make a small schema endless
        if not waiting:
            break
        member, binding = waiting.pop(0)
        member = document.resolve(member)
        if not isinstance(member, dict):
            continue
        for key, raw in _table(member.get("properties")).items():
            properties.setdefault(key, raw)
        if binding:
            required += [key for key in _list(member.get("required")) if isinstance(key, str)]
        waiting += [(part, binding) for part in _list(member.get("allOf"))]
        waiting += [(part, False) for key in ("anyOf", "oneOf") for part in _list(member.get(key))]
    return properties, required


def _is_open(resolved: Any) -> bool:
    """Whether a tool takes arguments it does not name: it says so, or says nothing that makes sense."""
    if not isinstance(resolved, dict) or not isinstance(resolved.get("properties", {}), dict):
        return True
    others = resolved.get("additionalProperties", False)
    return bool(resolved.get("patternProperties")) or others is True or isinstance(others, dict)


def _is_reserved(key: object) -> bool:
    return not isinstance(key, str) or (key.startswith("__") and key.endswith("__"))


def _table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
