"""`pflow mcp enable` and `disable`, run as a host runs them."""

from __future__ import annotations

import pytest

from pflow_mcp_plugin.cli.approve import approve, diff
from pflow_mcp_plugin.cli.audit import audit
from pflow_mcp_plugin.cli.auth import auth, logout
from pflow_mcp_plugin.cli.configured_servers import disable, enable, remove
from pflow_mcp_plugin.cli.server_health import logs
from pflow_mcp_plugin.cli.server_health import test as cli_test
from pflow_mcp_plugin.cli.sync import sync
from pflow_mcp_plugin.cli.tools import tools
from pflow_mcp_plugin.errors import McpError

TWO = '# mine\n[mcpServers.clock]\ncommand = "a"\n[mcpServers.web]\ntype = "http"\nurl = "https://example.com"\n'


def test_servers_are_switched_off_and_on_again_and_the_registry_is_told(desk):
    desk.write(TWO)
    report = desk.run(disable, "clock", "web", "clock")
    assert {name: table["disabled"] for name, table in desk.raw()["mcpServers"].items()} == {
        "clock": True,
        "web": True,
    }
    assert report.data == {"disabled": True, "servers": ["clock", "web"], "changed": ["clock", "web"]}
    assert report.render() == "Disabled server clock\nDisabled server web"
    report = desk.run(enable, "clock")
    assert desk.raw()["mcpServers"]["clock"] == {"command": "a"}
    assert report.render() == "Enabled server clock"
    assert desk.refreshed == ["mcp", "mcp"]


def test_what_is_so_already_is_told_and_nothing_is_written(desk):
    desk.write(TWO)
    report = desk.run(enable, "web")
    assert report.render() == "Server web is already enabled"
    assert desk.refreshed == []


def test_of_several_all_are_switched_or_none(desk):
    desk.write(TWO)
    with pytest.raises(McpError) as caught:
        desk.run(disable, "clock", "wbe")
    assert caught.value.suggestions == ("Did you mean web?",)
    assert "disabled" not in desk.raw()["mcpServers"]["clock"]


@pytest.mark.parametrize("command", [approve, audit, auth, cli_test, diff, logout, logs, remove, sync, tools])
def test_every_command_answers_an_unknown_server_with_the_nearest(desk, command):
    desk.write(TWO)
    with pytest.raises(McpError, match="Server clok not configured in ") as caught:
        desk.run(command, "clok")
    assert caught.value.suggestions == ("Did you mean clock?",)
