"""The properties of an object schema: which keys it names and requires, and whether it allows others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs

from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.contract.validators import is_reserved
from pflow_mcp_plugin.schemas.schema_document import SchemaDocument

CONTENT_BLOCKS = "content_blocks"
"""The output for what a tool answers beside its structured result."""

_VISITS = 200
_ELSEWHERE = frozenset({"$dynamicRef", "$recursiveRef"})
_OF_OBJECTS = frozenset(
    {
        "allOf",
        "anyOf",
        "oneOf",
        "required",
        "not",
        "if",
        "then",
        "else",
        "dependentRequired",
        "dependentSchemas",
    }
)
"""Keywords with which an object that names no keys is a condition on those that are named elsewhere."""


@attrs.frozen(kw_only=True)
class Declaration:
    """The properties that an object schema declares.

    Keys of the form `__name__` are reserved for the host and are left out.

    Attributes:
        properties: Each key with its schema; includes keys that are only required. One that several
            alternatives describe has `anyOf` their schemas.
        required: The required keys.
        uncertain: The keys of `properties` whose schema applies to some objects only: others may have any
            value there.
        open: Whether a tool accepts other arguments: the schema says so, lists none at all, or is malformed.
            An empty list of them means that there are none.
        more: Whether an object may have other keys. True if the schema says so or names no keys,
            False if it excludes them, None if it names some keys and does not mention others.
        document: The document that the schemas of the properties are in.
    """

    properties: JSONObject
    required: frozenset[str]
    uncertain: frozenset[str]
    open: bool
    more: bool | None
    document: SchemaDocument = attrs.field(eq=False, repr=False)


def declaration(schema: JSON, document: SchemaDocument | None = None) -> Declaration:
    """Return the properties that an object schema declares; never raises, whatever the schema is.

    Args:
        schema: An object schema, possibly composed with `allOf`, `anyOf`, `oneOf` or `$ref`.
        document: The document that contains it, if it is only a part.
    """
    within = document or SchemaDocument(schema)
    found = _gather(within, schema)
    keys = [
        key
        for key in dict.fromkeys((*found.properties, *found.mentioned))
        if isinstance(key, str) and not is_reserved(key)
    ]
    return Declaration(
        properties={key: found.properties.get(key, True) for key in keys},
        required=frozenset(found.required),
        uncertain=frozenset(found.uncertain),
        open=found.opened or found.unnamed or (found.more is True and not found.lists),
        more=found.more,
        document=within,
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
    """Declarations collected from a schema and from what it is composed of."""

    properties: dict[str, JSON] = attrs.field(factory=dict)
    required: list[str] = attrs.field(factory=list)
    uncertain: set[str] = attrs.field(factory=set)
    mentioned: list[str] = attrs.field(factory=list)
    """The keys that it or an alternative requires."""
    opened: bool = False
    closed: bool = False
    alternatives: list[bool] = attrs.field(factory=list)
    unnamed: bool = False
    """Whether an alternative is an object of any keys."""
    lists: bool = False
    """Whether properties are listed somewhere, be it none."""

    def add(self, member: JSON, shared: frozenset[str] | None) -> None:
        """Add one member.

        Args:
            member: The schema.
            shared: If it is one of several alternatives: the keys that all of them describe.
        """
        binding = shared is None
        if not isinstance(member, dict):
            self.opened = self.opened or member is not False
            return
        properties = member.get("properties", {})
        for key, raw in _table(properties).items():
            self._name(key, raw, shared)
        others = member.get("additionalProperties", member.get("unevaluatedProperties") or None)
        self.lists = self.lists or "properties" in member
        is_malformed = not isinstance(properties, dict)
        if others is True or isinstance(others, dict) or member.get("patternProperties") or is_malformed:
            self.opened = True
        if member.keys() & _ELSEWHERE:
            self.opened = True  # what it refers to cannot be seen
        needed = [key for key in _list(member.get("required")) if isinstance(key, str)]
        self.mentioned += needed
        if binding:
            self.required += needed
            self.closed = self.closed or others is False
        elif properties or others is False:
            self.alternatives.append(others is False)
        elif member.get("type") == "object" and not member.keys() & _OF_OBJECTS:
            self.unnamed = True

    def _name(self, key: str, raw: JSON, shared: frozenset[str] | None) -> None:
        known = self.properties.get(key)
        if shared is None or key in shared:
            self.uncertain.discard(key)
        elif known is None:
            self.uncertain.add(key)
        if known is None or known == raw:
            self.properties[key] = raw
        elif shared is not None:  # each alternative has its own idea of the key
            parts = known["anyOf"] if isinstance(known, _Several) else [known]
            if raw not in parts:
                self.properties[key] = _Several(anyOf=[*parts, raw])

    @property
    def more(self) -> bool | None:
        """See `Declaration`."""
        if self.opened or self.unnamed:
            return True
        if self.closed or (self.alternatives and all(self.alternatives)):
            return False
        return None if self.properties else True


class _Several(dict[str, Any]):
    """The `anyOf` of the schemas of one key, which stands in no schema."""


def _gather(document: SchemaDocument, schema: JSON) -> _Gathered:
    found = _Gathered()
    waiting: list[tuple[JSON, frozenset[str] | None]] = [(schema, None)]
    for _ in range(_VISITS):  # references can make a small schema infinite
        if not waiting:
            return found
        member, shared = waiting.pop(0)
        if isinstance(member, dict) and "$ref" in member:
            waiting.append((document.target(str(member["$ref"])), shared))
            member = document.beside_reference(member)
        found.add(member, shared)
        if isinstance(member, dict):
            waiting += [(part, shared) for part in _list(member.get("allOf"))]
            for parts, keys in _alternatives(document, member):
                waiting += [(part, keys if shared is None else keys & shared) for part in parts]
    found.opened = True  # not everything was seen, so other keys cannot be excluded
    return found


def _alternatives(
    document: SchemaDocument, member: JSONObject
) -> Iterator[tuple[list[JSON], frozenset[str]]]:
    """Yield the parts of a schema that apply to some objects only, with the keys that are in each of them."""
    branches = [member[key] for key in ("then", "else") if isinstance(member.get(key), dict)]
    for parts in (_list(member.get("anyOf")), _list(member.get("oneOf")), branches):
        resolved = map(document.resolve, parts)
        named = [frozenset(_table(_table(part).get("properties"))) for part in resolved]
        is_whole = parts is not branches or (len(branches) == 2 and "if" in member)
        yield parts, frozenset.intersection(*named) if named and is_whole else frozenset()
    conditions = [member.get("if"), *_table(member.get("dependentSchemas")).values()]
    conditions += _table(member.get("dependencies")).values()
    yield [part for part in conditions if isinstance(part, dict)], frozenset()


def _table(value: JSON) -> JSONObject:
    return value if isinstance(value, dict) else {}


def _list(value: JSON) -> list[JSON]:
    return value if isinstance(value, list) else []
