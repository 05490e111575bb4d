"""The pytest plugin: there wherever the package is installed, and light until it is used."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import entry_points

import pytest

pytestmark = pytest.mark.programs

IMPORTED = """
import json, sys
import pytest
before = set(sys.modules)
import pflow_mcp_plugin.pytest_plugin
print(json.dumps(sorted(set(sys.modules) - before)))
"""

LOOKS = """
import os, sys

def test_it_is_there(pflow_host):
    assert os.environ["PFLOW_HOME"] == str(pflow_host.home)
    assert pflow_host.host.runner

def test_it_was_closed():
    assert "PFLOW_HOME" not in os.environ
"""


def test_pytest_finds_it_by_its_entry_point():
    (point,) = entry_points(group="pytest11", name="pflow")
    assert point.value == "pflow_mcp_plugin.pytest_plugin"


def test_it_loads_nothing_but_itself():
    told = subprocess.run([sys.executable, "-c", IMPORTED], stdout=subprocess.PIPE, timeout=60, check=True)
    assert json.loads(told.stdout) == ["pflow_mcp_plugin", "pflow_mcp_plugin.pytest_plugin"]


def test_the_package_needs_no_pytest():
    code = "import sys; sys.modules['pytest'] = None; import pflow_mcp_plugin.testing"
    subprocess.run([sys.executable, "-c", code], timeout=60, check=True)


def test_importing_the_kit_does_not_load_the_sdk():
    code = "import sys, pflow_mcp_plugin.testing; sys.exit('mcp' in sys.modules or 'anyio' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], timeout=60, check=True)


def test_the_fixture_is_there_without_any_configuration(tmp_path):
    (tmp_path / "test_it.py").write_text(LOOKS, encoding="utf-8")
    variables = {name: value for name, value in os.environ.items() if name != "PFLOW_HOME"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"]
    done = subprocess.run(
        command, cwd=tmp_path, env=variables, capture_output=True, encoding="utf-8", timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout
