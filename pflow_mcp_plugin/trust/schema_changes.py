"""The difference between two versions of one JSON Schema.

A schema that accepts more than before does not break senders, and one that accepts less does not
break receivers. Each difference therefore has a direction: `wider`, `narrower`, `same` (text for
people, added properties) or `unknown`, which counts as breaking for both. What a difference is about
(`aspect`) tells texts and defaults, which only matter to readers, from what is accepted.

Schemas that say the same in different words are the same (`schema_forms`); references are followed inside
the document only. Depth and steps are bounded; a schema that exceeds them differs in an unknown way.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeGuard

import attrs

from pflow_mcp_plugin.trust.json_equality import is_same
from pflow_mcp_plugin.trust.schema_forms import (
    DEFINITIONS,
    NOTES,
    TEXTS,
    Schema,
    SchemaForms,
    TooLarge,
)
from pflow_mcp_plugin.trust.schema_keywords import ABSENT, Direction, direction_of

Aspect = Literal["values", "text", "default", "note"]

_DEPTH = 50
_STEPS = 600_000
_MOST_ALTERNATIVES = 40
_MOST_COMPARED = 2_000
_LONGEST_KEY = 200
_LONGEST_PATH = 2_000
_SAME = frozenset({"$anchor", "$id", "$schema", "$vocabulary"})
_EXAMPLES = frozenset({"example", "examples"})
_UNION = frozenset({"anyOf", "oneOf"})
_NESTED = frozenset({"additionalProperties", "contains", "items", "propertyNames"})
"""Keywords with a schema that a part of the value has to match."""


@attrs.frozen
class SchemaDifference:
    """One place where two versions of a schema differ.

    Attributes:
        path: The keys that lead to it, joined by dots.
        direction: Whether the newer schema accepts more, less, the same, or an unknown set.
        what: What happened, in a few words.
        old: What was there, `ABSENT` if nothing was.
        new: What is there, `ABSENT` if nothing is.
        aspect: What it is about: accepted values, text, the default of an argument that callers may leave
            out, or a note that restricts nothing.
        name: Of a property that was added.
    """

    path: str
    direction: Direction
    what: str = "changed"
    old: Any = ABSENT
    new: Any = ABSENT
    aspect: Aspect = "values"
    name: str = ""


def differences(old: object, new: object, path: str = "") -> Iterator[SchemaDifference]:
    """Yield the differences between two versions of a schema, in the order of their keys.

    Args:
        old: The older schema.
        new: The newer schema.
        path: Path of both in the whole, for the results.
    """
    if is_same(old, new):
        return
    comparison = _Comparison(old, new)
    try:
        yield from comparison.compare(old, new, path, _DEPTH)
        yield from comparison.definitions(path)
    except TooLarge:
        yield SchemaDifference(path, "unknown", "too large to compare", old, new)


class _Comparison:
    def __init__(self, old: object, new: object) -> None:
        self._roots = old, new
        self._old = SchemaForms(old, _STEPS)
        self._new = SchemaForms(new, _STEPS)
        self._compared: dict[tuple[int, int], tuple[object, object]] = {}

    def compare(
        self, old: object, new: object, path: str, depth: int, *, is_sent: bool = False
    ) -> Iterator[SchemaDifference]:
        """Yield the differences between two schemas at one place.

        Args:
            old: The older one.
            new: The newer one.
            path: Where both are.
            depth: How many levels deeper to look.
            is_sent: Whether callers always send a value, so that its default does not matter.
        """
        pair = id(old), id(new)
        if pair in self._compared:
            return  # compared elsewhere, or a loop of references
        self._compared[pair] = old, new  # keeps them alive, so that no other object gets the same id
        if depth == 0:
            if not is_same(old, new):
                yield SchemaDifference(path, "unknown", "too deeply nested to compare", old, new)
            return
        before, after = self._old.form(old), self._new.form(new)
        if before is None or after is None:
            if before is not after or not is_same(old, new):
                yield SchemaDifference(path, "unknown", "changed", old, new)
            return
        yield from self._forms(before, after, path, depth, is_sent=is_sent)

    def definitions(self, path: str) -> Iterator[SchemaDifference]:
        """Yield the definitions that are new and that nothing refers to; they accept nothing."""
        old, new = ({} if not isinstance(root, Mapping) else root for root in self._roots)
        for keyword in sorted(DEFINITIONS):
            before, after = (
                it if isinstance(it := root.get(keyword), Mapping) else {} for root in (old, new)
            )
            for name, definition in after.items():
                unused = id(definition) not in self._new.referred
                if unused and not is_same(definition, before.get(name, ABSENT)):
                    where = _join(_join(path, keyword), name)
                    yield SchemaDifference(
                        where, "same", "unused definition", before.get(name, ABSENT), definition, "note"
                    )

    def _forms(
        self, old: Schema, new: Schema, path: str, depth: int, *, is_sent: bool
    ) -> Iterator[SchemaDifference]:
        compared = set(DEFINITIONS)
        if any(_is_union(form) for form in (old, new)) and not _is_same_union(old, new):
            yield from self._unions(old, new, path, depth)
            compared |= (old.keys() | new.keys()) - TEXTS - _EXAMPLES - {"default"}
        for key in dict.fromkeys((*old, *new)):
            if key in compared:
                continue
            before, after = old.get(key, ABSENT), new.get(key, ABSENT)
            place = _join(path, key)
            if key == "properties":
                yield from self._properties(old, new, place, depth)
            elif key == "required":
                yield from _requirements(old, new, path)
            elif key == "default" and not is_same(before, after):
                aspect: Aspect = "note" if is_sent else "default"
                yield SchemaDifference(place, "same", _happened(before, after), before, after, aspect)
            elif key in _NESTED and isinstance(before, Mapping) and isinstance(after, Mapping):
                yield from self.compare(before, after, place, depth - 1)
            elif not is_same(before, after):
                yield from self._keyword(key, before, after, place, depth)

    def _keyword(self, key: str, old: Any, new: Any, path: str, depth: int) -> Iterator[SchemaDifference]:
        if key in TEXTS or key in _EXAMPLES:
            aspect: Aspect = "text" if key in TEXTS else "note"
            yield SchemaDifference(path, "same", _happened(old, new), old, new, aspect)
        elif key in _SAME or key == "deprecated":
            yield SchemaDifference(path, "same", _happened(old, new), old, new, "note")
        elif key == "patternProperties" and isinstance(old, Mapping) and isinstance(new, Mapping):
            yield from self._named(old, new, path, depth)
        else:
            direction = direction_of(key, old, new)
            yield SchemaDifference(path, direction, _described(key, direction, old, new), old, new)

    def _properties(self, old: Schema, new: Schema, path: str, depth: int) -> Iterator[SchemaDifference]:
        before, after = (form.get("properties", {}) for form in (old, new))
        if not (isinstance(before, Mapping) and isinstance(after, Mapping)):
            yield SchemaDifference(path, "unknown", "changed", before, after)
            return
        self._new.step(len(before) + len(after))
        sent, required = _names(old), _names(new)
        for name in dict.fromkeys((*before, *after)):
            place = _join(path, name)
            if name not in after:
                yield SchemaDifference(place, "unknown", "removed", before[name], ABSENT)
            elif name in before:
                yield from self.compare(before[name], after[name], place, depth - 1, is_sent=name in sent)
            elif name in required:
                yield SchemaDifference(place, "narrower", "added, required", ABSENT, after[name], name=name)
            else:
                yield SchemaDifference(place, "same", "added", ABSENT, after[name], name=name)

    def _named(self, old: Schema, new: Schema, path: str, depth: int) -> Iterator[SchemaDifference]:
        for name in dict.fromkeys((*old, *new)):
            place = _join(path, name)
            if name in old and name in new:
                yield from self.compare(old[name], new[name], place, depth - 1)
            else:
                before, after = old.get(name, ABSENT), new.get(name, ABSENT)
                direction: Direction = "narrower" if name in new else "wider"
                yield SchemaDifference(place, direction, _happened(before, after), before, after)

    def _unions(self, old: Schema, new: Schema, path: str, depth: int) -> Iterator[SchemaDifference]:
        """Yield how the alternatives of two schemas differ, of which at least one has several."""
        before, after = (
            list(itertools.islice(forms.alternatives(_without_texts(form)), _MOST_ALTERNATIVES + 1))
            for forms, form in ((self._old, old), (self._new, new))
        )
        keyword = next(key for key in ("anyOf", "oneOf", "type") if key in old or key in new)
        place = _join(path, keyword)
        if max(len(before), len(after)) > _MOST_ALTERNATIVES:
            yield SchemaDifference(place, "unknown", "too many alternatives to compare", old, new)
            return
        pairs, gone, more = _matched(before, after)
        for number, (one, other) in enumerate(pairs):
            yield from self.compare(one, other, f"{place}.{number}" if len(pairs) > 1 else path, depth - 1)
        for one in gone:
            yield SchemaDifference(place, "narrower", "alternative removed", one, ABSENT)
        for other in more:
            yield SchemaDifference(place, "wider", "alternative added", ABSENT, other)


def _without_texts(form: Schema) -> Schema:
    return {key: value for key, value in form.items() if key not in TEXTS | NOTES | DEFINITIONS}


def _is_union(form: Schema) -> bool:
    return any(isinstance(form.get(key), list) for key in _UNION)


def _is_same_union(old: Schema, new: Schema) -> bool:
    return all(is_same(old.get(key, ABSENT), new.get(key, ABSENT)) for key in _UNION)


def _matched(
    old: list[Schema], new: list[Schema]
) -> tuple[list[tuple[Schema, Schema]], list[Schema], list[Schema]]:
    """Pair the alternatives of two schemas, those that are most alike first."""
    left, right = dict(enumerate(old)), dict(enumerate(new))
    alike = [(_likeness(one, other), -a, -b) for a, one in left.items() for b, other in right.items()]
    pairs = []
    for likeness, a, b in sorted(alike, reverse=True):
        if likeness and -a in left and -b in right:
            pairs.append((-a, left.pop(-a), right.pop(-b)))
    pairs.sort(key=lambda pair: pair[0])
    return [pair[1:] for pair in pairs], [*left.values()], [*right.values()]


def _likeness(one: Schema, other: Schema) -> float:
    """Return how alike two alternatives are, from 0, for those of different types, to 3."""
    if is_same(one, other, _MOST_COMPARED):
        return 3
    if one.get("type") != other.get("type") or ("enum" in one) != ("enum" in other):
        return 0
    names, others = (
        {*it} if isinstance(it := each.get("properties"), Mapping) else set() for each in (one, other)
    )
    return 1 + len(names & others) / (len(names | others) or 1)


def _requirements(old: Schema, new: Schema, path: str) -> Iterator[SchemaDifference]:
    before, after = old.get("required", []), new.get("required", [])
    if not (_is_names(before) and _is_names(after)):
        if not is_same(before, after):
            yield SchemaDifference(_join(path, "required"), "unknown", "changed", before, after)
        return
    earlier, now = set(before), set(after)
    for name in dict.fromkeys((*before, *after)):
        place = _join(_join(path, "properties"), name)
        if name not in earlier and (_declares(old, name) or not _declares(new, name)):
            yield SchemaDifference(place, "narrower", "now required", ABSENT, ABSENT)
        elif name not in now and (_declares(new, name) or not _declares(old, name)):
            yield SchemaDifference(place, "wider", "no longer required", ABSENT, ABSENT)


def _declares(form: Schema, name: str) -> bool:
    known = form.get("properties")
    return isinstance(known, Mapping) and name in known


def _names(form: Schema) -> frozenset[str]:
    required = form.get("required", [])
    return frozenset(required) if _is_names(required) else frozenset()


def _is_names(value: object) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _happened(old: object, new: object) -> str:
    return "added" if old is ABSENT else "removed" if new is ABSENT else "changed"


def _described(key: str, direction: Direction, old: object, new: object) -> str:
    if direction == "same":
        return "reordered" if isinstance(old, list) and isinstance(new, list) else "changed"
    if key in ("enum", "type") and direction != "unknown":
        return "accepts more" if direction == "wider" else "accepts less"
    return _happened(old, new)


def _join(path: str, key: object) -> str:
    key = str(key)[:_LONGEST_KEY]
    return f"{path[:_LONGEST_PATH]}.{key}" if path else key
