from __future__ import annotations

import json
import sys

import attrs
import pytest

from pflow_mcp_plugin.contract import FAILURES, Entry, Field, Interface, Problem
from pflow_mcp_plugin.host.workflow import check_workflow, normalise
from pflow_mcp_plugin.host.workflow.findings import did_you_mean

SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}, "owner": {"type": "object"}}}

FILES = {
    "$defs": {
        "File": {"properties": {"name": {"type": "string"}, "above": {"$ref": "#/$defs/Above"}}},
        "Above": {"anyOf": [{"$ref": "#/$defs/File"}, {"type": "null"}]},
        "Endless": {"$ref": "#/$defs/Endless"},
    },
    "items": {"$ref": "#/$defs/File"},
}


class Types:
    """A registry of a few node types."""

    def __init__(self):
        self.known = {
            "make": Entry(
                node="make",
                class_name="Make",
                module="m",
                interface=Interface(
                    params=(
                        Field(key="title", type="str", required=True),
                        Field(key="count", type="int"),
                        Field(key="color", type="str", schema={"enum": ["red", "green"]}),
                    ),
                    outputs=(
                        Field(key="issue_url", type="str"),
                        Field(key="result", type="dict"),
                        Field(key="issue", type="dict", schema=SCHEMA),
                    ),
                ),
            ),
            "list": Entry(
                node="list",
                class_name="List",
                module="m",
                interface=Interface(
                    outputs=(
                        Field(key="closed", type="dict", schema={**SCHEMA, "additionalProperties": False}),
                        Field(key="issues", type="list", schema={"items": SCHEMA}),
                        Field(key="files", type="list", schema=FILES),
                    ),
                ),
            ),
            "more": Entry(
                node="more",
                class_name="More",
                module="m",
                interface=Interface(outputs=(Field(key="message"),), open_outputs=True, result="message"),
            ),
            "perhaps": Entry(
                node="perhaps",
                class_name="Perhaps",
                module="m",
                interface=Interface(
                    params=(Field(key="count", type="int"),),
                    inputs=("count",),
                    outputs=(Field(key="message"),),
                    open_outputs=None,
                ),
            ),
            "any": Entry(node="any", class_name="Any", module="m", interface=Interface(open=True)),
            "call": Entry(
                node="call",
                class_name="Call",
                module="m",
                interface=Interface(actions=("default", *sorted(FAILURES))),
            ),
            "once": Entry(
                node="once", class_name="Once", module="m", retryable=False, interface=Interface(open=True)
            ),
            "says": Entry(node="says", class_name="Says", module="m", claimed_purity="flow_safe"),
            "reads": Entry(node="reads", class_name="Reads", module="m", purity="flow_safe"),
            "file": Entry(node="file", class_name="File", module="m", purity="flow_safe", cacheable=False),
            "pick": Entry(
                node="pick",
                class_name="Pick",
                module="m",
                interface=Interface(actions=("default", "done")),
            ),
        }

    def find(self, node_type):
        return self.known.get(node_type)

    def missing(self, node_type):
        return Problem(message=f"Unknown node type {node_type}", suggestion="Sync it", kind="not_found")

    def unmet(self, node_types):
        return ()

    def check_use(self, use):
        return ()

    def upgrade(self, node):
        return (
            {**node, "type": "make", "params": {"title": "old"}} if node.get("type") == "old_make" else None
        )


def check(workflow, given=None):
    return [
        (p.severity, p.path, p.message, p.suggestion)
        for p in check_workflow(workflow, Types(), given).problems
    ]


def make(node_id="a", **params):
    return {"id": node_id, "type": "make", "params": {"title": "t", **params}}


def over(items, **params):
    return {**make(**params), "batch": {"items": items}}


def test_a_batch_of_a_node_that_names_its_result_has_the_outputs_of_a_batch():
    node = {"id": "a", "type": "more", "batch": {"items": [1, 2]}}
    assert check({"nodes": [node], "outputs": {"all": "${a.results}"}}) == []


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("{{folder}}", "${folder}"),
        ("{{ a.result }}", "${a.result}"),
        ("$folder", "${folder}"),
    ],
)
def test_the_template_of_another_program_is_a_warning_if_it_has_a_known_name(written, meant):
    workflow = {
        "inputs": {"folder": {"type": "str"}},
        "nodes": [make("a", title="${folder}"), make("b", title=f"x/{written}/y")],
    }
    message = f"{written} in node b is not a template: it stays as it is"
    assert check(workflow) == [("warning", "$.nodes[1].params.title", message, f"Did you mean {meant}?")]


def test_other_braces_and_dollars_are_not_taken_for_templates():
    for text in ("{{other}}", "$other", "US$folder", r"\$folder", "$$folder", "$5", "{folder}", "{{}}"):
        workflow = {"inputs": {"folder": {}}, "nodes": [make("a", title="${folder}" + f" {text}")]}
        assert check(workflow) == []


def test_a_variable_of_the_shell_is_not_taken_for_a_template(bench):
    shell = {"id": "s", "type": "shell", "params": {"command": "for name in ${name}; do echo $name; done"}}
    workflow = {"inputs": {"name": {"type": "str"}}, "nodes": [shell]}
    assert bench.host.runner.validate(workflow) == ()
    shell["params"]["command"] += " {{name}}"
    assert [problem.severity for problem in bench.host.runner.validate(workflow)] == ["warning"]


@pytest.mark.parametrize("kind", ["float", "number", "float | None"])
def test_an_input_that_may_have_a_fraction_is_a_warning_where_a_whole_number_is_needed(kind):
    workflow = {"inputs": {"n": {"type": kind}}, "nodes": [make("a", count="${n}")]}
    message = f"count of node a must be int, but ${{n}} is {kind}"
    expected = ("warning", "$.nodes[0].params.count", message, "Declare the input n as int")
    assert check(workflow) == [expected]
    workflow["inputs"]["n"]["type"] = "int"
    assert check(workflow) == []


def test_a_good_workflow_has_no_problems():
    workflow = {
        "inputs": {"name": {"type": "string"}},
        "nodes": [make("a", title="Hello ${name}"), make("b", title="${a.issue_url}", count="3")],
        "outputs": {
            "id": "${b.issue.id}",
            "deep": {"source": "${a.result.any.thing[0]}"},
            "why": "${a.error}",
        },
        "metadata": {"author": "me"},
    }
    assert check(workflow) == []


@pytest.mark.parametrize(
    ("workflow", "expected"),
    [
        (None, ("$", "Expected an object, found null")),
        ({"nodes": {}}, ("$.nodes", "Expected a list, found an object")),
        ({}, ("$.nodes", "The workflow has no nodes")),
        ({"nodes": ["x"]}, ("$.nodes[0]", "Expected an object, found a string")),
        ({"nodes": [{}]}, ("$.nodes[0]", "id is missing")),
        ({"nodes": [{"id": 3}]}, ("$.nodes[0].id", "Expected a string, found a number")),
        ({"nodes": [{"id": "", "type": "any"}]}, ("$.nodes[0].id", "id is empty")),
        (
            {"nodes": [{"id": "a.b", "type": "any"}]},
            ("$.nodes[0].id", "The node id 'a.b' may contain only letters, digits, _ and -"),
        ),
        ({"nodes": [{"id": "__a__", "type": "any"}]}, ("$.nodes[0].id", "The node id __a__ is reserved")),
        (
            {"nodes": [{"id": "a", "type": "any", "params": []}]},
            ("$.nodes[0].params", "Expected an object, found a list"),
        ),
        (
            {"nodes": [{"id": "any", "batch": {}}]},
            ("$.nodes[0].batch", "items is missing"),
        ),
        (
            {"nodes": [{"id": "pick"}, make()], "edges": [{"from": "pick", "to": "a", "action": "eror"}]},
            ("$.edges[0].action", "Node pick (pick) never takes the action eror"),
        ),
        ({"nodes": [{"id": "any"}], "edges": [1]}, ("$.edges[0]", "Expected an object, found a number")),
        ({"nodes": [{"id": "any"}], "edges": [{"from": "any"}]}, ("$.edges[0]", "to is missing")),
        (
            {"nodes": [{"id": "any"}], "edges": [{"from": "any", "to": "any", "action": 1}]},
            ("$.edges[0].action", "Expected a string, found a number"),
        ),
        (
            {"nodes": [{"id": "any"}], "inputs": {"x y": {}}},
            ('$.inputs["x y"]', "The input name 'x y' may contain only letters"),
        ),
        (
            {"nodes": [{"id": "any"}], "inputs": {"x": "str"}},
            ("$.inputs.x", "Expected an object, found a string"),
        ),
        (
            {"nodes": [{"id": "any"}], "inputs": {"x": {"type": "strng"}}},
            ("$.inputs.x.type", "Unknown type strng"),
        ),
        (
            {"nodes": [{"id": "any"}], "inputs": {"x": {"type": "int", "default": "many"}}},
            ("$.inputs.x.default", 'The default of input x must be int, got str "many"'),
        ),
        (
            {"nodes": [{"id": "any"}], "inputs": {"x": {"stdin": True}, "y": {"stdin": True}}},
            ("$.inputs.y.stdin", "Only one input can take stdin; x does"),
        ),
        (
            {"nodes": [{"id": "any"}], "outputs": {"x": 3}},
            ("$.outputs.x", "Expected a template or an object with a source"),
        ),
        ({"nodes": [{"id": "any"}], "outputs": {"x": {}}}, ("$.outputs.x", "source is missing")),
        ({"nodes": [{"id": "any"}], "outputs": {"x": "any.y"}}, ("$.outputs.x", "Output x names no value")),
        (
            {"nodes": [{"id": "any"}], "mappings": {"any": 1}},
            ("$.mappings.any", "Expected an object, found a number"),
        ),
        (
            {"nodes": [make()], "mappings": {"a": {"output_mappings": {"issue_url": "__run__"}}}},
            ("$.mappings.a.output_mappings.issue_url", "The name '__run__' is reserved"),
        ),
        (
            {"nodes": [make()], "mappings": {"a": {"output_mappings": {"issue_url": ""}}}},
            ("$.mappings.a.output_mappings.issue_url", "The name '' is reserved"),
        ),
        (
            {"nodes": [{"id": "any"}], "mappings": {"any": {"input_mappings": {"a": 1}}}},
            ("$.mappings.any.input_mappings.a", "Expected a string, found a number"),
        ),
        (
            {"nodes": [{"id": "any"}], "mappings": {"nay": {}}},
            ("$.mappings.nay", "Mapping of unknown node nay"),
        ),
        (
            {"nodes": [{"id": "any"}], "template_resolution_mode": "lax"},
            ("$.template_resolution_mode", "Unknown template resolution mode lax"),
        ),
        (
            {"nodes": [{"id": "any"}], "enable_namespacing": "no"},
            ("$.enable_namespacing", "Expected true or false, found a string"),
        ),
        (
            {"nodes": [{"id": "any"}], "start_node": "any2"},
            ("$.start_node", "start_node names unknown node any2"),
        ),
        (
            {"nodes": [{"id": "any"}, {"id": "any"}]},
            ("$.nodes[1].id", "Node id any is already used by $.nodes[0]"),
        ),
        (
            {"nodes": [{"id": "any"}], "inputs": {"any": {}}},
            ("$.nodes[0].id", "Node id any is also the name of an input"),
        ),
        ({"nodes": [{"id": "a", "type": "nope"}]}, ("$.nodes[0].type", "Unknown node type nope")),
        ({"nodes": [make(titel="x")]}, ("$.nodes[0].params.titel", "Node a (make) has no parameter titel")),
        ({"nodes": [make(__x__="x")]}, ("$.nodes[0].params.__x__", "Parameter __x__ of node a is reserved")),
        ({"nodes": [{"id": "make"}]}, ("$.nodes[0].params", "Node make (make) needs parameter title")),
        (
            {"nodes": [make(count="many")]},
            ("$.nodes[0].params.count", 'Parameter count of node a must be int, got str "many"'),
        ),
        (
            {"nodes": [make(color="blue")]},
            ("$.nodes[0].params.color", 'Parameter color of node a must be one of "red", "green"'),
        ),
        (
            {"nodes": [make()], "edges": [{"from": "a", "to": "b"}]},
            ("$.edges[0].to", "Edge to unknown node b"),
        ),
        (
            {"nodes": [make()], "edges": [{"from": "b", "to": "a"}]},
            ("$.edges[0].from", "Edge from unknown node b"),
        ),
        (
            {"nodes": [make(), make("b")], "edges": [{"from": "a", "to": "b"}, {"from": "a", "to": "a"}]},
            ("$.edges[1]", "Node a already has an edge for action default, $.edges[0]"),
        ),
        (
            {"nodes": [make()], "edges": [{"from": "a", "to": "a"}]},
            ("$.nodes[0]", "The loop a -> a has no way out"),
        ),
        (
            {
                "nodes": [{"id": "a", "type": "call"}, {"id": "b", "type": "call"}],
                "edges": [{"from": "a", "to": "b"}, {"from": "b", "to": "a"}],
            },
            ("$.nodes[0]", "The loop a -> b -> a has no way out"),
        ),
        (
            {"nodes": [make(title="${b.x}")]},
            ("$.nodes[0].params.title", "${b.x} in node a names an unknown value"),
        ),
        (
            {"nodes": [make(title=["${b.x}"]), make("b")]},
            ("$.nodes[0].params.title[0]", "${b.x} names node b, which does not run before node a"),
        ),
        (
            {"nodes": [make(title="${a.issue_url}")]},
            ("$.nodes[0].params.title", "${a.issue_url} names node a, which"),
        ),
        (
            {"nodes": [make(), make("b", title="${a.issue_ulr}")]},
            ("$.nodes[1].params.title", "${a.issue_ulr}: node a (make) has no output issue_ulr"),
        ),
        (
            {"inputs": {"n": {"type": "int"}}, "nodes": [make(title="${n.first}")]},
            ("$.nodes[0].params.title", "${n.first}: n is int and has no members"),
        ),
        (
            {"nodes": [make(), make("b", title="${a.issue.id.x}")]},
            ("$.nodes[1].params.title", "${a.issue.id.x}: id is integer and has no members"),
        ),
        (
            {"nodes": [{"id": "list"}, make(title="${list.closed.name}")]},
            ("$.nodes[1].params.title", "${list.closed.name}: the schema of closed names no name"),
        ),
        (
            {"nodes": [over([{"name": 1}, {"name": 2}], title="${item.path}")]},
            ("$.nodes[0].params.title", "${item.path}: the schema of item names no path"),
        ),
        (
            {"nodes": [over([1, None], title="${item.path}")]},
            ("$.nodes[0].params.title", "${item.path}: item is int | None and has no members"),
        ),
        (
            {"inputs": {"n": {"type": "object | array"}}, "nodes": [make(count="${n}")]},
            ("$.nodes[0].params.count", "count of node a must be int, but ${n} is object | array"),
        ),
        (
            {"inputs": {"n": {"type": "int"}}, "nodes": [{"id": "any", "batch": {"items": "${n}"}}]},
            ("$.nodes[0].batch.items", "items of node any must be list, but ${n} is int"),
        ),
        (
            {"nodes": [make(title="${HOME:-x}")]},
            ("$.nodes[0].params.title", "${HOME:-x} in node a is not a template"),
        ),
        (
            {"nodes": [make()], "outputs": {"o": "${a.urll}"}},
            ("$.outputs.o", "${a.urll}: node a (make) has no output urll"),
        ),
        (
            {"nodes": [make()], "mappings": {"a": {"input_mappings": {"title": "headline"}}}},
            ("$.mappings.a.input_mappings.title", "headline in node a names an unknown value"),
        ),
    ],
)
def test_a_mistake_is_found_with_its_place(workflow, expected):
    errors = [(path, message) for severity, path, message, _ in check(workflow) if severity == "error"]
    path, begins = expected
    assert any(where == path and message.startswith(begins) for where, message in errors), errors
    assert all(step for *_, step in check(workflow)), "a problem has no next step"


def test_an_expression_in_a_template_is_sent_to_transform():
    found = check({"nodes": [make()], "outputs": {"o": "${a.files[*].name}"}})
    (step,) = [step for _, path, _, step in found if path == "$.outputs.o"]
    assert "a node transform takes expressions" in step


@pytest.mark.parametrize(
    ("workflow", "suggestion"),
    [
        ({"nodes": [make(titel="x")]}, "Did you mean title?"),
        ({"nodes": [make(zzz="x")]}, "It takes title, count, color"),
        ({"nodes": [make(), make("b", title="${a.issue_ulr}")]}, "Did you mean issue_url or issue?"),
        ({"nodes": [make(), make("b", title="${a.zzz}")]}, "It has issue_url, result, issue"),
        ({"nodes": [make("fetch"), make("b", title="${fetc.result}")]}, "Did you mean fetch?"),
        ({"nodes": [make("fetch"), make("b", title="${result.x}")]}, "Did you mean ${fetch.result}?"),
        ({"nodes": [make("fetch"), make("b") | {"when": "result.x"}]}, "Did you mean fetch.result?"),
        ({"nodes": [make("q"), make("b") | {"when": "zzz.y > `3`"}]}, "It can name q"),
        ({"nodes": [make("fetch")], "edges": [{"from": "fetch", "to": "fetsh"}]}, "Did you mean fetch?"),
        ({"nodes": [make()], "inputs": {"x": {"type": "strng"}}}, "Did you mean str?"),
        ({"nodes": [make()], "inputs": {"x": {"defualt": 1}}}, "Did you mean default?"),
        ({"nodes": [make()], "edges": [{"from": "a", "to": "a", "acton": "x"}]}, "Did you mean action?"),
        (
            {"nodes": [make()], "edges": [{"from": "a", "to": "a", "zz": 1}]},
            "The keys are action, from, to, when",
        ),
        ({"nodes": [{"id": "any", "parms": {}}]}, "Did you mean params?"),
        ({"nodes": [make()], "outputs": {"o": "a.result"}}, "Write ${a.result}"),
        ({"nodes": [{"id": "x"}]}, "Sync it"),
        (
            {"nodes": [{"id": "pick"}, make()], "edges": [{"from": "pick", "to": "a", "action": "no"}]},
            "It takes default, done",
        ),
        ({"nodes": [make(title="${x}")]}, "Declare x under inputs; write $${ for a literal ${"),
        ({"nodes": [make("q"), make(title="${x}")]}, "It can name q; write $${ for a literal ${"),
    ],
)
def test_a_problem_names_the_next_step(workflow, suggestion):
    assert suggestion in [step for *_, step in check(workflow)]


@pytest.mark.parametrize(
    ("workflow", "places"),
    [
        (
            {"nodes": [{"id": "a", "type": 5, "params": {"x": "${y}"}}, make("b", title="${a.x}")]},
            ["$.nodes[0].type", "$.nodes[0].params.x"],
        ),
        (
            {"nodes": [{"id": "make", "params": []}]},
            ["$.nodes[0].params"],
        ),
        (
            {"nodes": [{**make("a.b"), "type": "nope"}, make("b")], "edges": [{"from": "a.b", "to": "b"}]},
            ["$.nodes[0].id", "$.nodes[0].type"],
        ),
        (
            {"nodes": [{**make(title="${row}"), "batch": {"as": "row"}}, make("b", title="${a.results[0]}")]},
            ["$.nodes[0].batch"],
        ),
        (
            {"nodes": [{**make(title="${item}"), "batch": [1]}, make("b", count="${a.count}")]},
            ["$.nodes[0].batch"],
        ),
    ],
)
def test_what_follows_from_a_mistake_is_not_complained_about(workflow, places):
    assert [path for _, path, *_ in check(workflow)] == places


@pytest.mark.parametrize(
    ("workflow", "expected"),
    [
        ({"nodes": [make()], "nods": []}, ("$.nods", "Unknown key nods")),
        (
            {"nodes": [make(), make("b")], "edges": [{"from": "a", "to": "b", "acton": "error"}]},
            ("$.edges[0].acton", "Unknown key acton"),
        ),
        (
            {"nodes": [make(title="${x}")], "inputs": {"x": {"defualt": 1}}},
            ("$.inputs.x.defualt", "Unknown key defualt"),
        ),
        (
            {"nodes": [{"id": "once", "retry": {"max": 1}}]},
            ("$.nodes[0].retry", "Node once (once) is never retried: retrying it could do harm"),
        ),
        (
            {"nodes": [{"id": "once", "cache": True}]},
            ("$.nodes[0].cache", "Node once (once) is never cached: it may change something"),
        ),
        (
            {"nodes": [{"id": "says", "cache": {"ttl": 5}}]},
            ("$.nodes[0].cache", "Node says (says) is never cached: it may change something"),
        ),
        (
            {"nodes": [{"id": "file", "cache": True}]},
            ("$.nodes[0].cache", "Node file (file) is never cached: its results are not kept"),
        ),
        (
            {"nodes": [{"id": "once", "batch": {"items": [1], "max_retries": 1}}]},
            ("$.nodes[0].batch.max_retries", "Node once (once) is never retried: retrying it could do harm"),
        ),
        ({"nodes": [{"id": "any", "parms": {}}]}, ("$.nodes[0].parms", "Unknown key parms")),
        (
            {"nodes": [make(), make("b")], "edges": [{"from": "a", "to": "a", "action": "x"}]},
            ("$.nodes[1]", "Node b is never reached from a"),
        ),
        (
            {"nodes": [make(), make("b")], "edges": [{"from": "a", "to": "b", "action": "eror"}]},
            ("$.edges[0].action", "Node a (make) never takes the action eror"),
        ),
        (
            {
                "nodes": [make(), make("b", title="${c.result.x}"), make("c")],
                "edges": [{"from": "a", "to": "c"}],
            },
            ("$.nodes[1]", "Node b is never reached from a"),
        ),
        ({"nodes": [make()], "inputs": {"x": {}}}, ("$.inputs.x", "Input x is not used")),
        (
            {"nodes": [make(), make("b", title="${a.issue.name}")]},
            ("$.nodes[1].params.title", "${a.issue.name}: the schema of issue names no name"),
        ),
        (
            {"nodes": [make(), make("b", count="${a.result}")]},
            ("$.nodes[1].params.count", "count of node b must be int, but ${a.result} is dict"),
        ),
        (
            {"nodes": [{"id": "pick"}], "edges": [{"from": "pick", "to": "pick"}]},
            ("$.nodes[0]", "The loop pick -> pick has no way out"),
        ),
        (
            {"nodes": [make()], "mappings": {"a": {"output_mappings": {"urll": "x"}}}},
            ("$.mappings.a.output_mappings.urll", "Node a (make) has no output urll"),
        ),
        (
            {"nodes": [make(title="${nowhere}")], "template_resolution_mode": "permissive"},
            ("$.nodes[0].params.title", "${nowhere} in node a names an unknown value"),
        ),
        ({"nodes": [{**make(), "prams": {"title": "t"}}]}, ("$.nodes[0].prams", "Unknown key prams")),
        ({"nodes": [{**make(), "param": {}, "type": "make"}]}, ("$.nodes[0].param", "Unknown key param")),
        (
            {"nodes": [{"id": "more"}, make(title="${more.mesage}")]},
            ("$.nodes[1].params.title", "${more.mesage}: node more (more) declares no output mesage"),
        ),
        (
            {"nodes": [{"id": "perhaps"}, make(title="${perhaps.sender}")]},
            (
                "$.nodes[1].params.title",
                "${perhaps.sender}: node perhaps (perhaps) declares no output sender",
            ),
        ),
        (
            {"enable_namespacing": False, "nodes": [{"id": "perhaps"}, make(title="${sender}")]},
            ("$.nodes[1].params.title", "${sender} in node a names an unknown value"),
        ),
        (
            {"nodes": [{"id": "list"}, over("${list.issues}", title="${item.path}")]},
            ("$.nodes[1].params.title", "${item.path}: the schema of item names no path"),
        ),
        (
            {"nodes": [{"id": "list"}, over("${list.files}", title="${item.above.above.path}")]},
            ("$.nodes[1].params.title", "${item.above.above.path}: the schema of above names no path"),
        ),
        (
            {
                "nodes": [
                    {"id": "list", "batch": {"items": [1]}},
                    over("${list.results[0].files}", title="${item.path}"),
                ]
            },
            ("$.nodes[1].params.title", "${item.path}: the schema of item names no path"),
        ),
        (
            {"nodes": [{**over([1]), "id": "b"}, over("${b.results}", title="${item.url}")]},
            ("$.nodes[1].params.title", "${item.url}: the schema of item names no url"),
        ),
        (
            {"nodes": [over([{"n": 1}], count="${item}")]},
            ("$.nodes[0].params.count", "count of node a must be int, but ${item} is dict"),
        ),
        (
            {"nodes": [make(), make("b", count="${a.issue.owner}")]},
            ("$.nodes[1].params.count", "count of node b must be int, but ${a.issue.owner} is object"),
        ),
        (
            {"inputs": {"n": {"type": "string"}}, "nodes": [make(count="${n}")]},
            ("$.nodes[0].params.count", "count of node a must be int, but ${n} is string"),
        ),
        (
            {"inputs": {"n": {"type": "str"}}, "nodes": [over("${n}")]},
            ("$.nodes[0].batch.items", "items of node a must be list, but ${n} is str"),
        ),
        (
            {"inputs": {"count": {"type": "str"}}, "nodes": [{"id": "perhaps"}]},
            ("$.inputs.count", "count of node perhaps must be int, but input count is str"),
        ),
        (
            {
                "inputs": {"n": {"type": "dict"}},
                "nodes": [{"id": "perhaps"}],
                "mappings": {"perhaps": {"input_mappings": {"count": "n"}}},
            },
            ("$.inputs.n", "count of node perhaps must be int, but input n is dict"),
        ),
    ],
)
def test_what_may_be_meant_is_a_warning_only(workflow, expected):
    found = check(workflow)
    assert expected in [(path, message) for _, path, message, _ in found]
    assert {severity for severity, *_ in found} == {"warning"}


@pytest.mark.parametrize(
    "workflow",
    [
        {"inputs": {"title": {}}, "nodes": [{"id": "make"}]},
        {
            "inputs": {"t": {}},
            "nodes": [{"id": "make"}],
            "mappings": {"make": {"input_mappings": {"title": "t"}}},
        },
        {
            "nodes": [make(), {"id": "b", "type": "make"}],
            "mappings": {"a": {"output_mappings": {"issue_url": "title"}}},
        },
        {"nodes": [make(), make("b", title="${a}")]},
        {"nodes": [make(), make("b", title='${a.result["any key"].x}')]},
        {"nodes": [make(title="$${HOME}")]},
        {"nodes": [make(), make("b")], "edges": [{"from": "a", "to": "b", "action": "timeout"}]},
        {"nodes": [make(), make("b")], "edges": [{"from": "a", "to": "b", "action": "mine"}]},
        {"nodes": [{"id": "pick"}, make()], "edges": [{"from": "pick", "to": "a", "action": "done"}]},
        {"nodes": [{"id": "any", "retry": {"max": 1}}]},
        {"nodes": [{"id": "reads", "cache": {"ttl": 5}}]},
        {"nodes": [{"id": "once", "cache": False}]},
        {"inputs": {"n": {"type": "float | dict"}}, "nodes": [make(title="${n}", count="${n}")]},
        {"inputs": {"n": {"type": "dict"}}, "nodes": [make(title="the ${n}", count="${n.count}")]},
        {"nodes": [{"id": "once", "batch": {"items": [1]}}]},
        {"nodes": [{**make(), "version": "1.0.0", "mcp_metadata": {}, "position": [1, 2], "types": 1}]},
        {"nodes": [make(), make("b")], "edges": [{"from": "b", "to": "a"}], "start_node": "b"},
        {"nodes": [make(), make("b", title="${a.issue_url}", count="${a.result.n}")]},
        {"nodes": [make(), make("b", title="${a.issue_url.host}")]},
        {"inputs": {"n": {"type": "str | None"}}, "nodes": [make(title="${n[0].x}")]},
        {"nodes": [{"id": "more"}, make(title="${more.message_id}", count="${more.any[0].thing}")]},
        {"enable_namespacing": False, "nodes": [{"id": "more"}, make(title="${message_id}")]},
        {
            "nodes": [{"id": "more"}, make(title="${m}")],
            "mappings": {"more": {"output_mappings": {"message_id": "m"}}},
        },
        {
            "nodes": [
                {"id": "more", "batch": {"items": [1]}},
                over("${more.results}", title="${item.message_id}"),
            ]
        },
        {"nodes": [{"id": "list"}, over("${list.issues}", count="${item.id}", title="${item.owner.name}")]},
        {"inputs": {"n": {}}, "nodes": [over([{"a": 1}, {"b": "${n}"}], title="x ${item.b}")]},
        {"inputs": {"n": {}}, "nodes": [over(["${n}", 1], title="x ${item.b}")]},
        {"nodes": [over(["{}", "a"], title="${item.b}")]},
        {"nodes": [{"id": "list"}, over("${list.files}", title="${item.above.name}")]},
        {"inputs": {"l": {"type": "list"}}, "nodes": [over("${l}", title="${item.b}", count="${item}")]},
        {"inputs": {"n": {"type": "int"}}, "nodes": [make(title="${n}")]},
        {"nodes": [make("b"), make(count="${b.issue_url}")]},
    ],
)
def test_what_is_right_is_not_complained_about(workflow):
    assert check(workflow) == []


def test_a_loop_with_an_exit_is_fine_and_may_refer_back():
    workflow = {
        "nodes": [make("a", title="${b.issue_url}"), make("b")],
        "edges": [{"from": "a", "to": "b"}, {"from": "b", "to": "a", "action": "again"}],
    }
    assert check(workflow) == []


def test_without_namespacing_earlier_outputs_are_at_the_root():
    workflow = {"enable_namespacing": False, "nodes": [make(), make("b", title="${issue_url}")]}
    assert check(workflow) == []
    late = {"enable_namespacing": False, "nodes": [make(title="${issue_url}")]}
    assert [message for _, _, message, _ in check(late)] == ["${issue_url} in node a names an unknown value"]


def test_without_namespacing_a_run_may_bring_what_is_not_declared():
    workflow = {"enable_namespacing": False, "nodes": [{"id": "make"}]}
    assert [severity for severity, *_ in check(workflow)] == ["warning"]
    assert check(workflow, frozenset({"title"})) == []
    assert [severity for severity, *_ in check(workflow, frozenset())] == ["error"]


def test_older_shapes_are_upgraded_and_turn_namespacing_off():
    checked = check_workflow({"nodes": [{"id": "x", "type": "old_make"}]}, Types())
    assert checked.document.nodes[0].type == "make"
    assert not checked.document.namespaced
    asked = check_workflow({"enable_namespacing": True, "nodes": [{"id": "x", "type": "old_make"}]}, Types())
    assert asked.document.namespaced


def test_normalising_adds_version_types_and_a_chain_and_leaves_the_original_alone():
    workflow = {"nodes": [{"id": "a", "mine": 1}, {"id": "b", "type": "x"}, {"id": "c"}]}
    before = json.dumps(workflow)
    normal = normalise(workflow)
    assert json.dumps(workflow) == before
    assert normal["ir_version"]
    assert normal["nodes"][0] == {"id": "a", "mine": 1, "type": "a"}
    assert normal["edges"] == [{"from": "a", "to": "b"}, {"from": "b", "to": "c"}]
    assert normalise(normal) == normal


def test_every_problem_is_reported_at_once():
    workflow = {
        "nodes": [make(titel=1, count="x"), {"id": "b", "type": "nope"}, {"id": "c"}, 5],
        "edges": [{"from": "a", "to": "z"}],
        "outputs": {"o": "${q}"},
    }
    assert len([severity for severity, *_ in check(workflow) if severity == "error"]) >= 7


def test_a_very_deep_workflow_is_refused_not_crashed_on():
    value = []
    for _ in range(5000):
        value = [value]
    assert [message for _, _, message, _ in check({"nodes": [], "metadata": value})] == [
        "The workflow is nested deeper than 100 levels"
    ]


def chain(count, **others):
    titles = ["x", *(f"${{n{number}.issue_url}}" for number in range(count - 1))]
    nodes = [{"id": f"n{at}", "type": "make", "params": {"title": title}} for at, title in enumerate(titles)]
    return {"nodes": nodes, **others}


def loop(count):
    edges = [{"from": f"n{at}", "to": f"n{(at + 1) % count}"} for at in range(count)]
    return chain(count, edges=edges)


def ways_back(count):
    there = [{"from": f"n{at}", "to": f"n{at + 1}"} for at in range(count - 1)]
    back = [{"from": f"n{at + 1}", "to": f"n{at}", "action": "error"} for at in range(count - 1)]
    return chain(count, edges=[*there, *back])


def mapped(count):
    mappings = {f"n{at}": {"output_mappings": {"issue_url": f"u{at}"}} for at in range(count)}
    return chain(count, mappings=mappings)


SHAPES = {
    "chain": chain,
    "one store for all": lambda count: chain(count, enable_namespacing=False),
    "loop": loop,
    "ways back": ways_back,
    "mapped": mapped,
    "never reached": lambda count: chain(count, edges=[{"from": "n0", "to": "n1"}]),
    "with inputs": lambda count: chain(count, inputs={f"i{at}": {"type": "str"} for at in range(count)}),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_work_of_a_check_grows_with_the_nodes_not_with_their_square(shape):
    few, many = (instructions(lambda size=size: check(SHAPES[shape](size))) for size in (60, 240))
    assert many < few * 4.6


def _nothing():
    pass


def instructions(do):
    """Count the bytecode instructions of a call: a measure that does not depend on the machine's load."""
    counted = 0

    def count(frame, event, arg):
        nonlocal counted
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        counted += event == "opcode"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        _nothing()  # Python 3.12 sends opcode events only once a frame has asked for them
        sys.settrace(count)
        counted = 0
        do()
    finally:
        sys.settrace(before)
    return counted


def test_a_withheld_node_is_an_error_at_its_type():
    types = Types()
    reason = Problem(message="make changed", suggestion="Run: approve make")
    types.known["make"] = attrs.evolve(types.known["make"], withheld=reason)
    nodes = [{"id": "one", "type": "list"}, {"id": "two", "type": "make", "params": {"title": "x"}}]
    checked = check_workflow({"nodes": nodes, "edges": [{"from": "one", "to": "two"}]}, types)
    assert checked.problems == (attrs.evolve(reason, path="$.nodes[1].type"),)


def test_a_suggestion_leaves_out_names_that_are_much_less_similar():
    assert did_you_mean("contnt", ["result", "content_blocks", "content"]) == "Did you mean content?"
    assert did_you_mean("titel", ["title", "state"]) == "Did you mean title or state?"
    assert did_you_mean("x", ["title"], "It has title") == "It has title"
