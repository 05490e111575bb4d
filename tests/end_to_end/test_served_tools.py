"""Every tool that pflow serves, called by the SDK's client: both protocol eras, over stdio and HTTP."""

import asyncio
import json

import jsonschema
import pytest
from served_pflow import TOOLS, serving

GREET = {
    "inputs": {"name": {"type": "string", "required": True, "description": "Who is greeted"}},
    "nodes": [{"id": "say", "type": "echo", "params": {"message": "Hello ${name}"}}],
    "outputs": {"greeting": {"source": "${say.message}"}},
}

RIGHT = [
    ("settings_set", {"key": "region", "value": "north"}),
    ("settings_get", {"key": "region"}),
    ("registry_list", {}),
    ("registry_search", {"pattern": "echo"}),
    ("registry_describe", {"nodes": ["echo", "shell"]}),
    ("registry_discover", {"task": "read a text file"}),
    ("registry_run", {"node_type": "echo", "parameters": {"message": "hello"}}),
    ("workflow_validate", {"workflow": GREET}),
    ("workflow_execute", {"workflow": GREET, "parameters": {"name": "Ada"}}),
    ("workflow_save", {"workflow_file": json.dumps(GREET), "name": "greet", "description": "Greets someone"}),
    ("workflow_list", {"filter": "greet"}),
    ("workflow_discover", {"query": "greets someone"}),
    ("trace_read", {"trace_file": "latest"}),
]
"""One call of each tool that succeeds, in an order in which each finds what it needs."""

WRONG = [
    ("settings_set", {"key": "region"}, "validation"),
    ("settings_get", {"key": 5}, "validation"),
    ("registry_list", {"everything": True}, "validation"),
    ("registry_search", {}, "validation"),
    ("registry_describe", {"nodes": ["ecko"]}, "not_found"),
    ("registry_discover", {"task": ["read"]}, "validation"),
    ("registry_run", {"node_type": "ecko"}, "not_found"),
    ("workflow_validate", {"workflow": 5}, "validation"),
    ("workflow_execute", {"workflow": GREET, "parameters": {}}, "validation"),
    ("workflow_save", {"workflow_file": "{}", "name": "No Name!", "description": ""}, "validation usage"),
    ("workflow_list", {"filter": 7}, "validation"),
    ("workflow_discover", {"task": "greet"}, "validation"),
    ("trace_read", {"trace_file": "no-such-run"}, "not_found"),
]
"""One call of each that fails, with the possible types of its error."""


@pytest.mark.parametrize(("transport", "era"), [("stdio", "legacy"), ("http", "2026-07-28")])
def test_every_tool_answers_right_and_wrong_arguments_as_its_schema_says(
    transport, era, pflow_home, tmp_path, no_leftovers
):
    async def session():
        with serving(transport, pflow_home, tmp_path) as served:
            async with served.client(era) as client:
                tools = (await client.list_tools()).tools
                schemas = {tool.name: tool.output_schema for tool in tools}
                right = [await client.call_tool(name, arguments) for name, arguments in RIGHT]
                wrong = [await client.call_tool(name, arguments) for name, arguments, _ in WRONG]
        return schemas, [tool.input_schema for tool in tools], right, wrong

    schemas, inputs, right, wrong = asyncio.run(session())
    for schema in (*schemas.values(), *inputs):
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema["type"] == "object"
    assert all(it.get("description") for schema in inputs for it in schema.get("properties", {}).values())
    assert set(schemas) == {name for name, _ in RIGHT} == {name for name, *_ in WRONG} == TOOLS
    for (name, _), result in zip(RIGHT, right, strict=True):
        check(result, schemas[name])
        assert result.structured_content["success"], (name, result.structured_content)
        assert not result.is_error, name
    for (name, _, kinds), result in zip(WRONG, wrong, strict=True):
        check(result, schemas[name])
        assert result.is_error, (name, result.structured_content)
        assert result.structured_content["error"]["type"] in kinds.split(), (name, result.structured_content)


def check(result, schema):
    """Check that a result fits the tool's own schema and says the same as text."""
    jsonschema.validate(result.structured_content, schema)
    assert json.loads(result.content[0].text) == result.structured_content
    assert result.structured_content["schema"] == 1
