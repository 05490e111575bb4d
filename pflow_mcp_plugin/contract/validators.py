"""attrs validators for the classes of the contract; each names the field and the rejected value.

And `ByFields`, the base of those that every command makes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import attrs


class ByFields:
    """Base of those attrs classes of the contract that every command makes: compares objects by their fields.

    They are `attrs.frozen(eq=False, repr=False)`: these methods take a third of the time to create a class.
    """

    __slots__ = ()
    __attrs_attrs__: ClassVar[tuple[attrs.Attribute[Any], ...]]

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        compared = (each.name for each in self.__attrs_attrs__ if each.eq)
        return all(getattr(self, name) == getattr(other, name) for name in compared)

    def __hash__(self) -> int:
        compared = (each.name for each in self.__attrs_attrs__ if each.eq)
        return hash((type(self), *(getattr(self, name) for name in compared)))

    def __repr__(self) -> str:
        shown = (f"{each.name}={getattr(self, each.name)!r}" for each in self.__attrs_attrs__ if each.repr)
        return f"{type(self).__name__}({', '.join(shown)})"


Validator = Callable[[Any, "attrs.Attribute[Any]", Any], None]


def _accepting(expected: str, accepts: Callable[[Any], bool]) -> Validator:
    def check(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
        if not accepts(value):
            raise _rejected(instance, attribute, expected, value)

    return check


text = _accepting("a string", lambda value: isinstance(value, str))
"""Validator that accepts a string."""
valid_name = _accepting("a string that is not empty", lambda value: isinstance(value, str) and bool(value))
"""Validator that accepts a string that is not empty."""
flag = _accepting("true or false", lambda value: isinstance(value, bool))
"""Validator that accepts true or false."""


def is_reserved(key: object) -> bool:
    """Whether the contract reserves a key for host and plugins, not workflows: `__` at beginning and end."""
    return isinstance(key, str) and key.startswith("__") and key.endswith("__")


def one_of(*allowed: str) -> Validator:
    """Return a validator for attrs classes of the contract: the value is one of these strings."""
    return _accepting(f"one of {', '.join(allowed)}", lambda value: value in allowed)


def each_of(*allowed: str) -> Validator:
    """Return a validator for attrs classes of the contract: the value is a list of these strings only."""
    return _accepting(
        f"a list of {', '.join(allowed)}",
        lambda value: isinstance(value, tuple) and set(value) <= set(allowed),
    )


def is_a(*kinds: Any) -> Validator:
    """Return a validator for attrs classes of the contract: the value is of one of these classes."""
    named = " or ".join("None" if kind is type(None) else kind.__name__ for kind in kinds)
    return _accepting(named, lambda value: isinstance(value, kinds))


def each(kind: type) -> Validator:
    """Return a validator for attrs classes of the contract: a list of which every item is of this class."""

    def check(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
        if not isinstance(value, tuple):
            raise _rejected(instance, attribute, "a list or tuple", value)
        for item in value:
            if not isinstance(item, kind):
                raise _rejected(instance, attribute, f"{kind.__name__} objects", item)

    return check


def items(value: Iterable[Any]) -> tuple[Any, ...]:
    """Return an iterable as the tuple that a class of the contract has in an attrs field.

    A string, and what is not iterable, stays as it is: the field's validator rejects it by name.
    """
    try:
        return value if isinstance(value, str) else tuple(value)  # type: ignore[return-value]
    except TypeError:
        return value  # type: ignore[return-value]


def _rejected(instance: object, attribute: attrs.Attribute[Any], expected: str, value: object) -> ValueError:
    field = f"{type(instance).__name__}.{attribute.name}"
    return ValueError(f"{field} must be {expected}, got {value!r}")
