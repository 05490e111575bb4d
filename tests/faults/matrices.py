"""The two matrices: what may go wrong, and what somebody may do; each with its guards and its tests."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import guards
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


FAULTS = {
    "test_stdio.py": {*range(1, 35)},
    "test_http.py": {*range(35, 56)},
    "test_sign_ins.py": {56, *range(65, 81)},
    "test_stores.py": {*range(57, 65)},
}
"""The faults that this folder plays, by the file with their tests."""

MATRICES = {
    "faults": Matrix(
        frozenset().union(*FAULTS.values()),
        guards.GUARDS,
        lambda row: [_HERE / file for file, rows in FAULTS.items() if row in rows],
    ),
    "threats": Matrix(
        frozenset(threat_rows.PLAYED),
        threat_guards.GUARDS,
        lambda row: [_HERE.parent / file for file in threat_rows.files_of(row)],
    ),
}
