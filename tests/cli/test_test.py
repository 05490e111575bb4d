"""`pflow mcp test`, run as a host runs it, on real servers."""

from __future__ import annotations

import sys

import pytest
from http_server import FaultServer, well

from pflow_mcp_plugin.cli import server_health as testing
from pflow_mcp_plugin.cli.sync import sync
from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.errors import McpError

DEMO = (
    f'[mcpServers.demo]\ncommand = "{sys.executable}"\nargs = ["-m", "pflow_mcp_plugin.server.demo_server"]\n'
)

pytestmark = pytest.mark.usefixtures("no_leftovers")


@pytest.mark.slow
def test_each_phase_is_timed_and_nothing_is_kept(desk):
    desk.write(DEMO)
    report = desk.run(testing.test, "demo")
    assert report.error is None
    assert list(report.data["milliseconds"]) == ["start", "handshake", "list"]
    assert report.data["tools"] > 3
    assert report.data["protocol"]
    assert report.data["memory_mb"] is None or report.data["memory_mb"] > 1
    assert report.data["sync_due"]
    assert report.render().startswith("demo: works")
    assert "pflow mcp sync demo" in report.render()
    desk.run(sync, "demo")
    assert not desk.run(testing.test, "demo").data["sync_due"]


def test_a_server_that_does_not_start_is_exit_code_3_with_the_phase(desk):
    desk.write(f'[mcpServers.bad]\ncommand = "{sys.executable}"\nargs = ["-c", "raise SystemExit(3)"]\n')
    report = desk.run(testing.test, "bad")
    assert report.error.exit_code == 3
    assert "exited 3" in report.error.message
    assert report.error.where.phase in ("start", "handshake")


def test_insecure_allows_plain_http_to_another_machine_in_this_test_only(desk):
    with FaultServer(well) as server:
        desk.write(f'[mcpServers.web]\ntype = "http"\nurl = "{server.url("0.0.0.0")}"\n')
        with pytest.raises(McpError, match="uses plain http") as caught:
            desk.run(testing.test, "web")
        assert caught.value.exit_code == 2
        assert server.connections == 0
        assert desk.run(testing.test, "web", "--insecure").data["tools"] == 1
    assert "insecure" not in desk.raw()["mcpServers"]["web"]


@pytest.mark.parametrize(
    ("table", "match"),
    [
        ('command = "x"', "server web is reached over stdio"),
        ('type = "uds"\npath = "/x"', "server web is reached over uds"),
        ('type = "http"\nurl = "https://example.com"', "the URL uses https"),
    ],
)
def test_insecure_is_refused_for_anything_but_plain_http(desk, table, match):
    desk.write(f"[mcpServers.web]\n{table}\n")
    with pytest.raises(PflowError, match=f"--insecure allows plain http.* {match}") as caught:
        desk.run(testing.test, "web", "--insecure")
    assert caught.value.exit_code == 2


def test_a_host_outside_the_rules_is_exit_code_2_and_an_address_3(desk):
    denied = '[network]\ndeny = ["*.example.com"]\n'
    desk.write(f'{denied}[mcpServers.web]\ntype = "http"\nurl = "https://mcp.example.com"\n')
    with pytest.raises(McpError, match=r"host mcp\.example\.com is denied by deny") as caught:
        desk.run(testing.test, "web")
    assert caught.value.exit_code == 2
    desk.write('[mcpServers.web]\ntype = "http"\nurl = "https://2130706433"\n')
    report = desk.run(testing.test, "web")
    assert report.error.exit_code == 3
