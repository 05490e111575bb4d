"""No layer refuses arguments that fit the schema of a tool, and each passes them on as they are.

The arguments of 527 real tools, and of some nasty schemas, are made by hypothesis-jsonschema.
"""

import os

import livemcpbench
import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from jsonschema import Draft202012Validator
from jsonschema.validators import validator_for
from schema_values import from_schema

from pflow_mcp_plugin import calls
from pflow_mcp_plugin.cli.tools import info
from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.contract.validators import is_reserved
from pflow_mcp_plugin.nodes import class_for
from pflow_mcp_plugin.schemas.schema_reader import declaration
from pflow_mcp_plugin.storage.json_and_toml import is_same
from pflow_mcp_plugin.types import Tool

SERVERS = {server.name: server.tools for server in livemcpbench.servers()}
EXAMPLES = max(1, int(os.environ.get("PFLOW_EXAMPLES", "40")) // 40)
STEP = 1 if EXAMPLES > 1 else 6
"""By day every sixth tool of each server is called by every way and shown by example, and all at night."""
MISTAKEN = {"read_pdf"}
"""Its `"exclusiveMinimum": true` is of draft 4, of which hypothesis-jsonschema makes nothing."""


def literal(value):
    """Return a value as a workflow has to write it, so that nothing in it is a template."""
    if isinstance(value, str):
        return value.replace("${", "$${")
    if isinstance(value, dict):
        return {key: literal(item) for key, item in value.items()}
    return [literal(item) for item in value] if isinstance(value, list) else value


def pointed(root, reference):
    """Return what `#/a/0/b` points at."""
    for part in reference.split("/")[1:]:
        root = root[int(part)] if isinstance(root, list) else root[part]
    return root


def unrolled(schema, root, depth=3):
    """Return a schema without references, so that what is recursive has an end."""
    if isinstance(schema, list):
        return [unrolled(part, root, depth) for part in schema]
    if not isinstance(schema, dict):
        return schema
    rest = {key: unrolled(part, root, depth) for key, part in schema.items() if key not in ("$ref", "$defs")}
    if "$ref" not in schema:
        return rest
    target = unrolled(pointed(root, schema["$ref"]), root, depth - 1) if depth else False
    return {**rest, "allOf": [*rest.get("allOf", []), target]} if rest else target


def through_every_layer(host, answers, server, tool, arguments):
    """Yield the name of each layer with what it sent, or why it refused the arguments."""
    node_type = next(
        entry.node for entry in host.host.registry.entries(f"mcp-{server}-") if entry.labels["tool"] == tool
    )
    workflow = {"nodes": [{"id": "a", "type": node_type, "params": literal(arguments)}]}
    errors = [str(it) for it in host.host.runner.validate(workflow) if it.severity == "error"]
    yield "validate", errors or arguments
    for layer, attempt in {
        "run": lambda: host.run(workflow),
        "registry run": lambda: host.host.runner.run_node(node_type, arguments).outcome,
        "call": lambda: calls.call(server, tool, **arguments),
        "typed tool": lambda: class_for(node_type)(**arguments).run({}),
    }.items():
        answers.calls.clear()
        try:
            answer = attempt()
            yield layer, answers.calls[0].arguments if answers.calls else getattr(answer, "error", answer)
        except (PflowError, TypeError) as error:
            yield layer, str(error)


def check(host, answers, server, name, schema, examples):
    known = declaration(schema)

    @settings(
        max_examples=examples, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck)
    )
    @given(arguments=from_schema({**unrolled(schema, schema), "type": "object"}))
    def passes(arguments):
        if not known.open:  # an unknown key is refused where others are listed
            arguments = {key: value for key, value in arguments.items() if key in known.properties}
        arguments = {key: value for key, value in arguments.items() if not is_reserved(key)}
        assume(Draft202012Validator(schema).is_valid(arguments))
        for layer, sent in through_every_layer(host, answers, server, name, arguments):
            assert is_same(sent, arguments), f"{name}: {layer}: {sent}"

    passes()


CIRCLE = {"properties": {"shape": {"const": "circle"}, "size": {"type": "number"}}, "required": ["shape"]}
SQUARE = {"properties": {"shape": {"const": "square"}, "size": {"type": "string"}}, "required": ["shape"]}
TREE = {
    "type": "object",
    "properties": {
        "value": {"type": "integer"},
        "below": {"items": {"$ref": "#/$defs/tree"}, "type": "array"},
    },
    "required": ["value"],
}


def of_a(schema, **others):
    """Return the schema of a tool with one argument, which it needs."""
    return {"properties": {"a": schema}, "required": ["a"], **others}


ODD_NAMES = ["__typename", "class", "self", "a.b", "a b", "", "server", "tool", "é", "$x", "error", "result"]
NASTY = {
    "any-arguments": {},
    "beside-a-reference": {
        "$ref": "#/$defs/tree",
        "properties": {"more": {"type": "string"}},
        "$defs": {"tree": TREE},
    },
    "then-and-else": {
        "properties": {"kind": {"enum": ["a", "b"]}},
        "required": ["kind"],
        "if": {"properties": {"kind": {"const": "a"}}},
        "then": {"properties": {"of_a": {"type": "integer"}}, "required": ["of_a"]},
        "else": {"properties": {"of_b": {"type": ["string", "null"]}}},
    },
    "dependent": {
        "properties": {"a": {"type": "integer"}},
        "dependentSchemas": {"a": {"properties": {"b": {"type": "string"}}, "required": ["b"]}},
    },
    "opened-inside": {
        "properties": {"a": {}},
        "anyOf": [{"additionalProperties": {"type": "integer"}}, {"required": ["a"]}],
    },
    "one-of-several-inside": of_a({"oneOf": [CIRCLE, SQUARE]}),
    "all-of-several": {
        "allOf": [{"$ref": "#/$defs/tree"}, {"properties": {"name": {"type": "string"}}}],
        "$defs": {"tree": TREE},
    },
    "recursive": of_a({"$ref": "#/$defs/tree"}, **{"$defs": {"tree": TREE}}),
    "odd-names": {"properties": {name: {"type": "string"} for name in ODD_NAMES}, "required": ODD_NAMES},
    "mixed-choices": of_a({"enum": [1, True, "1", None, 0.5, [1], {"a": 1}]}),
    "tuple": of_a(
        {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": False}
    ),
    "map": of_a({"additionalProperties": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}),
    "numbers": of_a({"type": "number", "exclusiveMinimum": 0, "multipleOf": 0.5}),
    "counted": of_a(
        {"type": "array", "contains": {"type": "integer"}, "maxContains": 2, "uniqueItems": True}
    ),
    "not": of_a({"not": {"type": "string"}}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", NASTY)
def test_arguments_that_fit_a_nasty_schema_reach_the_tool_by_every_way(name, pflow_host):
    schema = {"type": "object", **NASTY[name]}
    answers = pflow_host.stub("nasty", [Tool(name=name, input_schema=schema)])
    answers.give(name, {"ok": True})
    check(pflow_host, answers, "nasty", name, schema, 3 * EXAMPLES)


OF_SOME = {
    "properties": {"kind": {"enum": ["a", "b"]}},
    "if": {"properties": {"kind": {"const": "a"}}, "required": ["kind"]},
    "then": {"properties": {"more": {"type": "string"}, "word": {"enum": ["x", "y"]}}},
}
DRAFT_7 = {"$schema": "http://json-schema.org/draft-07/schema#"}
DRAFT_4 = {"$schema": "http://json-schema.org/draft-04/schema#"}


RARE = {
    "a condition that does not hold": (OF_SOME, {"kind": "b", "more": {"x": 1}, "word": 3}),
    "a dependence on what is absent": (
        {"properties": {"a": {}}, "dependentSchemas": {"a": {"properties": {"b": {"type": "integer"}}}}},
        {"b": [None]},
    ),
    "one alternative only": (
        {"anyOf": [of_a({"type": "integer"}), {"properties": {"b": {"type": "string"}}, "required": ["b"]}]},
        {"a": "1", "b": "x"},
    ),
    "beside a reference of draft 7": (
        {
            **DRAFT_7,
            "properties": {"a": {"$ref": "#/definitions/t", "maxLength": 1, "required": ["x"]}},
            "definitions": {"t": {"type": "string"}},
        },
        {"a": "abc"},
    ),
    "a whole schema beside a reference of draft 7": (
        {**DRAFT_7, "$ref": "#/definitions/t", "required": ["x"], "definitions": {"t": {"type": "object"}}},
        {},
    ),
    "keywords that draft 7 does not have": (
        {**DRAFT_7, "properties": {"a": {"prefixItems": [{"type": "string"}], "maxContains": 1}}},
        {"a": [1, 2]},
    ),
    "keywords that draft 4 does not have": (
        {**DRAFT_4, "properties": {"a": {"const": 1, "if": True, "then": False}}},
        {"a": 2},
    ),
    "a required null that the schema accepts": (
        of_a({"properties": {"b": {"type": "string"}}, "default": None}),
        {"a": None},
    ),
}


@pytest.mark.parametrize("case", RARE)
def test_arguments_that_are_rarely_made_reach_the_tool_by_every_way(case, pflow_host):
    schema, arguments = {"type": "object", **RARE[case][0]}, RARE[case][1]
    assert validator_for(schema, default=Draft202012Validator)(schema).is_valid(arguments)
    answers = pflow_host.stub("nasty", [Tool(name="odd", input_schema=schema)])
    answers.give("odd", {"ok": True})
    for layer, sent in through_every_layer(pflow_host, answers, "nasty", "odd", arguments):
        assert is_same(sent, arguments), f"{layer}: {sent}"


def check_example(host, node_type):
    node = {**info.main([node_type], "pflow", obj=host, standalone_mode=False).data["example"], "id": "a"}
    problems = host.runner.validate({"nodes": [node]})
    assert not [str(it) for it in problems if it.severity == "error"], node


@pytest.mark.slow
@pytest.mark.parametrize("server", SERVERS)
def test_the_example_and_arguments_that_fit_are_taken_for_every_real_tool_by_every_way(server, pflow_host):
    tools = [Tool(name=it["name"], input_schema=it["inputSchema"]) for it in SERVERS[server]]
    answers = pflow_host.stub(server, tools)
    for tool in tools[::STEP]:
        answers.give(tool.name, {"ok": True})
        if tool.name not in MISTAKEN:
            check(pflow_host, answers, server, tool.name, tool.input_schema, EXAMPLES)
    for node_type in pflow_host.nodes()[::STEP]:
        check_example(pflow_host.host, node_type)


@pytest.mark.parametrize("name", sorted(NASTY.keys() - {"not"}))  # what a `not` leaves is not looked for
def test_the_example_of_a_nasty_tool_is_a_node_without_mistakes(name, pflow_host):
    pflow_host.stub("nasty", [Tool(name=name, input_schema={"type": "object", **NASTY[name]})])
    (node_type,) = pflow_host.nodes()
    check_example(pflow_host.host, node_type)
