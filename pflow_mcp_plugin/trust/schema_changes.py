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
from collections.abc import Callable, Iterator, Mapping
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
    members_without,
)

Direction = Literal["same", "wider", "narrower", "unknown"]
Aspect = Literal["values", "text", "default", "note"]

ABSENT: Any = type("Absent", (), {"__repr__": lambda _: "ABSENT"})()
"""In place of a value where there is none."""
_DEPTH = 50
_STEPS = 600_000
_MOST_ALTERNATIVES = 40
_MOST_COMPARED = 2_000
_LONGEST_KEY = 200
_LONGEST_PATH = 2_000
_SAME = frozenset({"$anchor", "$id", "$schema", "$vocabulary"})
_EXAMPLES = frozenset({"example", "examples"})
_UNION = frozenset({"anyOf", "oneOf"})
_LEAST = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_MOST = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_TYPES = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
_NESTED = frozenset({"additionalProperties", "contains", "items", "propertyNames"})
"""Keywords with a schema that a part of the value has to match."""
_CONSTRAINTS = (
    *("additionalItems", "allOf", "contains", "contentEncoding", "contentMediaType", "dependencies"),
    *("dependentRequired", "dependentSchemas", "else", "format", "if", "items", "maxContains", "minContains"),
    *("multipleOf", "not", "pattern", "patternProperties", "prefixItems", "propertyNames", "then"),
    *("unevaluatedItems", "unevaluatedProperties", "uniqueItems", "$ref", "$dynamicRef"),
)


@attrs.frozen
class Difference:
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


def differences(old: object, new: object, path: str = "") -> Iterator[Difference]:
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
        yield Difference(path, "unknown", "too large to compare", old, new)


class _Comparison:
    def __init__(self, old: object, new: object) -> None:
        self._roots = old, new
        self._old = SchemaForms(old, _STEPS)
        self._new = SchemaForms(new, _STEPS)
        self._compared: dict[tuple[int, int], tuple[object, object]] = {}

    def compare(
        self, old: object, new: object, path: str, depth: int, *, is_sent: bool = False
    ) -> Iterator[Difference]:
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
                yield Difference(path, "unknown", "too deeply nested to compare", old, new)
            return
        before, after = self._old.form(old), self._new.form(new)
        if before is None or after is None:
            if before is not after or not is_same(old, new):
                yield Difference(path, "unknown", "changed", old, new)
            return
        yield from self._forms(before, after, path, depth, is_sent=is_sent)

    def definitions(self, path: str) -> Iterator[Difference]:
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
                    yield Difference(
                        where, "same", "unused definition", before.get(name, ABSENT), definition, "note"
                    )

    def _forms(
        self, old: Schema, new: Schema, path: str, depth: int, *, is_sent: bool
    ) -> Iterator[Difference]:
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
                yield Difference(place, "same", _happened(before, after), before, after, aspect)
            elif key in _NESTED and isinstance(before, Mapping) and isinstance(after, Mapping):
                yield from self.compare(before, after, place, depth - 1)
            elif not is_same(before, after):
                yield from self._keyword(key, before, after, place, depth)

    def _keyword(self, key: str, old: Any, new: Any, path: str, depth: int) -> Iterator[Difference]:
        if key in TEXTS or key in _EXAMPLES:
            aspect: Aspect = "text" if key in TEXTS else "note"
            yield Difference(path, "same", _happened(old, new), old, new, aspect)
        elif key in _SAME or key == "deprecated":
            yield Difference(path, "same", _happened(old, new), old, new, "note")
        elif key == "patternProperties" and isinstance(old, Mapping) and isinstance(new, Mapping):
            yield from self._named(old, new, path, depth)
        else:
            direction = _RULES.get(key, _unknown)(old, new)
            yield Difference(path, direction, _described(key, direction, old, new), old, new)

    def _properties(self, old: Schema, new: Schema, path: str, depth: int) -> Iterator[Difference]:
        before, after = (form.get("properties", {}) for form in (old, new))
        if not (isinstance(before, Mapping) and isinstance(after, Mapping)):
            yield Difference(path, "unknown", "changed", before, after)
            return
        self._new.step(len(before) + len(after))
        sent, required = _names(old), _names(new)
        for name in dict.fromkeys((*before, *after)):
            place = _join(path, name)
            if name not in after:
                yield Difference(place, "unknown", "removed", before[name], ABSENT)
            elif name in before:
                yield from self.compare(before[name], after[name], place, depth - 1, is_sent=name in sent)
            elif name in required:
                yield Difference(place, "narrower", "added, required", ABSENT, after[name], name=name)
            else:
                yield Difference(place, "same", "added", ABSENT, after[name], name=name)

    def _named(self, old: Schema, new: Schema, path: str, depth: int) -> Iterator[Difference]:
        for name in dict.fromkeys((*old, *new)):
            place = _join(path, name)
            if name in old and name in new:
                yield from self.compare(old[name], new[name], place, depth - 1)
            else:
                before, after = old.get(name, ABSENT), new.get(name, ABSENT)
                direction: Direction = "narrower" if name in new else "wider"
                yield Difference(place, direction, _happened(before, after), before, after)

    def _unions(self, old: Schema, new: Schema, path: str, depth: int) -> Iterator[Difference]:
        """Yield how the alternatives of two schemas differ, of which at least one has several."""
        before, after = (
            list(itertools.islice(forms.alternatives(_without_texts(form)), _MOST_ALTERNATIVES + 1))
            for forms, form in ((self._old, old), (self._new, new))
        )
        keyword = next(key for key in ("anyOf", "oneOf", "type") if key in old or key in new)
        place = _join(path, keyword)
        if max(len(before), len(after)) > _MOST_ALTERNATIVES:
            yield Difference(place, "unknown", "too many alternatives to compare", old, new)
            return
        pairs, gone, more = _matched(before, after)
        for number, (one, other) in enumerate(pairs):
            yield from self.compare(one, other, f"{place}.{number}" if len(pairs) > 1 else path, depth - 1)
        for one in gone:
            yield Difference(place, "narrower", "alternative removed", one, ABSENT)
        for other in more:
            yield Difference(place, "wider", "alternative added", ABSENT, other)


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


def _requirements(old: Schema, new: Schema, path: str) -> Iterator[Difference]:
    before, after = old.get("required", []), new.get("required", [])
    if not (_is_names(before) and _is_names(after)):
        if not is_same(before, after):
            yield Difference(_join(path, "required"), "unknown", "changed", before, after)
        return
    earlier, now = set(before), set(after)
    for name in dict.fromkeys((*before, *after)):
        place = _join(_join(path, "properties"), name)
        if name not in earlier and (_declares(old, name) or not _declares(new, name)):
            yield Difference(place, "narrower", "now required", ABSENT, ABSENT)
        elif name not in now and (_declares(new, name) or not _declares(old, name)):
            yield Difference(place, "wider", "no longer required", ABSENT, ABSENT)


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


def _unknown(_old: object, _new: object) -> Direction:
    return "unknown"


def _by_type(old: object, new: object) -> Direction:
    before, after = _accepted_types(old), _accepted_types(new)
    if before is None or after is None:
        return "unknown"
    if after == {"null"}:
        return "unknown"  # nothing is left to send, and nothing to receive
    return _by_more(more=bool(after - before), less=bool(before - after))


def _by_values(old: object, new: object) -> Direction:
    """`enum`: more values accept more; without the keyword anything is accepted."""
    if old is ABSENT or new is ABSENT:
        return "narrower" if old is ABSENT else "wider"
    if not (isinstance(old, list) and isinstance(new, list)):
        return "unknown"
    return _by_more(more=bool(members_without(new, old)), less=bool(members_without(old, new)))


def _by_more(*, more: bool, less: bool) -> Direction:
    if more and less:
        return "unknown"
    return "wider" if more else "narrower" if less else "same"


def _by_openness(old: object, new: object) -> Direction:
    """`additionalProperties`: absent accepts anything, false nothing."""
    before, after = (2 if side is ABSENT else 0 if side is False else 1 for side in (old, new))
    if before == after:
        return "unknown"
    return "wider" if after > before else "narrower"


def _by_least(old: object, new: object) -> Direction:
    if old is ABSENT or new is ABSENT:
        return "narrower" if old is ABSENT else "wider"
    if not (_is_number(old) and _is_number(new)):
        return "unknown"
    return "narrower" if new > old else "wider"


def _by_most(old: object, new: object) -> Direction:
    opposite: dict[Direction, Direction] = {"narrower": "wider", "wider": "narrower"}
    found = _by_least(old, new)
    return found if old is ABSENT or new is ABSENT else opposite.get(found, found)


def _by_constraint(old: object, new: object) -> Direction:
    """A keyword that only ever restricts: `pattern`, `not`, `format`..."""
    if old is ABSENT:
        return "narrower"
    return "wider" if new is ABSENT else "unknown"


_RULES: Mapping[str, Callable[[object, object], Direction]] = {
    "type": _by_type,
    "enum": _by_values,
    "additionalProperties": _by_openness,
    **dict.fromkeys(_LEAST, _by_least),
    **dict.fromkeys(_MOST, _by_most),
    **dict.fromkeys(_CONSTRAINTS, _by_constraint),
}


def _accepted_types(value: object) -> frozenset[str] | None:
    if value is ABSENT:
        return _TYPES
    names = value if isinstance(value, list) else [value]
    if not all(isinstance(name, str) for name in names):
        return None
    return frozenset(names) | ({"integer"} if "number" in names else frozenset())


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _join(path: str, key: object) -> str:
    key = str(key)[:_LONGEST_KEY]
    return f"{path[:_LONGEST_PATH]}.{key}" if path else key
