"""The test criteria of the first stdio specification that need a whole program, each under its number.

Below them, the bugs that the first implementation of this system had: none may come back.
"""

from __future__ import annotations

import json

import pytest


def _types(pflow) -> list[str]:
    return [row["node"] for row in pflow("registry", "list", "--json").envelope["data"]]


def test_criterion_04_an_empty_list_of_tools_makes_no_entries(pflow, scripted):
    scripted(sync=False)
    (synced,) = pflow("mcp", "sync", "odd", "--json").envelope["data"]
    assert synced["tools_registered"] == 0
    assert not [name for name in _types(pflow) if name.startswith("mcp-")]


def test_criterion_10_a_tool_with_spaces_in_its_name_gets_a_valid_one(pflow, scripted, workflow):
    scripted("Create  an Issue!")
    assert "mcp-odd-create-an-issue" in _types(pflow)
    assert pflow("run", workflow(("a", "mcp-odd-create-an-issue", {}))).exit_code == 0


def test_criterion_11_a_duplicate_entry_overwrites_the_one_before(pflow, scripted):
    scripted("one", schema={"type": "object", "properties": {"old": {"type": "string"}}})
    scripted("one", schema={"type": "object", "properties": {"new": {"type": "string"}}})
    assert pflow("mcp", "approve", "odd").exit_code == 0
    described = pflow("registry", "describe", "mcp-odd-one", "--json").envelope["data"]
    assert [param["key"] for param in described["interface"]["params"]] == ["new"]


@pytest.mark.parametrize(
    ("value", "declared", "expected"),
    [
        (3, "int", "integer"),
        (2.5, "float", "number"),
        (True, "bool", "boolean"),
        (None, "any", "null"),
        ([1, "a", None], "list", "array"),
        ({"inner": {"deep": [1.5, False]}}, "dict", "object"),
    ],
)
def test_a_value_given_as_a_template_or_an_input_reaches_the_server_with_its_json_type(
    pflow, typed, workflow, value, declared, expected
):
    path = workflow(
        ("source", "echo", {"message": value}),
        ("ask", "mcp-typed-describe", {"value": "${source.message}"}),
        ("input", "mcp-typed-describe", {"value": "${x}"}),
        inputs={"x": {"type": declared, "default": None}},
        outputs={"template": "${ask.type}", "repr": "${ask.repr}", "input": "${input.type}"},
    )
    given = [] if value is None else [f"x={json.dumps(value)}"]
    ran = pflow("run", path, *given, "--json")
    assert ran.exit_code == 0, ran.stderr
    assert ran.envelope["data"]["outputs"] == {"template": expected, "repr": repr(value), "input": expected}


def test_a_workflow_file_runs_when_its_output_is_piped(pflow, typed, workflow):
    path = workflow(("a", "mcp-typed-count", {}), outputs={"n": "${a.result}"})
    assert pflow("run", path, stdin="left over text").stdout == "1\n"
