"""Every threat of the matrix is played by tests of its number, or named as one that is not yet."""

import os
import re
from pathlib import Path

import pytest
import threat_rows

HERE = Path(__file__).parent
MATRIX = Path(os.environ.get("PFLOW_THREAT_MATRIX", HERE.parents[1] / "shared/THREATS.md"))
OF_SERVING = {9, 10, 11, 12, 13, 25, 26, 27, 30, 32, 36, 37, 59, 65}
"""Those that whoever is served could play."""


def test_every_threat_is_played_or_named_as_one_that_is_not():
    assert set(range(1, 66)) - threat_rows.NOT_YET - threat_rows.OUT_OF_SCOPE == threat_rows.PLAYED
    served = "end_to_end/test_served_attacks.py"
    assert {row for row in threat_rows.PLAYED if served in threat_rows.files_of(row)} == OF_SERVING


@pytest.mark.skipif(not MATRIX.exists(), reason="the fault matrix is not beside the project")
def test_the_rows_are_those_of_the_matrix():
    text = MATRIX.read_text(encoding="utf-8")
    numbers = {int(number) for number in re.findall(r"^(\d+)\. ", text, re.MULTILINE)}
    assert numbers == threat_rows.ALL | threat_rows.OUT_OF_SCOPE
