"""`pflow mcp remove`, run as a host runs it."""

from __future__ import annotations

import pytest

from pflow_mcp_plugin.cli.dependencies import catalog
from pflow_mcp_plugin.cli.remove import remove
from pflow_mcp_plugin.errors import McpError
from pflow_mcp_plugin.exchange import Listing
from pflow_mcp_plugin.types import ServerInfo, Tool

TWO = '[mcpServers.clock]\ncommand = "a"\n[mcpServers.web]\ntype = "http"\nurl = "https://example.com"\n'


def test_config_and_tools_of_a_server_go_and_the_registry_is_told(desk):
    desk.write(TWO)
    known = catalog(desk)
    known.save("clock", Listing(info=ServerInfo(), tools=(Tool(name="now"),)), "sha256:1")
    report = desk.run(remove, "clock")
    assert list(desk.raw()["mcpServers"]) == ["web"]
    assert known.servers() == ()
    assert desk.refreshed == ["mcp"]
    assert report.data == {"removed": "clock", "forgot_tools": True, "warnings": []}
    assert report.render() == "Removed server clock and its tools"


def test_an_unknown_server_is_answered_with_the_nearest(desk):
    desk.write(TWO)
    with pytest.raises(McpError) as caught:
        desk.run(remove, "clok")
    assert caught.value.message == "Server clok not configured"
    assert caught.value.suggestions == ("Did you mean clock?",)


def test_tools_of_a_server_that_was_taken_out_by_hand_can_be_removed(desk):
    catalog(desk).save("gone", Listing(info=ServerInfo()), "sha256:1")
    assert desk.run(remove, "gone").data["forgot_tools"]
    assert catalog(desk).servers() == ()


def test_comments_stay_when_a_server_goes(desk):
    path = desk.write("# mine\n" + TWO)
    desk.run(remove, "clock")
    assert path.read_text(encoding="utf-8").startswith("# mine\n")
    assert not path.with_name("mcp-servers.toml.bak").exists()
