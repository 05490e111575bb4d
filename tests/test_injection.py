"""The special parameters of our nodes."""

from __future__ import annotations

from pflow_mcp_plugin.contract import Entry, NodeRef
from pflow_mcp_plugin.injection import inject


def ref(node_type, **extra):
    entry = Entry(node=node_type, class_name="MCPNode", module="m", extra=extra)
    return NodeRef(id="n", type=node_type, entry=entry)


def test_server_and_tool_come_from_the_entry():
    node = ref("mcp-github-create-issue", mcp_config={"server_id": "git", "tool_name": "hub_create"})
    assert inject(node) == {"__mcp_server__": "git", "__mcp_tool__": "hub_create"}


def test_a_bare_name_is_taken_apart():
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
