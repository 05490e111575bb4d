"""A JSON Schema document: follows its references, and names its friendly types.

Friendly types are `str`, `int | None`, `list`, `any`. A schema comes from a server and may be
anything: nothing here raises, and a schema that cannot be interpreted is `any`. A `$ref` is followed
within the document only, never fetched. Depth, steps and hops are bounded, so that loops and
exponential expansion end.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import unquote

from pflow_mcp_plugin.contract.json_types import FRIENDLY_NAMES, JSON, JSONObject

ANY = "any"
DIALECTS = ("draft-03", "draft-04", "draft-06", "draft-07", "2019-09", "2020-12")
"""The dialects of JSON Schema, oldest first, by the part of `$schema` that tells them apart."""

_DEPTH = 16
_STEPS = 500
_HOPS = 32
_DEEPEST = 60
_OF_PYTHON: Mapping[type, str] = {
    str: "str",
    bool: "bool",
    int: "int",
    float: "float",
    list: "list",
    dict: "dict",
    type(None): "None",
}
_MORE = frozenset({"$ref", "nullable"})
_OF_OBJECTS = ("properties", "required", "additionalProperties", "patternProperties")
_OF_ARRAYS = ("items", "prefixItems")


class SchemaDocument:
    """A JSON Schema document: follows the references inside it, and names friendly types.

    Args:
        root: The whole schema.
    """

    def __init__(self, root: JSON) -> None:
        self._root = root
        self._steps = _STEPS
        self._guesses = True

    @property
    def dialect(self) -> int:
        """The position of the dialect that the document names in `DIALECTS`; the newest if it names none."""
        named = self._root.get("$schema") if isinstance(self._root, dict) else None
        known = [number for number, name in enumerate(DIALECTS) if isinstance(named, str) and name in named]
        return known[0] if known else len(DIALECTS) - 1

    def beside_reference(self, schema: JSONObject) -> dict[str, JSON]:
        """Return what holds beside the reference that a schema is; before draft 2019-09 nothing does."""
        if self.dialect < DIALECTS.index("2019-09"):
            return {}
        return {key: part for key, part in schema.items() if key != "$ref"}

    def resolve(self, schema: JSON) -> JSON:
        """Return the schema at the end of a chain of references in the document; True if there is no end."""
        for _ in range(_HOPS):
            if not (isinstance(schema, dict) and "$ref" in schema):
                return schema
            ref = schema["$ref"]
            schema = self.target(ref) if isinstance(ref, str) else True
        return True

    def target(self, ref: str) -> JSON:
        """Return what a pointer (`#/$defs/Name`) refers to in the document; True if that is missing."""
        target, pointer = self._root, ref.removeprefix("#")
        if pointer == ref or (pointer and not pointer.startswith("/")):
            return True
        for part in pointer.split("/")[1:]:
            # `~1` before `~0` (RFC 6901, section 4): `~01` stands for `~1`, not for `/`.
            target = _child(target, unquote(part).replace("~1", "/").replace("~0", "~"))
        return target

    def self_contained(self, part: JSON) -> JSON:
        """Return a part of the document with the definitions that it refers to, which keep their names."""
        if not isinstance(part, dict) or part is self._root or not _refers(part):
            return part
        names: dict[str, str] = {}
        found: dict[str, JSON] = {}
        moved = self._moved(part, names, found, _DEEPEST)
        inner = moved.get("$defs") if isinstance(moved, dict) else None
        return {**moved, "$defs": {**(inner if isinstance(inner, dict) else {}), **found}} if found else part

    def _moved(self, part: Any, names: dict[str, str], found: dict[str, JSON], depth: int) -> Any:
        """Return a part with its references leading to `$defs`, where their targets are put."""
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
        """Return the friendly type of a schema in this document; references in the document are followed."""
        plain = schema if isinstance(schema, dict) else {}
        if isinstance(kind := plain.get("type"), str) and not plain.keys() & _MORE:
            return FRIENDLY_NAMES.get(kind, ANY)  # the fast path, which covers nearly every schema
        self._steps = _STEPS
        return join(self._types(schema, _DEPTH))

    def accepted(self, schema: JSON) -> str:
        """Return the friendly type of a schema in this document as `friendly` does, but without guessing.

        `{"properties": {}}` describes objects, and accepts a string all the same.
        """
        self._guesses = False
        try:
            return self.friendly(schema)
        finally:
            self._guesses = True

    def takes_null(self, schema: JSON) -> bool:
        """Return whether a schema in this document states that it accepts null."""
        return "None" in self.friendly(schema).split(" | ")

    def is_unset_by_null(self, schema: JSON) -> bool:
        """Return whether null means "not given": it is the default, though the type excludes it.

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
        found = self._stated(schema) or self._chosen(schema, depth - 1) or self._guessed(schema)
        return [*found, "None"] if schema.get("nullable") is True else found

    def _stated(self, schema: JSONObject) -> list[str]:
        """`type`, `const` and `enum` state the types directly."""
        stated = schema.get("type")
        names = stated if isinstance(stated, list) else [stated]
        if names and all(isinstance(name, str) for name in names):
            return [FRIENDLY_NAMES.get(str(name), ANY) for name in names]
        if "const" in schema:
            return [_of_value(schema["const"])]
        values = schema.get("enum")
        return [_of_value(value) for value in values] if isinstance(values, list) else []

    def _chosen(self, schema: JSONObject, depth: int) -> list[str]:
        """`anyOf` and `oneOf` list alternatives; of `allOf`, the first specific type is used."""
        for keyword in ("anyOf", "oneOf"):
            members = schema.get(keyword)
            if isinstance(members, list) and members:
                return [name for member in members for name in self._types(member, depth)]
        members = schema.get("allOf")
        if isinstance(members, list):
            narrowed = (join(self._types(member, depth)) for member in members)
            return [next((name for name in narrowed if name != ANY), ANY)]
        return []

    def _guessed(self, schema: JSONObject) -> list[str]:
        if not self._guesses:
            return [ANY]
        if any(keyword in schema for keyword in _OF_OBJECTS):
            return ["dict"]
        return ["list"] if any(keyword in schema for keyword in _OF_ARRAYS) else [ANY]


def _refers(schema: JSON) -> bool:
    waiting = [schema]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            if "$ref" in value:
                return True
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
    return False


def join(names: Iterable[str]) -> str:
    """Join the friendly types in a schema document: each once, `None` last, `any` if it is among them."""
    parts = list(dict.fromkeys(part for name in names for part in name.split(" | ")))
    if ANY in parts or not parts:
        return ANY
    parts.sort(key=lambda part: part == "None")
    return " | ".join(parts)


def _of_value(value: JSON) -> str:
    return _OF_PYTHON.get(type(value), ANY)


def _child(value: JSON, key: str) -> JSON:
    found: JSON = True
    if isinstance(value, dict):
        found = value.get(key, True)
    elif (
        isinstance(value, list) and key.isascii() and key.isdigit() and len(key) < 7 and int(key) < len(value)
    ):
        found = value[int(key)]
    return found
