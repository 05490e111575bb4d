"""`pflow mcp remove`, `enable` and `disable`, run as a host runs them."""

import pytest

from pflow_mcp_plugin.cli.approve import approve, diff
from pflow_mcp_plugin.cli.audit import audit
from pflow_mcp_plugin.cli.auth import auth
from pflow_mcp_plugin.cli.configured_servers import disable, enable, remove
from pflow_mcp_plugin.cli.login import login, logout
from pflow_mcp_plugin.cli.server_health import logs
from pflow_mcp_plugin.cli.server_health import test as cli_test
from pflow_mcp_plugin.cli.sync import sync
from pflow_mcp_plugin.cli.tools import tools
from pflow_mcp_plugin.client.oauth.sign_in_store import SignInStore
from pflow_mcp_plugin.config.locations import sign_in_folder
from pflow_mcp_plugin.discovery.servers import catalog
from pflow_mcp_plugin.errors import McpError
from pflow_mcp_plugin.types import Tool

TWO = '[mcpServers.clock]\ncommand = "a"\n[mcpServers.web]\ntype = "http"\nurl = "https://example.com"\n'


def test_config_and_tools_of_a_server_go_and_the_registry_is_told(desk):
    desk.write(TWO)
    desk.store("clock", Tool(name="now"))
    report = desk.run(remove, "clock")
    assert list(desk.raw()["mcpServers"]) == ["web"]
    assert desk.refreshed == ["mcp"]
    assert report.data == {"removed": "clock", "forgot_tools": True, "warnings": []}
    assert report.render() == "Removed server clock and its tools"
    desk.store("gone")  # which was taken out by hand
    assert desk.run(remove, "gone").data["forgot_tools"]
    assert catalog(desk).servers() == ()


def test_a_name_that_passes_to_the_tool_of_another_server_is_told(desk):
    desk.write('[mcpServers.a]\ncommand = "a"\n[mcpServers.a-b]\ncommand = "b"\n')
    desk.store("a", Tool(name="b-c"))
    desk.store("a-b", Tool(name="c"), Tool(name="d"))
    (warning,) = desk.run(remove, "a").data["warnings"]
    assert warning["message"] == "mcp-a-b-c, a name that a claimed too, is now c of a-b"
    assert catalog(desk).find("mcp-a-b-c").server == "a-b"


WEB = '[mcpServers.web]\ntype = "http"\nurl = "https://example.com/mcp"\nauth = { type = "oauth" }\n'


def stored(desk):
    return [entry.sign_in.server_url for entry in SignInStore(sign_in_folder(desk.paths)).entries()]


def test_the_sign_in_of_a_server_goes_with_it_and_that_is_told(desk, signed_in):
    desk.write(WEB)
    signed_in()
    signed_in(url="https://other.example/mcp", server="other")
    report = desk.run(remove, "web")
    assert stored(desk) == ["https://other.example/mcp"]
    assert [each["url"] for each in report.data["sign_ins"]] == ["https://example.com/mcp"]
    assert "Signed out of server web: https://example.com/mcp" in report.render()


def test_a_sign_in_that_another_server_uses_stays(desk, signed_in):
    desk.write(WEB + WEB.replace("web", "same"))
    signed_in()
    report = desk.run(remove, "web")
    assert stored(desk) == ["https://example.com/mcp"]
    assert report.data == {"removed": "web", "forgot_tools": False, "warnings": []}
    assert report.render() == "Removed server web\nIts sign-in stays, as server same uses it"
    desk.run(remove, "same")
    assert stored(desk) == []


def test_the_sign_in_of_a_server_stays_if_the_server_cannot_be_removed(desk, signed_in):
    desk.write(WEB)
    signed_in(server="wep")
    with pytest.raises(McpError):
        desk.run(remove, "wep")
    assert stored(desk) == ["https://example.com/mcp"]


def test_several_are_removed_at_once_or_none(desk):
    desk.write(TWO)
    with pytest.raises(McpError, match="Server wbe not configured"):
        desk.run(remove, "clock", "wbe")
    assert list(desk.raw()["mcpServers"]) == ["clock", "web"]
    report = desk.run(remove, "clock", "web", "clock")
    assert [each["removed"] for each in report.data["servers"]] == ["clock", "web"]
    assert report.render() == "Removed server clock\nRemoved server web"
    assert desk.raw().get("mcpServers", {}) == {}


def test_servers_are_switched_off_and_on_again_and_the_registry_is_told(desk):
    desk.write(TWO)
    report = desk.run(disable, "clock", "web", "clock")
    assert [table["disabled"] for table in desk.raw()["mcpServers"].values()] == [True, True]
    assert report.data == {"disabled": True, "servers": ["clock", "web"], "changed": ["clock", "web"]}
    assert report.render() == "Disabled server clock\nDisabled server web"
    report = desk.run(enable, "clock")
    assert desk.raw()["mcpServers"]["clock"] == {"command": "a"}
    assert report.render() == "Enabled server clock"
    assert desk.run(enable, "clock").render() == "Server clock is already enabled"
    assert desk.refreshed == ["mcp", "mcp"]


def test_of_several_all_are_switched_or_none(desk):
    desk.write(TWO)
    with pytest.raises(McpError) as caught:
        desk.run(disable, "clock", "wbe")
    assert caught.value.suggestions == ("Did you mean web?",)
    assert "disabled" not in desk.raw()["mcpServers"]["clock"]


@pytest.mark.parametrize(
    "command", [approve, audit, auth, cli_test, diff, login, logout, logs, remove, sync, tools]
)
def test_every_command_answers_an_unknown_server_with_the_nearest(desk, command):
    desk.write(TWO)
    with pytest.raises(McpError, match="Server clok not configured in ") as caught:
        desk.run(command, "clok")
    assert caught.value.suggestions == ("Did you mean clock?",)
