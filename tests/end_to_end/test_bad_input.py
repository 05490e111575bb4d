"""Bad input: a clear message with the next step, the documented exit code, no traceback, no file changed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

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


WORKFLOW = {
    "inputs": {"city": {"type": "string", "required": True}},
    "nodes": [
        {"id": "a", "type": "mcp-typed-cuont", "params": {}},
        {"id": "b", "type": "mcp-typed-describe", "params": {"value": "${city}", "valeu": 1}},
        {"id": "c", "type": "mcp-typed-describe", "params": {}},
        {"id": "d", "type": "mcp-typed-slow", "params": {"seconds": "soon"}},
        {"id": "e", "type": "echo", "params": {"message": "${b.tpye}"}},
        {"id": "f", "type": "echo", "params": {"message": "${ctiy}"}},
        {"id": "g", "type": "echo", "params": {"message": "${h.message}"}},
        {"id": "h", "type": "echo", "params": {"message": "never reached"}},
    ],
    "edges": [
        *({"from": first, "to": second} for first, second in ("ab", "bc", "cd", "de", "ef", "fg")),
        {"from": "g", "to": "nowhere"},
    ],
    "outputs": {"result": "${e.mesage}"},
}
PLANTED = {
    "$.nodes[0].type": "mcp-typed-count",
    "$.nodes[1].params.valeu": "value",
    "$.nodes[2].params": "value",
    "$.nodes[3].params.seconds": "soon",
    "$.nodes[4].params.message": "type",
    "$.nodes[5].params.message": "city",
    "$.nodes[6].params.message": "h",
    "$.edges[6].to": "nowhere",
    "$.nodes[7]": "h",
    "$.outputs.result": "message",
}
"""Where each mistake is, and a word that its message or next step must hold."""
WARNED = {"$.nodes[4].params.message", "$.nodes[7]"}
"""Those that are no errors by themselves, so that a run is not refused over them."""


@pytest.mark.parametrize("command", ["run", "validate"])
def test_ten_planted_mistakes_are_ten_problems_each_with_its_place_and_a_next_step(
    refused, typed, workflow, command
):
    path = workflow(**WORKFLOW)
    given = ("city=x",) if command == "run" else ()
    error = refused(2, PLANTED.values(), command, path, *given)
    problems = {problem["path"]: problem for problem in error["details"]["problems"]}
    assert set(problems) == set(PLANTED) - (WARNED if command == "run" else set())
    for place, problem in problems.items():
        assert problem["suggestion"], place
        assert PLANTED[place] in problem["message"] + problem["suggestion"]


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


FAULTY_SERVERS = """
[mcpServers.gone]
command = "no-such-program"

[mcpServers.odd]
command = "x"
args = "text"
cwd = 3
"""
ODD = ["Must be a list of strings", "Must be a string, not a number"]
MISSING = ["Command not found: no-such-program", "give its full path"]
FAULTY = {
    "nodes": [{"id": "a", "type": "ecko"}, {"id": "b", "type": "echo", "params": {"c": 1}}, {"id": "a"}]
}
CASES = {
    "a sync of one server": (["mcp", "sync", "gone"], MISSING),
    "a sync of a server with mistakes": (["mcp", "sync", "odd"], ["Server odd: 2 problems", *ODD]),
    "a sync of several": (["mcp", "sync"], ["2 of 2 servers", *MISSING, "Server odd: 2 problems", *ODD]),
    "a test": (["mcp", "test", "gone"], MISSING),
    "a refused server": (["mcp", "add", '{"new": {"command": 1, "args": "text"}}'], ["2 problems", *ODD]),
    "a server added and synced": (["mcp", "add", "new", "--sync", "--", "no-such-program"], MISSING),
    "a check of the config": (["config", "check"], ["The config has 2 errors and 2 warnings", *ODD]),
    "a workflow with mistakes": (
        ["validate", "workflow.json"],
        ["Unknown node type ecko", "has no parameter c"],
    ),
    "a run of it": (["run", "workflow.json"], ["Unknown node type ecko", "has no parameter c"]),
    "a check of the registry": (
        ["registry", "validate"],
        ["cannot be loaded", "params a has an invalid type"],
    ),
    "one node": (["registry", "run", "mcp-odd-x"], ODD),
}


@pytest.fixture
def failing(pflow, pflow_home, tmp_path):
    """Run a command where everything has mistakes."""
    (pflow_home / "config").mkdir()
    (pflow_home / "config" / "mcp-servers.toml").write_text(FAULTY_SERVERS)
    (pflow_home / "data").mkdir()
    nodes = {
        "none": {"module": "no_such_module", "class_name": "X"},
        "odd": {
            "module": "builtins",
            "class_name": "int",
            "interface": {"params": [{"key": "a", "type": "?"}]},
        },
    }
    (pflow_home / "data" / "registry.json").write_text(json.dumps({"schema_version": 1, "nodes": nodes}))
    (tmp_path / "workflow.json").write_text(json.dumps(FAULTY))
    return pflow


@pytest.mark.parametrize("case", CASES)
def test_a_failure_tells_each_fact_once(failing, case):
    command, facts = CASES[case]
    text = failing(*command)
    assert text.exit_code
    data = failing(*command[:2], "--json", *command[2:])
    for fact in facts:
        assert (text.stdout + text.stderr).count(fact) == 1, text
        assert data.stdout.count(json.dumps(fact)[1:-1]) == 1, data.stdout
