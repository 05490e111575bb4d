"""The package as it is installed: what it announces, what it ships, what it costs to start."""

import json
import os
import subprocess
import sys
from importlib.metadata import entry_points, version
from importlib.resources import files

import pytest


@pytest.mark.parametrize(
    ("group", "name", "value"),
    [
        ("pflow", "mcp", "pflow_mcp_plugin.plugin"),
        ("pflow.hosts", "embedded", "pflow_mcp_plugin.host.embedded_host:open_host"),
        *(("console_scripts", name, "pflow_mcp_plugin.__main__:program") for name in ("pflow", "pflow-mcp")),
        ("pytest11", "pflow", "pflow_mcp_plugin.pytest_plugin"),
    ],
)
def test_what_others_find_by_its_entry_point_is_announced(group, name, value):
    (point,) = entry_points(group=group, name=name)
    assert point.value == value


def test_types_and_the_config_schema_are_shipped():
    package = files("pflow_mcp_plugin")
    assert package.joinpath("py.typed").is_file()
    schema = package.joinpath("config/mcp-servers.schema.json").read_text(encoding="utf-8")
    assert json.loads(schema)["$schema"]


def test_the_program_tells_its_version(pflow):
    told = pflow("--version")
    assert told.exit_code == 0
    assert version("pflow-mcp") in told.stdout


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


@pytest.mark.programs
def test_the_pytest_plugin_loads_nothing_but_itself():
    told = subprocess.run([sys.executable, "-c", IMPORTED], stdout=subprocess.PIPE, timeout=60, check=True)
    assert json.loads(told.stdout) == ["pflow_mcp_plugin", "pflow_mcp_plugin.pytest_plugin"]


@pytest.mark.programs
def test_importing_the_kit_needs_no_pytest_and_does_not_load_the_sdk():
    code = "import sys; sys.modules['pytest'] = None; import pflow_mcp_plugin.testing; "
    code += "sys.exit('mcp' in sys.modules or 'anyio' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], timeout=60, check=True)


@pytest.mark.programs
def test_the_fixture_is_there_without_any_configuration(tmp_path):
    (tmp_path / "test_it.py").write_text(LOOKS, encoding="utf-8")
    variables = {name: value for name, value in os.environ.items() if name != "PFLOW_HOME"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"]
    done = subprocess.run(
        command, cwd=tmp_path, env=variables, capture_output=True, encoding="utf-8", timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout
