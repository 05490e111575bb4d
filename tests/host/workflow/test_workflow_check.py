import sys
from itertools import count

import attrs
import pytest
from node_types import NodeTypes, entry_of, fields
from workflow_parts import edge

from pflow_mcp_plugin.contract import FAILURES, Field, Interface, Problem
from pflow_mcp_plugin.host.workflow import check_workflow

SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}, "owner": {"type": "object"}}}

FILES = {
    "$defs": {
        "File": {"properties": {"name": {"type": "string"}, "above": {"$ref": "#/$defs/Above"}}},
        "Above": {"anyOf": [{"$ref": "#/$defs/File"}, {"type": "null"}]},
        "Endless": {"$ref": "#/$defs/Endless"},
    },
    "items": {"$ref": "#/$defs/File"},
}


class Types(NodeTypes):
    def __init__(self):
        outputs = ("issue_url: str", "result: dict", Field(key="issue", type="dict", schema=SCHEMA))
        colors = Field(key="color", type="str", schema={"enum": ["red", "green"]})
        params = fields("title: str!", "count: int", colors)
        listed = (
            Field(key="closed", type="dict", schema={**SCHEMA, "additionalProperties": False}),
            Field(key="issues", type="list", schema={"items": SCHEMA}),
            Field(key="files", type="list", schema=FILES),
        )
        message, count = fields("message"), fields("count: int")
        perhaps = Interface(params=count, outputs=message, inputs=("count",), open_outputs=None)
        super().__init__(
            entry_of("make", Interface(params=params, outputs=fields(*outputs))),
            entry_of("list", Interface(outputs=listed)),
            entry_of("more", Interface(outputs=message, open_outputs=True, result="message")),
            entry_of("perhaps", perhaps),
            entry_of("any", Interface(open=True)),
            entry_of("call", Interface(actions=("default", *sorted(FAILURES)))),
            entry_of("once", Interface(open=True), retryable=False),
            entry_of("says", claimed_purity="flow_safe"),
            entry_of("reads", purity="flow_safe"),
            entry_of("file", purity="flow_safe", cacheable=False),
            entry_of("pick", Interface(actions=("default", "done"))),
        )

    def upgrade(self, node):
        older = node.get("type") == "old_make"
        return {**node, "type": "make", "params": {"title": "old"}} if older else None


def check(workflow, given=frozenset()):
    return [
        (p.severity, p.path, p.message, p.suggestion)
        for p in check_workflow(workflow, Types(), given).problems
    ]


def make(node_id="a", **params):
    return {"id": node_id, "type": "make", "params": {"title": "t", **params}}


def over(items, **params):
    return {**make(**params), "batch": {"items": items}}


def after_make(**params):
    return only(make(), make("b", **params))


PICK, LIST, PERHAPS, MORE = {"id": "pick"}, {"id": "list"}, {"id": "perhaps"}, {"id": "more"}
ONE = {"items": [1]}
LISTS = {"id": "list", "batch": ONE}
CALL = {"id": "a", "type": "call"}
TITLE, COUNT = "$.nodes[0].params.title", "$.nodes[0].params.count"
LATER, LATER_COUNT = "$.nodes[1].params.title", "$.nodes[1].params.count"
ITEMS = "$.nodes[0].batch.items"
N = {"count": "n"}
OUT, INTO = "$.mappings.a.output_mappings", "$.mappings.a.input_mappings"
NO_PATH = "${item.path}: the schema of item names no path"


def only(*nodes, **more):
    return {"nodes": [*nodes] or [{"id": "any"}], **more}


def edges(*ways):
    """Edges, each written as where it comes from, where it leads and perhaps its action."""
    return [dict(zip(("from", "to", "action"), way.split(), strict=False)) for way in ways]


def typed(kind, *nodes):
    """A workflow with an input `n` of a type."""
    return only(*nodes, inputs={"n": {"type": kind}})


def mapped(node, *others, output=None, into=None, **more):
    """A workflow whose first node has mappings."""
    mappings = {node["id"]: {"output_mappings": output or {}, "input_mappings": into or {}}}
    return only(node, *others, mappings=mappings, **more)


@pytest.mark.parametrize(
    ("written", "meant"),
    [("{{folder}}", "${folder}"), ("{{ a.result }}", "${a.result}"), ("$folder", "${folder}")],
)
def test_the_template_of_another_program_is_a_warning_if_it_has_a_known_name(written, meant):
    workflow = only(make(title="${folder}"), make("b", title=f"x/{written}/y"), inputs={"folder": {}})
    message = f"{written} in node b is not a template: it stays as it is"
    assert check(workflow) == [("warning", "$.nodes[1].params.title", message, f"Did you mean {meant}?")]


def test_other_braces_and_dollars_are_not_taken_for_templates():
    for text in ("{{other}}", "$other", "US$folder", r"\$folder", "$$folder", "$5", "{folder}", "{{}}"):
        assert check(only(make(title="${folder}" + f" {text}"), inputs={"folder": {}})) == []


def test_a_variable_of_the_shell_is_not_taken_for_a_template(bench):
    shell = {"id": "s", "type": "shell", "params": {"command": "for name in ${name}; do echo $name; done"}}
    workflow = only(shell, inputs={"name": {"type": "str"}})
    assert bench.host.runner.validate(workflow) == ()
    shell["params"]["command"] += " {{name}}"
    assert [problem.severity for problem in bench.host.runner.validate(workflow)] == ["warning"]


@pytest.mark.parametrize("kind", ["float", "number", "float | None"])
def test_an_input_that_may_have_a_fraction_is_a_warning_where_a_whole_number_is_needed(kind):
    message = f"count of node a must be int, but ${{n}} is {kind}"
    expected = ("warning", COUNT, message, "Declare the input n as int")
    assert check(typed(kind, make(count="${n}"))) == [expected]
    assert check(typed("int", make(count="${n}"))) == []


@pytest.mark.parametrize(
    ("workflow", "path", "message"),
    [
        (None, "$", "Expected an object, found null"),
        ({}, "$.nodes", "The workflow has no nodes"),
        (only({}), "$.nodes[0]", "id is missing"),
        (only({"id": 3}), "$.nodes[0].id", "Expected a string, found a number"),
        (only({"id": "", "type": "any"}), "$.nodes[0].id", "id is empty"),
        (only({"id": "a.b", "type": "any"}), "$.nodes[0].id", "The node id 'a.b' may contain only"),
        (only({"id": "__a__", "type": "any"}), "$.nodes[0].id", "The node id __a__ is reserved"),
        (only({"id": "any", "batch": {}}), "$.nodes[0].batch", "items is missing"),
        (only({"id": "any", "cache": 3}), "$.nodes[0].cache", "Expected true, false or an object"),
        (only({"id": "any"}, {"id": "any"}), "$.nodes[1].id", "Node id any is already used by $.nodes[0]"),
        (only({"id": "a", "type": "nope"}), "$.nodes[0].type", "Unknown node type nope"),
        (only(PICK, make(), edges=edges("pick a eror")), "$.edges[0].action", "Node pick (pick) never takes"),
        (only(make(), edges=edges("a b")), "$.edges[0].to", "Edge to unknown node b"),
        (only(make(), edges=[{"from": "b", "to": "a", "when": "gone"}]), "$.edges[0].from", "unknown node b"),
        (only(make(), make("b"), edges=edges("a b", "a a")), "$.edges[1]", "Node a already has an edge for"),
        (only(make(), edges=edges("a a")), "$.nodes[0]", "The loop a -> a has no way out"),
        (only(CALL, {**CALL, "id": "b"}, edges=edges("a b", "b a")), "$.nodes[0]", "The loop a -> b -> a"),
        (only(inputs={"x y": {}}), '$.inputs["x y"]', "The input name 'x y' may contain only letters"),
        (only(inputs={"x": {"type": "strng"}}), "$.inputs.x.type", "Unknown type strng"),
        (only(inputs={"x": {"stdin": True}, "y": {"stdin": True}}), "$.inputs.y.stdin", "take stdin; x does"),
        (only(inputs={"any": {}}), "$.nodes[0].id", "Node id any is also the name of an input"),
        (only(outputs={"x": 3}), "$.outputs.x", "Expected a template or an object with a source"),
        (only(outputs={"x": "any.y"}), "$.outputs.x", "Output x names no value"),
        (only(mappings={"nay": {}}), "$.mappings.nay", "Mapping of unknown node nay"),
        (mapped(make(), output={"issue_url": "__run__"}), f"{OUT}.issue_url", "name '__run__' is reserved"),
        (mapped(make(), into={"title": "headline"}), f"{INTO}.title", "headline in node a names an unknown"),
        (only(template_resolution_mode="lax"), "$.template_resolution_mode", "Unknown template resolution"),
        (only(start_node="any2"), "$.start_node", "start_node names unknown node any2"),
        (only(make(titel="x")), "$.nodes[0].params.titel", "Node a (make) has no parameter titel"),
        (only(make(__x__="x")), "$.nodes[0].params.__x__", "Parameter __x__ of node a is reserved"),
        (only({"id": "make"}), "$.nodes[0].params", "Node make (make) needs parameter title"),
        (after_make(count="${a.issue.owner}"), LATER_COUNT, "int, but ${a.issue.owner} is object"),
        (mapped(make(), output={"urll": "x"}), f"{OUT}.urll", "a.urll: node a (make) has no output urll"),
        (only(over([{"n": 1}], count="${item}")), COUNT, "count of node a must be int, but ${item} is dict"),
        (mapped(make(), into=N, inputs={"n": {"type": "dict"}}), f"{INTO}.count", "int, but input n is dict"),
        (only(make(count=["${a.x}", 1])), COUNT, "count of node a must be int, but it is list"),
        (mapped(make(), into={"titel": "a"}), f"{INTO}.titel", "Node a (make) does not read titel"),
        (only(make(count="many")), COUNT, 'Parameter count of node a must be int, got str "many"'),
        (only(make(color="blue")), "$.nodes[0].params.color", "Parameter color of node a must be one of"),
        (only(make(title=["${b.x}"]), make("b")), f"{TITLE}[0]", "${b.x} names node b, which does not run"),
        (only(make(title="${a.issue_url}")), TITLE, "${a.issue_url} names node a, which"),
        (typed("int", make(title="${n.first}")), TITLE, "${n.first}: n is int and has no members"),
        (after_make(title="${a.issue.id.x}"), LATER, "${a.issue.id.x}: id is integer and has no members"),
        (only(LIST, make(title="${list.closed.name}")), LATER, "the schema of closed names"),
        (only(over([{"name": 1}, {"name": 2}], title="${item.path}")), TITLE, "schema of item names no path"),
        (only(over([1, None], title="${item.path}")), TITLE, "${item.path}: item is int | None and has no"),
        (typed("int", over("${n}")), ITEMS, "items of node a must be list, but ${n} is int"),
        (only(make(title="${issue_url}"), enable_namespacing=False), TITLE, "a names an unknown value"),
        (only(make(title="${HOME:-x}")), TITLE, "${HOME:-x} in node a is not a template"),
        (only(make(), outputs={"o": "${a.urll}"}), "$.outputs.o", "node a (make) has no output urll"),
    ],
)
def test_a_mistake_is_found_with_its_place(workflow, path, message):
    found = check(workflow)
    errors = [(where, said) for severity, where, said, _ in found if severity == "error"]
    assert any(where == path and message in said for where, said in errors), errors
    assert all(step for *_, step in found), "a problem has no next step"


@pytest.mark.parametrize(
    ("construct", "key", "most"),
    [
        ("batch", "max_concurrent", 1_000),
        ("batch", "max_retries", 100),
        ("batch", "retry_wait", 3_600),
        ("retry", "max", 100),
        ("retry", "wait", 3_600),
        ("retry", "backoff", 10),
        ("cache", "ttl", 31_536_000),
    ],
)
def test_the_numbers_of_constructs_have_limits(construct, key, most):
    needed = {"batch": {"items": [1]}, "retry": {"max": 1}, "cache": {}}[construct]
    path, step = f"$.nodes[0].{construct}.{key}", f"Write one, or leave {key} out"
    for number, paths in ((most, []), (most + 1, [path]), (-1, [path])):
        found = check(only({"id": "any", construct: {**needed, key: number}}))
        assert [where for severity, where, *_ in found if severity == "error"] == paths
        assert key == "max" or all(it[3] == step for it in found if it[0] == "error")


@pytest.mark.parametrize(
    ("workflow", "suggestion"),
    [
        (only(make(titel="x")), "Did you mean title?"),
        (only(make(zzz="x")), "It takes title, count, color"),
        (after_make(title="${a.issue_ulr}"), "Did you mean issue_url or issue?"),
        (after_make(title="${a.zzz}"), "It has issue_url, result, issue"),
        (only(make("fetch"), make("b", title="${fetc.result}")), "Did you mean fetch?"),
        (only(make("fetch"), make("b", title="${result.x}")), "Did you mean ${fetch.result}?"),
        (only(make("fetch"), make("b") | {"when": "result.x"}), "Did you mean fetch.result?"),
        (only(make(), inputs={"x": {"type": "strng"}}), "Did you mean str?"),
        (only(make(), edges=[{"from": "a", "to": "a", "acton": "x"}]), "Did you mean action?"),
        (only(make(), edges=[{"from": "a", "to": "a", "zz": 1}]), "The keys are action, from, to, when"),
        (only(make(), outputs={"o": "a.result"}), "Write ${a.result}"),
        (only({"id": "x"}), "Sync it"),
        (only(make(title="${a.x[*].y}")), "a node transform takes expressions"),
        (only(PICK, make(), edges=edges("pick a no")), "It takes default, done"),
        (only(make(title="${x}")), "Declare x under inputs; write $${ for a literal ${"),
    ],
)
def test_a_problem_names_the_next_step(workflow, suggestion):
    assert any(step.endswith(suggestion) for *_, step in check(workflow))


@pytest.mark.parametrize(
    ("workflow", "places"),
    [
        (only({**make(x="${y}"), "type": 5}, make("b", title="${a.x}")), ["type", "params.x"]),
        (only({"id": "make", "params": []}), ["params"]),
        (only({**make("a.b"), "type": "nope"}, make("b"), edges=edges("a.b b")), ["id", "type"]),
        (only({**make(title="${it}"), "batch": {"as": "it"}}, make("b", title="${a.results[0]}")), ["batch"]),
        (only({**make(title="${item}"), "batch": [1]}, make("b", count="${a.count}")), ["batch"]),
    ],
)
def test_what_follows_from_a_mistake_is_not_complained_about(workflow, places):
    assert [path for _, path, *_ in check(workflow)] == [f"$.nodes[0].{place}" for place in places]


RETRIED = {"items": [1], "max_retries": 1}
NOT_RETRIED = "Node once (once) is never retried: retrying it could do harm"


@pytest.mark.parametrize(
    ("workflow", "path", "message"),
    [
        (only(make(), nods=[]), "$.nods", "Unknown key nods"),
        (only(make(), make("b"), edges=[edge("a", "b", acton="x")]), "$.edges[0].acton", "Unknown key acton"),
        (only(make(title="${x}"), inputs={"x": {"defualt": 1}}), "$.inputs.x.defualt", "Unknown key defualt"),
        (only({**make(), "prams": {"title": "t"}}), "$.nodes[0].prams", "Unknown key prams"),
        (only({"id": "once", "retry": {"max": 1}}), "$.nodes[0].retry", NOT_RETRIED),
        (only({"id": "once", "batch": RETRIED}), "$.nodes[0].batch.max_retries", NOT_RETRIED),
        (only({"id": "once", "cache": True}), "$.nodes[0].cache", "is never cached: it may change something"),
        (only({"id": "says", "cache": {"ttl": 5}}), "$.nodes[0].cache", "cached: it may change something"),
        (only({"id": "file", "cache": True}), "$.nodes[0].cache", "never cached: its results are not kept"),
        (only(make(), make("b"), edges=edges("a a x")), "$.nodes[1]", "Node b is never reached from a"),
        (only(make(), make("b", title="${c}"), make("c"), edges=edges("a c")), "$.nodes[1]", "b is never"),
        (
            only(make(), make("b"), edges=edges("a b mine")),
            "$.edges[0].action",
            "not declare the action mine",
        ),
        (only(make(), inputs={"x": {}}), "$.inputs.x", "Input x is not used"),
        (after_make(title="${a.issue.name}"), LATER, "${a.issue.name}: the schema of issue names no name"),
        (only(PICK, edges=edges("pick pick")), "$.nodes[0]", "The loop pick -> pick has no way out"),
        (only(make(title="${nowhere}"), template_resolution_mode="permissive"), TITLE, "an unknown value"),
        (only({"id": "more"}, make(title="${more.mesage}")), LATER, "more (more) declares no output mesage"),
        (only(PERHAPS, make(title="${perhaps.sender}")), LATER, "(perhaps) declares no output sender"),
        (only(PERHAPS, make(title="${sender}"), enable_namespacing=False), LATER, "a names an unknown value"),
        (only(LIST, over("${list.files}", title="${item.above.above.path}")), LATER, "above names no path"),
        (only(LISTS, over("${list.results[0].files}", title="${item.path}")), LATER, NO_PATH),
        (only({**over([1]), "id": "b"}, over("${b.results}", title="${item.url}")), LATER, "names no url"),
        (typed("string", make(count="${n}")), COUNT, "count of node a must be int, but ${n} is string"),
        (only(PERHAPS, inputs={"count": {"type": "str"}}), "$.inputs.count", "int, but input count is str"),
    ],
)
def test_what_may_be_meant_is_a_warning_only(workflow, path, message):
    found = check(workflow)
    assert any(where == path and message in said for _, where, said, _ in found), found
    assert {severity for severity, *_ in found} == {"warning"}


@pytest.mark.parametrize(
    "workflow",
    [
        only({"id": "make"}, inputs={"title": {}}),
        mapped({"id": "make"}, into={"title": "t"}, inputs={"t": {}}),
        mapped(make(), {"id": "make"}, output={"issue_url": "title"}),
        only(make(), make("b", title="${issue_url}"), enable_namespacing=False),
        only({**MORE, "batch": ONE}, outputs={"all": "${more.results}"}),
        after_make(title='${a.result["any key"].x}'),
        only(make(title="$${HOME}")),
        only(make(), make("b"), edges=edges("a b timeout")),
        only({"id": "reads", "cache": {"ttl": 5}}),
        only({"id": "once", "cache": False}),
        typed("float | dict", make(title="${n}", count="${n}")),
        only({"id": "once", "batch": {"items": [1]}}),
        only({**make(), "version": "1.0.0", "mcp_metadata": {}, "position": [1, 2], "types": 1}),
        only(make(), make("b"), edges=edges("b a"), start_node="b"),
        after_make(title="${a.issue_url.host}"),
        after_make(count="${a.issue_url}"),
        only(MORE, make(title="${more.message_id}", count="${more.any[0].thing}")),
        only(MORE, make(title="${message_id}"), enable_namespacing=False),
        mapped(MORE, make(title="${m}"), output={"message_id": "m"}),
        only(LIST, over("${list.issues}", count="${item.id}", title="${item.owner.name}")),
        typed("any", over([{"a": 1}, {"b": "${n}"}], title="x ${item.b}")),
        only(over(["{}", "a"], title="${item.b}")),
        only(LIST, over("${list.files}", title="${item.above.name}")),
        typed("list", over("${n}", title="${item.b}", count="${item}")),
        # The ways behind a fork may be those of a fork before it.
        only(
            make("a"), make("b"), make("c", title="${b.issue_url}"), edges=edges("a b", "b a timeout", "b c")
        ),
        only(
            *(PICK, make("a"), make("b"), make("c", title="${a.issue_url}"), make("d")),
            edges=edges("pick a done", "a b", "pick b", "b c timeout", "b d"),
        ),
    ],
)
def test_what_is_right_is_not_complained_about(workflow):
    assert check(workflow) == []


def test_without_namespacing_a_run_may_bring_what_is_not_declared():
    workflow = {"enable_namespacing": False, "nodes": [{"id": "make"}]}
    assert [severity for severity, *_ in check(workflow)] == ["error"]
    assert check(workflow, frozenset({"title"})) == []
    # Nobody knows all that the node before writes.
    workflow["nodes"].insert(0, {"id": "more"})
    workflow["edges"] = [{"from": "more", "to": "make"}]
    assert [severity for severity, *_ in check(workflow)] == ["warning"]


def test_older_shapes_are_upgraded_and_turn_namespacing_off():
    older = only({"id": "x", "type": "old_make"})
    checked = check_workflow(older, Types())
    assert checked.document.nodes[0].type == "make"
    assert not checked.document.namespaced
    assert check_workflow({**older, "enable_namespacing": True}, Types()).document.namespaced


def test_a_very_deep_workflow_is_refused_not_crashed_on():
    value = []
    for _ in range(5000):
        value = [value]
    assert [message for _, _, message, _ in check({"nodes": [], "metadata": value})] == [
        "The workflow is nested deeper than 100 levels"
    ]


def chain(count, **others):
    titles = ["x", *(f"${{n{number}.issue_url}}" for number in range(count - 1))]
    return only(*[make(f"n{at}", title=title) for at, title in enumerate(titles)], **others)


def steps(count, action=""):
    """Edges from each node to the next one, or back if there is an action."""
    return [edge(f"n{at + bool(action)}", f"n{at + (not action)}", action) for at in range(count - 1)]


SHAPES = {
    "one store for all": lambda count: chain(count, enable_namespacing=False),
    "loop": lambda count: chain(count, edges=[*steps(count), edge(f"n{count - 1}", "n0")]),
    "ways back": lambda count: chain(count, edges=[*steps(count), *steps(count, "error")]),
    "mapped": lambda count: chain(
        count, mappings={f"n{at}": {"output_mappings": {"issue_url": f"u{at}"}} for at in range(count)}
    ),
    "never reached": lambda count: chain(count, edges=steps(2)),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_work_of_a_check_grows_with_the_nodes_not_with_their_square(shape):
    few, many = (calls_of(lambda size=size: check(SHAPES[shape](size))) for size in (60, 240))
    assert many < few * 4.6


def calls_of(do):
    """Count the calls of functions: a measure that does not depend on the machine's load."""
    counted = count()
    sys.setprofile(lambda *_: next(counted))
    try:
        do()
    finally:
        sys.setprofile(None)
    return next(counted)


def test_a_withheld_node_is_an_error_at_its_type():
    types = Types()
    reason = Problem(message="make changed", suggestion="Run: approve make")
    types.known["make"] = attrs.evolve(types.known["make"], withheld=reason)
    checked = check_workflow(only(LIST, make(), edges=edges("list a")), types)
    assert checked.problems == (attrs.evolve(reason, path="$.nodes[1].type"),)
