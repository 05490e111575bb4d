"""What the project says of itself, what a build machine runs, and the source distribution agree."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from configparser import ConfigParser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def tox():
    """The sections of tox.ini."""
    read = ConfigParser(interpolation=None)
    read.read(ROOT / "tox.ini", encoding="utf-8")
    return read


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    """The folder of a source distribution that was built and unpacked."""
    folder = tmp_path_factory.mktemp("sdist") / "source"
    subprocess.run([sys.executable, ROOT / ".ci" / "source.py", folder], timeout=100, check=True)
    return folder


def test_every_python_that_is_claimed_is_tested(tox):
    words = " ".join(PYPROJECT["project"]["classifiers"])
    claimed = {f"py3{minor}" for minor in re.findall(r"Python :: 3\.(\d+)", words)}
    sections = {name: f"testenv:{name}" for name in run_by_default(tox)}
    based = {
        tox[section].get("base_python", name) if section in tox else name
        for name, section in sections.items()
    }
    assert claimed == {name for name in based if re.fullmatch(r"py\d+", name)}
    assert min(claimed) == "py" + PYPROJECT["project"]["requires-python"].removeprefix(">=").replace(".", "")


def test_what_a_build_machine_requires_reaches_the_tests(tox):
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    (exported,) = re.findall(r"^export (.*)$", script, re.MULTILINE)
    required = {name.removesuffix("=1") for name in exported.split()}
    assert required == {"CI", "PFLOW_REQUIRE_BROWSER", "PFLOW_REQUIRE_SERVERS", "PFLOW_REQUIRE_SHELLS"}
    assert required <= set(tox["testenv"]["pass_env"].split())
    assert "--skip-missing-interpreters false" in script


def test_the_source_distribution_holds_what_its_own_tox_needs(unpacked, tox):
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


def test_every_test_is_a_unit_test_or_one_of_programs(tox):
    unit, programs = tox["unit"]["selection"], tox["programs"]["selection"]
    names = re.findall(r"not (\w+)", unit)
    assert unit == f'-m "{" and ".join(f"not {name}" for name in names)}"'
    assert programs == f'-m "{" or ".join(names)}"'


def test_quick_tests_and_the_lowest_dependencies_are_tried_under_the_oldest_python(tox):
    assert tox["testenv:lowest"]["base_python"] == "py311"
    for name in ("lowest", "py311"):
        assert "{[fast]selection}" in tox[f"testenv:{name}"]["commands"]
        assert name in run_by_default(tox)


def test_programs_are_tried_under_the_newest_python_that_is_there(tox):
    programs = tox["testenv:programs"]
    pythons = [name.strip() for name in programs["base_python"].split(",")]
    assert pythons == sorted(pythons, reverse=True)
    assert {name for name in run_by_default(tox) if re.fullmatch(r"py\d+", name)} <= {*pythons}
    assert "{[programs]selection}" in programs["commands"]
    assert "programs" in run_by_default(tox)


def test_every_unit_test_is_run_under_the_newest_python_too(tox):
    newest = max(name for name in run_by_default(tox) if re.fullmatch(r"py\d+", name))
    assert f"testenv:{newest}" not in tox
    assert "{[unit]selection}" in tox["testenv"]["commands"]


def run_by_default(tox):
    return {name.strip() for name in tox["tox"]["env_list"].split(",")}


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


def test_pre_commit_runs_commands_of_tox_lint(tox):
    hooks = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    commands = tox["testenv:lint"]["commands"].strip().splitlines()
    entries = re.findall(r"^ +entry: (.*)$", hooks, re.MULTILINE)
    assert entries
    assert [entry for entry in entries if entry not in commands] == []
