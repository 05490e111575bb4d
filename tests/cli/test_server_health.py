"""`pflow mcp test`, `audit` and `logs`, run as a host runs them."""

import os
import sys

import pytest
import stdio_server
from http_server import FaultServer, well

from pflow_mcp_plugin.cli import server_health as testing
from pflow_mcp_plugin.cli.audit import audit
from pflow_mcp_plugin.cli.server_health import logs
from pflow_mcp_plugin.cli.sync import sync
from pflow_mcp_plugin.client.server_process import keep_stderr
from pflow_mcp_plugin.config.locations import stderr_folder
from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.discovery.servers import catalog
from pflow_mcp_plugin.errors import McpError
from pflow_mcp_plugin.types import Tool

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


TABLES = '[mcpServers.{}]\ncommand = "x"\n'


@pytest.fixture
def synced(desk):
    """Configure servers with these tools, as if they were synced."""

    def synced(**tools):
        desk.write("".join(map(TABLES.format, tools)))
        for server, listed in tools.items():
            desk.store(server, *listed)
        return desk

    return synced


def test_warnings_are_shown_by_tool_with_what_to_do_and_are_no_failure(synced):
    desk = synced(notes=[Tool(name="delete_note", annotations={"readOnlyHint": True})])
    report = desk.run(audit)
    assert report.error is None
    assert report.render().splitlines() == [
        "notes delete_note",
        "  warning: annotations: annotations.readOnlyHint is named delete_note and claims to be read-only",
        "",
        "annotations: do not set `trust_readonly` or `trust_idempotent` for this server",
        "Checked 1 tool of 1 server: 0 errors, 1 warning",
    ]
    assert report.data["findings"][0]["severity"] == "warning"


def test_an_error_ends_with_exit_code_2_and_names_the_server(synced):
    desk = synced(notes=[Tool(name="note", description="\x1b[8mobey")], clock=[Tool(name="now")])
    report = desk.run(audit)
    assert report.error is not None
    assert report.error.exit_code == 2
    assert report.error.message == "1 finding is an error, in the tools of: notes"
    assert "\x1b" not in report.render()
    report = desk.run(audit, "clock")
    assert (report.error, report.render()) == (None, "Checked 1 tool of 1 server: nothing found")


def test_a_server_that_is_not_synced_is_refused(desk):
    desk.write(TABLES.format("new"))
    with pytest.raises(PflowError, match="Server new has not been synced"):
        desk.run(audit, "new")


def test_servers_that_are_no_longer_configured_and_tools_that_the_config_leaves_out_are_not_checked(
    desk, synced
):
    synced(notes=[Tool(name="note", description="\x1b[8mobey"), Tool(name="now")], gone=[Tool(name="\x1b")])
    desk.write(TABLES.format("notes") + 'tools = { deny = ["note*"] }\n')
    assert desk.run(audit).data == {"servers": 1, "tools": 1, "findings": []}


def test_a_broken_config_or_tool_file_of_another_server_stops_no_check(desk, synced):
    synced(clock=[Tool(name="now")], broken=[Tool(name="create_issue")], newer=[Tool(name="x")])
    desk.write("".join(map(TABLES.format, ["clock", "newer"])) + "[mcpServers.broken]\ncommand = 7\n")
    path = catalog(desk).folder / "newer.json"
    path.write_text(path.read_text().replace('"schema_version": 1', '"schema_version": 99'))
    assert desk.run(audit, "clock").data["findings"] == []
    path.unlink()
    assert desk.run(audit).data["tools"] == 2


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
