"""`pflow plan` without a model, on the tools of LiveMCPBench: what `benchmarks.plan` prints has a floor."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FLOOR = 0.45
"""Of the share of the needed tools that the plans have, with two nodes each on average."""


@pytest.mark.slow
def test_every_plan_validates_and_has_more_of_the_needed_tools_than_as_many_that_discover_finds():
    command = [sys.executable, "-m", "benchmarks.plan", "--split", "dev"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    rows = re.findall(r"^\| (.+?) \| ([\d.]+) \|$", ended.stdout, re.MULTILINE)
    printed = {name: float(value) for name, value in rows}
    assert printed["plans that validate"] == 1, ended.stdout
    assert printed["recall of the plan"] >= FLOOR
    assert printed["recall of the plan"] >= printed["recall of as many by discover"]
    assert ended.returncode == 0, ended.stderr
