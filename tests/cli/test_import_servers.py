"""`pflow mcp import`, in a home of its own."""

import json
import shutil
import tomllib
from functools import partial
from pathlib import Path

import pytest
from screen import run_on_terminal

DATA = Path(__file__).parents[1] / "data" / "clients"

CURSOR = {"mcpServers": {"clock": {"command": "uvx", "args": ["mcp-server-time"]}}}
SECRET = {"mcpServers": {"hub": {"command": "hub", "env": {"HUB_TOKEN": "planted-4711"}}}}


@pytest.fixture
def run(typed, home):
    return lambda *arguments: typed("mcp", "import", *arguments)


@pytest.fixture
def configured(pflow_home):
    """Return the servers of the config."""

    def configured():
        path = pflow_home / "config" / "mcp-servers.toml"
        return tomllib.loads(path.read_text(encoding="utf-8"))["mcpServers"] if path.exists() else {}

    return configured


def put(home, path, content):
    target = home / path
    target.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, str):
        shutil.copy(DATA / content, target)
    else:
        target.write_text(json.dumps(content))
    return target


def test_without_an_argument_every_clients_files_are_found_and_read(
    run, home, configured, tmp_path, monkeypatch
):
    put(home, ".config/Claude/claude_desktop_config.json", "claude-desktop.json")
    put(home, ".codex/config.toml", "codex.toml")
    put(home, ".config/goose/config.yaml", "goose.yaml")
    put(home, ".config/zed/settings.json", "zed.json")
    project = tmp_path / "project"
    put(project, ".mcp.json", "claude-code-project.json")
    monkeypatch.chdir(project)
    done = run("--json")
    assert done.exit_code == 0, done.stderr
    data = done.envelope["data"]
    clients = ["claude-desktop", "claude-code", "zed", "codex", "goose"]
    assert [file["client"] for file in data["files"]] == clients
    assert [file["client"] for file in data["files"] if file["project"]] == ["claude-code"]
    assert set(data["added"]) == set(configured())
    assert {"mcp-docker", "shared-server", "run-tests", "internal", "asana"} <= set(configured())
    assert set(data["skipped"]) == {"mcp-server-github", "developer"}
    assert data["secrets"] == "kept"
    assert "FIGMA_TEAM" in data["variables_to_set"]
    assert "planted" not in done.stdout + done.stderr


def test_a_dry_run_shows_the_same_and_changes_nothing(run, home, configured, pflow_home):
    put(home, ".cursor/mcp.json", SECRET)
    done = run("--dry-run", "--secrets-to-settings", "--json")
    assert done.exit_code == 0
    assert done.envelope["data"]["added"] == ["hub"]
    assert done.envelope["data"]["dry_run"] is True
    assert configured() == {}
    assert not (pflow_home / "config" / "settings.json").exists()
    assert "Would import 1 server" in run("--dry-run").stdout


def test_a_configured_server_is_kept_unless_forced(run, home, configured):
    path = put(home, ".cursor/mcp.json", CURSOR)
    run()
    assert run("--json").envelope["data"]["unchanged"] == ["clock"]
    path.write_text(json.dumps({"mcpServers": {"clock": {"command": "other"}}}))
    kept = run()
    assert "- clock: a different server of this name is configured; --force replaces it" in kept.stdout
    assert configured()["clock"]["command"] == "uvx"
    assert run("--force", "--json").envelope["data"]["replaced"] == ["clock"]
    assert configured() == {"clock": {"command": "other"}}


def test_one_client_or_one_file_can_be_named_and_its_format(run, home, configured, tmp_path):
    put(home, ".cursor/mcp.json", CURSOR)
    put(home, ".codex/config.toml", "codex.toml")
    assert "Next: pflow mcp sync clock" in run("cursor").stdout
    assert set(configured()) == {"clock"}
    path = put(tmp_path, "copy.json", {"mcpServers": {"a": {"command": "x", "timeout": 5000}}})
    refused = run(path)
    assert refused.exit_code == 2
    assert "mcpServers.a.timeout" in refused.stderr
    assert run(path, "--as", "gemini-cli").exit_code == 0
    assert configured()["a"] == {"command": "x", "call_timeout": 5}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("cursro",), "Did you mean cursor?"),
        (("cursor",), "Cursor has no config file here"),
        (("nothing.json",), "File not found: nothing.json"),
        (("--as", "zed"), "--as needs a FILE"),
        (("x.json", "--as", "zde"), "Did you mean zed?"),
    ],
)
def test_what_is_not_there_is_named_with_the_next_step(run, arguments, words):
    done = run(*arguments)
    assert done.exit_code == 2
    assert words in done.stderr
    assert run(*arguments, "--json").envelope["success"] is False
    assert "No config file of another client was found" in run().stdout


def test_names_that_do_not_fit_are_made_to_fit_and_it_is_said(run):
    done = run(DATA / "cursor.json")
    assert "+ linear-issues (there 'Linear Issues')" in done.stdout
    assert "no equivalent: envFile" in done.stdout
    servers = run(DATA / "cursor.json", "--json").envelope["data"]["servers"]
    assert {it["given"]: it["name"] for it in servers}["Linear Issues"] == "linear-issues"
    assert [it["no_equivalent"] for it in servers if it["no_equivalent"]] == [["envFile"]]


def test_a_corrupt_file_is_named_with_its_line_and_the_others_go_on(pflow, home, configured):
    run = partial(pflow, "mcp", "import")
    broken = put(home, ".cursor/mcp.json", CURSOR)
    broken.write_text('{"mcpServers": {\n  "a": }\n}')
    put(home, ".codex/config.toml", "codex.toml")
    wrong = put(home, ".gemini/settings.json", {"mcpServers": "x"})
    done = run()
    assert done.exit_code == 2
    assert f"{broken}, line 2, column" in done.stderr
    assert f"{wrong}: mcpServers must be a table of servers" in done.stderr
    assert {"context7", "figma", "internal"} == set(configured())
    failed = run("--json")
    assert failed.envelope["success"] is False
    data = failed.envelope["error"]["details"]["data"]
    assert data["unchanged"] == ["context7", "figma", "internal"]
    assert [file["client"] for file in data["files"] if "error" in file] == ["cursor", "gemini-cli"]
    wrong.unlink()
    assert run("--json").envelope["error"]["message"].startswith(f"{broken}, line 2, column")


def test_a_command_in_a_value_is_never_run_and_named_as_a_problem(run, typed, home, configured, tmp_path):
    mark = tmp_path / "ran"
    server = {"command": "hub", "env": {"TOKEN": f"${{cmd:touch {mark}}}"}}
    put(home, ".cursor/mcp.json", {"mcpServers": {"hub": server, **CURSOR["mcpServers"]}})
    done = run()
    assert done.exit_code == 2
    assert "${cmd:...} has no equivalent" in done.stderr + done.stdout
    assert "pflow settings set KEY --from-command" in done.stderr + done.stdout
    assert set(configured()) == {"clock"}
    assert not mark.exists()
    (problem,) = run("--json").envelope["error"]["details"]["problems"]
    assert problem["source"] == str(home / ".cursor" / "mcp.json")
    done = typed("mcp", "add", json.dumps({"hub": server}))
    assert (done.exit_code, "pflow settings set KEY --from-command" in done.stderr) == (2, True)


def test_what_steers_a_terminal_is_shown_escaped_and_plain_http_advised_against(run, home):
    server = {"command": "x", "args": ["\x1b]0;owned\x07", "\u202etxt.exe"], "\x1b[2J": 1}
    web = {"url": "http://mcp.example.com/mcp"}
    put(home, ".cursor/mcp.json", {"mcpServers": {"a\x1b[1mb": server, "web": web}})
    done = run()
    assert "uses plain http" in done.stderr
    shown = done.stdout
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "\\u001b]0;owned" in shown


def test_a_server_of_a_project_with_relative_paths_gets_its_folder(
    run, home, configured, tmp_path, monkeypatch
):
    project = tmp_path / "project"
    own = {"command": "node", "args": ["./server.js"]}
    put(project, ".mcp.json", {"mcpServers": {"own": own, **CURSOR["mcpServers"]}})
    projects = {"/srv/shop": {"mcpServers": {"shop": {"command": "./run"}}}}
    put(home, ".claude.json", {"projects": projects})
    run(str(project / ".mcp.json"))
    assert configured()["own"] == {**own, "cwd": str(project)}
    monkeypatch.chdir(project)
    assert "cwd is set to /srv/shop" in run().stdout
    assert configured() == {
        "own": {**own, "cwd": str(project)},
        **CURSOR["mcpServers"],
        "shop": {"command": "./run", "cwd": "/srv/shop"},
    }


def test_row_34_secrets_are_kept_with_a_warning_unless_they_are_moved(run, home, configured, typed):
    put(home, ".cursor/mcp.json", SECRET)
    kept = run()
    assert "hub keeps the secret env.HUB_TOKEN in the config in plain text" in kept.stderr
    again = f"pflow mcp import {home / '.cursor/mcp.json'} --as cursor --secrets-to-settings --force"
    assert again in kept.stderr
    assert "in the settings as" not in kept.stdout
    assert configured()["hub"]["env"] == {"HUB_TOKEN": "planted-4711"}
    moved = run("--secrets-to-settings", "--force")
    assert "in the settings as HUB_TOKEN" in moved.stdout
    assert configured()["hub"]["env"] == {"HUB_TOKEN": "${HUB_TOKEN}"}
    assert typed("settings", "get", "HUB_TOKEN", "--show").stdout == "planted-4711\n"
    assert "planted" not in kept.stdout + kept.stderr + moved.stdout + moved.stderr
    assert run("--secrets-to-settings", "--json").envelope["data"]["unchanged"] == ["hub"]


@pytest.mark.parametrize("client", ["claude-desktop", "cursor"])
def test_what_a_program_expands_itself_stays_and_is_no_secret(run, tmp_path, configured, client):
    args = ["mcp-remote", "https://x.example/mcp", "--header", "Authorization:${AUTH_HEADER}"]
    table = {"command": "npx", "args": args, "env": {"AUTH_HEADER": "Bearer planted-4711"}}
    path = put(tmp_path, "r.json", {"mcpServers": {"r": table}})
    moved = run(str(path), "--as", client, "--secrets-to-settings", "--json").envelope["data"]
    assert [it["field"] for it in moved["servers"][0]["secrets"]] == ["env.AUTH_HEADER"]
    assert configured()["r"]["args"][-1] == "Authorization:$${AUTH_HEADER}"


def test_row_34_a_setting_or_variable_with_another_value_is_not_written_over(run, home, configured, typed):
    put(home, ".cursor/mcp.json", {"mcpServers": {"hub": {"command": "hub", "env": {"TOKEN": "planted-1"}}}})
    typed("settings", "set", "TOKEN", "mine")
    run("--secrets-to-settings")
    assert configured()["hub"]["env"] == {"TOKEN": "${HUB_TOKEN}"}
    assert typed("settings", "get", "TOKEN", "--show").stdout == "mine\n"
    assert typed("settings", "get", "HUB_TOKEN", "--show").stdout == "planted-1\n"


@pytest.mark.parametrize(("answer", "value"), [("y", "${HUB_TOKEN}"), ("n", "planted-4711")])
def test_row_34_on_a_terminal_it_asks_whether_to_move_a_secret(home, configured, pflow_home, answer, value):
    put(home, ".cursor/mcp.json", SECRET)
    screen = run_on_terminal("mcp", "import", home=pflow_home, cwd=home, answers={"Move 1": answer})
    assert screen.exit_code == 0
    assert "Move 1 secret to pflow's settings" in screen.shown
    assert "planted" not in screen.shown
    assert configured()["hub"]["env"] == {"HUB_TOKEN": value}
