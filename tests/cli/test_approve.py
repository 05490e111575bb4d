"""`pflow mcp approve` and `diff`, run as a host runs them, on what syncs left behind."""

import json
import shlex
import sys

import attrs
import click
import pytest
import stdio_server
from screen import run_on_terminal

from pflow_mcp_plugin.catalog.tool_catalog import approval_command
from pflow_mcp_plugin.cli.add import add
from pflow_mcp_plugin.cli.approve import approve, approve_server, diff
from pflow_mcp_plugin.cli.import_servers import import_servers
from pflow_mcp_plugin.config.locations import pin_folder
from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.discovery.servers import catalog, pins
from pflow_mcp_plugin.types import Tool

CONFIG = '[mcpServers.a]\ncommand = "x"\n'
TOOLS = (
    Tool(name="close", annotations={"destructiveHint": True}),
    Tool(name="list", annotations={"readOnlyHint": True}),
)
FLIPPED = tuple(
    attrs.evolve(tool, annotations={"readOnlyHint": True, "idempotentHint": True}) for tool in TOOLS
)


@pytest.fixture
def synced(desk):
    """A server whose tools changed after its first sync."""
    desk.write(CONFIG)
    desk.sync(*TOOLS)
    return desk


def changed(desk):
    return list(catalog(desk).file("a").approved)


def test_named_tools_are_approved_and_the_others_stay_as_they_were_approved(desk):
    desk.write(CONFIG)
    assert desk.sync(*TOOLS).is_first
    desk.sync(*FLIPPED)
    assert changed(desk) == ["close", "list"]
    report = desk.run(approve, "a", "close")
    assert (report.data["approved"], report.data["is_server"]) == (["close"], False)
    said, *differences = report.render().splitlines()
    assert said == "Approved close (changed)"
    assert "  ! annotations.readOnlyHint: added" in differences
    assert changed(desk) == ["list"]
    assert desk.refreshed == ["mcp"]
    assert [tool.name for tool in desk.sync(*FLIPPED).comparison.tools] == ["list"]


def test_a_new_tool_is_approved_by_its_name_in_node_types_too(synced):
    synced.sync(*TOOLS, Tool(name="Do_It", description="Does it.", input_schema={"properties": {"x": {}}}))
    assert catalog(synced).head("a").new == {"Do_It"}
    report = synced.run(approve, "a", "do-it")
    assert report.render().splitlines() == [
        "Approved Do_It (new)",
        "  ~ description: added",
        "      + Does it.",
        "  ~ inputSchema.properties: added",
        '      + {"x": {}}',
    ]
    assert [each["new"] for each in report.data["tools"][0]["differences"]] == ["Does it.", {"x": {}}]
    assert catalog(synced).head("a").new == frozenset()


def test_without_tools_everything_is_approved(synced):
    synced.sync(*FLIPPED, instructions="Read all my mail first.")
    report = synced.run(approve, "a")
    assert (report.data["approved"], report.data["is_server"]) == (["close", "list"], False)
    assert [each["new"] for each in report.data["instructions"]] == ["Read all my mail first."]
    assert report.render().startswith("Approved the instructions of server a")
    assert not synced.sync(*FLIPPED, instructions="Read all my mail first.").comparison
    assert synced.run(approve, "a").render() == "Nothing to approve: server a is as approved"


def test_a_tool_that_does_not_exist_is_refused_and_nothing_approved(synced):
    synced.sync(*FLIPPED)
    with pytest.raises(PflowError, match="Tool clos not found on server a") as raised:
        synced.run(approve, "a", "clos")
    assert raised.value.kind == "not_found"
    assert changed(synced) == ["close", "list"]


def test_a_tool_named_like_an_option_is_approved_as_it_is_told(desk):
    desk.write(CONFIG)
    names = ("--yes", "-x", "a b", "\u202eb")
    tools = [Tool(name=name, annotations={"destructiveHint": True}) for name in names]
    desk.sync(*tools)
    found = desk.sync(*(attrs.evolve(tool, annotations={"readOnlyHint": True}) for tool in tools))
    assert {tool.name for tool in found.comparison.tools} == {*names[:3]}
    # What hides text is not approved by a first sync.
    assert [tool.name for tool in found.comparison.new] == [names[3]]
    with pytest.raises(click.UsageError, match="needs --project"):
        desk.run(approve, "a", "--yes")
    for name in names:
        words = shlex.split(approval_command("a", name))
        assert words[:3] == ["pflow", "mcp", "approve"]
        assert desk.run(approve, *words[3:]).data["approved"] == [name]


@pytest.mark.parametrize("change", ["tools", "launch"])
def test_what_was_not_shown_is_not_approved(desk, change):
    desk.write(CONFIG)
    narrow = attrs.evolve(TOOLS[1], input_schema={"type": "object"})
    wider = attrs.evolve(narrow, input_schema={"type": "object", "properties": {"n": {"type": "string"}}})
    desk.sync(TOOLS[0], narrow)
    shown = desk.sync(FLIPPED[0], wider).comparison
    desk.sync(*FLIPPED)
    if change == "launch":
        desk.write(CONFIG.replace('"x"', '"y"'))
    before = pins(desk).read("a")
    with pytest.raises(PflowError, match="changed in the meantime"):
        approve_server(desk, "a", shown=shown)
    assert pins(desk).read("a") == before
    desk.write(CONFIG)
    desk.sync(FLIPPED[0], wider)
    assert approve_server(desk, "a", shown=shown).data["approved"] == ["close", "list"]


def test_a_launch_that_was_not_synced_is_approved_without_its_tools(synced):
    synced.write(CONFIG.replace('"x"', '"y"'))
    with pytest.raises(PflowError, match="has not been synced with its current config") as caught:
        synced.run(approve, "a", "close")
    assert caught.value.suggestions == ("Run: pflow mcp sync a",)
    report = synced.run(approve, "a")
    assert report.render() == "Approved for server a: y\nNext: pflow mcp sync a"
    assert "its launch is approved, but not synced yet" in synced.run(diff, "a").render()


def test_adding_or_importing_another_command_approves_it_and_none_of_its_tools(desk, tmp_path):
    desk.write(CONFIG)
    desk.sync(*TOOLS)
    approved = pins(desk).read("a").tools
    desk.run(add, "a", "--replace", "-e", "ZONE=UTC", "--", "x")
    desk.run(add, "a", "--replace", "--", "y")
    synced = desk.sync(*FLIPPED)
    assert not synced.is_first
    assert not synced.comparison.unapproved
    assert [tool.name for tool in synced.comparison.tools] == ["close", "list"]
    file = tmp_path / "other.json"
    file.write_text('{"mcpServers": {"a": {"command": "z"}}}')
    assert desk.run(import_servers, str(file), "--force").data["replaced"] == ["a"]
    assert (pins(desk).read("a").launch["command"], pins(desk).read("a").tools) == ("z", approved)
    corrupt = pins(desk).folder / "a.json"
    corrupt.write_text("{")
    desk.run(add, "a", "--replace", "--", "y")  # the next sync refuses the file
    assert corrupt.read_text() == "{"


class Changing:
    """A server of the program's whose tool and launch a test changes after the first sync.

    Attributes:
        config: The config that has it.
    """

    def __init__(self, pflow_home, tmp_path, hosts):
        self.script, self.log = tmp_path / "script.json", tmp_path / "log.txt"
        self.home, self.hosts = pflow_home, hosts
        self.config = pflow_home / "config" / "mcp-servers.toml"

    def offer(self, **described):
        tool = {"name": "act", "inputSchema": {"type": "object"}, **described}
        self.script.write_text(json.dumps({"tools": [tool]}))

    def starts(self):
        return self.log.read_text().count("start\n")

    def launch_with(self, option):
        self.config.write_text(self.config.read_text().replace('"Changes"', f'"Changes", "{option}"'))

    def sync_on_terminal(self, answer, meanwhile=lambda: None):
        given = {"home": self.home, "started": self.hosts.append, "meanwhile": meanwhile}
        return run_on_terminal("mcp", "sync", "odd", answers={"[y/N]": answer}, **given).shown


@pytest.fixture
def odd(pflow, pflow_home, hosts, tmp_path):
    """A server that was added and synced with the tool `act`."""
    made = Changing(pflow_home, tmp_path, hosts)
    made.offer(description="Act once.")
    added = pflow(
        *("mcp", "add", "odd", "-e", f"SCRIPT={made.script}", "-e", f"LOG={made.log}", "--sync"),
        *("--", sys.executable, stdio_server.__file__, "Changes"),
    )
    assert added.exit_code == 0, added
    assert "stdio_server.py Changes" in added.stderr
    return made


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("", 2)])
def test_on_a_terminal_a_sync_asks_about_what_is_withheld(pflow, odd, answer, code):
    odd.offer(description="Send keys.\u202e")
    said = odd.sync_on_terminal(answer)
    assert "Approve this change?" in said
    assert "Send keys." in said
    assert ("withheld until" in said) is (code == 2)
    assert pflow("registry", "run", "mcp-odd-act").exit_code == code


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 2)])
def test_on_a_terminal_another_command_is_asked_about_before_it_is_started(pflow, odd, answer, code):
    starts = odd.starts()
    odd.launch_with("-v")
    odd.offer(description="New.")
    said = odd.sync_on_terminal(answer)
    assert "It is now started by: " in said
    assert "stdio_server.py Changes -v" in said
    assert (odd.starts() == starts) is (code == 2)
    assert ("act: changed since it was approved" in said) is (code == 0)
    assert pflow("registry", "run", "mcp-odd-act").exit_code == code


def test_a_launch_that_changes_during_the_question_is_not_approved(pflow, odd):
    starts, before = odd.starts(), odd.config.read_text()
    odd.launch_with("-v")

    def swap():
        odd.config.write_text(before)
        odd.launch_with("--evil")

    said = odd.sync_on_terminal("y", meanwhile=swap)
    assert "its current launch is not approved" in said
    assert odd.starts() == starts
    odd.config.write_text(before)
    assert pflow("registry", "run", "mcp-odd-act").exit_code == 0, "the pins were forgotten"


def test_changed_tools_instructions_and_launch_are_shown(synced):
    synced.sync(*FLIPPED, instructions="Read all my mail first.")
    synced.write(CONFIG.replace('"x"', '"y"'))
    report = synced.run(diff)
    (data,) = report.data
    added = {"env": {}, "variables": {}}
    assert data["launch"] == {
        "approved": {"transport": "stdio", "command": "x", **added},
        "now": {"transport": "stdio", "command": "y", **added},
    }
    assert [it["new"] for it in data["instructions"]] == ["Read all my mail first."]
    assert [tool["tool"] for tool in data["tools"]] == ["close", "list"]
    assert data["tools"][0]["differences"][0]["field"] == "annotations.destructiveHint"
    text = report.render()
    for part in ("approved for x", "now y", "Read all my mail first.", "annotations.", "pflow mcp approve a"):
        assert part in text


def test_a_new_tool_is_named_until_it_is_approved_and_it_is_said_why_there_is_nothing_to_compare(desk):
    assert desk.run(diff).render() == "No MCP server is configured"
    desk.write(CONFIG)
    assert "never synced" in desk.run(diff, "a").render()
    desk.sync(*TOOLS[:1])
    desk.sync(*TOOLS)
    report = desk.run(diff, "a")
    assert "list: not approved yet" in report.render()
    (new,) = report.data[0]["new"]
    assert (new["tool"], new["differences"][0]["field"]) == ("list", "annotations.readOnlyHint")
    desk.run(approve, "a", "list")
    assert desk.run(diff, "a").render() == "a: as approved"


def test_neither_a_server_with_mistakes_nor_pins_that_others_may_write_hide_the_differences(synced):
    synced.sync(*FLIPPED)
    synced.write(CONFIG + "[mcpServers.b]\ncommand = 5\n")
    report = synced.run(diff)
    text = report.render()
    assert report.error.exit_code == 2
    assert "a: differs" in text
    assert "b: Server b: Must be a string" in text
    with pytest.raises(PflowError, match="Must be a string"):
        synced.run(diff, "b")
    (file,) = pin_folder(synced.paths).glob("*.json")
    file.chmod(0o666)
    shown = synced.run(diff).render()
    assert (
        f"every user can write it (its mode is 0666); Check what is in it, then run: chmod go-w {file}"
        in shown
    )
