"""The classes for Python users."""

import inspect
import subprocess
import sys
from unittest.mock import patch

import pytest
from pocketflow import Flow, Node

from pflow_mcp_plugin import nodes, storage
from pflow_mcp_plugin.catalog.tool_catalog import Catalog
from pflow_mcp_plugin.config.locations import server_file, tool_folder
from pflow_mcp_plugin.config.server_store import ServerStore
from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.errors import CallFailed, McpError, Where
from pflow_mcp_plugin.exchange import Listing
from pflow_mcp_plugin.execution.node import MCPNode
from pflow_mcp_plugin.types import ServerInfo, Tool

ADD = Tool(
    name="add",
    description="Add two numbers.",
    input_schema={
        "type": "object",
        "properties": {
            "a": {"type": "integer", "description": "The first"},
            "b": {"type": "integer", "default": 1},
        },
        "required": ["a"],
    },
)


@pytest.fixture
def demo(pflow_home):
    """A config with the demo server, as if synced."""
    paths = storage.default_paths()
    store, catalog = ServerStore(server_file(paths)), Catalog(tool_folder(paths))
    store.add(
        {"demo": {"command": sys.executable, "args": ["-P", "-m", "pflow_mcp_plugin.server.demo_server"]}}
    )
    tools = [ADD]
    tools += [_tool(name, *keys) for name, keys in (("remember", ("key", "value")), ("recall", ("key",)))]
    tools += [_tool("get_Items", "from", "class"), _tool("send-2", "x")]
    info = ServerInfo(version="1.2")
    catalog.save("demo", Listing(info=info, tools=tuple(tools)), store.fingerprint("demo"))
    return catalog


def _tool(name, *keys):
    properties = {key: {} for key in keys}
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return Tool(name=name, description=name, input_schema=schema)


def test_a_tool_is_a_class_with_docstring_and_signature(demo):
    made = nodes.McpDemoAddNode
    assert issubclass(made, nodes.ToolNode)
    assert (made.__name__, made.__module__) == ("McpDemoAddNode", "pflow_mcp_plugin.nodes")
    assert list(inspect.signature(made).parameters) == ["a", "b"]
    assert inspect.signature(made).parameters["a"].annotation == "int"
    assert inspect.getdoc(made).splitlines() == [
        *("Add two numbers.", "", "Interface:", '- Reads: shared["a"]: int - The first'),
        '- Reads: shared["b"]: int (optional)',
        '- Writes: shared["result"]: any - The answer of the tool',
        *('- Writes: shared["error"]: str | None', "- Params: a, b (default 1)"),
        *("- Actions: default, error, rate_limited, auth_failed, resource_missing, timeout", ""),
        "MCP Source: demo/add v1.2",
    ]
    assert (made._mcp_server_id, made._mcp_tool_name, made._mcp_tool_version) == ("demo", "add", "1.2")


def test_every_registered_tool_has_one_and_dir_names_them(demo):
    assert {"McpDemoGetItemsNode", "McpDemoSend_2Node", "session", "class_for"} <= set(dir(nodes))
    assert nodes.McpDemoAdd is nodes.McpDemoAddNode  # a short name, which is not listed
    assert "McpDemoAdd" not in dir(nodes)
    assert nodes.McpDemoSend_2Node.entry.node == "mcp-demo-send-2"
    assert nodes.class_for("mcp-demo-get-items") is nodes.McpDemoGetItemsNode
    assert nodes.class_for("mcp-demo-get_Items") is nodes.McpDemoGetItemsNode  # the alias


def test_the_class_changes_when_its_tool_does(demo):
    before = nodes.McpDemoAddNode
    assert nodes.McpDemoAddNode is before
    demo.save("demo", Listing(info=ServerInfo(version="2"), tools=(ADD,)), "")
    assert nodes.McpDemoAddNode._mcp_tool_version == "2"


def test_an_unknown_name_says_why_and_what_is_near(demo):
    with pytest.raises(
        ImportError, match=r"(?s)Unknown node class McpDemoAdNode.*Did you mean McpDemoAddNode"
    ):
        from pflow_mcp_plugin.nodes import McpDemoAdNode  # noqa: F401 - the import itself is tested
    with pytest.raises(ImportError, match="McpDemoAddNode"):
        nodes.McpDemoAdds  # noqa: B018 - the look-up itself is tested
    with pytest.raises(ImportError, match=r"Server github not configured.*run: pflow mcp sync"):
        nodes.class_for("mcp-github-search")
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        nodes.Nothing  # noqa: B018 - the look-up itself is tested


def test_parameters_that_python_cannot_spell_are_taken_too(demo):
    made = nodes.McpDemoGetItemsNode
    assert list(inspect.signature(made).parameters) == ["others"]
    assert made(**{"from": 1, "class": 2}).params["from"] == 1


def test_an_unknown_parameter_is_refused_with_the_nearest(demo):
    with pytest.raises(TypeError, match="has no parameter 'ke'; did you mean key"):
        nodes.McpDemoRecallNode(ke="x")
    with pytest.raises(TypeError, match="it takes a, b"):
        nodes.McpDemoAddNode(z=1)


class Keep(Node):
    """Keeps a result under another name."""

    def post(self, shared, prep_res, exec_res):
        shared["kept"] = shared["result"]


class Again(Node):
    """Leads back until the node before has run three times."""

    def post(self, shared, prep_res, exec_res):
        shared.setdefault("totals", []).append(shared["result"])
        return "again" if len(shared["totals"]) < 3 else "done"


def test_what_was_set_on_a_node_survives_a_flow_that_loops_and_has_params_of_its_own(demo):
    node = MCPNode()
    node.set_params({"a": 1})
    node.set_params({"a": 2, "__mcp_server__": "demo", "__mcp_tool__": "add"})
    again = Again()
    node >> again
    again - "again" >> node
    again - "done" >> Keep()
    flow, shared = Flow(start=node), {}
    flow.set_params({"a": 50, "b": 5})
    with nodes.session():
        flow.run(shared)
    assert shared["totals"] == [7, 7, 7]


def test_in_a_test_the_call_of_a_node_is_patched_also_in_a_flow(demo, no_leftovers):
    add, keep = nodes.McpDemoAdd(a=2), Keep()
    add >> keep
    shared = {"b": 3}
    answer = {"sum": [5], "error": "none"}
    busy = CallFailed("Too many requests", where=Where(tool="add"), action="rate_limited")
    with patch.object(add, "call_tool", side_effect=[answer, busy]) as call_tool:
        Flow(start=add).run(shared)
        assert (shared["sum"], shared["result"], shared["error"]) == ([5], answer, None)
        assert shared["kept"] == answer
        add - "rate_limited" >> keep
        Flow(start=add).run(shared)
    assert "Too many requests" in shared["error"]
    assert [call.args for call in call_tool.call_args_list] == [({"a": 2, "b": 3},)] * 2


def test_in_a_session_nodes_share_the_server(demo, no_leftovers):
    remember = nodes.McpDemoRememberNode(key="x", value=7)
    recall = nodes.McpDemoRecallNode(key="x")
    remember >> recall
    shared = {}
    with nodes.session():
        Flow(start=remember).run(shared)
    assert shared["result"]["value"] == 7
    with pytest.raises(PflowError):  # a server of its own has nothing to recall
        nodes.McpDemoRecallNode(key="x").run({})


def test_a_failure_takes_its_edge_and_is_raised_where_there_is_none(demo):
    recall, tell = nodes.McpDemoRecallNode(key="unheard"), Keep()
    recall - "error" >> tell
    shared = {"result": "before"}
    with nodes.session():
        Flow(start=recall).run(shared)
    assert shared["kept"] == "before"
    assert "unheard" in shared["error"]
    ServerStore(server_file(storage.default_paths())).remove("demo")
    with pytest.raises(McpError) as raised:
        recall.__class__(key="x").run({})
    assert raised.value.__notes__ == ["  -> Add it: pflow mcp add NAME -- COMMAND"]


def test_help_and_completion_start_no_server(demo):
    program = (
        "import pflow_mcp_plugin.nodes as n, sys; dir(n); n.McpDemoAddNode; assert 'mcp' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
