"""`pflow mcp test`, run as a host runs it on real servers, and `pflow mcp logs`."""

from __future__ import annotations

import os
import sys

import pytest
import stdio_server
from http_server import FaultServer, well

from pflow_mcp_plugin.cli import server_health as testing
from pflow_mcp_plugin.cli.server_health import logs
from pflow_mcp_plugin.cli.sync import sync
from pflow_mcp_plugin.client.server_process import keep_stderr
from pflow_mcp_plugin.config.locations import stderr_folder
from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.errors import McpError

PLAIN = f'[mcpServers.it]\ncommand = "{sys.executable}"\nargs = ["{stdio_server.__file__}", "Plain"]\n'

pytestmark = pytest.mark.usefixtures("no_leftovers")


def test_each_phase_is_timed_and_nothing_is_kept(desk):
    desk.write(PLAIN)
    report = desk.run(testing.test, "it")
    assert report.error is None
    assert list(report.data["milliseconds"]) == ["start", "handshake", "list"]
    assert report.data["tools"] == 1
    assert report.data["protocol"]
    assert report.data["memory_mb"] is None or report.data["memory_mb"] > 1
    assert report.data["sync_due"]
    assert report.render().startswith("it: works")
    assert "pflow mcp sync it" in report.render()
    desk.run(sync, "it")
    assert not desk.run(testing.test, "it").data["sync_due"]


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
    assert desk.run(testing.test, "web").error.exit_code == 3


@pytest.fixture
def kept(desk):
    """Two files of a server, the older one written first."""
    desk.write('[mcpServers.clock]\ncommand = "a"\n')
    folder = stderr_folder(desk.paths)
    paths = [keep_stderr(folder, "clock", text) for text in ("first\n", "second \x1b[31mred\n")]
    for age, path in enumerate(paths):
        os.utime(path, (age, age))
    return paths


def test_the_newest_is_shown_without_what_a_terminal_would_obey_or_all_oldest_first(desk, kept):
    report = desk.run(logs, "clock")
    assert report.data == [{"path": str(kept[1]), "text": "second \x1b[31mred\n"}]
    assert "\x1b" not in report.render()
    assert report.render().startswith(f"{kept[1]}\nsecond ")
    assert [item["path"] for item in desk.run(logs, "clock", "--all").data] == [str(path) for path in kept]


def test_of_a_server_without_any_it_says_what_is_kept_and_where(desk):
    desk.write('[mcpServers.clock]\ncommand = "a"\n')
    shown = desk.run(logs, "clock").render()
    assert shown.startswith("No stderr of server clock is kept. ")
    assert str(stderr_folder(desk.paths) / "clock") in shown
    assert "pflow mcp test clock; " in shown
