"""Validators for the values that cross the contract; each names the field and the rejected value."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import attrs

Validator = Callable[[Any, "attrs.Attribute[Any]", Any], None]


def text(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    """Validator that accepts a string.

    Args:
        instance: The object that is being created.
        attribute: The field, for the message.
        value: The value to check.

    Raises:
        ValueError: It is anything else.
    """
    if not isinstance(value, str):
        raise _rejected(instance, attribute, "a string", value)


def valid_name(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    """Validator that accepts a string that is not empty.

    Args:
        instance: The object that is being created.
        attribute: The field, for the message.
        value: The value to check.

    Raises:
        ValueError: It is anything else.
    """
    if not (isinstance(value, str) and value):
        raise _rejected(instance, attribute, "a string that is not empty", value)


def flag(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
    """Validator that accepts true or false.

    Args:
        instance: The object that is being created.
        attribute: The field, for the message.
        value: The value to check.

    Raises:
        ValueError: It is anything else.
    """
    if not isinstance(value, bool):
        raise _rejected(instance, attribute, "true or false", value)


def one_of(*allowed: str) -> Validator:
    """Return a validator that accepts these strings only."""

    def check(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
        if value not in allowed:
            raise _rejected(instance, attribute, f"one of {', '.join(allowed)}", value)

    return check


def is_a(*kinds: Any) -> Validator:
    """Return a validator that accepts objects of these classes only."""

    def check(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
        if not isinstance(value, kinds):
            named = " or ".join("None" if kind is type(None) else kind.__name__ for kind in kinds)
            raise _rejected(instance, attribute, named, value)

    return check


def each(kind: type) -> Validator:
    """Return a validator that accepts an iterable of objects of one class."""

    def check(instance: object, attribute: attrs.Attribute[Any], value: Iterable[object]) -> None:
        for item in value:
            if not isinstance(item, kind):
                raise _rejected(instance, attribute, f"{kind.__name__} objects", item)

    return check


def items(value: Iterable[Any]) -> tuple[Any, ...]:
    """Converter of an iterable to a tuple; it rejects a string, which would become its letters.

    Raises:
        TypeError: It is a string, or not iterable.
    """
    if isinstance(value, str):
        message = f"expected a list or tuple, got the string {value!r}"
        raise TypeError(message)
    return tuple(value)


def _rejected(instance: object, attribute: attrs.Attribute[Any], expected: str, value: object) -> ValueError:
    field = f"{type(instance).__name__}.{attribute.name}"
    return ValueError(f"{field} must be {expected}, got {value!r}")
