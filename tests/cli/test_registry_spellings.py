"""The older spellings below `pflow registry`, run as a host runs them."""

import json
import sys

import pytest
import stdio_server

from pflow_mcp_plugin.cli import registry_spellings
from pflow_mcp_plugin.contract import PflowError

SERVER = {"command": sys.executable, "args": [stdio_server.__file__, "Plain"]}
DEMO = f"[mcpServers.demo]\ncommand = {json.dumps(sys.executable)}\nargs = {json.dumps(SERVER['args'])}\n"

pytestmark = pytest.mark.usefixtures("no_leftovers")


@pytest.mark.parametrize(
    ("options", "table"),
    [
        (
            ("--command", "gh 'a b'", "--tool", "search_code", "--env", "TOKEN=${T}", "--cwd", "/srv"),
            {
                "command": "gh",
                "args": ["a b"],
                "cwd": "/srv",
                "env": {"TOKEN": "${T}"},
                "tools": {"allow": ["search_code"]},
            },
        ),
        (
            ("--url", "https://a.example/sse", "--transport", "sse", "--bearer", "${T}", "-H", "x: y"),
            {
                "type": "sse",
                "url": "https://a.example/sse",
                "headers": {"x": "y"},
                "auth": {"type": "bearer", "token": "${T}"},
            },
        ),
        (
            ("--command", "gh", "--path", "/run/gh.sock", "--transport", "uds"),
            {"type": "uds", "path": "/run/gh.sock", "command": "gh"},
        ),
    ],
)
def test_a_server_is_added_with_the_options_of_mcp_add(desk, options, table):
    assert desk.run(registry_spellings.add_mcp, "--server", "github", *options).error is None
    assert desk.raw()["mcpServers"]["github"] == table


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "either --command or --url"),
        (("--command", "a", "--url", "https://example.com"), "either --command or --url"),
        (("--command", "'a"), "cannot be read"),
        (("--command", "  "), "is empty"),
        (("--command", "gh", "--bearer", "x"), "cannot be used with"),
        (("--path", "/s", "--env", "A=b"), "cannot be used with"),
    ],
)
def test_what_is_no_server_is_refused(desk, options, message):
    with pytest.raises(PflowError, match=message):
        desk.run(registry_spellings.add_mcp, "--server", "github", *options)


@pytest.fixture
def older(tmp_path):
    path = tmp_path / "mcp-servers.json"
    servers = {"demo": {"transport": "stdio", **SERVER}, "My Server": {"transport": "stdio", "command": "x"}}
    path.write_text(json.dumps({"servers": servers}), encoding="utf-8")
    return path


def test_a_config_is_migrated_with_a_backup_and_stays_and_so_does_another_server_of_a_name(desk, older):
    config = desk.write('[mcpServers.kept]\ncommand = "k"\n')
    report = desk.run(registry_spellings.migrate_mcp, "--from", str(older), "--backup", "--dry-run")
    assert "Would add: demo, my-server" in report.render()
    assert [*config.parent.iterdir()] == [config]
    before = older.read_bytes()
    report = desk.run(registry_spellings.migrate_mcp, "--from", str(older), "--backup")
    assert report.error is None
    assert list(desk.raw()["mcpServers"]) == ["kept", "demo", "my-server"]
    assert config.with_name("mcp-servers.toml.bak").read_text() == '[mcpServers.kept]\ncommand = "k"\n'
    assert report.data["added"] == ["demo", "my-server"]
    assert "'My Server' is renamed to my-server" in desk.warnings()
    assert before == older.read_bytes()
    report = desk.run(registry_spellings.migrate_mcp, "--from", str(older))
    assert report.data["added"] == report.data["differing"] == []
    assert report.data["kept"] == ["demo", "my-server"]
    desk.write('[mcpServers.demo]\ncommand = "mine"\n')
    report = desk.run(registry_spellings.migrate_mcp, "--from", str(older))
    assert desk.raw()["mcpServers"]["demo"] == {"command": "mine"}
    assert (report.data["kept"], report.data["differing"]) == (["demo"], ["demo"])
    assert "left unchanged: demo" in report.render()


def test_refresh_syncs_one_server(desk):
    desk.write(DEMO + '[mcpServers.other]\ncommand = "no-such-program"\n')
    report = desk.run(registry_spellings.refresh, "--mcp-server", "demo")
    assert [each["server"] for each in report.data] == ["demo"]
    assert report.data[0]["tools_registered"] > 0


def test_all_connections_are_tested_and_the_broken_one_is_named(desk):
    desk.write(
        DEMO + '[mcpServers.off]\ncommand = "x"\ndisabled = true\n[mcpServers.other]\ncommand = "no-such"\n'
    )
    report = desk.run(registry_spellings.test_mcp_connections)
    assert [(each["server"], each["success"]) for each in report.data] == [("demo", True), ("other", False)]
    assert report.error.exit_code == 3
    assert report.error.message == "1 of 2 servers failed: other"
    assert "demo: works" in report.render()
    assert "other: failed: " in report.render()
