"""The difference between two versions of one JSON Schema.

A schema that accepts more than before does not break senders, and one that accepts less does not
break receivers. Each difference therefore has a direction: `wider`, `narrower`, `same` (text for
people, added properties) or `unknown`, which counts as breaking for both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Literal, TypeGuard

import attrs

from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.trust.json_equality import canonical

Direction = Literal["same", "wider", "narrower", "unknown"]

_DEPTH = 50
_WORDS = frozenset(
    {
        "$comment",
        "$id",
        "$schema",
        "default",
        "deprecated",
        "description",
        "example",
        "examples",
        "readOnly",
        "title",
        "writeOnly",
    }
)
_NAMED = ("properties", "$defs", "definitions")
_LEAST = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_MOST = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_TYPES = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
_ABSENT = object()


@attrs.frozen
class Difference:
    """One place where two versions of a schema differ.

    Attributes:
        path: The keys that lead to it, joined by dots.
        direction: Whether the newer schema accepts more, less, the same, or an unknown set.
    """

    path: str
    direction: Direction


def differences(old: JSON, new: JSON, path: str = "") -> Iterator[Difference]:
    """Yield the differences between two versions of a schema, in the order of their keys.

    Args:
        old: The older schema.
        new: The newer schema.
        path: Path of both in the whole, for the results.
    """
    yield from _compare(old, new, path, _DEPTH)


def _compare(old: object, new: object, path: str, depth: int) -> Iterator[Difference]:
    if _equal(old, new):
        return
    old, new = _as_table(old), _as_table(new)
    if old is None or new is None or depth == 0:
        yield Difference(path, "unknown")
        return
    for key in dict.fromkeys((*old, *new)):
        before, after = old.get(key, _ABSENT), new.get(key, _ABSENT)
        if not _equal(before, after):
            yield from _compare_keyword(key, before, after, _join(path, key), depth - 1)


def _compare_keyword(key: str, old: object, new: object, path: str, depth: int) -> Iterator[Difference]:
    if key in _NAMED:
        yield from _compare_named(key, old, new, path, depth)
    elif key in ("items", "additionalProperties") and isinstance(old, Mapping) and isinstance(new, Mapping):
        yield from _compare(old, new, path, depth)
    else:
        yield Difference(path, _direction(key, old, new))


def _compare_named(key: str, old: object, new: object, path: str, depth: int) -> Iterator[Difference]:
    old, new = ({} if side is _ABSENT else side for side in (old, new))
    if not (isinstance(old, Mapping) and isinstance(new, Mapping)):
        yield Difference(path, "unknown")
        return
    for name in dict.fromkeys((*old, *new)):
        place = _join(path, name)
        if name not in new:
            # losing an unused definition breaks nothing; a used one shows where its $ref changed
            yield Difference(place, "unknown" if key == "properties" else "same")
        elif name not in old:
            yield Difference(place, "same")
        else:
            yield from _compare(old[name], new[name], place, depth)


def _direction(key: str, old: object, new: object) -> Direction:
    rule = _RULES.get(key)
    if key in _WORDS:
        return "same"
    return "unknown" if rule is None else rule(old, new)


def _by_type(old: object, new: object) -> Direction:
    return _by_set(_accepted_types(old), _accepted_types(new))


def _by_values(old: object, new: object) -> Direction:
    """`enum`, `anyOf`, `oneOf`: more members accept more; without the keyword anything is accepted."""
    if old is _ABSENT or new is _ABSENT:
        return "narrower" if old is _ABSENT else "wider"
    return _by_set(_members(old), _members(new))


def _by_demands(old: object, new: object) -> Direction:
    """`required`, `allOf`: more members accept less."""
    before = frozenset() if old is _ABSENT else _members(old)
    after = frozenset() if new is _ABSENT else _members(new)
    return _by_set(after, before)


def _by_openness(old: object, new: object) -> Direction:
    """`additionalProperties`: absent and true accept anything, false nothing."""
    before, after = (2 if side in (_ABSENT, True) else 0 if side is False else 1 for side in (old, new))
    if before == after:
        return "same" if before == 2 else "unknown"
    return "wider" if after > before else "narrower"


def _by_least(old: object, new: object) -> Direction:
    if old is _ABSENT or new is _ABSENT:
        return "narrower" if old is _ABSENT else "wider"
    if not (_is_number(old) and _is_number(new)):
        return "unknown"
    return "narrower" if new > old else "wider"


def _by_most(old: object, new: object) -> Direction:
    opposite: dict[Direction, Direction] = {"narrower": "wider", "wider": "narrower"}
    found = _by_least(old, new)
    return found if old is _ABSENT or new is _ABSENT else opposite.get(found, found)


def _by_constraint(old: object, new: object) -> Direction:
    """A keyword that only ever restricts: `pattern`, `const`, `format`..."""
    if old is _ABSENT:
        return "narrower"
    return "wider" if new is _ABSENT else "unknown"


def _by_set(old: frozenset[str] | None, new: frozenset[str] | None) -> Direction:
    if old is None or new is None:
        return "unknown"
    if old == new:
        return "same"
    if old < new:
        return "wider"
    return "narrower" if new < old else "unknown"


_RULES: Mapping[str, Callable[[object, object], Direction]] = {
    "type": _by_type,
    "required": _by_demands,
    "allOf": _by_demands,
    "additionalProperties": _by_openness,
    **dict.fromkeys(("enum", "anyOf", "oneOf"), _by_values),
    **dict.fromkeys(_LEAST, _by_least),
    **dict.fromkeys(_MOST, _by_most),
    **dict.fromkeys(("const", "pattern", "format", "multipleOf", "items", "propertyNames"), _by_constraint),
}


def _accepted_types(value: object) -> frozenset[str] | None:
    if value is _ABSENT:
        return _TYPES
    names = value if isinstance(value, list) else [value]
    if not all(isinstance(name, str) for name in names):
        return None
    return frozenset(names) | ({"integer"} if "number" in names else frozenset())


def _members(value: object) -> frozenset[str] | None:
    return frozenset(canonical(item) for item in value) if isinstance(value, list) else None


def _equal(old: object, new: object) -> bool:
    # JSON's true is not 1, though Python's True == 1
    return old is new or (old == new and _ABSENT not in (old, new) and canonical(old) == canonical(new))


def _as_table(schema: object) -> Mapping[str, object] | None:
    if isinstance(schema, Mapping):
        return schema
    return {} if schema is True else None


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
