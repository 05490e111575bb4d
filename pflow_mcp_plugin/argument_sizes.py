"""Which argument or variable is too long for the system to start a program with (E2BIG)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from operator import itemgetter

LONGEST = 131_071
"""Bytes of one argument, or of one variable with its name, that Linux takes (`MAX_ARG_STRLEN`)."""
_OVERHEAD = 9
"""Bytes that each takes in addition: its end, and a pointer."""


def too_long(groups: Mapping[str, Mapping[str, str]]) -> str:
    """Return which argument or variable is too long or, if none is, which group of them has most bytes.

    The strings have the names that a message gives them, such as `env.TOKEN` in the group `env`.
    """
    sizes = {
        group: {name: len(os.fsencode(text)) for name, text in strings.items()}
        for group, strings in groups.items()
    }
    name, size = max((it for each in sizes.values() for it in each.items()), key=itemgetter(1))
    if size > LONGEST:
        return f"{name} is {size:,} bytes long; the system takes {LONGEST:,} for an argument or variable"
    totals = {group: sum(size + _OVERHEAD for size in each.values()) for group, each in sizes.items()}
    group = max(totals, key=totals.__getitem__)
    return (
        f"{group} is {totals[group]:,} bytes long; "
        f"the system takes {os.sysconf('SC_ARG_MAX'):,} for all arguments and variables"
    )
