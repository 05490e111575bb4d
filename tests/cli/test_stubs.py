from __future__ import annotations

import ast
import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.programs

GOOD = """\
from pocketflow import Flow

from pflow_mcp_plugin.calls import call
from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.nodes import McpDemoAddNode, McpDemoEchoNode, ToolNode, class_for, session

add: McpDemoAddNode = McpDemoAddNode(a=1, b=2)
add >> McpDemoEchoNode(value={})
add - "error" >> McpDemoEchoNode()
made: type[ToolNode] = class_for("mcp-demo-add")
with session() as tools:
    action: str = made(a=1).run({"b": 2})
    Flow(start=add).run({})
    print(tools.call("demo", "add", a=1, b=2), call("demo", "add", a=1, b=2))
add.set_params({"a": 2})
print(add.entry.node, PflowError("x").message.upper())
"""
BAD = """\
from pflow_mcp_plugin.nodes import McpDemoAddNode, McpDemoSubtractNode

McpDemoAddNode(a="x")
McpDemoAddNode(c=1)
McpDemoAddNode(1, 2)
reveal_type(McpDemoAddNode(a=1).run({}))
"""


def test_the_classes_are_written_to_a_file_or_printed(pflow, tmp_path):
    assert pflow("mcp", "demo").exit_code == 0
    target = tmp_path / "typings" / "nodes.pyi"
    done = pflow("mcp", "stubs", "--output", target, "--json")
    assert done.envelope["data"] == {"classes": 6, "path": str(target)}
    classes = [item.name for item in ast.parse(target.read_text()).body if isinstance(item, ast.ClassDef)]
    assert "McpDemoWordCountNode" in classes
    assert pflow("mcp", "stubs", "--output", target).stdout == f"Wrote 6 classes to {target}\n"
    for words in ((), ("--output", "-")):
        assert pflow("mcp", "stubs", *words).stdout.strip() == target.read_text().strip()


def test_a_file_that_cannot_be_written_is_told(pflow, tmp_path):
    (tmp_path / "file").touch()
    done = pflow("mcp", "stubs", "--output", tmp_path / "file" / "nodes.pyi")
    assert done.exit_code == 2
    assert "nodes.pyi" in done.stderr


def test_mypy_finds_the_classes_and_the_rest_of_the_package(pflow, tmp_path):
    pytest.importorskip("mypy")
    pflow("mcp", "demo")
    pflow("mcp", "stubs", "--output", tmp_path / "typings" / "pflow_mcp_plugin" / "nodes.pyi")
    assert strictly_checked(tmp_path, GOOD) == "Success: no issues found in 1 source file\n"
    found = strictly_checked(tmp_path, BAD)
    assert 'has no attribute "McpDemoSubtractNode"' in found
    assert 'Argument "a" to "McpDemoAddNode" has incompatible type "str"; expected "int"' in found
    assert 'Unexpected keyword argument "c"' in found
    assert 'Too many positional arguments for "McpDemoAddNode"' in found
    assert 'Revealed type is "str"' in found
    assert "Found 4 errors" in found


def strictly_checked(folder, program):
    (folder / "program.py").write_text(program)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", folder / "cache", "program.py"]
    environment = {**os.environ, "MYPYPATH": str(folder / "typings")}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=100, check=False
    ).stdout


def test_a_package_that_is_there_is_left_as_it_is(pflow, tmp_path):
    package = tmp_path / "pflow_mcp_plugin"
    package.mkdir()
    (package / "__init__.py").write_text("mine = 1")
    pflow("mcp", "stubs", "--output", package / "nodes.pyi")
    assert sorted(path.name for path in package.iterdir()) == ["__init__.py", "nodes.pyi"]
    pflow("mcp", "stubs", "--output", tmp_path / "elsewhere" / "nodes.pyi")
    assert [path.name for path in (tmp_path / "elsewhere").iterdir()] == ["nodes.pyi"]


def test_a_stub_of_pocketflow_that_is_there_is_left_as_it_is(pflow, tmp_path):
    (tmp_path / "pocketflow.pyi").write_text("mine: int")
    pflow("mcp", "stubs", "--output", tmp_path / "pflow_mcp_plugin" / "nodes.pyi")
    assert (tmp_path / "pocketflow.pyi").read_text() == "mine: int"


def test_a_corrupt_config_leaves_the_classes_that_were_written(pflow, pflow_home, tmp_path):
    pflow("mcp", "demo")
    pflow("mcp", "stubs", "--output", tmp_path / "nodes.pyi")
    before = (tmp_path / "nodes.pyi").read_text()
    (pflow_home / "config" / "mcp-servers.toml").write_text("x = [")
    done = pflow("mcp", "stubs", "--output", tmp_path / "nodes.pyi")
    assert (done.exit_code, (tmp_path / "nodes.pyi").read_text()) == (2, before)
    assert "mcp-servers.toml, line 1" in done.stderr
    for _ in range(2):
        assert "mcp-servers.toml, line 1" in pflow("registry", "search", "add").stderr
    done = pflow("registry", "describe", "mcp-demo-add")
    assert done.exit_code == 2
    assert done.stderr.startswith("Error: ")
    assert "mcp-servers.toml, line 1" in done.stderr
