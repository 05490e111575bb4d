"""Reduces a schema to the keywords that can be checked here safely.

A schema comes from a server and may be anything. Only known keywords are kept, and only if their
values are well formed, so that checking never fails because of the schema itself. Left to the server:
patterns that are not clearly linear in time; `uniqueItems`, which is quadratic; `format`; keywords of
other dialects. A keyword that may reject more when its parts accept more (`not`, `oneOf`, `if`) is
weakened or dropped if something inside it was left out. So is `contains`, for `maxContains`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf
from typing import Any, NamedTuple

from pflow_mcp_plugin.contract.json_types import FRIENDLY_NAMES, JSON, JSONObject
from pflow_mcp_plugin.schemas.schema_reader import DEEPEST, DIALECTS, SchemaDocument

_NODES = 20_000
_PATTERNS = 20
_WORDS = frozenset(
    {
        *("$anchor", "$comment", "$defs", "$dynamicAnchor", "$id", "$schema", "$vocabulary"),
        *("contentEncoding", "contentMediaType", "contentSchema", "default", "definitions", "deprecated"),
        *("description", "example", "examples", "format", "id", "readOnly", "title", "writeOnly"),
    }
)
"""Keywords that a reduction drops, because they do not affect whether a value is valid."""


_NEW: Mapping[str, frozenset[str]] = {
    "draft-06": frozenset({"const", "contains", "propertyNames"}),
    "draft-07": frozenset({"if", "then", "else"}),
    "2019-09": frozenset({"dependentRequired", "dependentSchemas", "minContains", "maxContains"}),
    "2020-12": frozenset({"prefixItems"}),
}
"""The keywords that each dialect introduced: in older ones they mean nothing."""


_OF_ONE_SCHEMA = frozenset({"additionalProperties", "items", "propertyNames", "then", "else"})
_OF_SEVERAL = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_ONLY_EXACT = frozenset({"not", "if", "contains"})
"""Keywords that are dropped unless their schema was reduced exactly: a weaker one makes them stricter."""


class SchemaTooLarge(Exception):
    """A schema is too large or too deep to be reduced and checked in reasonable time."""


class Reduction:
    """Reduces a schema to the keywords that can be checked safely; its total size is bounded."""

    def __init__(self, document: SchemaDocument) -> None:
        self._left = _NODES
        newer = DIALECTS[document.dialect + 1 :]
        self._unknown = _WORDS.union(*(_NEW[name] for name in newer if name in _NEW))
        self._document = document

    def reduce(self, schema: JSON) -> JSON:
        """Return the part of a schema that can be checked safely; True if there is none."""
        return self._reduce(schema, DEEPEST)[0]

    def _reduce(self, schema: JSON, depth: int) -> tuple[JSON, bool]:
        """Return the reduced schema, and whether it accepts exactly what the whole one does."""
        self._left -= 1
        if self._left < 0 or depth == 0:
            raise SchemaTooLarge
        if isinstance(schema, bool):
            return schema, True
        if not isinstance(schema, Mapping):
            return True, False
        if schema.get("nullable") is True:  # of OpenAPI 3.0
            rest, _ = self._reduce({key: schema[key] for key in schema if key != "nullable"}, depth)
            return {"anyOf": [{"type": "null"}, rest]}, False
        reduced: dict[str, JSON] = {}
        exact = True
        for key, value in self._normal(schema).items():
            kept, is_exact = self._keyword(key, value, depth - 1)
            exact = exact and is_exact
            reduced.update(kept)
        return reduced, exact

    def _normal(self, schema: JSONObject) -> dict[str, JSON]:
        """Return a schema to reduce in the newest dialect, without keywords that depend on a dropped one."""
        if "$ref" in schema:
            schema = {**self._document.beside_reference(schema), "$ref": schema["$ref"]}
        normal = {key: value for key, value in schema.items() if key not in self._unknown}
        if isinstance(normal.get("items"), list):
            normal["prefixItems"] = normal.pop("items")
            if "additionalItems" in normal:
                normal["items"] = normal.pop("additionalItems")
        normal.pop("additionalItems", None)
        for flag, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
            # in draft 4, this flag makes the bound next to it exclusive
            if isinstance(normal.get(flag), bool) and normal.pop(flag) and bound in normal:
                normal[flag] = normal.pop(bound)
        if not all(_NAMED[key](normal.get(key, {})) for key in ("properties", "patternProperties")):
            normal.pop("additionalProperties", None)
        if not isinstance(normal.get("prefixItems", []), list):
            normal.pop("items", None)
        return normal

    def _keyword(self, key: str, value: JSON, depth: int) -> tuple[dict[str, JSON], bool]:
        if key in _PLAIN:
            return ({key: value}, True) if _PLAIN[key](value) else ({}, False)
        if key == "$ref":  # its target is reduced when it is followed, and may then lose keywords
            return ({key: value} if isinstance(value, str) else {}), False
        if key in _OF_ONE_SCHEMA or key in _ONLY_EXACT:
            part, exact = self._reduce(value, depth)
            return ({key: part} if exact or key in _OF_ONE_SCHEMA else {}), exact
        if key in _NAMED and isinstance(value, Mapping) and _NAMED[key](value):
            named = {name: self._reduce(part, depth) for name, part in value.items()}
            exact = all(is_exact for _, is_exact in named.values())
            return {key: {name: part for name, (part, _) in named.items()}}, exact
        if key in _OF_SEVERAL and isinstance(value, list) and value:
            listed = [self._reduce(part, depth) for part in value]
            exact = all(is_exact for _, is_exact in listed)
            # several weakened alternatives may match where only one of the originals does
            kept = "anyOf" if key == "oneOf" and not exact else key
            return {kept: [part for part, _ in listed]}, exact
        return {}, False


def _is_types(value: object) -> bool:
    names = value if isinstance(value, list) else [value]
    return bool(names) and all(isinstance(name, str) and name in FRIENDLY_NAMES for name in names)


def _is_count(value: Any) -> bool:
    whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    return whole and not isinstance(value, bool) and value >= 0


def _is_keys(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(key, str) for key in value)


def _is_pattern(value: object) -> bool:
    return isinstance(value, str) and is_linear(value)


_PLAIN: Mapping[str, Callable[[object], bool]] = {
    "type": _is_types,
    "enum": lambda value: isinstance(value, list),
    "const": lambda _: True,
    "required": _is_keys,
    "dependentRequired": lambda value: isinstance(value, Mapping) and all(map(_is_keys, value.values())),
    "pattern": _is_pattern,
    # What is a multiple of a fraction depends on rounding. In Python, unlike JSON, True is an int.
    "multipleOf": lambda value: type(value) is int and value > 0,
    **dict.fromkeys(
        ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
        lambda value: type(value) in (int, float),
    ),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), _is_count),
    **dict.fromkeys(("minProperties", "maxProperties", "minContains", "maxContains"), _is_count),
}

_NAMED: Mapping[str, Callable[[object], bool]] = {
    "properties": lambda value: isinstance(value, Mapping),
    # Every key is matched against every pattern.
    "patternProperties": lambda value: (
        isinstance(value, Mapping) and len(value) <= _PATTERNS and all(map(_is_pattern, value))
    ),
    "dependentSchemas": lambda value: isinstance(value, Mapping),
}


# Which regular expressions are safe: only those that `re` matches in linear time.

_LONGEST = 200
_FAR = 32
_ASCII = "".join(map(chr, range(128)))
_OTHERS = "not ASCII"  # stands for all of these characters
_ITEM = re.compile(
    r"""
    (?P<atom>
        [^\\.^$*+?{}()|\[\]]
      | \.
      | \\ [dwsnrtfv!-/:-@\[-`{-~]
      | \[ \^?+ (?: \\ [dwsnrtfv!-/:-@\[-`{-~] | (?! -- | && | ~~ | \|\| ) [^\\\[\]] )+ \]
    )
    (?P<count> [*+?] | \{ [0-9]{1,4} (?: , [0-9]{0,4} )? \} )?
    (?! [*+?{] )
    """,
    re.VERBOSE,
)
_CLASS = re.compile(r"\\[dws]")
_SIGNS: Mapping[str | None, tuple[int, float]] = {"*": (0, inf), "+": (1, inf), "?": (0, 1)}


class _Item(NamedTuple):
    characters: frozenset[str]
    least: int
    most: float


class _NotPlain(Exception):
    pass


def is_linear(pattern: str) -> bool:
    """Whether `re.search` surely matches a schema's pattern in linear time, so that it can be kept."""
    if len(pattern) > _LONGEST or not pattern.isprintable():
        return False
    try:
        items = list(_items(pattern.removeprefix("^").removesuffix("$")))
        re.compile(pattern)
    except (re.error, _NotPlain):
        return False
    if not _has_one_way(items):
        return False
    # How many characters may be examined from one position before the match fails.
    *before, last = items or [_Item(frozenset(), 0, 0)]
    reach = sum(item.most for item in before) + (last.most if pattern.endswith("$") else last.least)
    return pattern.startswith("^") or reach <= _FAR


def shortest_match(pattern: str) -> str:
    """Return a short text for a schema's `pattern`, even if a reduction drops it; empty if none is found."""
    if len(pattern) > _LONGEST:
        return ""
    try:
        items = list(_items(pattern.removeprefix("^").removesuffix("$")))
        text = "".join(_typical(item.characters) * min(item.least, _LONGEST) for item in items)
        return text if len(text) <= _LONGEST and re.search(pattern, text) else ""
    except (re.error, _NotPlain, OverflowError):
        return ""


def _typical(characters: frozenset[str]) -> str:
    plain = sorted(it for it in characters if it != _OTHERS and it.isprintable())
    return next((it for it in plain if it.isalnum()), plain[0] if plain else "é")


def _items(body: str) -> Iterator[_Item]:
    place = 0
    while place < len(body):
        found = _ITEM.match(body, place)
        if found is None:
            raise _NotPlain
        least, most = _SIGNS.get(found["count"], (1, 1))
        if found["count"] and found["count"] not in _SIGNS:  # {2}, {2,} or {2,5}
            first, comma, last = found["count"][1:-1].partition(",")
            least, most = int(first), float(last) if last else inf if comma else int(first)
        atom = found["atom"]
        has_class = _CLASS.search(atom) is not None
        if has_class and atom.startswith("[^"):
            raise _NotPlain  # JavaScript's classes are smaller, so their negation matches more
        reaches_beyond = has_class or atom == "." or atom.startswith("[^") or not atom.isascii()
        yield _Item(
            frozenset([*re.findall(atom, _ASCII), *([_OTHERS] if reaches_beyond else [])]), least, most
        )
        place = found.end()


def _has_one_way(items: Sequence[_Item]) -> bool:
    """Whether a schema's pattern can match in one way only: no variable repeat overlaps with what follows."""
    for place, item in enumerate(items):
        for following in items[place + 1 :]:
            if item.least != item.most and not item.characters.isdisjoint(following.characters):
                return False
            if following.least:
                break
    return True
