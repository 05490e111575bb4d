"""Bad input: a clear message with the next step, the documented exit code, no traceback, no file changed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("mcp")

_KEPT = ("config", "data")


def _files(home: Path) -> dict[str, bytes]:
    """Return the content of every file that a failing command may not touch; locks hold nothing."""
    return {
        str(path): path.read_bytes()
        for folder in _KEPT
        for path in sorted((home / folder).rglob("*"))
        if path.is_file() and path.suffix != ".lock"
    }


@pytest.fixture
def refused(pflow, pflow_home):
    """Run a command that must fail, with `--json` and without; gives the envelope's error."""

    def check(exit_code, words, *arguments):
        before = _files(pflow_home)
        plain = pflow(*arguments)
        place = 1 if arguments[0] in ("run", "validate") else 2
        as_json = pflow(*arguments[:place], "--json", *arguments[place:])
        assert _files(pflow_home) == before
        for ran in (plain, as_json):
            assert ran.exit_code == exit_code, (ran.stdout, ran.stderr)
            assert "Traceback" not in ran.stdout + ran.stderr
            assert ran.stderr.startswith(("Error: ", "Warning: ", "First sync of server "))
        for word in words:
            assert word in plain.stdout + plain.stderr
        assert as_json.envelope["success"] is False
        return as_json.envelope["error"]

    return check


ADD = {
    "malformed JSON": ('{"github": {"command": }', ["line 1", "column"]),
    "JSON that is not complete": ("[1, 2", ["line 1", "column"]),
    "args that are a text": ('{"a": {"command": "npx", "args": "-y"}}', ["mcpServers.a.args"]),
    "several mistakes": (
        '{"a": {"command": 7, "env": {"A": 1}, "timeout": 0, "type": "stdio", "call_timeout": "x"}}',
        ["mcpServers.a.command", "mcpServers.a.env.A", "mcpServers.a.call_timeout"],
    ),
    "mistakes in two servers": (
        '{"mcpServers": {"a": {"args": []}, "b": {"type": "http"}}}',
        ["mcpServers.a.command", "mcpServers.b.url"],
    ),
    "a URL without a type": (
        '{"a": {"url": "https://example.com/mcp"}}',
        ["mcpServers.a.type", '"type": "http"'],
    ),
    "no command": ('{"a": {"args": ["x"]}}', ["mcpServers.a.command"]),
    "a transport that is not known": (
        '{"a": {"type": "websocket", "url": "wss://x"}}',
        ["websocket", "stdio"],
    ),
}


@pytest.mark.parametrize("case", ADD)
def test_a_server_that_cannot_be_added(refused, pflow, case):
    text, words = ADD[case]
    pflow("mcp", "add", "there", "--", "true")
    error = refused(2, words, "mcp", "add", text)
    assert error["type"] in ("config", "usage")
    assert error["suggestions"] or error["details"].get("problems")


def test_every_one_of_several_mistakes_is_listed(refused):
    error = refused(2, [], "mcp", "add", ADD["several mistakes"][0])
    paths = {problem["path"] for problem in error["details"]["problems"]}
    assert {"mcpServers.a.command", "mcpServers.a.env.A", "mcpServers.a.call_timeout"} <= paths


def test_a_config_file_that_is_no_toml_is_not_written_over(refused, pflow_home):
    file = pflow_home / "config" / "mcp-servers.toml"
    file.parent.mkdir()
    file.write_text("[mcpServers.a\ncommand = 'x'\n")
    error = refused(2, ["mcp-servers.toml", "line 1"], "mcp", "add", "b", "--", "true")
    assert error["type"] == "config"
    refused(2, ["line 1"], "mcp", "list")
    refused(2, ["line 1"], "mcp", "sync")


def test_a_command_that_is_not_there(refused, pflow):
    pflow("mcp", "add", "ghost", "--", "pythn3-of-nowhere")
    error = refused(3, ["Command not found: pythn3-of-nowhere"], "mcp", "test", "ghost")
    assert error["type"] == "connection"


def test_a_server_that_exits_at_once_shows_its_last_words(refused, pflow):
    script = "import sys; print('no licence found', file=sys.stderr); sys.exit(3)"
    pflow("mcp", "add", "dying", "--", sys.executable, "-c", script)
    refused(3, ["exited 3 before the handshake", "no licence found"], "mcp", "test", "dying")
    assert "no licence found" in pflow("mcp", "sync", "dying").stderr  # noted, for `mcp list`
    refused(3, ["exited 3 before the handshake", "no licence found"], "mcp", "sync", "dying")


def test_a_server_that_is_not_configured(refused, pflow):
    pflow("mcp", "add", "github", "--", "true")
    error = refused(2, ["Server githib not configured", "github"], "mcp", "sync", "githib")
    assert error["type"] == "not_found"


WORKFLOWS = {
    "an unknown node": (("a", "mcp-typed-cuont", {}), ["mcp-typed-count"], "$.nodes[0].type"),
    "an unknown argument": (
        ("a", "mcp-typed-describe", {"value": 1, "valeu": 2}),
        ["valeu", "value"],
        "$.nodes[0].params.valeu",
    ),
    "a missing argument": (("a", "mcp-typed-describe", {}), ["value"], "$.nodes[0].params"),
    "an argument of the wrong type": (
        ("a", "mcp-typed-slow", {"seconds": "soon"}),
        ["seconds", "soon"],
        "$.nodes[0].params.seconds",
    ),
    "an output that does not exist": (
        ("b", "echo", {"message": "${a.reslt}"}),
        ["reslt", "result"],
        "$.nodes[1].params.message",
    ),
    "a node that does not exist": (
        ("b", "echo", {"message": "${c.result}"}),
        ["c.result"],
        "$.nodes[1].params.message",
    ),
}


@pytest.mark.parametrize("case", WORKFLOWS)
def test_a_workflow_that_cannot_run(refused, typed, workflow, case):
    node, words, path = WORKFLOWS[case]
    nodes = [node] if node[0] == "a" else [("a", "mcp-typed-count", {}), node]
    for command in ("run", "validate"):
        error = refused(2, words, command, workflow(*nodes))
        assert path in {problem["path"] for problem in error["details"]["problems"]}


def test_an_argument_that_turns_out_wrong_when_it_is_known(refused, typed, workflow):
    path = workflow(
        ("text", "echo", {"message": "soon"}), ("a", "mcp-typed-slow", {"seconds": "${text.message}"})
    )
    error = refused(1, ["Node a (mcp-typed-slow)", "seconds"], "run", path)
    assert error["type"] in ("validation", "execution")


def test_a_tool_that_is_gone_names_it_and_the_nearest(refused, scripted, workflow):
    scripted("one", "two")
    path = workflow(("a", "mcp-odd-two", {}))
    scripted("one", "tow")
    error = refused(2, ["Tool two not found on server odd", "mcp-odd-tow"], "run", path)
    assert error["details"]["problems"]


def test_a_server_that_was_never_synced(refused, pflow, workflow):
    pflow("mcp", "add", "fresh", "--", "true")
    refused(
        2, ["Server fresh is not synced", "pflow mcp sync fresh"], "run", workflow(("a", "mcp-fresh-go", {}))
    )


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", ["line 1"]),
        ("[]", ["object"]),
        ('{"nodes": "all"}', ["$.nodes"]),
        ('{"nodes": [{"id": 1}, {"type": []}]}', ["$.nodes[0].id", "$.nodes[1]"]),
    ],
)
def test_a_file_that_is_no_workflow(refused, tmp_path, content, words):
    file = tmp_path / "wf.json"
    file.write_text(content)
    refused(2, words, "run", file)
    refused(2, words, "validate", file)


def test_a_workflow_file_that_is_not_there(refused, tmp_path):
    refused(2, ["nowhere.json"], "run", tmp_path / "nowhere.json")


def test_a_variable_that_is_not_set_stops_a_header_and_starts_nothing(refused, pflow, scripted, workflow):
    scripted("one")
    auth = {"type": "bearer", "token": "${NOT_SET_AT_ALL}"}
    table = {"type": "http", "url": "http://127.0.0.1:9/mcp", "auth": auth, "trust": "auto"}
    pflow("mcp", "add", json.dumps({"odd": table}))
    refused(2, ["NOT_SET_AT_ALL"], "run", workflow(("a", "mcp-odd-one", {})))


def test_a_disabled_plugin_is_named_with_what_it_provides(pflow, typed, workflow):
    path = workflow(("a", "mcp-typed-count", {}))
    disabled = {"PFLOW_DISABLE_PLUGINS": "mcp"}
    ran = pflow("run", path, env=disabled)
    assert ran.exit_code == 2
    assert "comes from the plugin mcp, which PFLOW_DISABLE_PLUGINS disables" in ran.stderr
    assert "Remove mcp from PFLOW_DISABLE_PLUGINS" in ran.stderr
    assert pflow("registry", "list", env=disabled).exit_code == 0
    hello = workflow(("a", "echo", {"message": "hello"}))
    assert pflow("run", hello, env=disabled).stdout == "hello\n"


def test_a_saved_entry_whose_server_is_not_configured_is_refused_before_anything_runs(
    refused, pflow, pflow_home, scripted, workflow
):
    scripted("one")
    entry = pflow("registry", "describe", "mcp-odd-one", "--json").envelope["data"]
    (pflow_home / "data" / "registry.json").write_text(
        json.dumps({"schema_version": 1, "nodes": {"mcp-odd-one": entry}})
    )
    assert pflow("mcp", "remove", "odd").exit_code == 0
    error = refused(2, ["Server odd not configured"], "run", workflow(("a", "mcp-odd-one", {})))
    assert error["type"] == "not_found"
