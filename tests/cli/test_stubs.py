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


def test_the_classes_are_written_to_a_file_or_printed_and_a_corrupt_config_leaves_them(
    typed, pflow_home, tmp_path
):
    assert typed("mcp", "demo").exit_code == 0
    target = tmp_path / "typings" / "nodes.pyi"
    done = typed("mcp", "stubs", "--output", target, "--json")
    assert done.envelope["data"] == {"classes": 6, "path": str(target)}
    written = target.read_text()
    classes = [item.name for item in ast.parse(written).body if isinstance(item, ast.ClassDef)]
    assert "McpDemoWordCountNode" in classes
    assert typed("mcp", "stubs", "--output", target).stdout == f"Wrote 6 classes to {target}\n"
    for words in ((), ("--output", "-")):
        assert typed("mcp", "stubs", *words).stdout.strip() == written.strip()
    (pflow_home / "config" / "mcp-servers.toml").write_text("x = [")
    for words, code in (
        (("mcp", "stubs", "--output", target), 2),
        (("registry", "search", "add"), 0),
        (("registry", "describe", "mcp-demo-add"), 2),
    ):
        done = typed(*words)
        assert (done.exit_code, "mcp-servers.toml, line 1" in done.stderr) == (code, True), words
    assert target.read_text() == written


def test_mypy_finds_the_classes_and_the_rest_of_the_package(pflow, tmp_path):
    pytest.importorskip("mypy")
    pflow("mcp", "demo")
    pflow("mcp", "stubs", "--output", tmp_path / "typings" / "pflow_mcp_plugin" / "nodes.pyi")
    (tmp_path / "good.py").write_text(GOOD)
    (tmp_path / "bad.py").write_text(BAD)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", tmp_path, "good.py", "bad.py"]
    environment = {**os.environ, "MYPYPATH": str(tmp_path / "typings")}
    options = {"cwd": tmp_path, "env": environment, "capture_output": True, "text": True, "timeout": 100}
    found = subprocess.run(command, check=False, **options).stdout
    assert 'has no attribute "McpDemoSubtractNode"' in found
    assert 'Argument "a" to "McpDemoAddNode" has incompatible type "str"; expected "int"' in found
    assert 'Unexpected keyword argument "c"' in found
    assert 'Too many positional arguments for "McpDemoAddNode"' in found
    assert 'Revealed type is "str"' in found
    assert "good.py" not in found
    assert "Found 4 errors" in found


def test_packages_and_stubs_that_are_there_are_left_as_they_are(typed, tmp_path):
    package = tmp_path / "pflow_mcp_plugin"
    package.mkdir()
    (package / "__init__.py").write_text("mine = 1")
    (tmp_path / "pocketflow.pyi").write_text("mine: int")
    typed("mcp", "stubs", "--output", package / "nodes.pyi")
    assert sorted(path.name for path in package.iterdir()) == ["__init__.py", "nodes.pyi"]
    assert (tmp_path / "pocketflow.pyi").read_text() == "mine: int"
    typed("mcp", "stubs", "--output", tmp_path / "elsewhere" / "nodes.pyi")
    assert [path.name for path in (tmp_path / "elsewhere").iterdir()] == ["nodes.pyi"]
    (tmp_path / "file").touch()
    done = typed("mcp", "stubs", "--output", tmp_path / "file" / "nodes.pyi")
    assert done.exit_code == 2
    assert "nodes.pyi" in done.stderr
