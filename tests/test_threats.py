"""Every threat of the matrix is played by tests of its number, or named as one that is not yet."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
import threat_rows

HERE = Path(__file__).parent
MATRIX = Path(os.environ.get("PFLOW_THREAT_MATRIX", HERE.parents[1] / "shared/THREATS.md"))
TESTS = [(row, file, name) for row, tests in threat_rows.PLAYED.items() for file, name in tests]


@pytest.mark.parametrize(("row", "file", "name"), TESTS)
def test_what_is_said_to_play_a_threat_exists_and_has_its_number(row, file, name):
    text = (HERE / file).read_text(encoding="utf-8")
    assert re.search(rf"^(async )?def {name}", text, re.MULTILINE)
    assert re.match(rf"test_row_{row:02}(_|$)", name)


@pytest.mark.parametrize("file", sorted({file for _, file, _ in TESTS}))
def test_what_has_a_number_is_in_the_list(file):
    text = (HERE / file).read_text(encoding="utf-8")
    numbered = re.findall(r"^def (test_row_\w+)", text, re.MULTILINE)
    assert [name for name in numbered if not threat_rows.row_of(HERE / file, name)] == []


def test_what_plays_a_threat_of_serving_is_numbered_for_it():
    text = (HERE / "end_to_end/test_served_attacks.py").read_text(encoding="utf-8")
    numbered = {int(number) for number in re.findall(r"^def test_row_(\d\d)_", text, re.MULTILINE)}
    assert numbered == threat_rows.OF_SERVING
    assert numbered <= set(threat_rows.PLAYED)


@pytest.mark.skipif(not MATRIX.exists(), reason="the fault matrix is not beside the project")
def test_the_rows_are_those_of_the_matrix():
    text = MATRIX.read_text(encoding="utf-8")
    numbers = {int(number) for number in re.findall(r"^(\d+)\. ", text, re.MULTILINE)}
    named = [set(threat_rows.PLAYED), threat_rows.NOT_YET, threat_rows.OUT_OF_SCOPE]
    assert set().union(*named) == numbers
    assert sum(map(len, named)) == len(numbers)
