"""Whether a change of one keyword of a JSON Schema accepts more values than before, or fewer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeGuard

from pflow_mcp_plugin.contract.json_types import PYTHON_TYPES
from pflow_mcp_plugin.trust.schema_forms import members_without

Direction = Literal["same", "wider", "narrower", "unknown"]
"""Whether the newer version accepts the same values, more, fewer, or an unknown set."""
ABSENT: Any = type("Absent", (), {"__repr__": lambda _: "ABSENT"})()
"""In place of a value where there is none."""
_LEAST = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_MOST = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_TYPES = frozenset(PYTHON_TYPES)
_CONSTRAINTS = (
    *("additionalItems", "allOf", "contains", "contentEncoding", "contentMediaType", "dependencies"),
    *("dependentRequired", "dependentSchemas", "else", "format", "if", "items", "maxContains", "minContains"),
    *("multipleOf", "not", "pattern", "patternProperties", "prefixItems", "propertyNames", "then"),
    *("unevaluatedItems", "unevaluatedProperties", "uniqueItems", "$ref", "$dynamicRef"),
)


def direction_of(key: str, old: object, new: object) -> Direction:
    """Return the direction in which a schema changes with one of its keywords.

    Args:
        key: The keyword.
        old: Its older value, `ABSENT` if there was none.
        new: Its newer value, `ABSENT` if there is none.
    """
    return _RULES.get(key, _unknown)(old, new)


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
