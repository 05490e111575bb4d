"""The bugs that the first implementation of this system had; none may come back."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("mcp")

_VALUES = {
    "integer": (3, "integer"),
    "float": (2.5, "number"),
    "boolean": (True, "boolean"),
    "null": (None, "null"),
    "list": ([1, "a", None], "array"),
    "nested": ({"inner": {"deep": [1.5, False]}}, "object"),
}


@pytest.mark.parametrize("name", _VALUES)
def test_a_value_given_as_a_template_reaches_the_server_with_its_json_type(pflow, typed, workflow, name):
    value, expected = _VALUES[name]
    path = workflow(
        ("source", "echo", {"message": value}),
        ("ask", "mcp-typed-describe", {"value": "${source.message}"}),
        outputs={"type": "${ask.type}", "repr": "${ask.repr}"},
    )
    ran = pflow("run", path, "--json")
    assert ran.exit_code == 0, ran.stderr
    assert ran.envelope["data"]["outputs"] == {"type": expected, "repr": repr(value)}


@pytest.mark.parametrize("name", _VALUES)
def test_an_input_of_the_command_line_reaches_the_server_with_its_declared_type(pflow, typed, workflow, name):
    value, expected = _VALUES[name]
    declared = {
        "integer": "int",
        "float": "float",
        "boolean": "bool",
        "null": "any",
        "list": "list",
        "nested": "dict",
    }
    path = workflow(
        ("ask", "mcp-typed-describe", {"value": "${x}"}),
        inputs={"x": {"type": declared[name], "default": None}},
        outputs={"type": "${ask.type}"},
    )
    given = [] if value is None else [f"x={json.dumps(value)}"]
    ran = pflow("run", path, *given, "--json")
    assert ran.exit_code == 0, ran.stderr
    assert ran.envelope["data"]["outputs"]["type"] == expected


def test_a_server_keeps_its_state_across_the_steps_of_a_run(pflow, typed, workflow):
    path = workflow(
        ("one", "mcp-typed-count", {}),
        ("two", "mcp-typed-count", {}),
        ("three", "mcp-typed-count", {}),
        outputs={"last": "${three.result}"},
    )
    assert pflow("run", path, "--json").envelope["data"]["outputs"]["last"] == 3


def test_a_call_that_fails_was_made_once(pflow, scripted, workflow, tmp_path):
    log = tmp_path / "log"
    scripted("one", env={"ANSWER": "not-found", "LOG": str(log)})
    assert pflow("run", workflow(("a", "mcp-odd-one", {}))).exit_code == 1
    assert log.read_text().count("call") == 1


def test_entries_call_an_argument_key_and_never_name(pflow, typed):
    exported = pflow("registry", "export", "--json").envelope["data"]["nodes"]
    ours = [entry for name, entry in exported.items() if name.startswith("mcp-")]
    fields = [field for entry in ours for kind in ("params", "outputs") for field in entry["interface"][kind]]
    assert fields
    assert all("key" in field and "name" not in field for field in fields)
    assert all(
        entry["interface"]["inputs"] == [p["key"] for p in entry["interface"]["params"]] for entry in ours
    )


def test_a_node_by_itself_without_a_run_calls_its_tool(pflow, typed, pflow_home, no_leftovers):
    from pflow_mcp_plugin.execution.node import MCPNode

    node = MCPNode()
    node.set_params({"__mcp_server__": "typed", "__mcp_tool__": "describe"})
    shared = {"value": 7}
    prepared = node.prep(shared)
    assert node.post(shared, prepared, node.exec(prepared)) == "default"
    assert shared["type"] == "integer"
    assert shared["error"] is None


def test_an_error_result_is_no_success(pflow, typed, workflow):
    path = workflow(("a", "mcp-typed-fail", {"message": "the disk is full"}))
    ran = pflow("run", path, "--json")
    assert ran.exit_code == 1
    error = ran.envelope["error"]
    assert "the disk is full" in error["message"]
    assert error["details"]["ran"] == "ran"
    assert error["details"]["server"] == "typed"


def test_a_workflow_file_runs_when_its_output_is_piped(pflow, typed, workflow):
    path = workflow(("a", "mcp-typed-count", {}), outputs={"n": "${a.result}"})
    assert pflow("run", path, stdin="left over text").stdout == "1\n"
