"""The source distribution has what it needs, and the scripts beside it do their work."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    """The folder of a source distribution that was built and unpacked."""
    folder = tmp_path_factory.mktemp("sdist") / "source"
    subprocess.run([sys.executable, ROOT / ".ci" / "source.py", folder], timeout=100, check=True)
    return folder


def test_the_source_distribution_holds_what_its_own_tox_needs(unpacked):
    text = (unpacked / "tox.ini").read_text(encoding="utf-8")
    needed = set(re.findall(r"(?<![\w/.])(?:\.ci|tests|benchmarks)/[\w/.]+", text.replace("{tox_root}/", "")))
    assert ".ci/requirements.py" in needed
    assert [name for name in needed if not (unpacked / name).exists()] == []
    assert os.access(unpacked / ".ci" / "run", os.X_OK)
    assert not list(unpacked.glob("tests/servers/.installed"))


def test_the_links_of_the_readme_work_where_there_are_no_files_beside_it(unpacked):
    text = (unpacked / "PKG-INFO").read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#]+)", text)
    assert [link for link in links if not link.startswith("https://")] == []
    files = PYPROJECT["project"]["urls"]["Homepage"] + "/blob/main/"
    paths = [link.removeprefix(files) for link in links if link.startswith(files)]
    assert "docs/failures.md" in paths
    assert [path for path in paths if not (unpacked / path).exists()] == []


def test_the_lowest_requirements_can_be_told_from_a_source_distribution(unpacked, tmp_path):
    output = tmp_path / "requirements.txt"
    script = unpacked / ".ci" / "requirements.py"
    subprocess.run([sys.executable, script, "--lowest", "--output", output], timeout=60, check=True)
    lines = output.read_text().splitlines()
    assert len(lines) == len(PYPROJECT["project"]["dependencies"])
    assert all(re.fullmatch(r"[\w.-]+(\[\w+\])?==[\d.]+", line) for line in lines)


def test_the_requirements_can_leave_packages_out(tmp_path):
    output = tmp_path / "requirements.txt"
    script = ROOT / ".ci" / "requirements.py"
    command = [sys.executable, script, "--without", "mcp", "pydantic", "--output", output]
    subprocess.run(command, timeout=60, check=True)
    names = {re.split("[<>=]", line)[0] for line in output.read_text().splitlines()}
    assert {"mcp-types", "attrs"} <= names
    assert not {"mcp", "pydantic"} & names
