"""`pflow mcp sync`, run as a host runs it, on real servers."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest

from pflow_mcp_plugin.cli.dependencies import catalog
from pflow_mcp_plugin.cli.sync import sync
from pflow_mcp_plugin.cli.test import test as cli_test
from pflow_mcp_plugin.errors import McpError

DEMO = (
    f'[mcpServers.demo]\ncommand = "{sys.executable}"\nargs = ["-m", "pflow_mcp_plugin.server.demo_server"]\n'
)
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


def test_mistakes_in_the_config_of_one_of_several_servers_are_not_told_as_failed_connections(desk):
    desk.write(DEMO + "[mcpServers.bad]\ncommand = 5\n")
    report = desk.run(sync)
    assert (report.error.exit_code, report.error.kind) == (2, "validation")
    assert report.error.suggestions == ("Put it in quotes",)


def test_the_failure_of_a_single_server_is_told_in_its_own_words(desk):
    desk.write(BROKEN)
    report = desk.run(sync, "broken")
    assert report.error.exit_code == 3
    assert report.error.message.startswith("Command not found: no-such-program-anywhere")


def test_what_a_failing_server_wrote_is_kept_in_the_state_folder(desk):
    script = "import sys; [print('line', n, file=sys.stderr) for n in range(99)]; sys.exit(1)"
    desk.write(f'[mcpServers.chatty]\ncommand = "{sys.executable}"\nargs = ["-c", "{script}"]\n')
    for command in (sync, cli_test):
        error = desk.run(command, "chatty").error
        path = Path(error.details["stderr_file"])
        assert path.is_relative_to(desk.paths.state)
        assert len(path.read_text(encoding="utf-8").splitlines()) == 99


def test_an_unknown_name_stops_before_anything_is_started(desk):
    desk.write(DEMO)
    with pytest.raises(McpError):
        desk.run(sync, "dmo")
    with pytest.raises(click.UsageError):
        desk.run(sync, "demo", "--all")
    assert desk.refreshed == []


def test_without_servers_it_says_how_to_add_one(desk):
    assert "pflow mcp add" in desk.run(sync).render()


@pytest.mark.servers
@pytest.mark.parametrize(("answer", "kind"), [("y", "sse"), ("", "sse"), ("n", "http")])
def test_on_a_terminal_the_right_type_is_offered_and_the_server_synced_again(
    pflow, pflow_home, hosts, everything_sse, answer, kind
):
    assert pflow("mcp", "add", "old", everything_sse, "--header", "X-Kept: 1").exit_code == 0
    ours, theirs = os.openpty()
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "pflow_mcp_plugin", "mcp", "sync", "old"],
        env={**os.environ, "PFLOW_HOME": str(pflow_home), "TERM": "xterm"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    ) as run:
        hosts.append(run.pid)
        os.close(theirs)
        os.write(ours, f"{answer}\n".encode())
        said = _read_all(ours)
        assert run.wait(60) == (0 if kind == "sse" else 3)
    os.close(ours)
    assert 'Set type = "sse" for old in ' in said
    assert ("old: 13 tools" in said) is (kind == "sse")
    table = tomllib.loads((pflow_home / "config" / "mcp-servers.toml").read_text())["mcpServers"]["old"]
    assert (table["type"], table["headers"]) == (kind, {"X-Kept": "1"})


@pytest.mark.servers
def test_without_a_terminal_the_right_type_is_named_and_nothing_asked(pflow, everything_http):
    assert pflow("mcp", "add", "new", everything_http, "--type", "sse").exit_code == 0
    done = pflow("mcp", "sync", "new", stdin="y\n")
    assert done.exit_code == 3
    assert 'set type = "http" for server new' in done.stdout + done.stderr
    assert "Set type" not in done.stdout + done.stderr


def _read_all(terminal: int) -> str:
    said = b""
    while True:
        try:
            part = os.read(terminal, 4096)
        except OSError:  # how Linux tells that the other end is closed
            return said.decode()
        said += part
