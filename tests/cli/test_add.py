"""`pflow mcp add`, run as a host runs it."""

import json
import sys

import click
import pytest
import stdio_server
from programs import executable

from pflow_mcp_plugin.cli.add import add
from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.discovery.servers import catalog
from pflow_mcp_plugin.errors import McpError
from pflow_mcp_plugin.network.certificates import trusting_steps
from pflow_mcp_plugin.plugin import pflow_validate_config
from pflow_mcp_plugin.types import Tool


def test_a_command_after_two_hyphens_is_added_with_its_own_options_and_shown_with_the_next_step(desk):
    options = ("--env", "ZONE=eu", "--env", "ZONE_KEY=secret-zone")
    report = desk.run(add, "clock", *options, "--", sys.executable, "two words", "--json")
    env = {"ZONE": "eu", "ZONE_KEY": "secret-zone"}
    table = {"command": sys.executable, "args": ["two words", "--json"], "env": env}
    assert desk.raw() == {"mcpServers": {"clock": table}}
    assert (report.data["added"], desk.refreshed) == (["clock"], ["mcp"])
    assert report.data["servers"][0]["runs"] == f"{sys.executable} 'two words' --json"
    text = report.render()
    assert f"{sys.executable} 'two words' --json" in text
    assert "ZONE=eu" in text
    assert "ZONE_KEY=****" in text
    assert "secret-zone" not in text
    assert "pflow mcp sync clock" in text


@pytest.mark.parametrize(
    ("words", "field", "variable"),
    [
        (["--bearer", "xoxb-abcdefgh"], "auth.token", "API_TOKEN"),
        (["-H", "Authorization: Bearer abcdefgh12345678"], "headers.Authorization", "SLACK_AUTHORIZATION"),
        (["-H", "X-Api-Key: abcdefgh"], "headers.X-Api-Key", "SLACK_X_API_KEY"),
        (["--env", "API_KEY=abcdefgh"], "env.API_KEY", "API_KEY"),
    ],
)
def test_a_secret_in_a_header_or_a_variable_is_advised_against_by_its_name(desk, words, field, variable):
    place = ["--", sys.executable] if words[0] == "--env" else ["https://mcp.example.com"]
    desk.run(add, "slack", *words, *place)
    assert f"mcpServers.slack.{field}" in desk.warnings()
    assert f"'${{{variable}}}'" in desk.warnings()
    assert "abcdefgh" not in desk.warnings()


def test_a_relative_path_in_a_deleted_folder_is_refused(desk, tmp_path, monkeypatch):
    folder = tmp_path / "deleted"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    with pytest.raises(PflowError, match="The current folder was deleted"):
        desk.run(add, "own", "--", sys.executable, "./server.py")


def test_replacing_says_so_and_repeating_changes_nothing(desk):
    desk.run(add, "clock", "--", sys.executable)
    report = desk.run(add, "clock", "--replace", "--", sys.executable, "-V")
    assert (report.data["added"], report.data["replaced"]) == ([], ["clock"])
    assert report.render().startswith("Replaced server clock")
    report = desk.run(add, "clock", "--", sys.executable, "-V")
    assert (report.data["added"], report.data["replaced"]) == ([], [])
    assert report.render().startswith("Unchanged: server clock")


def test_another_server_of_the_same_name_is_replaced_only_if_wanted(desk, monkeypatch):
    desk.run(add, "clock", "--", sys.executable)
    for words in (
        ["clock", "--", sys.executable, "-V"],
        [json.dumps({"new": {"command": "x"}, "clock": {"command": "y"}})],
    ):
        with pytest.raises(PflowError, match=r"would replace 1 server \(clock\)") as caught:
            desk.run(add, *words)
        assert (caught.value.kind, "--replace" in caught.value.suggestions[0]) == ("usage", True)
    monkeypatch.setattr("pflow_mcp_plugin.cli.add.is_interactive", lambda: True)
    monkeypatch.setattr(click, "confirm", lambda *_, **__: False)
    with pytest.raises(PflowError):
        desk.run(add, "clock", "--", sys.executable, "-V")
    assert desk.raw()["mcpServers"]["clock"] == {"command": sys.executable}
    monkeypatch.setattr(click, "confirm", lambda *_, **__: True)
    desk.run(add, "clock", "--", sys.executable, "-V")
    assert desk.raw()["mcpServers"]["clock"]["args"] == ["-V"]


def test_after_another_launch_the_tools_are_said_to_be_those_from_before(desk):
    desk.write(f'[mcpServers.a]\ncommand = "{sys.executable}"\n')
    never_synced = desk.run(add, "a", "--replace", "--", sys.executable, "-V").render()
    assert never_synced.endswith("\nNext: pflow mcp sync a")
    desk.sync(Tool(name="now"))
    changed = desk.run(add, "a", "--replace", "--", sys.executable, "-VV").render()
    assert changed.endswith(
        "\nNext: pflow mcp sync a; until then the tools of a are those from before this change"
    )
    assert desk.run(add, "a", "--", sys.executable, "-VV").render().endswith("\nNext: pflow mcp sync a")


def test_of_several_servers_the_good_are_added_and_the_others_are_named_with_all_their_mistakes(desk):
    tables = {
        "good": {"command": sys.executable},
        "bad": {"command": "x", "args": "text", "env": 1},
        "web": {"url": "https://example.com"},
    }
    report = desk.run(add, json.dumps(tables))
    assert list(desk.raw()["mcpServers"]) == report.data["added"] == ["good"]
    assert report.render().startswith("Added server good")
    assert report.error.exit_code == 2
    assert report.error.message.startswith("Not added: bad, web")
    paths = {problem.path for problem in report.error.problems}
    assert paths == {"mcpServers.bad.args", "mcpServers.bad.env", "mcpServers.web.type"}
    assert '"type": "http"' in str(report.error)
    del tables["good"]
    with pytest.raises(McpError, match="Nothing was added"):
        desk.run(add, json.dumps(tables))


def test_a_name_that_was_typed_is_not_changed(desk):
    with pytest.raises(McpError, match="may contain only"):
        desk.run(add, "My_Server", "--", sys.executable)


@pytest.mark.parametrize("words", [["--", "npx", "-y", "x"], ["npx", "x"]])
def test_a_command_alone_is_refused_and_its_program_never_taken_for_a_name(desk, words):
    with pytest.raises(PflowError, match="needs a name, which") as caught:
        desk.run(add, *words)
    assert caught.value.exit_code == 2
    assert f"-- {' '.join(words).removeprefix('-- ')}" in caught.value.suggestions[0]
    assert not (desk.paths.config / "mcp-servers.toml").exists()


@pytest.mark.parametrize(
    ("words", "step"),
    [
        (["github", "npx", "--yes", "package"], "go after --"),
        (["--transport", "http", "x", "https://x.example"], "--type http"),
        (["-s", "user", "x", "--", "y"], "pflow --project"),
        (["x", "--command", "y"], "Write the command after --"),
        (["x", "--url", "https://x.example"], "Write the URL after the name"),
    ],
)
def test_an_option_of_another_program_is_explained(desk, words, step):
    with pytest.raises(click.UsageError, match=step):
        desk.run(add, *words)


def test_a_command_that_is_not_there_is_a_warning_with_the_nearest_one(desk, tmp_path, monkeypatch):
    executable(tmp_path / "mcp-server-clock")
    monkeypatch.setenv("PATH", str(tmp_path))
    desk.run(add, "clock", "--", "mcp-server-clocks")
    assert "Command not found: mcp-server-clocks" in desk.warnings()
    assert "Did you mean mcp-server-clock?" in desk.warnings()
    assert "clock" in desk.raw()["mcpServers"]
    report = desk.run(add, json.dumps({"whole-line": {"command": "npx -y clock"}}))
    assert 'command = "npx"' in report.data["warnings"][0]["suggestion"]


def test_plain_http_to_another_machine_is_a_warning_unless_allowed(desk):
    desk.run(add, "web", "http://192.168.1.5/mcp")
    assert "192.168.1.5" in desk.warnings()
    desk.problems.clear()
    desk.run(add, "web", "http://192.168.1.5/mcp", "--insecure", "--replace")
    desk.run(add, "here", "http://localhost:8000/mcp")
    assert desk.problems == []


def test_insecure_is_refused_for_https_and_commands(desk):
    with pytest.raises(PflowError, match="--insecure allows plain http only") as caught:
        desk.run(add, "web", "https://example.com", "--insecure")
    assert caught.value.suggestions == trusting_steps("web", "https://example.com")
    with pytest.raises(PflowError, match="--insecure cannot be used with a command"):
        desk.run(add, "clock", "--insecure", "--", "npx", "clock")
    assert not (desk.paths.config / "mcp-servers.toml").exists()


def test_a_host_that_the_rules_refuse_is_warned_about(desk):
    desk.write('[network]\npolicy = "registered"\ndeny = ["*.example.com"]\n')
    desk.run(add, "web", "https://mcp.example.com")
    assert "pflow will not connect to it" in desk.warnings()
    assert "remove that from deny in [network]" in desk.warnings()
    desk.problems.clear()
    desk.run(add, "new", "https://mcp.example.org")  # which registers its host
    assert desk.problems == []


def test_the_check_of_the_config_warns_about_hosts_that_the_rules_refuse(desk):
    path = desk.write(
        '[network]\ndeny = ["denied.example.com"]\n'
        '[mcpServers.denied]\ntype = "http"\nurl = "https://denied.example.com"\n'
        '[mcpServers.plain]\ntype = "http"\nurl = "http://example.com"\n'
        '[mcpServers.fine]\ntype = "http"\nurl = "https://example.com"\n'
        '[mcpServers.later]\ntype = "http"\nurl = "${SCHEME}://${HOST}"\n'
    )
    path.chmod(0o600)
    found = {problem.path: problem.severity for problem in pflow_validate_config(desk) if problem.path}
    assert found == {"mcpServers.denied.url": "warning", "mcpServers.plain.url": "warning"}


def test_with_sync_the_server_is_shown_and_started_and_its_tools_are_there(desk, capsys):
    report = desk.run(add, "it", "--sync", "--", sys.executable, stdio_server.__file__, "Plain")
    assert report.error is None
    assert report.data["sync"][0]["tools_discovered"] == 1
    assert capsys.readouterr().err.startswith("Added server it (stdio)\n  runs     ")  # before the sync
    assert report.render().startswith("it: 1 tool")
    assert catalog(desk).servers() == ("it",)


def test_a_token_among_the_arguments_is_masked_and_a_variable_offered_for_it(desk):
    token = "ghp_" + "a1B2c3D4e5" * 4
    report = desk.run(add, "hub", "--env", f"OTHER=x,{token}", "--", sys.executable, "serve", token)
    assert token not in report.render() + json.dumps(report.data) + "".join(map(str, desk.problems))
    places = [problem.path for problem in desk.problems]
    assert places == ["mcpServers.hub.args[1]", "mcpServers.hub.env.OTHER"]
    assert "'${GITHUB_TOKEN}'" in desk.problems[0].suggestion
    assert "pflow settings set GITHUB_TOKEN -" in desk.problems[0].suggestion


@pytest.mark.parametrize(
    "words", [("web", "https://mcp.example.com"), ("clock", "--", "python", "-m", "clock"), ("time",)]
)
def test_the_time_for_a_start_is_stored(desk, words):
    desk.run(add, "--startup-timeout", "90", *words)
    assert desk.raw()["mcpServers"][words[0]]["startup_timeout"] == 90
