"""Every way to a tool takes the settings and asks the other plugins."""

import os
import sys
from importlib import metadata
from textwrap import dedent

import pytest
from programs import put_plugin

from pflow_mcp_plugin import storage
from pflow_mcp_plugin.catalog.tool_catalog import Catalog
from pflow_mcp_plugin.config.locations import server_file, tool_folder
from pflow_mcp_plugin.config.server_store import ServerStore
from pflow_mcp_plugin.errors import McpError
from pflow_mcp_plugin.exchange import Listing
from pflow_mcp_plugin.execution.current_host import current_host
from pflow_mcp_plugin.execution.runtime import open_runtime
from pflow_mcp_plugin.host.stored_settings import StoredSettings
from pflow_mcp_plugin.types import ServerInfo, Tool

pytestmark = pytest.mark.programs

PLUGIN = """
    import sys
    from pflow_mcp_plugin.contract import hookimpl
    from pflow_mcp_plugin.errors import CallRefused, Where

    def say(*words):
        print(*words, file=sys.stderr)

    @hookimpl
    def pflow_mcp_prepare_call(call):
        if call.arguments["a"] == 13:
            raise CallRefused("13 is refused", where=Where(server=call.server, tool=call.tool))

    @hookimpl(wrapper=True)
    def pflow_mcp_call_tool(call):
        answer = yield
        say("answered", answer.content[0]["text"])
        return answer

    @hookimpl
    def pflow_configure(host):
        say("configured")

    @hookimpl
    def pflow_unconfigure(host):
        say("unconfigured")
"""
PROPERTIES = {"a": {"type": "integer"}, "b": {"type": "integer"}}
ADD = Tool(name="add", input_schema={"type": "object", "properties": PROPERTIES, "required": ["a", "b"]})

ALONE = """
from pflow_mcp_plugin.execution.node import MCPNode
for a in (12, 13):
    node, shared = MCPNode(), {}
    node.set_params({"__mcp_server__": "demo", "__mcp_tool__": "add", "a": a, "b": 29})
    node.run(shared)
raise SystemExit(shared["error"])
"""
SESSION = """
from pflow_mcp_plugin.nodes import McpDemoAddNode, session
with session():
    for a in (12, 13):
        McpDemoAddNode(a=a, b=29).run({})
"""
SCRIPT = """
from pflow_mcp_plugin.nodes import McpDemoAddNode
from pflow_mcp_plugin.script import Script
script = Script("s")
batch = {"items": [12, 13]}
each = script.node("each", "mine", McpDemoAddNode, params={"a": "${item}", "b": 29}, batch=batch)
raise SystemExit(script.main(each))
"""
BESIDE = """
from pflow_mcp_plugin.host.embedded_host import open_host
with open_host():
    from pflow_mcp_plugin.nodes import McpDemoAddNode
    for a in (12, 13):
        McpDemoAddNode(a=a, b=29).run({})
"""
WORKFLOW = """
from pflow_mcp_plugin.workflows import run_workflow
nodes = [{"id": f"add-{a}", "type": "mcp-demo-add", "params": {"a": a, "b": 29}} for a in (12, 13)]
run_workflow({"nodes": nodes}, {})
"""
PROGRAMS = {
    "session()": SESSION,
    "a script's node of its own type": SCRIPT,
    "a node beside a host": BESIDE,
    "a workflow": WORKFLOW,
}


@pytest.fixture
def program(pflow_home, python, tmp_path, monkeypatch):
    """Run Python with the vetoing plugin installed, and a server whose command is a setting."""
    paths = storage.default_paths()
    StoredSettings(paths.config / "settings.json").set("DEMO_PYTHON", sys.executable)
    store = ServerStore(server_file(paths))
    store.add(
        {"demo": {"command": "${DEMO_PYTHON}", "args": ["-P", "-m", "pflow_mcp_plugin.server.demo_server"]}}
    )
    listing = Listing(info=ServerInfo(), tools=(ADD,))
    Catalog(tool_folder(paths)).save("demo", listing, store.fingerprint("demo"))
    put_plugin(tmp_path / "site", "veto", dedent(PLUGIN))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"), prepend=os.pathsep)
    return python


@pytest.mark.parametrize("way", PROGRAMS)
def test_every_way_to_a_tool_takes_the_settings_and_asks_the_plugins(program, way):
    """Those of a host, by which `tests/schemas/test_valid_arguments.py` reaches a plugin, are one here."""
    said = program("-c", PROGRAMS[way]).stderr
    assert said.count("answered") == 1, said
    assert "answered 41" in said
    assert "13 is refused" in said


def test_a_program_without_any_host_says_what_to_install(monkeypatch, pflow_home):
    monkeypatch.setattr(metadata, "entry_points", lambda group: ())
    with pytest.raises(McpError, match="No pflow host is installed") as caught, open_runtime():
        pass
    assert "pip install" in caught.value.suggestions[0]
    broken = metadata.EntryPoint("core", "no_such_core:open_host", "pflow.hosts")
    monkeypatch.setattr(metadata, "entry_points", lambda group: [broken])
    with pytest.raises(McpError, match="The host core cannot be loaded: No module named"), open_runtime():
        pass


def test_another_core_goes_before_the_embedded_one_and_is_opened_once_for_nodes_that_run_alone(
    program, tmp_path
):
    core = """
        from contextlib import contextmanager
        from pflow_mcp_plugin.host.embedded_host import open_host as embedded

        @contextmanager
        def open_host():
            print("another core")
            with embedded() as host:
                yield host
    """
    (tmp_path / "site" / "core.py").write_text(dedent(core))
    with (tmp_path / "site" / "veto-1.0.dist-info" / "entry_points.txt").open("a") as file:
        file.write("[pflow.hosts]\nzz_core = core:open_host\n")
    done = program("-c", ALONE)
    lines = done.stderr.splitlines()
    assert done.stdout == "another core\n"
    assert (lines[0], lines[-1]) == ("configured", "unconfigured")
    assert lines.count("configured") == lines.count("unconfigured") == 1
    assert "answered 41" in lines


def test_another_home_gets_a_host_of_its_own(monkeypatch, tmp_path):
    monkeypatch.setenv("PFLOW_HOME", str(tmp_path / "one"))
    first = current_host()
    assert current_host() is first
    monkeypatch.setenv("PFLOW_HOME", str(tmp_path / "two"))
    assert current_host().paths.config == tmp_path / "two" / "config"
