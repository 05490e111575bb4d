"""The special parameters of our nodes."""

from types import SimpleNamespace

import attrs

from pflow_mcp_plugin import plugin, storage
from pflow_mcp_plugin.config.locations import server_file
from pflow_mcp_plugin.config.server_store import ServerStore
from pflow_mcp_plugin.contract import Entry, NodeRef, Paths
from pflow_mcp_plugin.injection import inject, used_tools


def ref(node_type, **extra):
    entry = Entry(node=node_type, class_name="MCPNode", module="m", extra=extra)
    return NodeRef(id="n", type=node_type, entry=entry, host=SimpleNamespace(paths=storage.default_paths()))


def test_server_and_tool_come_from_the_entry_or_the_name_is_taken_apart():
    node = ref("mcp-github-create-issue", mcp_config={"server_id": "git", "tool_name": "hub_create"})
    assert inject(node) == {"__mcp_server__": "git", "__mcp_tool__": "hub_create"}
    expected = {"__mcp_server__": "github", "__mcp_tool__": "create-issue"}
    assert inject(ref("mcp-github-create-issue")) == expected
    assert inject(ref("mcp-github-create-issue"), ["git", "github"]) == expected


def test_the_longest_configured_server_wins():
    servers = ["my", "my-own", "other"]
    assert inject(ref("mcp-my-own-tool"), servers) == {"__mcp_server__": "my-own", "__mcp_tool__": "tool"}


def test_a_node_without_our_prefix_gets_nothing():
    assert inject(ref("echo")) is None
    assert inject(ref("mcp-")) is None
    assert inject(ref("mcp-x")) is None


def test_the_tools_that_nodes_use_are_grouped_by_server():
    nodes = [
        ref("mcp-my-own-a", mcp_config={"server_id": "my-own", "tool_name": "A"}),
        ref("mcp-my-own-b"),
        ref("echo"),
        ref("mcp-other-c"),
    ]
    assert used_tools(nodes, iter(["my", "my-own"])) == {"my-own": {"A", "b"}, "other": {"c"}}


def test_the_config_is_not_read_for_a_node_whose_entry_says_what_it_is(pflow_home):
    config = server_file(storage.default_paths())
    config.parent.mkdir(parents=True)
    config.write_text("not = [toml")
    node = ref("mcp-a-b", mcp_config={"server_id": "a", "tool_name": "b"})
    assert plugin.pflow_inject_params(node) == {"__mcp_server__": "a", "__mcp_tool__": "b"}
    assert plugin.pflow_inject_params(ref("echo")) is None


def test_the_servers_are_those_of_the_host_that_compiles(pflow_home, tmp_path):
    there = Paths(config=tmp_path, data=tmp_path, state=tmp_path, cache=tmp_path)
    ServerStore(server_file(there)).add({"my-own": {"command": "x"}})
    node = attrs.evolve(ref("mcp-my-own-tool"), host=SimpleNamespace(paths=there))
    expected = {"__mcp_server__": "my-own", "__mcp_tool__": "tool"}
    assert plugin.pflow_inject_params(node) == expected
