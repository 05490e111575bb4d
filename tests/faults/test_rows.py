"""Every fault has a test and a guard, and is one of the fault matrix."""

import os
import re
from pathlib import Path

import pytest
from matrices import FAULTS, MATRICES

HERE = Path(__file__).parent
MATRIX = Path(os.environ.get("PFLOW_FAULT_MATRIX", HERE.parents[2] / "shared/FAULTS.md"))
OWN = {*range(65, 81)}
"""Those that the fault matrix beside the project does not have."""


@pytest.mark.parametrize("file", FAULTS)
def test_rows_and_tests_match_both_ways(file):
    text = (HERE / file).read_text(encoding="utf-8")
    tested = {int(number) for number in re.findall(r"^def test_row_(\d\d)_", text, re.MULTILINE)}
    assert tested == FAULTS[file]


@pytest.mark.parametrize("matrix", MATRICES.values(), ids=list(MATRICES))
def test_every_row_has_a_guard_with_tests_that_may_notice_its_absence(matrix):
    assert {guard.row for guard in matrix.guards} == matrix.rows
    texts = {row: [path.read_text(encoding="utf-8") for path in matrix.files_of(row)] for row in matrix.rows}
    assert [
        guard for guard in matrix.guards if not any(may_notice(guard, text) for text in texts[guard.row])
    ] == []


def may_notice(guard, text):
    """Return whether a test of the row is among those of the guard: by its name, or by one of its cases."""
    names = re.findall(rf"def (test_row_{guard.row:02}_\w+)", text)
    cases = re.findall(r'"([^"\n]*)"', text) if names else []
    return any(guard.among in word for word in (*names, *cases))


@pytest.mark.skipif(not MATRIX.exists(), reason="the fault matrix is not beside the project")
def test_the_rows_are_those_of_the_fault_matrix():
    text = MATRIX.read_text(encoding="utf-8")
    numbers = {int(number) for number in re.findall(r"(?:^|· )(\d+)\. ", text, re.MULTILINE)}
    assert numbers == MATRICES["faults"].rows - OWN
