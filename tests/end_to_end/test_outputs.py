"""What templates find in the results of tools, whatever the tools declare of them."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("mcp")

ARGUMENTS = {"type": "object", "properties": {"arguments": {"type": "object"}}}
TEXT = json.dumps({"items": [{"id": 7, "name": "one"}, {"id": 8}], "ratio": 0.1})


def tools(**output_schemas):
    """Return the `TOOLS` of a server whose tools declare these of their results."""
    declared = {name: {"outputSchema": schema} if schema else {} for name, schema in output_schemas.items()}
    return json.dumps(
        [{"name": name, "inputSchema": {"type": "object"}, **declared[name]} for name in declared]
    )


def test_what_a_schema_leaves_open_may_be_named_and_is_found(pflow, scripted, workflow):
    schemas = {
        "silent": None,
        "anything": {"type": "object", "additionalProperties": True},
        "more": {**ARGUMENTS, "additionalProperties": {}},
        "perhaps": ARGUMENTS,
    }
    scripted(env={"TOOLS": tools(**schemas), "TOKEN": "xyz"})
    path = workflow(
        *((name, f"mcp-odd-{name}", {}) for name in schemas),
        outputs={name: f"${{{name}.environment.TOKEN}}" for name in schemas},
    )
    checked = pflow("validate", path, "--json")
    assert checked.exit_code == 0, checked.stdout
    [problem] = checked.envelope["data"]["problems"]
    assert problem["message"].endswith("node perhaps (mcp-odd-perhaps) declares no output environment")
    assert pflow("run", path, "--json").envelope["data"]["outputs"] == dict.fromkeys(schemas, "xyz")
    ran = pflow("registry", "run", "mcp-odd-more", "--json")
    assert "environment.TOKEN" in [row["path"] for row in ran.envelope["data"]["structure"]]


def test_text_that_is_json_is_read_however_its_tool_declares_it(pflow, scripted, tmp_path):
    result = {"type": "object", "properties": {"result": {"type": "string"}}}
    scripted(env={"TOOLS": tools(silent=None, declared=result), "ANSWER": "text", "TEXT": TEXT})
    nodes, outputs = [], {}
    for name in ("silent", "declared"):
        batch = {"items": f"${{{name}.result.items}}"}
        nodes.append({"id": name, "type": f"mcp-odd-{name}"})
        nodes.append(
            {"id": f"{name}-ids", "type": "echo", "params": {"message": "${item.id}"}, "batch": batch}
        )
        outputs[name] = f"${{{name}.result.items[0].name}} ${{{name}.result.ratio}} ${{{name}-ids.results}}"
    path = tmp_path / "wf.json"
    path.write_text(json.dumps({"nodes": nodes, "outputs": outputs}))
    assert pflow("validate", path, "--json").envelope["data"] == {"valid": True, "problems": []}
    found = pflow("run", path, "--json").envelope["data"]["outputs"]
    assert found["silent"] == 'one 0.1 [{"message": 7}, {"message": 8}]'
    assert found["declared"] == found["silent"]
