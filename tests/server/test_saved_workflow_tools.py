"""Saved workflows as typed tools, called by the client of the SDK, which checks results against schemas."""

import json

import attrs
import pytest
from conversations import MODES, talk
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from workflow_parts import edge, flow, step

from pflow_mcp_plugin import workflow_chain
from pflow_mcp_plugin.contract import Field, Interface
from pflow_mcp_plugin.discovery.servers import servers
from pflow_mcp_plugin.exchange import Listing
from pflow_mcp_plugin.server.offer import Offer
from pflow_mcp_plugin.server.pflow_server import RUN_META_KEY, build_server
from pflow_mcp_plugin.server.saved_workflow_tools import (
    SavedWorkflowTools,
    input_schema,
    output_schema,
    type_words,
)
from pflow_mcp_plugin.types import ServerInfo, Tool

GREET = {
    "description": "Greet someone",
    "inputs": {
        "name": {"type": "str", "description": "Whom to greet"},
        "times": {"type": "int", "default": 1},
    },
    "nodes": [{"id": "greet", "type": "echo", "params": {"message": "Hello ${name}"}}],
    "outputs": {
        "greeting": {"source": "${greet.message}!", "description": "The words"},
        "times": "${times}",
    },
}
FAILS = {"nodes": [{"id": "read", "type": "read-file", "params": {"file_path": "/no/such/file"}}]}


@pytest.fixture
def library(pflow_host):
    return pflow_host.host.library


@pytest.fixture(params=MODES)
def call(pflow_host, request):
    """Call a tool of the served workflows; return the result."""

    def call(name, meta=None, /, **arguments):
        offer = Offer(pflow_host.host, workflows=("*",))
        server = build_server(pflow_host.host, offer.tools, offer.options())
        return talk(server, lambda client: client.call_tool(name, arguments, meta=meta), request.param)

    return call


def failure(result):
    """Return the envelope of a failure: in the text alone, as it does not fit the tool's output schema."""
    assert result.structured_content is None
    return json.loads(result.content[0].text)


def tools(pflow_host, *patterns, **more):
    return {tool.name: tool for tool in SavedWorkflowTools(pflow_host.host, patterns, **more)()}


def test_the_expression_of_an_output_is_no_description_of_it(pflow_host, library):
    make = {"id": "make", "type": "transform", "params": {"expression": "length(names)"}}
    outputs = {"count": {"source": "${make.result}"}}
    library.save("count", {"inputs": {"names": {"type": "list"}}, "nodes": [make], "outputs": outputs})
    tool = tools(pflow_host)["count"]
    assert tool.description == "Run the workflow count.\n\nReturns:\n- count (integer)"
    assert tool.output_schema["properties"] == {"count": {"type": "integer"}}


def test_a_saved_workflow_is_a_tool_with_the_types_of_its_inputs_and_outputs(pflow_host, library):
    library.save("greet", GREET)
    tool = tools(pflow_host)["greet"]
    assert tool.title == "Greet"
    assert tool.description == (
        "Greet someone\n\nReturns:\n- greeting (string): The words\n- times (integer)"
    )
    assert tool.input_schema == {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "Whom to greet"},
            "times": {"type": "integer", "default": 1},
        },
        "required": ["name"],
        "additionalProperties": False,
    }
    assert tool.output_schema == {
        "type": "object",
        "properties": {
            "greeting": {"type": "string", "description": "The words"},
            "times": {"type": "integer"},
        },
        "required": ["greeting", "times"],
        "additionalProperties": False,
    }


def test_its_result_are_the_outputs_and_names_the_run(call, library, pflow_host):
    library.save("greet", GREET)
    result = call("greet", name="Ada", times=2)
    assert not result.is_error
    assert result.structured_content == {"greeting": "Hello Ada!", "times": 2}
    run = result.meta[RUN_META_KEY]
    assert pflow_host.host.traces.find(run["run_id"]) == pflow_host.host.traces.find(run["trace_path"])


def test_what_a_run_warned_of_is_beside_its_outputs(call, library):
    batch = {"items": [0, 1], "error_handling": "continue"}
    node = {"id": "send", "type": "shell", "params": {"command": "exit ${item}"}, "batch": batch}
    workflow = {"nodes": [node], "outputs": {"count": "${send.count}"}}
    library.save("send", workflow)
    for _ in range(2):  # in each run
        typed = call("send")
        answer = call("workflow_execute", workflow=workflow).structured_content
        assert typed.structured_content == answer["data"]["outputs"] == {"count": 2}
        for warned in (typed.meta[RUN_META_KEY], answer):
            assert [it["message"] for it in warned["warnings"]] == ["send: 1 of 2 items failed: send[1]"]
    quiet = call("workflow_execute", workflow=GREET, parameters={"name": "Ada"})
    assert "warnings" not in quiet.structured_content


BOUNDED = {
    "size": {"enum": ["small", "large"]},
    "count": {"type": "int", "minimum": 1},
    "code": {"type": "str", "pattern": "^[a-z]+$", "default": "a"},
}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"size": "small"}, "count is missing"),
        ({"size": "small", "count": 1.5}, "count must be of type integer"),
        ({"size": "small", "count": 1, "cuont": 2}, "no argument cuont"),
        ({"size": "huge", "count": 1}, "small"),
        ({"size": "small", "count": 0}, "at least 1"),
        ({"size": "small", "count": 1, "code": "A\n"}, "^[a-z]+$"),
    ],
)
def test_wrong_arguments_are_named_and_nothing_runs(call, library, pflow_host, arguments, said):
    node = {"id": "say", "type": "echo", "params": {"message": "${size} ${count} ${code}"}}
    library.save("bounded", {"inputs": BOUNDED, "nodes": [node], "outputs": {"said": "${say.message}"}})
    result = call("bounded", **arguments)
    assert result.is_error
    assert failure(result)["error"]["type"] == "validation"
    assert said in str(failure(result)["error"])
    assert list(pflow_host.host.traces.paths()) == []
    right = call("bounded", size="large", count=1.0, code="b")
    assert right.structured_content == {"said": "large 1 b"}


def test_a_failure_is_the_envelope_with_checkpoint_and_trace(call, library):
    library.save("fails", FAILS)
    result = call("fails")
    assert result.is_error
    assert failure(result)["success"] is False
    assert {"error", "checkpoint", "trace_path"} <= failure(result).keys()


def test_outputs_of_another_type_than_declared_are_a_failure(call, library, pflow_host):
    schema = {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}
    answers = pflow_host.stub("shop", [{"name": "count", "outputSchema": schema}])
    answers.give("count", {"count": "many"})
    library.save("count", flow(step("count", "mcp-shop-count"), outputs={"count": "${count.count}"}))
    result = call("count")
    assert result.is_error
    error = failure(result)["error"]
    assert error["type"] == "execution"
    assert "$.count: 'many' is not of type 'integer'" in error["message"]
    assert "trace_path" in failure(result)


def test_an_output_that_a_run_may_lack_may_be_null(call, library):
    nodes = FAILS["nodes"][0], step("other", "echo", {"message": 1})
    routed = flow(*nodes, edges=[edge("read", "other", "error")], outputs={"content": "${read.content}"})
    library.save("perhaps", routed)
    assert call("perhaps").structured_content == {"content": None}


@pytest.mark.parametrize(
    ("node", "claims"),
    [
        ({"type": "echo", "params": {"message": 1}}, (True, False, True, False)),
        ({"type": "write-file", "params": {"file_path": "x", "content": ""}}, (False, True, False, False)),
        ({"type": "shell", "params": {"command": ["true"]}}, (False, True, False, True)),
        ({"type": "mcp-shop-look"}, (False, True, False, True)),
    ],
    ids=["echo", "write-file", "shell", "tool"],
)
def test_the_annotations_are_those_of_the_worst_node(pflow_host, library, node, claims):
    pflow_host.stub("shop", [{"name": "look"}])
    library.save("work", flow(step("first", "echo", {"message": 1}), {"id": "last", **node}))
    assert attrs.astuple(tools(pflow_host)["work"].claims) == claims


def test_a_tool_is_read_only_if_the_user_trusts_the_server(pflow_host, library):
    pflow_host.stub("shop", [{"name": "look", "annotations": {"readOnlyHint": True}}])
    library.save("work", {"nodes": [{"id": "look", "type": "mcp-shop-look"}]})
    assert not tools(pflow_host)["work"].claims.read_only
    config = pflow_host.host.paths.config / "mcp-servers.toml"
    config.write_text(config.read_text() + "trust_readonly = true\n")
    pflow_host.host.refresh("mcp")
    claims = tools(pflow_host)["work"].claims
    assert (claims.read_only, claims.destructive, claims.open_world) == (True, False, True)


def test_a_broken_workflow_is_left_out_with_a_warning(pflow_host, library):
    library.save("greet", GREET)
    library.save("lost", {"nodes": [{"id": "x", "type": "no-such-node"}]})
    library.path("corrupt").write_text("{", encoding="utf-8")
    assert [*tools(pflow_host)] == ["greet"]
    said = [warning.message for warning in pflow_host.warnings]
    assert any("Workflow lost is not served as a tool: $.nodes[0].type" in line for line in said)
    assert any("Workflow corrupt is not served as a tool" in line for line in said)


def test_a_pattern_that_matches_nothing_is_warned_about(pflow_host, library):
    library.save("weekly", GREET)
    assert [*tools(pflow_host, "weekly", "daily-*")] == ["weekly"]
    assert [warning.message for warning in pflow_host.warnings] == [
        "--workflows daily-* matches no saved workflow yet"
    ]


def test_a_name_that_another_tool_has_gets_a_prefix(pflow_host, library):
    library.save("greet", GREET)
    assert [*tools(pflow_host, taken=["greet"])] == ["workflow-greet"]


def test_the_tools_follow_the_library(pflow_host, library):
    served = SavedWorkflowTools(pflow_host.host)
    assert served() == ()
    library.save("greet", GREET)
    first = served()
    assert [tool.name for tool in first] == ["greet"]
    assert served() is first
    library.save("greet", {**GREET, "description": "Greet again"})
    assert served()[0].description.startswith("Greet again")
    library.delete("greet")
    assert served() == ()


@pytest.mark.parametrize("ends", ["trust", "claim"])
def test_a_tool_is_read_only_no_longer_than_its_nodes_are(pflow_host, library, ends):
    pflow_host.stub("shop", [{"name": "look", "annotations": {"readOnlyHint": True}}])
    config = pflow_host.host.paths.config / "mcp-servers.toml"
    before = config.read_text()
    config.write_text(f"{before}trust_readonly = true\n")
    library.save("work", {"nodes": [{"id": "look", "type": "mcp-shop-look"}]})
    offer = Offer(pflow_host.host, workflows=["*"], read_only=True)
    assert "work" in {tool.name for tool in offer.tools()}
    if ends == "trust":
        config.write_text(before)
    else:
        known = servers(pflow_host.host.paths)
        listing = Listing(info=ServerInfo(name="shop"), tools=[Tool(name="look")])
        known.catalog.save("shop", listing, known.store.fingerprint("shop"))
    assert "work" not in {tool.name for tool in offer.tools()}


def test_a_workflow_in_the_chain_is_refused_before_it_runs(call, library, pflow_host):
    library.save("greet", GREET)
    chain = ["a" * 32, workflow_chain.identifier(pflow_host.host, "greet")]
    result = call("greet", {workflow_chain.META_KEY: chain}, name="Ada")
    assert result.is_error
    assert failure(result)["error"]["type"] == "validation"
    assert failure(result)["error"]["details"]["circle"] == ["greet", "greet"]
    executed = call(
        "workflow_execute", {workflow_chain.META_KEY: chain}, workflow="greet", parameters={"name": "Ada"}
    )
    assert "greet → greet" in executed.structured_content["error"]["message"]
    assert not pflow_host.host.traces.paths()


def test_a_typed_tool_returns_a_large_value_whole_as_its_schema_says(pflow_host, library, call):
    server = pflow_host.serve("big", [Tool(name="give", input_schema={"type": "object"})])
    server.answers.give("give", "line\n" * 100_000)
    nodes = [{"id": "a", "type": "mcp-big-give"}]
    library.save("give", {"nodes": nodes, "outputs": {"all": {"source": "${a.result}", "type": "str"}}})
    assert call("give").structured_content == {"all": "line\n" * 100_000}


def output(kind="dict", schema=None):
    field = Field(key="it", type=kind, schema=schema)
    return output_schema(Interface(outputs=(field,)))["properties"]["it"]


@pytest.mark.parametrize(
    ("kind", "type_", "words"),
    [
        ("int | None", {"type": ["integer", "null"]}, "integer or null"),
        ("list | dict", {"type": ["array", "object"]}, "array or object"),
        ("string | str", {"type": "string"}, "string"),
        ("file", {}, "any value"),
        ("str | any", {}, "any value"),
    ],
)
def test_each_type_has_its_name_in_json_and_words(kind, type_, words):
    assert output(kind) == type_
    assert type_words(Field(key="x", type=kind)) == words


def test_only_inputs_without_a_default_are_required():
    interface = Interface(
        params=(Field(key="a", type="str", required=True), Field(key="b", schema={"default": None})),
        open=True,
    )
    assert input_schema(interface) == {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"default": None}},
        "required": ["a"],
        "additionalProperties": True,
    }


def test_the_structure_of_an_output_is_kept():
    schema = {
        "type": "object",
        "properties": {"id": {"type": "integer"}, "tags": {"type": "array", "items": {"type": "string"}}},
        "required": ["id"],
    }
    assert output(schema=schema) == schema


@pytest.mark.parametrize(
    "part",
    [
        {"$ref": "#/$defs/File"},
        {"type": "object", "additionalProperties": False, "patternProperties": {"^x": {}}},
        {"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "integer"}},
        {"type": "str"},
        {"type": "string", "enum": ["a"], "pattern": "("},
        {"type": "integer", "nullable": True},
    ],
)
def test_no_part_is_stricter_than_what_a_node_declares(part):
    found = output(schema={"type": "object", "properties": {"part": part}})
    Draft202012Validator.check_schema(found)
    assert found["properties"]["part"] in ({}, {"type": "object"}, {"type": "array"}, {"type": "string"})


def test_a_schema_that_contains_itself_ends():
    schema = {"type": "object"}
    schema["properties"] = {"next": schema}
    assert str(output(schema=schema)).count("next") == 8


def test_a_workflow_without_declared_outputs_may_return_any():
    assert output_schema(Interface(open_outputs=True))["additionalProperties"] is True


_KEYS = st.sampled_from(["type", "properties", "items", "required", "description", "x", "$ref", "enum"])
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["type", "properties", "items", "required", "description"]), _JSON))
def test_any_schema_of_a_node_becomes_a_valid_one(schema):
    Draft202012Validator.check_schema(output(schema=schema))
