"""Whether two JSON values are the same."""

from __future__ import annotations

import sys
from collections.abc import Mapping


def is_same(one: object, other: object, most: int = sys.maxsize) -> bool:
    """Whether two JSON values are the same, however deeply nested: 1 is 1.0, but true is not 1.

    Args:
        one: A value.
        other: Another.
        most: How many values inside them may be compared; with more, they are taken to differ.
    """
    pairs = [(one, other)]
    while pairs:
        most -= 1
        if most < 0:
            return False
        left, right = pairs.pop()
        if left is right:
            continue
        if isinstance(left, Mapping) and isinstance(right, Mapping):
            if left.keys() != right.keys():
                return False
            pairs.extend((value, right[key]) for key, value in left.items())
        elif isinstance(left, list | tuple) and isinstance(right, list | tuple):
            if len(left) != len(right):
                return False
            pairs.extend(zip(left, right, strict=True))
        elif not _is_same_scalar(left, right):
            return False
    return True


def _is_same_scalar(left: object, right: object) -> bool:
    if isinstance(left, bool) or isinstance(right, bool):
        return False  # Python's True == 1; the same object was seen by the caller
    if isinstance(left, Mapping | list | tuple) or isinstance(right, Mapping | list | tuple):
        return False
    return left == right or (left != left and right != right)  # noqa: PLR0124 NaN is not equal to itself
