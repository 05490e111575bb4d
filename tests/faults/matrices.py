"""The two matrices: what may go wrong, and what somebody may do; each with its guards and its tests."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import guards
import rows
import threat_guards
from guards import Guard

_HERE = Path(__file__).parent
sys.path.append(str(_HERE.parent / "data"))  # where `unguarded.py` runs, without pytest

import threat_rows  # noqa: E402 - found there


class Matrix(NamedTuple):
    """A matrix.

    Attributes:
        rows: The numbers of its rows.
        guards: What guards them.
        files_of: Returns the files with the tests of a row, which have its number in their names.
    """

    rows: frozenset[int]
    guards: tuple[Guard, ...]
    files_of: Callable[[int], list[Path]]


MATRICES = {
    "faults": Matrix(
        frozenset(row for tested in rows.FILES.values() for row in tested),
        guards.GUARDS,
        lambda row: [_HERE / rows.file_of(row)],
    ),
    "threats": Matrix(
        frozenset(threat_rows.PLAYED),
        threat_guards.GUARDS,
        lambda row: [_HERE.parent / file for file in threat_rows.files_of(row)],
    ),
}
