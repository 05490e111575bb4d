"""What is found of the real tools of LiveMCPBench: what the programs of `benchmarks` print has a floor."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
FLOOR = 0.77
"""Of recall at 10, for the half of the tasks that was held out; plain BM25 has 0.44."""
PLAN_FLOOR = 0.45
"""Of the share of the needed tools that the plans have, with two nodes each on average."""


def printed(*arguments):
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=True).stdout


@pytest.fixture(scope="module")
def output():
    """What discovery finds for the tasks that it was not tuned on."""
    return printed("benchmarks.discover", "--split", "held_out")


@pytest.fixture(scope="module")
def reliability(output):
    """Return how many tools were found, the mean confidence and the share that is right, by range."""
    tables = re.findall(r"^\| confidence, ([\w ]+?) \|.*\n.*\n((?:\|.*\n)+)", output, re.MULTILINE)
    row = re.compile(r"^\| (.+?) \| (\d+) \| ([\d.]+) \| ([\d.]+) \|$", re.MULTILINE)
    return {
        split: {
            name: (int(count), float(mean), float(right)) for name, count, mean, right in row.findall(rows)
        }
        for split, rows in tables
    }


def by_name(text):
    """Return the numbers of a table with two columns."""
    return {
        name: float(value) for name, value in re.findall(r"^\| (.+?) \| ([\d.]+) \|$", text, re.MULTILINE)
    }


def test_discover_finds_most_of_the_tools_that_a_task_needs(output):
    recall = by_name(output)
    assert recall["registry discover"] >= FLOOR
    assert recall["registry discover"] >= recall["plain BM25"] + 0.3


@pytest.mark.parametrize(
    ("tasks", "cost", "most"), [("held_out", 0, 9.2), ("held_out with few servers", 0.02, 6)]
)
def test_what_hardly_fits_is_left_out_and_little_else(output, tasks, cost, most):
    row = re.search(rf"^\| {tasks} \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$", output, re.MULTILINE)
    count, found, left = map(float, row.groups())
    assert found - cost <= left <= found
    assert count <= most


@pytest.mark.parametrize(
    ("table", "enough"),
    [("held_out", 50), ("held_out with few servers", 50), ("held_out of saved workflows", 15)],
)
def test_of_what_is_found_with_the_highest_confidence_nearly_all_is_right(reliability, table, enough):
    found, _, right = reliability[table]["0.95 to 1.0"]
    assert found >= enough
    assert right >= 0.95


@pytest.mark.parametrize("table", ["held_out", "held_out with few servers"])
def test_a_confidence_is_close_to_the_share_that_is_right(reliability, table):
    rows = list(reliability[table].values())
    assert len(rows) == 7
    assert all(abs(mean - right) < 0.15 for _, mean, right in rows)
    shares = [right for _, _, right in rows]
    assert shares == sorted(shares, reverse=True)


def test_every_plan_validates_and_has_more_of_the_needed_tools_than_as_many_that_discover_finds():
    plans = by_name(printed("benchmarks.plan", "--split", "dev"))
    assert plans["plans that validate"] == 1
    assert plans["recall of the plan"] >= PLAN_FLOOR
    assert plans["recall of the plan"] >= plans["recall of as many by discover"]
