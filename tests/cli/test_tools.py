"""`pflow mcp tools` and `pflow mcp info`."""

import attrs
import pytest

from pflow_mcp_plugin.cli.tools import info, tools
from pflow_mcp_plugin.errors import McpError
from pflow_mcp_plugin.types import Tool

CLOCK = '[mcpServers.clock]\ncommand = "python"\n'
ZONES = Tool(
    name="list_zones",
    description="List zones.\nAll of them.",
    input_schema={
        "type": "object",
        "properties": {
            "region": {"type": "string", "enum": ["eu", "us"], "default": "eu", "description": "Where"},
            "limit": {"type": ["integer", "null"]},
        },
        "required": ["limit"],
    },
    output_schema={"type": "object", "properties": {"zones": {"type": "array"}}},
)


@pytest.fixture
def clock(desk):
    desk.write(CLOCK)
    desk.store("clock", ZONES, Tool(name="now"), name="Clock", version="2.1", protocol="2025-11-25")
    return desk


def test_tools_are_listed_as_nodes(clock):
    report = clock.run(tools)
    assert report.data[0] == {
        "node": "mcp-clock-list-zones",
        "server": "clock",
        "tool": "list_zones",
        "description": "List zones.\nAll of them.",
    }
    assert report.render().splitlines() == [
        "NODE                  DESCRIPTION",
        "mcp-clock-list-zones  List zones.",
        "mcp-clock-now",
    ]
    assert clock.run(tools, "clock").data == report.data


def test_servers_that_are_not_synced_are_pointed_at_and_renames_and_filters_need_no_sync(clock):
    clock.write(CLOCK + '[mcpServers.new]\ncommand = "x"\n[mcpServers.off]\ncommand = "x"\ndisabled = true\n')
    assert len(clock.run(tools).data) == 2
    assert clock.warnings() == "Server new is not synced (Run: pflow mcp sync new)"
    assert clock.run(tools, "new").data == []
    clock.write(CLOCK + 'tools = { deny = ["now"] }\nrename = { list_zones = "zones" }\n')
    assert [row["node"] for row in clock.run(tools).data] == ["mcp-clock-zones"]


def test_info_shows_everything_about_a_node(clock):
    report = clock.run(info, "mcp-clock-list-zones")
    assert report.data["node"] == "mcp-clock-list-zones"
    assert {key: it for key, it in report.data["sync"].items() if key not in ("synced_at", "hash")} == {
        "server_name": "",
        "server_version": "2.1",
        "protocol": "2025-11-25",
        "annotations": {},
    }
    assert report.data["sync"]["hash"].startswith("sha256:")
    text = report.render()
    for part in (
        "All of them.",
        "list_zones of server clock",
        "Server    2.1, protocol 2025-11-25",
        'region  str, default "eu", one of "eu", "us"',
        "limit   int | None, required",
        "    Where",
        "Purity    impure: every run calls it, and its results are never kept",
        "zones           list",
        "impure",
        "rate_limited",
    ):
        assert part in text


def test_info_takes_an_alias_and_explains_what_is_not_there(clock):
    assert clock.run(info, "mcp-clock-list_zones").data["node"] == "mcp-clock-list-zones"
    with pytest.raises(McpError, match="Tool nope not found on server clock") as caught:
        clock.run(info, "mcp-clock-nope")
    assert caught.value.suggestions == ("See its tools: pflow mcp tools clock",)
    with pytest.raises(McpError, match="echo is not a tool of an MCP server"):
        clock.run(info, "echo")


@pytest.mark.parametrize(
    ("word", "step"),
    [
        ("clock", "To list the tools of server clock: pflow mcp tools clock"),
        ("mcp-clock-list-zone", "Did you mean mcp-clock-list-zones?"),
        ("list_zone", "Did you mean mcp-clock-list-zones?"),
        ("", "See them: pflow mcp tools"),
    ],
)
def test_info_leads_from_what_is_no_tool_to_what_may_be_meant(clock, word, step):
    with pytest.raises(McpError) as caught:
        clock.run(info, word)
    assert caught.value.suggestions == (step,)


def test_a_changed_tool_is_marked(desk):
    desk.write('[mcpServers.a]\ncommand = "x"\n')
    before = Tool(name="close", description="Close a ticket.", annotations={"destructiveHint": True})
    desk.sync(before, Tool(name="list"))
    desk.sync(attrs.evolve(before, annotations={"readOnlyHint": True}), Tool(name="list"))
    report = desk.run(tools)
    assert report.data[0]["changed"] == "changed since it was approved (see: pflow mcp diff a)"
    assert "changed" not in report.data[1]
    assert "~ changed (see: pflow mcp diff a) Close a ticket." in report.render()
    shown = desk.run(info, "mcp-a-close")
    assert shown.render().startswith("Not approved as it is now (see: pflow mcp info --new mcp-a-close)")
    assert shown.data["sync"]["annotations"] == {"destructiveHint": True}
    new = desk.run(info, "mcp-a-close", "--new")
    assert "Nobody has approved what follows" in new.render()
    assert new.data["sync"]["annotations"] == {"readOnlyHint": True}
    assert "note" not in desk.run(info, "mcp-a-list").data


def test_a_tool_is_described_by_its_name_alone_or_with_its_server_but_one_of_two_servers_is_not(clock):
    by_node = clock.run(info, "mcp-clock-list-zones").data
    assert clock.run(info, "clock.list_zones").data == clock.run(info, "list_zones").data == by_node
    assert by_node["example"] == {"id": "list_zones", "type": "mcp-clock-list-zones", "params": {"limit": 1}}
    clock.write(CLOCK + '[mcpServers.watch]\ncommand = "python"\n')
    clock.store("watch", Tool(name="now"))
    with pytest.raises(McpError, match="2 servers have a tool now") as failure:
        clock.run(info, "now")
    assert failure.value.suggestions == ("Name its node: mcp-clock-now or mcp-watch-now",)


def test_the_inside_of_objects_and_lists_is_shown(clock):
    label = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    schema = {
        "type": "object",
        "properties": {"labels": {"type": "array", "items": {"$ref": "#/$defs/label"}}},
        "$defs": {"label": label},
        "dependentSchemas": {"labels": {"properties": {"more": {"type": "integer", "minimum": 2}}}},
    }
    clock.store("clock", Tool(name="tag", input_schema=schema))
    shown = clock.run(info, "tag").render()
    assert "  labels  list\n            []  dict\n              name  str, required\n" in shown
    assert "  more    int, at least 2\n" in shown
    assert 'In a workflow\n  {"id": "tag", "type": "mcp-clock-tag", "params": {}}' in shown
