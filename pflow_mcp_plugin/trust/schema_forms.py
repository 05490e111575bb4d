"""One form for JSON Schemas that say the same in different words.

`{"anyOf": [{"type": "string"}, {"type": "null"}]}`, `{"type": ["string", "null"]}` and `{"type": "string",
"nullable": true}` become the same, as do a `const` and an `enum` of one value, a `$ref` and what it refers
to, and keywords that restrict nothing and absent ones. A schema comes from a server and may be anything:
nothing here raises, except when a schema is too large.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from pflow_mcp_plugin.trust.json_equality import is_same

Schema = Mapping[str, Any]

TEXTS = frozenset({"$comment", "description", "title"})
"""Keywords whose values are written for people, and read by models."""
NOTES = frozenset(
    {"$anchor", "$id", "$schema", "$vocabulary", "deprecated", "example", "examples", "default"}
)
DEFINITIONS = frozenset({"$defs", "definitions"})
_HOPS = 32
_DEPTH = 12
_MOST_COMPARED = 100
_MOST_PARTS = 100
_ABOUT_TYPE: Mapping[str, str] = {
    **dict.fromkeys(("minLength", "maxLength", "pattern", "format", "contentEncoding"), "string"),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), "number"),
    **dict.fromkeys(("items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains"), "array"),
    **dict.fromkeys(("properties", "required", "additionalProperties", "patternProperties"), "object"),
    **dict.fromkeys(("propertyNames", "minProperties", "maxProperties"), "object"),
}
"""Keywords that restrict values of one type and say nothing about null."""
_WITHOUT_EFFECT: Mapping[str, tuple[object, ...]] = {
    **dict.fromkeys(("additionalProperties", "items"), (True, {})),
    **dict.fromkeys(("minLength", "minItems", "minProperties"), (0,)),
    **dict.fromkeys(("deprecated", "nullable", "readOnly", "uniqueItems", "writeOnly"), (False,)),
    "allOf": ([],),
    "default": (None,),
    "properties": ({},),
    "required": ([],),
}


_KIND_OF: Mapping[type, str] = {str: "string", float: "number", list: "array", dict: "object"}
_KINDS = ("array", "boolean", "integer", "null", "number", "object", "string")
"""The types, each before one that contains it."""


class TooLarge(Exception):
    """A schema takes more steps to understand than any real one does."""


class SchemaForms:
    """A JSON Schema document whose parts are brought into one form.

    Args:
        root: The whole schema.
        steps: How many schemas inside it may be looked at.
    """

    def __init__(self, root: object, steps: int) -> None:
        self._root = root
        self._steps = steps
        self.referred: set[int] = set()
        """The `id` of every definition that a reference led to."""

    def step(self, steps: int = 1) -> None:
        """Count what is looked at.

        Raises:
            TooLarge: It was too much.
        """
        self._steps -= steps
        if self._steps < 0:
            raise TooLarge

    def form(self, schema: object, depth: int = _DEPTH) -> Schema | None:
        """Return a schema in the common form; None for false, and for what is not a schema."""
        self.step()
        if schema is True:
            return {}
        if not isinstance(schema, Mapping):
            return None
        self.step(len(schema))
        found = {key: value for key, value in schema.items() if not _has_no_effect(key, value)}
        if depth == 0 and found.keys() & {"$ref", "allOf", "anyOf", "oneOf"}:
            raise TooLarge  # what was left as it is could differ without being noticed
        found = self._with_target(found, depth - 1)
        found = self._with_parts(found, depth - 1)
        found = self._with_alternatives(found, depth - 1)
        return _with_values(_with_types(found))

    def alternatives(self, form: Schema, depth: int = _DEPTH) -> Iterator[Schema]:
        """Yield what a schema in the common form allows, as schemas without `anyOf` and `oneOf`."""
        self.step(len(form))
        keyword = next((key for key in ("anyOf", "oneOf") if isinstance(form.get(key), list)), None)
        own = {key: value for key, value in form.items() if key != keyword}
        if keyword is None or not depth:
            kinds = own.get("type")
            yield from (_of_kind(own, kind) for kind in kinds) if isinstance(kinds, list) else (own,)
            return
        shared = {key: value for key, value in own.items() if key not in TEXTS | NOTES | DEFINITIONS}
        for member in form[keyword]:
            found = self.form(member)
            if found is not None:
                yield from (_merged(shared, each) for each in self.alternatives(found, depth - 1))

    def _with_target(self, schema: dict[str, Any], depth: int) -> dict[str, Any]:
        ref = schema.get("$ref")
        if not (isinstance(ref, str) and ref.startswith("#")):
            return schema
        target = self._target(ref)
        own = {key: value for key, value in schema.items() if key != "$ref"}
        found = self.form(target, depth)
        return {"not": {}} if found is None else dict(_merged(found, own))

    def _target(self, ref: str) -> object:
        """Return what a pointer refers to; a name that says what is missing, if it is."""
        found, pointer = self._root, ref[1:]
        if pointer and not pointer.startswith("/"):
            return {"$ref": f"anchor:{pointer}"}
        for part in pointer.split("/")[1:_HOPS]:
            key = unquote(part).replace("~1", "/").replace("~0", "~")
            if not (isinstance(found, Mapping) and key in found):
                return {"$ref": f"missing:{pointer}"}
            found = found[key]
        self.referred.add(id(found))
        return found

    def _with_parts(self, schema: dict[str, Any], depth: int) -> dict[str, Any]:
        """Merge the members of `allOf` into the schema around them, as far as they do not meet."""
        parts = schema.get("allOf")
        if not isinstance(parts, list) or len(parts) > _MOST_PARTS:
            return schema
        found = {key: value for key, value in schema.items() if key != "allOf"}
        left = []
        for part in parts:
            form = self.form(part, depth)
            if form is None or not _can_merge(found, form):
                left.append(part)
            else:
                found = dict(_merged(form, found))
        return {**found, "allOf": left} if left else found

    def _with_alternatives(self, schema: dict[str, Any], depth: int) -> dict[str, Any]:
        """Write alternatives of types or values as one `type` or `enum`, and a single one without `anyOf`."""
        keyword = next((key for key in ("anyOf", "oneOf") if isinstance(schema.get(key), list)), None)
        if keyword is None:
            return schema
        own = {key: value for key, value in schema.items() if key != keyword}
        members = [form for form in (self.form(each, depth) for each in schema[keyword]) if form is not None]
        joined = _joined(members)
        if joined is None or not _can_merge(own, joined):
            return schema
        return dict(_merged(joined, own))


def _has_no_effect(key: str, value: object) -> bool:
    return any(is_same(value, each) for each in _WITHOUT_EFFECT.get(key, ()))


def _joined(members: list[Schema]) -> Schema | None:
    """Return one schema for several alternatives: only types, only values, or one beside null."""
    if len(members) == 1:
        return members[0]
    if members and all(each.keys() == {"type"} for each in members):
        return {"type": [kind for each in members for kind in _listed(each["type"])]}
    # each value may have a title or description of its own, which is text and is compared as such
    if members and all("enum" in each and each.keys() <= {"enum", "type"} for each in members):
        return {"enum": [value for each in members for value in _listed(each["enum"])]}
    others = [each for each in members if each != {"type": "null"}]
    if len(others) == 1 and len(members) == 2:
        return _or_null(others[0])
    return None


def _or_null(schema: Schema) -> Schema | None:
    kinds = _listed(schema.get("type"))
    if not kinds or any(key not in _ABOUT_TYPE for key in schema.keys() - TEXTS - NOTES - {"enum", "type"}):
        return None
    values = schema.get("enum")
    with_null = {**schema, "type": [*kinds, "null"]}
    return {**with_null, "enum": [*values, None]} if isinstance(values, list) else with_null


def _with_types(schema: dict[str, Any]) -> dict[str, Any]:
    """Write `type` as a name, or as a sorted list without repetitions; `nullable` as a type."""
    kinds = _listed(schema.get("type"))
    if not kinds or not all(isinstance(kind, str) for kind in kinds):
        return schema
    if schema.get("nullable") is True:
        schema = {key: value for key, value in schema.items() if key != "nullable"}
        kinds = [*kinds, "null"]
    if "number" in kinds:
        kinds = [kind for kind in kinds if kind != "integer"]
    kinds = sorted(set(kinds))
    return {**schema, "type": kinds[0] if len(kinds) == 1 else kinds}


def _with_values(schema: dict[str, Any]) -> dict[str, Any]:
    """Write `const` as an `enum` of one value, and as `type` the types that its values have."""
    if "const" in schema and "enum" not in schema:
        schema = {("enum" if key == "const" else key): value for key, value in schema.items()}
        schema["enum"] = [schema["enum"]]
    values, kinds = schema.get("enum"), _listed(schema.get("type"))
    if not isinstance(values, list) or not all(isinstance(kind, str) for kind in kinds):
        return schema
    used = [kind for kind in kinds or _KINDS if any(_is_of(value, kind) for value in values)]
    if not kinds and "integer" in used:
        used.remove("integer" if any(isinstance(value, float) for value in values) else "number")
    return {**schema, "type": used[0] if len(used) == 1 else used} if used else schema


def _of_kind(schema: Schema, kind: object) -> Schema:
    """Return what a schema with several types says about values of one of them."""
    about = "number" if kind == "integer" else kind
    found = {key: value for key, value in schema.items() if _ABOUT_TYPE.get(key, about) == about}
    values = found.pop("enum", None)
    if isinstance(values, list) and kind != "null":
        found["enum"] = [value for value in values if _is_of(value, kind)]
    return {**found, "type": kind}


def _is_of(value: object, kind: object) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    if isinstance(value, int):
        return kind in ("integer", "number")
    return kind == ("null" if value is None else _KIND_OF.get(type(value)))


def _can_merge(one: Schema, other: Schema) -> bool:
    met = (one.keys() & other.keys()) - TEXTS - NOTES
    return all(is_same(one[key], other[key]) or _is_union(key, one[key], other[key]) for key in met)


def _is_union(key: str, one: object, other: object) -> bool:
    """Whether the members of a keyword of two schemas that hold together can be written as one."""
    if key == "required":
        return isinstance(one, list) and isinstance(other, list)
    if not (isinstance(one, Mapping) and isinstance(other, Mapping)):
        return False
    return key in {"properties", *DEFINITIONS} and not one.keys() & other.keys()


def _merged(one: Schema, other: Schema) -> Schema:
    """Return a schema of which both hold; texts and notes are those of `other`, as far as it has them."""
    found = dict(one)
    both = []
    for key, value in other.items():
        if key not in found or key in TEXTS | NOTES or is_same(found[key], value):
            found[key] = value
        elif _is_union(key, found[key], value):
            found[key] = {**found[key], **value} if isinstance(value, Mapping) else [*found[key], *value]
        else:
            both.append({key: value})
    if both:
        found["allOf"] = [*_listed(found.get("allOf")), *both]
    return found


def _listed(value: object) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def members_without(members: Iterable[object], others: Iterable[object]) -> list[object]:
    """Return those of some JSON values that are not among others."""
    members, others = list(members), list(others)
    scalars = {_scalar(each) for each in others}
    rest = [each for each in others if isinstance(each, Mapping | list)]
    if len(rest) > _MOST_COMPARED:
        rest = []  # too many to compare each with each
    return [
        each
        for each in members
        if (
            not any(is_same(each, it) for it in rest)
            if isinstance(each, Mapping | list)
            else _scalar(each) not in scalars
        )
    ]


def _scalar(value: object) -> object:
    """Return what is equal for the same strings, numbers, booleans and nulls: 1 and true differ."""
    return None if isinstance(value, Mapping | list) else (isinstance(value, bool), value)
