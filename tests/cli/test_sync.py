"""`pflow mcp sync`, run as a host runs it, on real servers."""

from __future__ import annotations

import sys

import click
import pytest

from pflow_mcp_plugin.cli.compose import catalog
from pflow_mcp_plugin.cli.sync import sync
from pflow_mcp_plugin.errors import ServerNotConfigured

DEMO = f'[mcpServers.demo]\ncommand = "{sys.executable}"\nargs = ["-m", "pflow_mcp_plugin.server.demo"]\n'
BROKEN = '[mcpServers.broken]\ncommand = "no-such-program-anywhere"\n'

pytestmark = pytest.mark.usefixtures("no_leftovers")


def test_a_server_is_asked_for_its_tools_and_they_are_kept(desk):
    desk.write(DEMO)
    report = desk.run(sync, "demo")
    (row,) = report.data
    assert report.error is None
    assert row["server"] == "demo"
    assert row["tools_discovered"] == row["tools_registered"] == len(row["changes"]["added"]) > 3
    assert row["milliseconds"] > 0
    assert desk.refreshed == ["mcp"]
    assert catalog(desk).find("mcp-demo-add")
    assert report.render().startswith("demo: ")
    assert "  + add\n" in report.render()


def test_without_a_name_all_are_synced_and_one_that_fails_leaves_the_others(desk):
    desk.write(DEMO + BROKEN + '[mcpServers.off]\ncommand = "x"\ndisabled = true\n')
    for arguments in ((), ("--all",)):
        report = desk.run(sync, *arguments)
        assert [row["server"] for row in report.data] == ["demo", "broken"]
        assert report.error.kind == "connection"
        assert report.error.exit_code == 3
        assert "1 of 2 servers could not be synced: broken" in report.error.message
        assert "Command not found: no-such-program-anywhere" in report.render()
    assert "  nothing changed" in report.render()


def test_the_failure_of_a_single_server_is_told_in_its_own_words(desk):
    desk.write(BROKEN)
    report = desk.run(sync, "broken")
    assert report.error.exit_code == 3
    assert report.error.message.startswith("Command not found: no-such-program-anywhere")


def test_an_unknown_name_stops_before_anything_is_started(desk):
    desk.write(DEMO)
    with pytest.raises(ServerNotConfigured):
        desk.run(sync, "dmo")
    with pytest.raises(click.UsageError):
        desk.run(sync, "demo", "--all")
    assert desk.refreshed == []


def test_without_servers_it_says_how_to_add_one(desk):
    assert "pflow mcp add" in desk.run(sync).render()
