"""Every threat of the matrix is played by tests of its number, or named as one that is not yet."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
import threat_rows

HERE = Path(__file__).parent
MATRIX = Path(os.environ.get("PFLOW_THREAT_MATRIX", HERE.parents[1] / "shared/THREATS.md"))
SECURITY = (HERE.parent / "SECURITY.md").read_text(encoding="utf-8")
TESTS = [(row, file, name) for row, tests in threat_rows.PLAYED.items() for file, name in tests]
PROMISED: dict[str, tuple[int | str, ...]] = {
    "What you approve": (54, 55, 58),
    "Secrets": (25, 34, 37, 57),
    "The environment": (15,),
    "The network": (16, 17, 18, 19, 20, 21, 22),
    "Sign-ins": (
        "end_to_end/test_sign_in_secrets.py",
        "trust/test_sign_in_threats.py",
        "faults/test_sign_ins.py",
    ),
    "Data flows": ("host/workflow/test_data_flows.py", "end_to_end/test_data_flows_of_tools.py"),
    "Code": ("host/nodes/test_python_node.py",),
    "Shell lines": (9, 63),
    "The served endpoint": (26, 27, 59, 65),
    "Files": (23, 24, 30, 60),
    "Cached results": (37, "end_to_end/test_cached_runs.py"),
    "Processes": (14, 56, 64, "client/test_memory_limit.py"),
    "Plugins' vetoes": (35, 36),
}
"""What SECURITY.md says that pflow protects: the rows, or the files, whose tests show it."""


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


def test_what_is_promised_is_what_is_tested():
    section = SECURITY.partition("## What pflow protects\n")[2].partition("\n## ")[0]
    assert re.findall(r"^- \*\*(.*?)\.\*\*", section, re.MULTILINE) == list(PROMISED)
    shown = [each for tests in PROMISED.values() for each in tests]
    assert {row for row in shown if isinstance(row, int)} <= set(threat_rows.PLAYED)
    assert [file for file in shown if isinstance(file, str) and not (HERE / file).exists()] == []


def test_what_nothing_holds_off_is_said_to_be_out_of_scope():
    assert {38} == threat_rows.OUT_OF_SCOPE
    section = SECURITY.partition("## What is out of scope\n")[2]
    assert "can write your files" in section
    assert "forge approvals, pins,\n  lock files" in section


@pytest.mark.skipif(not MATRIX.exists(), reason="the fault matrix is not beside the project")
def test_the_rows_are_those_of_the_matrix():
    text = MATRIX.read_text(encoding="utf-8")
    numbers = {int(number) for number in re.findall(r"^(\d+)\. ", text, re.MULTILINE)}
    named = [set(threat_rows.PLAYED), threat_rows.NOT_YET, threat_rows.OUT_OF_SCOPE]
    assert set().union(*named) == numbers
    assert sum(map(len, named)) == len(numbers)
