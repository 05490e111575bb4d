"""Bad input: a clear message with the next step, the documented exit code, no traceback."""

import json

import pytest
from special_paths import special_path

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


def test_ten_planted_mistakes_are_ten_problems_each_with_its_place_and_a_next_step(pflow, typed, workflow):
    path = workflow(**WORKFLOW)
    plain, as_json = pflow("validate", path), pflow("validate", path, "--json")
    assert (plain.exit_code, as_json.exit_code, "Traceback" in plain.stderr) == (2, 2, False)
    assert [word for word in PLANTED.values() if word not in plain.stderr] == []
    problems = {it["path"]: it for it in as_json.envelope["error"]["details"]["problems"]}
    assert set(problems) == set(PLANTED)
    for place, problem in problems.items():
        assert problem["suggestion"], place
        assert PLANTED[place] in problem["message"] + problem["suggestion"]


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
    "a sync of several": (["mcp", "sync"], ["2 of 2 servers", *MISSING, "Server odd: 2 problems", *ODD]),
    "a server added and synced": (["mcp", "add", "new", "--sync", "--", "no-such-program"], MISSING),
    "a check of the config": (["config", "check"], ["The config has 2 errors and 2 warnings", *ODD]),
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


ECHO = json.dumps({"nodes": [{"id": "say", "type": "echo", "params": {"message": "hello"}}]})


@pytest.mark.parametrize("words", ["run", "validate", "workflow save --name x", "mcp add"])
def test_a_command_refuses_what_is_no_regular_file(pflow, tmp_path, words):
    with special_path("pipe", tmp_path / "given.json") as path:
        refused = pflow(*words.split(), path, "--json")
    assert refused.exit_code == 2
    assert "not a regular file" in refused.envelope["error"]["message"]


def test_a_workflow_comes_from_standard_input_where_asked_for(pflow):
    for place in ("-", "/dev/stdin", "/proc/self/fd/0"):
        assert pflow("run", place, stdin=ECHO).stdout == "hello\n"


@pytest.mark.parametrize(
    ("file", "said"),
    [("/dev/stdin", "it is larger than 256 MiB"), ("wf.json", "Standard input is larger than 256 MiB")],
)
def test_a_workflow_and_an_input_without_end_are_refused(python, workflow, file, said):
    workflow(**json.loads(ECHO), inputs={"words": {"stdin": True}})
    with open("/dev/zero", "rb") as zeros:  # noqa: PTH123
        refused = python("-m", "pflow_mcp_plugin", "run", file, stdin=zeros)
    assert refused.exit_code == 2
    assert said in refused.stderr
