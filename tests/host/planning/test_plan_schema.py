import json

import jsonschema
import pytest

from pflow_mcp_plugin.host.planning.plan_prompt import selection_schema, workflow_schema

TYPES = [f"t-{number}" for number in range(30)]
SCHEMAS = {
    "selection": selection_schema(TYPES, ["old"]),
    "selection without saved workflows": selection_schema(TYPES, []),
    "workflow": workflow_schema(TYPES),
}


def _parts(schema, depth=1):
    yield schema, depth
    inside = [*schema.get("properties", {}).values(), *([schema["items"]] if "items" in schema else [])]
    for part in inside:
        yield from _parts(part, depth + 1)


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
def test_a_schema_stays_within_what_providers_accept(schema):
    jsonschema.Draft202012Validator.check_schema(schema)
    parts = list(_parts(schema))
    assert max(depth for _, depth in parts) <= 10
    assert sum(len(part.get("enum", ())) for part, _ in parts) <= 1_000
    assert not {"anyOf", "oneOf", "allOf", "$ref"} & set(json.dumps(schema).split('"'))
    for part, _ in parts:
        assert isinstance(part["type"], str)
        if part["type"] == "object":
            assert part["additionalProperties"] is False
            assert set(part["required"]) <= set(part["properties"])


def test_a_workflow_fits_its_schema():
    answer = {
        "description": "d",
        "inputs": [{"name": "a", "type": "str", "description": "An a"}],
        "nodes": [{"id": "n", "type": "t-1", "params": [{"name": "p", "value": "${a}"}]}],
        "edges": [],
    }
    jsonschema.validate(answer, SCHEMAS["workflow"])
    answer["nodes"][0]["type"] = "t-99"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(answer, SCHEMAS["workflow"])


def test_a_saved_workflow_can_be_chosen_only_if_there_is_one():
    assert "existing" not in SCHEMAS["selection without saved workflows"]["properties"]
    assert SCHEMAS["selection"]["properties"]["existing"]["enum"] == ["", "old"]
    for name, kinds in (
        ("selection", ["new_composition", "found_existing"]),
        ("selection without saved workflows", ["new_composition"]),
    ):
        assert SCHEMAS[name]["properties"]["selection_type"]["enum"] == kinds
