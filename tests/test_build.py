"""The source distribution has what it needs."""

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
