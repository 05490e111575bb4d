"""`pflow mcp audit`."""

from __future__ import annotations

import pytest

from pflow_mcp_plugin.cli.audit import audit
from pflow_mcp_plugin.cli.dependencies import catalog
from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.types import Tool

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
