"""Reads JSON Schemas: references, friendly types such as `int | None`, and the properties of objects.

Friendly types are `str`, `int | None`, `list`, `any`. A schema comes from a server and may be
anything: nothing here raises, and a schema that cannot be interpreted is `any`. A `$ref` is followed
within the document only, never fetched. Depth, steps and hops are bounded, so that loops and
exponential expansion end.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import unquote

import attrs

from pflow_mcp_plugin.contract.json_types import FRIENDLY_NAMES, JSON, NAMES_OF_PYTHON, JSONObject
from pflow_mcp_plugin.contract.validators import is_reserved

ANY = "any"
DIALECTS = ("draft-03", "draft-04", "draft-06", "draft-07", "2019-09", "2020-12")
"""The dialects of JSON Schema, oldest first, by the part of `$schema` that tells them apart."""

_DEPTH = 16
_STEPS = 500
_HOPS = 32
DEEPEST = 60
"""Levels of a schema that are read by recursion: far deeper than any real one, far from Python's limit."""
_MORE = frozenset({"$ref", "nullable"})
_OF_OBJECTS = ("properties", "required", "additionalProperties", "patternProperties")
_OF_ARRAYS = ("items", "prefixItems")


class SchemaDocument:
    """A JSON Schema document: follows the references inside it, and names friendly types."""

    def __init__(self, root: JSON) -> None:
        self._root = root
        self._steps = _STEPS
        self._guesses = True

    def items(self, schema: JSON, index: int | None = None) -> JSONObject | None:
        """Read from a list's schema that of its items, or of the one at `index`; None if there is none."""
        found = []
        for part in self.composed(schema):
            first = part.get("prefixItems")
            own = first[index : index + 1] if index is not None and isinstance(first, list) else []
            found.append(own[0] if own else part.get("items"))
        return _any_of(found)

    def others(self, schema: JSON) -> JSONObject | None:
        """Return the JSON Schema of an object's values whose keys it does not name; None if there is none."""
        return _any_of([part.get("additionalProperties") for part in self.composed(schema)])

    def composed(self, schema: JSON) -> list[JSONObject]:
        """Return a schema in this document behind its references, and those that it is composed of."""
        found = [table_of(self.resolve(schema))]
        for part in found:
            for keyword in ("allOf", "anyOf", "oneOf"):
                members = part.get(keyword)
                found += [table_of(self.resolve(it)) for it in members] if isinstance(members, list) else ()
            if len(found) > _STEPS:
                break
        return found

    @property
    def dialect(self) -> int:
        """Which of `DIALECTS` the document names in `$schema`; the newest if it names none."""
        named = self._root.get("$schema") if isinstance(self._root, dict) else None
        known = [number for number, name in enumerate(DIALECTS) if isinstance(named, str) and name in named]
        return known[0] if known else len(DIALECTS) - 1

    def beside_reference(self, schema: JSONObject) -> dict[str, JSON]:
        """Return what holds beside a `$ref` in a JSON Schema; before draft 2019-09 nothing does."""
        if self.dialect < DIALECTS.index("2019-09"):
            return {}
        return {key: part for key, part in schema.items() if key != "$ref"}

    def resolve(self, schema: JSON) -> JSON:
        """Return the JSON Schema at the end of a chain of `$ref`s; True if there is no end."""
        for _ in range(_HOPS):
            if not (isinstance(schema, dict) and "$ref" in schema):
                return schema
            ref = schema["$ref"]
            schema = self.target(ref) if isinstance(ref, str) else True
        return True

    def target(self, ref: str) -> JSON:
        """Return what a `$ref` such as `#/$defs/Name` points to in the JSON Schema; True if it is missing."""
        target, pointer = self._root, ref.removeprefix("#")
        if pointer == ref or (pointer and not pointer.startswith("/")):
            return True
        for part in pointer.split("/")[1:]:
            # `~1` before `~0` (RFC 6901, section 4): `~01` stands for `~1`, not for `/`.
            key = unquote(part).replace("~1", "/").replace("~0", "~")
            if isinstance(target, dict) and key in target:
                target = target[key]
            elif isinstance(target, list) and re.fullmatch("[0-9]{1,6}", key) and int(key) < len(target):
                target = target[int(key)]
            else:
                return True
        return target

    def self_contained(self, part: JSON) -> JSON:
        """Read a part of a JSON Schema with the definitions that it refers to, under their names."""
        if not isinstance(part, dict) or part is self._root:
            return part
        names: dict[str, str] = {}
        found: dict[str, JSON] = {}
        moved = self._moved(part, names, found, DEEPEST)
        inner = moved.get("$defs") if isinstance(moved, dict) else None
        return {**moved, "$defs": {**(inner if isinstance(inner, dict) else {}), **found}} if found else part

    def _moved(self, part: Any, names: dict[str, str], found: dict[str, JSON], depth: int) -> Any:
        if depth == 0 or not isinstance(part, dict | list):
            return part
        if isinstance(part, list):
            return [self._moved(it, names, found, depth - 1) for it in part]
        moved = {key: self._moved(value, names, found, depth - 1) for key, value in part.items()}
        ref = part.get("$ref")
        if not isinstance(ref, str) or not ref.startswith("#"):
            return moved
        if ref not in names:
            name = re.sub(r"^#?/?(\$defs|definitions)?/?", "", ref).replace("/", ".") or "root"
            while name in found:
                name += "_"
            names[ref] = name
            found[name] = True  # it may refer to itself
            found[name] = self._moved(self.target(ref), names, found, depth - 1)
        return {**moved, "$ref": f"#/$defs/{names[ref]}"}

    def friendly(self, schema: JSON) -> str:
        plain = schema if isinstance(schema, dict) else {}
        if isinstance(kind := plain.get("type"), str) and not plain.keys() & _MORE:
            return FRIENDLY_NAMES.get(kind, ANY)  # the fast path, which covers nearly every schema
        self._steps = _STEPS
        return join(self._types(schema, _DEPTH))

    def accepted(self, schema: JSON) -> str:
        """Return the friendly type that a schema in this document accepts, not guessed from other keywords.

        `{"properties": {}}` describes objects, and accepts a string all the same.
        """
        self._guesses = False
        try:
            return self.friendly(schema)
        finally:
            self._guesses = True

    def takes_null(self, schema: JSON) -> bool:
        return "None" in self.friendly(schema).split(" | ")

    def is_unset_by_null(self, schema: JSON) -> bool:
        """Whether a schema as it is read means "not given" by null: that is its default, though not its type.

        Many generators of schemas write `{"type": "string", "default": null}` for an optional string.
        """
        members = [it for it in (schema, self.resolve(schema)) if isinstance(it, dict)]
        defaults = [it["default"] for it in members if "default" in it]
        return (
            bool(defaults)
            and defaults[0] is None
            and {"None", ANY}.isdisjoint(self.accepted(schema).split(" | "))
        )

    def _types(self, schema: JSON, depth: int) -> list[str]:
        schema = self.resolve(schema)
        self._steps -= 1
        if not isinstance(schema, dict) or depth == 0 or self._steps < 0:
            return [ANY]
        found = self._stated(schema) or self._chosen(schema, depth - 1)
        if not found and self._guesses:
            is_object = any(keyword in schema for keyword in _OF_OBJECTS)
            is_list = any(keyword in schema for keyword in _OF_ARRAYS)
            found = ["dict"] if is_object else ["list"] if is_list else []
        found = found or [ANY]
        return [*found, "None"] if schema.get("nullable") is True else found

    def _stated(self, schema: JSONObject) -> list[str]:
        stated = schema.get("type")
        names = stated if isinstance(stated, list) else [stated]
        if names and all(isinstance(name, str) for name in names):
            return [FRIENDLY_NAMES.get(str(name), ANY) for name in names]
        if "const" in schema:
            return [NAMES_OF_PYTHON.get(type(schema["const"]), ANY)]
        return [NAMES_OF_PYTHON.get(type(value), ANY) for value in list_of(schema.get("enum"))]

    def _chosen(self, schema: JSONObject, depth: int) -> list[str]:
        for keyword in ("anyOf", "oneOf"):
            members = schema.get(keyword)
            if isinstance(members, list) and members:
                return [name for member in members for name in self._types(member, depth)]
        members = schema.get("allOf")
        if isinstance(members, list):
            narrowed = (join(self._types(member, depth)) for member in members)
            return [next((name for name in narrowed if name != ANY), ANY)]
        return []


def resolved_value(schema: JSON, root: JSON = None) -> JSON:
    """Return the JSON Schema behind references in `root` and choices with null, with its definitions."""
    document = SchemaDocument(schema if root is None else root)
    for _ in range(_HOPS):
        schema = document.resolve(schema)
        choices = table_of(schema).get("anyOf") or table_of(schema).get("oneOf")
        if not isinstance(choices, list) or "properties" in table_of(schema):
            break
        some = [choice for choice in choices if choice != {"type": "null"}]
        if len(some) != 1 or not isinstance(some[0], dict):
            break
        schema = some[0]
    return document.self_contained(schema)


def join(names: Iterable[str]) -> str:
    """Join friendly types read from schemas, as `int` and `None`: each once, `None` last, or `any` alone."""
    parts = list(dict.fromkeys(part for name in names for part in name.split(" | ")))
    if ANY in parts or not parts:
        return ANY
    parts.sort(key=lambda part: part == "None")
    return " | ".join(parts)


CONTENT_BLOCKS = "content_blocks"
"""The output for what a tool answers beside its structured result."""

_VISITS = 200
_ELSEWHERE = frozenset({"$dynamicRef", "$recursiveRef"})
_OF_KEYS = frozenset(
    {
        *("allOf", "anyOf", "oneOf", "required", "not"),
        *("if", "then", "else", "dependentRequired", "dependentSchemas"),
    }
)
"""Keywords that make an object without named keys a condition on keys that are named elsewhere."""


@attrs.frozen(kw_only=True)
class Declaration:
    """What is read from an object's JSON Schema: the properties it declares, and whether it allows others.

    Keys of the form `__name__` are reserved for the host and are left out.
    """

    # Including those that are only required. One that several alternatives describe has `anyOf` their
    # schemas.
    properties: JSONObject
    required: frozenset[str]
    # Those whose schema applies to some objects only: in others they may have any value.
    uncertain: frozenset[str]
    # A tool accepts other arguments if the schema says so, lists no arguments at all, or is malformed. An
    # empty list means that there are none.
    open: bool
    # An object may have other keys: True if the schema says so or names no keys, False if it excludes them,
    # None if it names some keys and does not mention others.
    more: bool | None
    document: SchemaDocument = attrs.field(eq=False, repr=False)


def _any_of(schemas: list[JSON]) -> JSONObject | None:
    found = [it for it in schemas if isinstance(it, dict)]
    return {"anyOf": found} if len(found) > 1 else next(iter(found), None)


def declaration(schema: JSON, document: SchemaDocument | None = None) -> Declaration:
    """Read a JSON Schema of an object, and return the properties that it declares; never raises."""
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
    """What a reader of schemas learns of the form of results: whether wrapped, or with `content_blocks`."""

    wrapped: bool | None = None  # inside a lone `{"result": ...}`; None if there is no schema that says so
    names_content_blocks: bool = False  # the result has a property `content_blocks` of its own


def result_form(schema: JSON) -> ResultForm:
    """Read a JSON Schema of results, if there is one; return the form of results by its properties."""
    if schema is None:
        return ResultForm()
    document = SchemaDocument(schema)
    whole = unwrapped(document, schema)
    named = CONTENT_BLOCKS in declaration(whole, document).properties
    return ResultForm(wrapped=whole is not schema, names_content_blocks=named)


def unwrapped(document: SchemaDocument, schema: JSON) -> JSON:
    """Read the JSON Schema inside a lone wrapping `{"result": ...}`, which is removed from results too.

    Protocol versions before 2026-07-28 require a structured result to be an object: servers wrap other
    values under this key, and declare that.
    """
    properties = table_of(table_of(document.resolve(schema)).get("properties"))
    return properties["result"] if list(properties) == ["result"] else schema


@attrs.define(eq=False, repr=False)
class _Gathered:
    """The properties read from an object's JSON Schema, and from all that it is composed of."""

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
    """Whether properties are listed somewhere, even an empty list."""

    def add(self, member: JSON, shared: frozenset[str] | None) -> None:
        # Of several alternatives, `shared` are the keys that all describe.
        binding = shared is None
        if not isinstance(member, dict):
            self.opened = self.opened or member is not False
            return
        properties = member.get("properties", {})
        for key, raw in table_of(properties).items():
            self._name(key, raw, shared)
        others = member.get("additionalProperties", member.get("unevaluatedProperties") or None)
        self.lists = self.lists or "properties" in member
        is_malformed = not isinstance(properties, dict)
        if others is True or isinstance(others, dict) or member.get("patternProperties") or is_malformed:
            self.opened = True
        if member.keys() & _ELSEWHERE:
            self.opened = True  # what it refers to cannot be seen
        needed = [key for key in list_of(member.get("required")) if isinstance(key, str)]
        self.mentioned += needed
        if binding:
            self.required += needed
            self.closed = self.closed or others is False
        elif properties or others is False:
            self.alternatives.append(others is False)
        elif member.get("type") == "object" and not member.keys() & _OF_KEYS:
            self.unnamed = True

    def _name(self, key: str, raw: JSON, shared: frozenset[str] | None) -> None:
        known = self.properties.get(key)
        if shared is None or key in shared:
            self.uncertain.discard(key)
        elif known is None:
            self.uncertain.add(key)
        if known is None or known == raw:
            self.properties[key] = raw
        elif shared is not None:  # each alternative describes the key differently
            parts = known["anyOf"] if isinstance(known, _Several) else [known]
            if raw not in parts:
                self.properties[key] = _Several(anyOf=[*parts, raw])

    @property
    def more(self) -> bool | None:
        if self.opened or self.unnamed:
            return True
        if self.closed or (self.alternatives and all(self.alternatives)):
            return False
        return None if self.properties else True


class _Several(dict[str, Any]):
    """The `anyOf` that stands for what is read about one key in alternatives of a JSON Schema."""


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
            waiting += [(part, shared) for part in list_of(member.get("allOf"))]
            for parts, keys in _alternatives(document, member):
                waiting += [(part, keys if shared is None else keys & shared) for part in parts]
    found.opened = True  # not everything was seen, so other keys cannot be excluded
    return found


def _alternatives(
    document: SchemaDocument, member: JSONObject
) -> Iterator[tuple[list[JSON], frozenset[str]]]:
    branches = [member[key] for key in ("then", "else") if isinstance(member.get(key), dict)]
    for parts in (list_of(member.get("anyOf")), list_of(member.get("oneOf")), branches):
        resolved = map(document.resolve, parts)
        named = [frozenset(table_of(table_of(part).get("properties"))) for part in resolved]
        is_whole = parts is not branches or (len(branches) == 2 and "if" in member)
        yield parts, frozenset.intersection(*named) if named and is_whole else frozenset()
    conditions = [member.get("if"), *table_of(member.get("dependentSchemas")).values()]
    conditions += table_of(member.get("dependencies")).values()
    yield [part for part in conditions if isinstance(part, dict)], frozenset()


def table_of(value: JSON) -> JSONObject:
    """Return what should be an object in a JSON Schema; an empty one if it is something else."""
    return value if isinstance(value, dict) else {}


def list_of(value: JSON) -> list[JSON]:
    """Return a part read from a JSON Schema that should be a list; an empty one if it is anything else."""
    return value if isinstance(value, list) else []


def placed_at(schema: JSON, place: str, depth: int = DEEPEST) -> JSON:
    """Return a JSON Schema with its references changed so that it can stand inside another one."""
    if depth == 0 or not isinstance(schema, dict | list):
        return schema
    if isinstance(schema, list):
        return [placed_at(part, place, depth - 1) for part in schema]
    moved = {key: placed_at(part, place, depth - 1) for key, part in schema.items()}
    ref = schema.get("$ref")
    is_own = isinstance(ref, str) and ref.startswith("#")
    return {**moved, "$ref": f"{place}{str(ref)[1:]}"} if is_own else moved
