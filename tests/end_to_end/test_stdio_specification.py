"""The test criteria of the first stdio specification that need a whole program, each under its number.

Below them, the bugs that the first implementation of this system had: none may come back.
"""

import json


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


VALUES = {
    "integer": (3, "int"),
    "number": (2.5, "float"),
    "boolean": (True, "bool"),
    "null": (None, "any"),
    "array": ([1, "a", None], "list"),
    "object": ({"inner": {"deep": [1.5, False]}}, "dict"),
}


def test_a_value_given_as_a_template_or_an_input_reaches_the_server_with_its_json_type(
    pflow, typed, workflow
):
    nodes, inputs, outputs = [], {}, {}
    for kind, (value, declared) in VALUES.items():
        nodes.append((f"{kind}-source", "echo", {"message": value}))
        nodes.append((f"{kind}-ask", "mcp-typed-describe", {"value": f"${{{kind}-source.message}}"}))
        nodes.append((f"{kind}-input", "mcp-typed-describe", {"value": f"${{x-{kind}}}"}))
        inputs[f"x-{kind}"] = {"type": declared, "default": None}
        outputs[kind] = f"${{{kind}-ask.type}} ${{{kind}-ask.repr}} ${{{kind}-input.type}}"
    given = [f"x-{kind}={json.dumps(value)}" for kind, (value, _) in VALUES.items() if kind != "null"]
    ran = pflow("run", workflow(*nodes, inputs=inputs, outputs=outputs), *given, "--json")
    assert ran.exit_code == 0, ran.stderr
    expected = {kind: f"{kind} {value!r} {kind}" for kind, (value, _) in VALUES.items()}
    assert ran.envelope["data"]["outputs"] == expected


def test_a_workflow_file_runs_when_its_output_is_piped(pflow, typed, workflow):
    path = workflow(("a", "mcp-typed-count", {}), outputs={"n": "${a.result}"})
    assert pflow("run", path, stdin="left over text").stdout == "1\n"
