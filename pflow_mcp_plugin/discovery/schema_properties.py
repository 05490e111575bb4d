"""The properties of an object schema: which keys it names and requires, and whether it allows others."""

from __future__ import annotations

import attrs

from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.discovery.schema_document import SchemaDocument

CONTENT_BLOCKS = "content_blocks"
"""The output for what a tool answers beside its structured result."""

_VISITS = 200


@attrs.frozen(kw_only=True)
class Declaration:
    """The properties that an object schema declares.

    Keys of the form `__name__` are reserved for the host and are left out.

    Attributes:
        properties: Each key with its schema, unchanged; includes keys that are only required.
        required: The required keys.
        open: Whether a tool accepts other keys: the schema says so, or is malformed.
        more: Whether an object may have other keys. True if the schema says so or names no keys,
            False if it excludes them, None if it names some keys and does not mention others.
    """

    properties: JSONObject
    required: frozenset[str]
    open: bool
    more: bool | None


def declaration(schema: JSON, document: SchemaDocument | None = None) -> Declaration:
    """Return the properties that an object schema declares; never raises, whatever the schema is.

    Args:
        schema: An object schema, possibly composed with `allOf`, `anyOf`, `oneOf` or `$ref`.
        document: The document that contains it, if it is only a part.
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


@attrs.frozen(kw_only=True)
class ResultForm:
    """What the schema of a result declares of the properties that need a decision.

    Attributes:
        wrapped: Whether the result proper is inside a lone `{"result": ...}`; None if there is no schema
            that says so.
        names_content_blocks: Whether the result has a property `content_blocks` of its own.
    """

    wrapped: bool | None = None
    names_content_blocks: bool = False


def result_form(schema: JSON) -> ResultForm:
    """Return what the output schema of a tool, None if it has none, decides about its results."""
    if schema is None:
        return ResultForm()
    document = SchemaDocument(schema)
    whole = unwrapped(document, schema)
    named = CONTENT_BLOCKS in declaration(whole, document).properties
    return ResultForm(wrapped=whole is not schema, names_content_blocks=named)


def unwrapped(document: SchemaDocument, schema: JSON) -> JSON:
    """Return the schema inside a lone wrapping `{"result": ...}`, which is removed from results too.

    Protocol versions before 2026-07-28 require a structured result to be an object: servers wrap other
    values under this key, and declare that.
    """
    resolved = document.resolve(schema)
    properties = resolved.get("properties") if isinstance(resolved, dict) else None
    if isinstance(properties, dict) and list(properties) == ["result"]:
        schema = properties["result"]
    return schema


@attrs.define(eq=False, repr=False)
class _Gathered:
    """Declarations collected from a schema and the members of its `allOf`, `anyOf` and `oneOf`."""

    properties: dict[str, JSON] = attrs.field(factory=dict)
    required: list[str] = attrs.field(factory=list)
    opened: bool = False
    closed: bool = False
    alternatives: list[bool] = attrs.field(factory=list)

    def add(self, member: JSON, *, binding: bool) -> None:
        """Add one member; it is `binding` unless it is one of several alternatives."""
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


def _gather(document: SchemaDocument, schema: JSON) -> _Gathered:
    found = _Gathered()
    waiting = [(schema, True)]
    for _ in range(_VISITS):  # references can make a small schema infinite
        if not waiting:
            return found
        member, binding = waiting.pop(0)
        member = document.resolve(member)
        found.add(member, binding=binding)
        if isinstance(member, dict):
            waiting += [(part, binding) for part in _list(member.get("allOf"))]
            waiting += [(part, False) for key in ("anyOf", "oneOf") for part in _list(member.get(key))]
    found.opened = True  # not everything was seen, so other keys cannot be excluded
    return found


def _is_open(resolved: JSON) -> bool:
    """Whether a tool accepts undeclared arguments: its schema says so, or is malformed."""
    if not isinstance(resolved, dict) or not isinstance(resolved.get("properties", {}), dict):
        return True
    others = resolved.get("additionalProperties", False)
    return bool(resolved.get("patternProperties")) or others is True or isinstance(others, dict)


def _is_reserved(key: object) -> bool:
    return not isinstance(key, str) or (key.startswith("__") and key.endswith("__"))


def _table(value: JSON) -> JSONObject:
    return value if isinstance(value, dict) else {}


def _list(value: JSON) -> list[JSON]:
    return value if isinstance(value, list) else []
