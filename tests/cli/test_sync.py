"""`pflow mcp sync`, run as a host runs it, on real servers."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import pytest
import stdio_server
import tomli_w
from screen import run_on_terminal, screen_lines

from pflow_mcp_plugin.cli import server_sync
from pflow_mcp_plugin.cli.configured_servers import remove
from pflow_mcp_plugin.cli.list import list_servers as list_
from pflow_mcp_plugin.cli.server_health import test as cli_test
from pflow_mcp_plugin.cli.sync import sync
from pflow_mcp_plugin.discovery.servers import catalog, pins
from pflow_mcp_plugin.discovery.tool_sync import Synced
from pflow_mcp_plugin.errors import McpError, Where
from pflow_mcp_plugin.types import Tool

PLAIN = f'[mcpServers.it]\ncommand = "{sys.executable}"\nargs = ["{stdio_server.__file__}", "Plain"]\n'
# Nothing is drawn about what ends at once.
SLOW = (
    f'[mcpServers.it]\ncommand = "sh"\n'
    f'args = ["-c", "sleep 0.8; exec {sys.executable} -m pflow_mcp_plugin.server.demo_server"]\n'
)
BROKEN = '[mcpServers.broken]\ncommand = "no-such-program-anywhere"\n'
ENDS_AT_ONCE = '[mcpServers.broken]\ncommand = "false"\n'

pytestmark = pytest.mark.usefixtures("no_leftovers")


def test_a_server_is_asked_for_its_tools_and_they_are_kept(desk):
    desk.write(PLAIN)
    report = desk.run(sync, "it")
    (row,) = report.data
    assert report.error is None
    assert row["server"] == "it"
    assert row["tools_discovered"] == row["tools_registered"] == len(row["changes"]["added"]) == 1
    assert row["milliseconds"] > 0
    assert desk.refreshed == ["mcp"]
    assert catalog(desk).find("mcp-it-act")
    assert report.render().startswith("it: 1 tool, ")
    assert report.render().endswith("\n  + act")


OFFERS = """
import json
from pathlib import Path
says, version = json.loads(Path(os.environ["OFFERED"]).read_text())
tool = {"description": says, "inputSchema": {"type": "object"}}
state["tools"] = [{**tool, "name": name} for name in ("read_a", "read_b", "write_a")]
state["initialize"] = {**state["initialize"], "serverInfo": {"name": "s", "version": version}}
"""


@pytest.fixture
def offer(desk, tmp_path):
    """Sync a server with three tools, described with these words, and return the lines of the report."""
    program = Path(__file__).parents[1] / "client" / "scripted.py"
    offered = tmp_path / "offered.json"

    def run(says="does", version="1.0", **table):
        offered.write_text(json.dumps([says, version]))
        env = {"AT_START": OFFERS, "OFFERED": str(offered)}
        server = {"command": sys.executable, "args": [str(program), "pass"], "env": env, **table}
        desk.write(tomli_w.dumps({"mcpServers": {"s": server}}))
        return desk.run(sync, "s").render().splitlines()

    return run


def test_what_became_nodes_is_listed_and_what_the_filter_left_out_is_counted(offer):
    first, *others = offer(tools={"allow": ["read_*"]})
    assert first.startswith("s: 2 tools (1 more left out by its filter), ")
    assert others == ["  + read_a", "  + read_b"]


def test_a_new_version_without_a_changed_tool_is_told(offer):
    offer()
    assert offer(version="1.1")[1:] == ["  version 1.1, before 1.0; no tool changed"]
    assert offer(version="1.1")[1:] == ["  nothing changed"]
    assert offer(version="secret words \u200b")[1:] == ["  version unknown, before 1.1; no tool changed"]


def test_a_change_is_told_once_and_until_it_is_approved(offer, monkeypatch):
    offer()
    changed = offer("does it well")
    assert changed[1] == "  read_a: changed since it was approved"
    assert not any("compatible" in line for line in changed)
    assert offer("does it well")[1:3] == ["  nothing changed since the last sync", changed[1]]
    monkeypatch.setattr(server_sync, "is_interactive", lambda: True)
    monkeypatch.setattr(click, "confirm", lambda *_, **__: True)
    assert offer("does it \U000e0041 well")[1] == "  the change is approved"


def test_tools_of_the_same_names_are_told_once_for_two_servers(desk, tmp_path):
    (tmp_path / "script.json").write_text(json.dumps({"tools": [stdio_server.tool("create_issue")]}))
    table = PLAIN.replace("Plain", "Changes") + f"env.SCRIPT = '{tmp_path / 'script.json'}'\n"
    desk.write(table + table.replace("mcpServers.it", "mcpServers.twin"))
    report = desk.run(sync)
    told = [row["server"] for row in report.data for note in row["notes"] if "same names" in note]
    assert told == ["twin"]
    again = desk.run(sync, "it")
    assert [note for note in again.data[0]["notes"] if "same names" in note]


def test_without_a_name_all_are_synced_and_one_that_fails_leaves_the_others(desk):
    desk.write(PLAIN + BROKEN + '[mcpServers.off]\ncommand = "x"\ndisabled = true\n')
    for arguments in ((), ("--all",)):
        report = desk.run(sync, *arguments)
        assert [row["server"] for row in report.data] == ["it", "broken"]
        assert report.error.kind == "connection"
        assert report.error.exit_code == 3
        assert "1 of 2 servers could not be synced: broken" in report.error.message
        assert "Command not found: no-such-program-anywhere" in report.render()
        assert report.error.suggestions == ("Run: pflow mcp test broken",)
    assert "  nothing changed" in report.render()
    desk.write(PLAIN + "[mcpServers.bad]\ncommand = 5\n")  # which is no failed connection
    error = desk.run(sync).error
    assert (error.exit_code, error.kind, error.suggestions) == (2, "validation", ("Put it in quotes",))


def test_what_a_failing_server_wrote_is_kept_in_the_state_folder(desk):
    script = "import sys; [print('line', n, file=sys.stderr) for n in range(99)]; sys.exit(1)"
    desk.write(f'[mcpServers.chatty]\ncommand = "{sys.executable}"\nargs = ["-c", "{script}"]\n')
    for command in (sync, cli_test):
        error = desk.run(command, "chatty").error
        path = Path(error.details["stderr_file"])
        assert path.is_relative_to(desk.paths.state)
        assert len(path.read_text(encoding="utf-8").splitlines()) == 99


def test_a_name_beside_all_or_no_server_at_all_starts_nothing(desk):
    desk.write(PLAIN)
    with pytest.raises(click.UsageError):
        desk.run(sync, "it", "--all")
    assert desk.refreshed == []
    desk.write("")
    assert "pflow mcp add" in desk.run(sync).render()


@pytest.mark.servers
@pytest.mark.parametrize(("answer", "kind"), [("", "sse"), ("n", "http")])
def test_on_a_terminal_only_the_right_type_is_offered_and_the_server_synced_again(
    pflow, pflow_home, hosts, everything_sse, answer, kind
):
    assert pflow("mcp", "add", "old", everything_sse, "--header", "X-Kept: 1").exit_code == 0
    told = pflow("mcp", "sync", "old", stdin="y\n")
    assert 'set type = "sse" for server old' in told.stdout + told.stderr
    assert "Set type" not in told.stdout + told.stderr
    answers = {"Set type": answer}
    screen = run_on_terminal("mcp", "sync", "old", home=pflow_home, answers=answers, started=hosts.append)
    said = screen.shown
    assert screen.exit_code == (0 if kind == "sse" else 3)
    assert 'Set type = "sse" for old in ' in said
    assert ("old: 13 tools" in said) is (kind == "sse")
    table = tomllib.loads((pflow_home / "config" / "mcp-servers.toml").read_text())["mcpServers"]["old"]
    assert (table["type"], table["headers"]) == (kind, {"X-Kept": "1"})


def test_the_right_type_that_the_user_agrees_to_approves_no_tool_that_was_not_shown(desk, monkeypatch):
    desk.write('[mcpServers.a]\ntype = "http"\nurl = "https://example.com/mcp"\n')
    desk.sync(Tool(name="close", description="Old."))
    error = McpError("It speaks SSE", where=Where(server="a", phase="start"), speaks="sse")
    results = iter([lambda: Synced(server="a", error=error), lambda: desk.sync(Tool(name="close"))])
    monkeypatch.setattr(server_sync, "sync_all", lambda names, *_, **__: [next(results)() for _ in names])
    monkeypatch.setattr(server_sync, "is_interactive", lambda: True)
    monkeypatch.setattr("click.confirm", lambda *_, **__: True)
    (row,) = desk.run(sync, "a").data
    assert desk.raw()["mcpServers"]["a"]["type"] == "sse"
    assert (row["first"], row["unapproved"], row["to_approve"]) == (False, "", ["close"])
    assert pins(desk).read("a").tools["close"].description == "Old."


@pytest.mark.slow
def test_on_a_terminal_each_server_says_whether_it_worked(pflow_home, hosts):
    config = pflow_home / "config" / "mcp-servers.toml"
    config.parent.mkdir(parents=True)
    config.write_text(SLOW + BROKEN)
    environment = {"PYTHONIOENCODING": "utf-8", "NO_COLOR": "1"}
    screen = run_on_terminal("mcp", "sync", home=pflow_home, environment=environment, started=hosts.append)
    said = screen.shown
    assert re.search(r"[\u280b-\u283f] it +\d+\.\d s", said)
    assert re.search(r"\u2717 broken +\d+\.\d s  Command not found: ", said)
    assert "\u2717" not in "".join(screen_lines(said))  # the report says it


def test_a_failed_sync_is_listed_until_one_works_or_the_server_is_removed(desk):
    desk.write(ENDS_AT_ONCE)
    desk.run(sync, "broken")
    report = desk.run(list_)
    assert report.data[0]["sync_failure"] == "Server broken exited 1 before the handshake"
    assert re.search(r"^broken +stdio +sync failed ", report.render(), re.MULTILINE)
    assert "    last sync failed: Server broken exited 1 before the handshake" in report.render()
    desk.write(PLAIN.replace("it", "broken", 1))
    desk.run(sync, "broken")
    assert desk.run(list_).data[0]["sync_failure"] is None
    desk.write(ENDS_AT_ONCE)
    desk.run(sync, "broken")
    desk.run(remove, "broken")
    desk.write(ENDS_AT_ONCE)
    assert desk.run(list_).data[0]["sync_failure"] is None


@pytest.mark.parametrize("command", [sync, cli_test])
def test_a_start_may_take_so_long_as_the_option_says(desk, command):
    desk.write(
        f'[mcpServers.slow]\ncommand = "{sys.executable}"\nargs = ["-c", "import time; time.sleep(60)"]\n'
    )
    error = desk.run(command, "slow", "--startup-timeout", "0.2").error
    assert "did not finish its handshake within 0.2 s" in error.message
    assert error.suggestions[0].startswith("raise mcpServers.slow.startup_timeout in /")


@pytest.mark.slow
def test_servers_are_synced_and_used_without_some_of_the_standard_streams(pflow_home):
    (pflow_home / "config").mkdir()
    (pflow_home / "config" / "mcp-servers.toml").write_text(PLAIN)
    for command in ("mcp sync it 2>&-", "mcp it act 0<&- 1>&- 2>&-"):
        line = f"exec {sys.executable} -P -m pflow_mcp_plugin {command}"
        subprocess.run(["/bin/sh", "-c", line], capture_output=True, timeout=60, check=True)
    assert len(list(pflow_home.glob("state/traces/*.json"))) == 1
