"""`pflow mcp add PRESET`: inputs given, asked for or missing; secrets; programs that are not on PATH."""

import sys
import tomllib
from types import SimpleNamespace

import pytest
import stdio_server
from programs import executable
from screen import run_on_terminal

from pflow_mcp_plugin.cli.add import add
from pflow_mcp_plugin.cli.sync import sync
from pflow_mcp_plugin.contract import PflowError, hookimpl
from pflow_mcp_plugin.types import ServerPreset

SECRET = "s3cret-value"


class Notes:
    """Settings that are kept in memory."""

    def __init__(self, **values):
        self.values = values

    def get(self, key):
        return self.values.get(key)

    def set(self, key, value):
        self.values[key] = value


@pytest.fixture(autouse=True)
def _no_tokens(monkeypatch):
    for name in ("GITHUB_TOKEN", "CONTEXT7_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def register(desk, *presets, plugin="acme-plugin"):
    desk.manager.register(SimpleNamespace(pflow_mcp_presets=hookimpl(lambda host: presets)), plugin)


def acme(**fields):
    """A preset of a server with one tool."""
    given = {"name": "acme", "title": "Acme", "description": "Does it", "command": sys.executable}
    return ServerPreset(**given, args=(stdio_server.__file__, "Plain"), **fields)


def test_a_preset_is_added_with_its_input_and_shown_in_full(desk, tmp_path):
    words = ("filesystem", "--name", "work", "--trust-readonly", "--input", f"folder={tmp_path}")
    report = desk.run(add, *words)
    ((name, table),) = desk.raw()["mcpServers"].items()
    assert (name, table["command"], table["args"][-1]) == ("work", "npx", str(tmp_path))
    assert (table["preset"], table["trust_readonly"]) == ("filesystem", True)
    assert f"server-filesystem@2026.8.31 {tmp_path}" in report.render()
    assert report.data["added"] == ["work"]
    again = desk.run(add, *words)
    assert (again.data["added"], again.data["replaced"]) == ([], [])


def test_a_given_secret_goes_to_the_settings_and_never_into_the_config(desk, monkeypatch):
    desk.settings = Notes()
    report = desk.run(add, "github", "--input", f"GITHUB_TOKEN={SECRET}")
    assert desk.settings.values == {"GITHUB_TOKEN": SECRET}
    assert SECRET not in (desk.paths.config / "mcp-servers.toml").read_text()
    assert desk.raw()["mcpServers"]["github"]["headers"] == {"Authorization": "Bearer ${GITHUB_TOKEN}"}
    assert "setting  GITHUB_TOKEN is saved" in report.render()
    assert SECRET not in report.render() + str(report.data) + desk.warnings()
    monkeypatch.setenv("GITHUB_TOKEN", "another")
    desk.run(add, "github", "--name", "more", "--input", f"GITHUB_TOKEN={SECRET}")
    assert "GITHUB_TOKEN is set in the environment too" in desk.warnings()


def test_a_secret_that_is_set_is_only_referred_to(desk, monkeypatch):
    desk.settings = Notes(GITHUB_TOKEN=SECRET)
    assert desk.run(add, "github").data["settings"] == []
    desk.settings = Notes()
    monkeypatch.setenv("WORK_TOKEN", SECRET)
    desk.run(add, "github", "--name", "work", "--input", "GITHUB_TOKEN=${WORK_TOKEN}")
    assert desk.raw()["mcpServers"]["work"]["headers"] == {"Authorization": "Bearer ${WORK_TOKEN}"}
    assert desk.settings.values == {}


def test_a_secret_that_another_server_uses_is_not_replaced(desk):
    desk.settings = Notes()
    desk.run(add, "github", "--input", f"GITHUB_TOKEN={SECRET}")
    config = desk.raw()
    with pytest.raises(PflowError, match="it would change GITHUB_TOKEN for github") as refused:
        desk.run(add, "github", "--name", "work", "--input", "GITHUB_TOKEN=another")
    (step,) = refused.value.suggestions
    assert "pflow settings set WORK_GITHUB_TOKEN -" in step
    assert "--input 'GITHUB_TOKEN=${WORK_GITHUB_TOKEN}'" in step
    assert (refused.value.exit_code, desk.raw()) == (2, config)
    assert desk.settings.values == {"GITHUB_TOKEN": SECRET}
    desk.run(add, "github", "--input", "GITHUB_TOKEN=renewed")
    desk.run(add, "github", "--name", "same", "--input", "GITHUB_TOKEN=renewed")
    assert desk.settings.values == {"GITHUB_TOKEN": "renewed"}


def test_without_settings_a_secret_is_refused_and_nothing_is_added(desk):
    with pytest.raises(PflowError, match="cannot save GITHUB_TOKEN") as refused:
        desk.run(add, "github", "--input", f"GITHUB_TOKEN={SECRET}")
    assert refused.value.suggestions[0].startswith("export GITHUB_TOKEN=")
    assert not (desk.paths.config / "mcp-servers.toml").exists()


def test_a_server_that_is_not_from_this_preset_is_not_replaced_but_that_of_the_tour_is(desk, tmp_path):
    desk.run(add, "git", "--", sys.executable)
    with pytest.raises(PflowError, match="already configured, and not from the preset git") as refused:
        desk.run(add, "git", "--input", f"repository={tmp_path}")
    assert "pflow mcp add git --name NAME" in refused.value.suggestions
    assert desk.raw()["mcpServers"]["git"]["command"] == sys.executable
    desk.run(add, "demo", "--", sys.executable, "-P", "-m", "pflow_mcp_plugin.server.demo_server")
    assert desk.run(add, "demo").data["replaced"] == ["demo"]
    assert desk.raw()["mcpServers"]["demo"]["preset"] == "demo"


@pytest.mark.parametrize(
    "words",
    [
        ("fetch", "--name", "My Fetch"),
        ("git", "--env", "A=b"),
        ("git", "--input", "repositry=x"),
        ("playwright", "--input", "browser=lynx"),
        ("clock", "--input", "a=b", "--", "date"),
        ("clock", "--name", "b", "--", "date"),
        ("playwrigt",),
    ],
)
def test_what_does_not_fit_is_a_mistake_of_usage(desk, words):
    with pytest.raises(PflowError) as refused:
        desk.run(add, *words)
    assert refused.value.exit_code == 2
    assert refused.value.suggestions
    assert not (desk.paths.config / "mcp-servers.toml").exists()


def test_a_preset_wins_over_a_file_of_its_name_and_other_files_are_read(desk, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("fetch", "mine"):
        (tmp_path / name).write_text('{"other": {"command": "date"}}')
    desk.run(add, "fetch")
    assert [*desk.raw()["mcpServers"]] == ["fetch"]
    desk.run(add, "mine")
    assert [*desk.raw()["mcpServers"]] == ["fetch", "other"]


def test_a_program_that_only_a_version_manager_has_is_started_by_its_full_path(desk, tmp_path, monkeypatch):
    npx = executable(tmp_path / ".nvm/versions/node/v20.1.0/bin/npx", "#!/usr/bin/env node\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("SHELL", "")
    report = desk.run(add, "memory")
    table = desk.raw()["mcpServers"]["memory"]
    assert table["command"] == str(npx)
    assert table["env"] == {"PATH": f"{npx.parent}:${{PATH}}"}
    assert "full path that nvm has for it" in desk.warnings()
    assert str(npx) in report.render()
    desk.run(add, "mine", "--", "npx", "-y", "acme")
    assert f"give its full path, {npx}" in desk.warnings()


def test_a_missing_runner_is_warned_of_with_where_to_get_it(desk, tmp_path, monkeypatch):
    for name in ("HOME", "PATH"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("SHELL", "")
    desk.run(add, "memory")
    assert "Command not found: npx" in desk.warnings()
    assert "https://nodejs.org" in desk.warnings()
    failed = desk.run(sync, "memory").error
    assert failed.message.startswith("Command not found: npx")
    assert "https://nodejs.org" in failed.suggestions[0]


def test_other_tools_than_the_preset_declares_are_warned_of_at_each_sync(desk, no_leftovers):
    register(desk, acme(manifest_hash="sha256:" + "0" * 64))
    desk.run(add, "acme", "--sync")
    assert "Server acme has other tools than its preset acme (plugin acme-plugin) declares" in desk.warnings()
    desk.problems.clear()
    desk.run(sync, "acme")
    assert "instead of sha256:000000000000" in desk.warnings()
    desk.problems.clear()
    desk.manager.unregister(name="acme-plugin")  # it is synced as before if its preset is gone
    assert desk.run(sync, "acme").error is None
    assert desk.problems == []


def test_missing_inputs_are_asked_for_on_a_terminal_and_secrets_are_not_echoed(pflow_home):
    answers = {"Personal access token": SECRET}
    screen = run_on_terminal("mcp", "add", "github", home=pflow_home, answers=answers).shown
    assert "Added server github" in screen
    assert SECRET not in screen
    config = pflow_home / "config"
    assert tomllib.loads((config / "mcp-servers.toml").read_text())["mcpServers"]["github"]["headers"]
    assert SECRET not in (config / "mcp-servers.toml").read_text()
    assert SECRET in (config / "settings.json").read_text()


def test_a_plain_input_is_asked_for_on_a_terminal_only(pflow_home, tmp_path, typed):
    answers = {"The folder it may use": str(tmp_path)}
    screen = run_on_terminal("mcp", "add", "filesystem", "--json", home=pflow_home, answers=answers)
    assert '"success": true' in screen.shown
    failed = typed("mcp", "add", "filesystem", "--name", "more", "--json")
    assert failed.exit_code == 2
    assert failed.envelope["error"]["details"]["missing"] == ["folder"]
