"""Every fault has a test, a guard and a bound on its time, and is one of the fault matrix."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import rows
from matrices import MATRICES

HERE = Path(__file__).parent
MATRIX = Path(os.environ.get("PFLOW_FAULT_MATRIX", HERE.parents[2] / "shared/FAULTS.md"))
ROWS = {number: what for tested in rows.FILES.values() for number, what in tested.items()}
LONGEST = 120
"""Seconds that any test of the suite may take."""
_LITTLE_WORDS = set(re.findall(r"\w+", "a an and are for from in is it its of on or the to"))


@pytest.mark.parametrize("file", rows.FILES)
def test_rows_and_tests_match_both_ways(file):
    text = (HERE / file).read_text(encoding="utf-8")
    tested = {int(number) for number in re.findall(r"^def test_row_(\d\d)_", text, re.MULTILINE)}
    assert tested == set(rows.FILES[file])


@pytest.mark.parametrize("matrix", MATRICES.values(), ids=list(MATRICES))
def test_every_row_has_a_guard(matrix):
    assert {guard.row for guard in matrix.guards} == matrix.rows


@pytest.mark.timeout(LONGEST)  # it collects all tests of a matrix, in a pytest of its own
@pytest.mark.parametrize("matrix", MATRICES.values(), ids=list(MATRICES))
def test_every_guard_has_tests_that_may_notice_its_absence(matrix):
    files = {row: matrix.files_of(row) for row in matrix.rows}
    every = sorted({str(file) for tested in files.values() for file in tested})
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--collect-only", *every]
    folder = HERE.parents[1]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=100, check=True)
    lines = [line.partition("::") for line in done.stdout.splitlines()]
    names = {(folder / file, name) for file, _, name in lines}
    assert [
        guard
        for guard in matrix.guards
        if not any(file in files[guard.row] and may_notice(guard, name) for file, name in names)
    ] == []


def may_notice(guard, name):
    return name.startswith(f"test_row_{guard.row:02}_") and guard.among in name


def test_every_test_of_a_row_has_a_bound_on_its_time(request):
    """A bound of 0, which a test may set itself, is none."""
    items = [item for item in request.session.items if item.path.parent == HERE]
    bounds = {item.name: bound_of(item) for item in items}
    assert {name: bound for name, bound in bounds.items() if not 0 < bound <= LONGEST} == {}


def bound_of(item):
    marker = item.get_closest_marker("timeout")
    return marker.args[0] if marker else 0


@pytest.mark.skipif(not MATRIX.exists(), reason="the fault matrix is not beside the project")
def test_the_rows_are_those_of_the_fault_matrix():
    """Each number is one of it, and what it stands for is told with a word of it at least."""
    text = MATRIX.read_text(encoding="utf-8")
    matrix = {
        int(number): _words(what)
        for number, what in re.findall(r"(?:^|· )(\d+)\. (.*?)(?= · \d|$)", text, re.MULTILINE)
    }
    shared = {number: what for number, what in ROWS.items() if number not in rows.OWN}
    assert set(matrix) == set(shared)
    assert [number for number, what in shared.items() if not matrix[number] & _words(what)] == []


def _words(text: str) -> set[str]:
    """Return how the words of a text begin: what comes after tells singular from plural."""
    return {word[:4] for word in re.findall(r"[a-z0-9]+", text.lower())} - _LITTLE_WORDS
