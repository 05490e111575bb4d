"""What an object schema declares: which keys it names, which it demands, whether it takes others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from pflow_mcp_plugin.discovery.schema_document import SchemaDocument

_VISITS = 200


@attrs.frozen(kw_only=True)
class Declaration:
    """What is declared of an object.

    Keys of the form `__name__` are not ours to pass and are left out.

    Attributes:
        properties: Each key with its schema, untouched; also keys that are only demanded.
        required: The keys that every such object must have.
        open: Whether other keys are welcome: the schema says so, or makes no sense.
        more: Whether such an object may hold other keys. True where the schema says so or names
            none at all, False where it rules them out, None where it names some and says no more.
    """

    properties: Mapping[str, Any]
    required: frozenset[str]
    open: bool
    more: bool | None


def declaration(schema: Any, document: SchemaDocument | None = None) -> Declaration:
    """Return what a schema declares; never raises, whatever the schema is.

    Args:
        schema: An object schema, perhaps put together by `allOf`, `anyOf`, `oneOf` or `$ref`.
        document: The document it is part of, if it is only a part.
    """
    within = document or SchemaDocument(schema)
    found = _gather(within, schema)
    keys = [key for key in dict.fromkeys((*found.properties, *found.required)) if not _is_reserved(key)]
    return Declaration(
        properties={key: found.properties.get(key, True) for key in keys},
        required=frozenset(found.required),
        open=_is_open(within.resolve(schema)),
        more=found.more,
    )


@attrs.define(eq=False, repr=False)
class _Gathered:
    """What the members of a schema say, those of `allOf`, `anyOf` and `oneOf` included."""

    properties: dict[str, Any] = attrs.field(factory=dict)
    required: list[str] = attrs.field(factory=list)
    opened: bool = False
    closed: bool = False
    alternatives: list[bool] = attrs.field(factory=list)

    def add(self, member: Any, *, binding: bool) -> None:
        """Take up one member; `binding` unless it is an alternative to others."""
        if not isinstance(member, dict):
            self.opened = self.opened or member is not False
            return
        properties = _table(member.get("properties"))
        for key, raw in properties.items():
            self.properties.setdefault(key, raw)
        others = member.get("additionalProperties", member.get("unevaluatedProperties") or None)
        if others is True or isinstance(others, dict) or member.get("patternProperties"):
            self.opened = True
        if binding:
            self.required += [key for key in _list(member.get("required")) if isinstance(key, str)]
            self.closed = self.closed or others is False
        elif properties or others is False:
            self.alternatives.append(others is False)

    @property
    def more(self) -> bool | None:
        """See `Declaration`."""
        if self.opened:
            return True
        if self.closed or (self.alternatives and all(self.alternatives)):
            return False
        return None if self.properties else True


def _gather(document: SchemaDocument, schema: Any) -> _Gathered:
    found = _Gathered()
    waiting = [(schema, True)]
    for _ in range(_VISITS):  # references can make a small schema endless
        if not waiting:
            return found
        member, binding = waiting.pop(0)
        member = document.resolve(member)
        found.add(member, binding=binding)
        if isinstance(member, dict):
            waiting += [(part, binding) for part in _list(member.get("allOf"))]
            waiting += [(part, False) for key in ("anyOf", "oneOf") for part in _list(member.get(key))]
    found.opened = True
    return found


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
