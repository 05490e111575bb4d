"""`pflow mcp list`, run as a host runs it."""

from pflow_mcp_plugin.catalog import tool_catalog
from pflow_mcp_plugin.cli.list import list_servers as list_
from pflow_mcp_plugin.discovery.servers import catalog
from pflow_mcp_plugin.types import Tool

CLOCK = '[mcpServers.clock]\ncommand = "sh"\nargs = ["-m", "clock"]\n'


def test_without_servers_the_way_to_the_first_is_shown_and_one_that_was_never_synced_is_due(desk):
    assert "pflow mcp add" in desk.run(list_).render()
    desk.write(CLOCK)
    report = desk.run(list_)
    assert report.data[0] == {
        "name": "clock",
        "source": "user",
        "transport": "stdio",
        "command": "sh",
        "args": ["-m", "clock"],
        "runs": "sh -m clock",
        "disabled": False,
        "tools": None,
        "synced_at": None,
        "sync_due": True,
        "changed": 0,
        "withheld": 0,
        "sync_failure": None,
        "problems": [],
    }
    assert "never synced" in report.render()
    assert "pflow mcp sync clock" in report.render()


def test_a_synced_server_shows_its_tools_until_its_config_changes(desk):
    desk.write(CLOCK)
    desk.store("clock", Tool(name="now"), Tool(name="zones"))
    row = desk.run(list_).data[0]
    assert (row["tools"], row["sync_due"]) == (2, False)
    assert row["synced_at"]
    desk.write(CLOCK + "call_timeout = 5\n")
    assert not desk.run(list_).data[0]["sync_due"]
    desk.write(CLOCK + 'tools = { deny = ["zon*"] }\n')
    assert desk.run(list_).data[0]["tools"] == 1
    desk.write(CLOCK + 'env = { ZONE = "UTC" }\n')
    assert desk.run(list_).data[0]["sync_due"]


def test_a_server_with_mistakes_is_listed_with_them_beside_the_others(desk):
    desk.write(CLOCK + '[mcpServers.web]\nurl = "https://example.com"\n[mcpServers.odd]\ncommand = 3\n')
    report = desk.run(list_)
    assert [row["name"] for row in report.data] == ["clock", "web", "odd"]
    assert report.data[1]["problems"][0]["path"] == "mcpServers.web.type"
    assert [row["sync_due"] for row in report.data] == [True, False, False]
    assert 'Add "type": "http"' in report.render()
    desk.write(CLOCK + "[defaults]\ntools = 3\n")  # which is told once, and fails nothing
    assert desk.run(list_).data[0]["problems"] == []
    assert [(it.path, it.severity) for it in desk.problems] == [("defaults.tools", "warning")]


def test_why_the_last_sync_failed_is_one_line_and_a_command_for_the_rest(desk):
    desk.write(CLOCK)
    known = catalog(desk)
    tool_catalog.keep_failure(
        known.folder_of("clock"), "clock", "Server clock exited 2\nIts stderr:\n  usage: clock"
    )
    report = desk.run(list_)
    lines = report.render().splitlines()
    assert lines[-2:] == ["    last sync failed: Server clock exited 2", "    see: pflow mcp test clock"]
    assert "usage: clock" in report.data[0]["sync_failure"]


def test_a_corrupt_tool_file_is_named_until_the_next_sync(desk):
    desk.write(CLOCK)
    desk.store("clock", Tool(name="now"))
    path = catalog(desk).folder_of("clock") / "clock.json"
    path.write_text("{")
    report = desk.run(list_)
    said = f"The tool file was corrupt and is kept as {path}.corrupt-1"
    assert report.render().splitlines()[-2:] == ["    run: pflow mcp sync clock", f"    {said}"]
    assert [problem["message"] for problem in report.data[0]["problems"]] == [said]
    desk.store("clock", Tool(name="now"))
    assert desk.run(list_).data[0]["problems"] == []


def test_a_disabled_server_is_not_due_and_its_values_are_masked(desk):
    desk.write(CLOCK + 'disabled = true\nenv = { TOKEN = "hidden-value", OTHER = "${OTHER}" }\n')
    report = desk.run(list_)
    (row,) = report.data
    assert (row["disabled"], row["sync_due"]) == (True, False)
    assert row["env"] == {"TOKEN": "****", "OTHER": "${OTHER}"}
    assert "disabled" in report.render()


def test_tools_that_are_not_approved_are_counted(desk):
    config = '[mcpServers.a]\ncommand = "sh"\n'
    desk.write(config)
    desk.sync(Tool(name="close", annotations={"destructiveHint": True}), Tool(name="list"))
    desk.sync(Tool(name="close", annotations={"readOnlyHint": True}), Tool(name="list"))
    report = desk.run(list_)
    assert report.data[0]["changed"] == 1
    first, second = report.render().splitlines()[1:]
    assert first == "a       stdio  2 tools, 1 not approved  just now  sh"
    assert second == "    run: pflow mcp diff a"
    desk.write(config.replace('"sh"', '"ls"'))
    assert desk.run(list_).data[0]["changed"] == 2
    desk.write(config + 'trust = "auto"\n')
    assert desk.run(list_).data[0]["changed"] == 0
