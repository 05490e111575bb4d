import copy
import pickle

import pytest
from node_types import NodeTypes, entry_of, fields
from workflow_parts import edge, flow, step

from pflow_mcp_plugin.contract import UNKNOWN, Interface, Problem
from pflow_mcp_plugin.host.workflow import STILL_TO_COME, check_workflow

POST = entry_of(
    "post",
    Interface(
        params=fields("title: str!", "count: int", "labels: list", "more: dict"),
        inputs=("title", "count", "labels", "more"),
        outputs=fields("id: int", "count: int", "items: list"),
    ),
    source="posts",
)
RUNS = Interface(params=fields("workflow"), open=True, open_outputs=True)
MAKES = Interface(params=fields("expression: str", "data"))


class Types(NodeTypes):
    def __init__(self, judge=None):
        own = {"workflow": RUNS, "transform": MAKES}
        super().__init__(POST, *[entry_of(name, known, source="pflow") for name, known in own.items()])
        self.judge = judge
        self.uses = []

    def check_use(self, use):
        if use.entry.source == "pflow":
            return ()
        self.uses.append(use)
        return self.judge(use) if self.judge else ()


def uses(*nodes, given=frozenset(), **workflow):
    """Return the uses that are judged; what is given may be names only, or values at the start of a run."""
    types = Types()
    values = given if isinstance(given, dict) else None
    check_workflow({"nodes": list(nodes), **workflow}, types, frozenset(given), inputs=values)
    return types.uses


def params_of(*nodes, **options):
    return [use.params for use in uses(*nodes, **options)]


def post(node_id="a", **params):
    return step(node_id, "post", {"title": "t", **params})


def test_a_use_has_params_in_their_declared_types_with_unknown_where_templates_are():
    more = {"n": "${a.id}"}
    assert params_of(
        post("a", count="3"),
        post("b", title="${a.id}", labels=["x", "${a.id}", "no ${a.id}", "a $${b}"], more=more),
    ) == [
        {"title": "t", "count": 3},
        {"title": UNKNOWN, "labels": ["x", UNKNOWN, UNKNOWN, "a ${b}"], "more": {"n": UNKNOWN}},
    ]


def test_a_use_knows_the_items_that_are_written_in_its_batch():
    node = post(title="no ${it.n}: ${it.text}", count="${it.n}", labels=["${it.text}"], more={"a": "${x.y}"})
    node["batch"] = {"items": [{"n": 1, "text": "one"}, {"n": "${x.y}", "text": "two"}, {"n": 3}], "as": "it"}
    assert params_of(node) == [
        {"title": UNKNOWN, "count": UNKNOWN, "labels": [UNKNOWN], "more": {"a": UNKNOWN}},
        {"title": "no 1: one", "count": 1, "labels": ["one"], "more": {"a": UNKNOWN}},
        {"title": UNKNOWN, "count": UNKNOWN, "labels": ["two"], "more": {"a": UNKNOWN}},
        {"title": UNKNOWN, "count": 3, "labels": [UNKNOWN], "more": {"a": UNKNOWN}},
    ]


@pytest.mark.parametrize(
    ("nodes", "workflow", "supplied"),
    [
        ([post()], {}, set()),
        ([post()], {"inputs": {"count": {"type": "int"}, "other": {"type": "int"}}}, {"count"}),
        ([post()], {"mappings": {"a": {"input_mappings": {"labels": "x"}}}}, {"labels"}),
        ([{**post(), "batch": {"items": [1], "as": "count"}}], {}, {"count"}),
        # What the node wrote itself when it last ran.
        ([post()], {"edges": [edge("a", "a", "error")]}, {"count"}),
        # In a run, what is given is known to be there.
        ([post()], {"enable_namespacing": False, "given": {"count", "other"}}, {"count"}),
        ([step("x", "lost"), post()], {"enable_namespacing": False}, None),
    ],
)
def test_a_use_names_the_keys_that_may_come_from_elsewhere(nodes, workflow, supplied):
    *_, use = uses(*nodes, **workflow)
    assert use.supplied == (None if supplied is None else frozenset(supplied))


KEPT = {"a": {"output_mappings": {"items": "found"}}}


@pytest.mark.parametrize(
    ("workflow", "read"),
    [
        ({}, set()),
        (flow(post("b", title="${a.id}", more={"x": ["${a.items[0].url}"]})), {("id",), ("items", 0, "url")}),
        (flow({**post("b"), "batch": {"items": "${a.items}"}}), {("items",)}),
        (flow({**post("b"), "when": "a.id > `3`"}), {("id",)}),
        (flow(step("b", "transform", {"expression": "a.items[0].url"})), {("items", 0, "url")}),
        (flow(step("b", "transform", {"expression": "@"})), {()}),
        ({"outputs": {"all": "${a}"}}, {()}),
        (flow(post("b"), edges=[edge("a", "b", when="a.id == `1`")]), {("id",)}),
        (flow(post("b"), mappings={"b": {"input_mappings": {"count": "a.id"}}}), {("id",)}),
        ({"mappings": KEPT, "outputs": {"x": "${found.url}"}}, {("items",), ("items", "url")}),
        (flow(step("b", "post", {"title": "${id}"}), enable_namespacing=False), {("id",), ("count",)}),
    ],
)
def test_a_use_names_the_outputs_that_are_read(workflow, read):
    nodes = [post("a", count=1), *workflow.pop("nodes", [])]
    assert uses(*nodes, **workflow)[0].reads == read


def test_what_is_read_of_a_batch_is_what_is_read_of_an_item():
    named = ["results[0].id", "items[1].result.items[0].x", "succeeded", "items[1].item"]
    outputs = {f"o{at}": f"${{a.{path}}}" for at, path in enumerate(named)}
    (use,) = uses({**post(), "batch": {"items": [1]}}, outputs=outputs)
    assert use.reads == {("id",), ("items", 0, "x")}
    for whole in ("${a.results}", "${a.results[0]}", "${a}", "${a.items}", "${a.items[0].result}"):
        (use,) = uses({**post(), "batch": {"items": [1]}}, outputs={"all": whole})
        assert use.reads == {()}


def long(use):
    title = use.params["title"]
    if title is not UNKNOWN and len(title) > 5:
        yield Problem(message="Too long", path="title", suggestion="Cut it")
    if use.params.get("labels") == ["x"]:
        yield Problem(message="Too few", path='["labels"][0]', severity="warning")


def found(*nodes, **workflow):
    problems = check_workflow({"nodes": list(nodes), **workflow}, Types(long)).problems
    return [(problem.severity, problem.path, problem.message) for problem in problems]


def test_what_a_source_finds_is_reported_at_its_place_though_another_workflow_runs_it():
    inner = flow(post(title="longer"))
    assert found(
        post(labels=["x"]), post("b", title="longer"), step("sub", "workflow", {"workflow": inner})
    ) == [
        ("error", "$.nodes[2].params.workflow.nodes[0].params.title", "Too long"),
        ("warning", '$.nodes[0].params["labels"][0]', "Too few"),
        ("error", "$.nodes[1].params.title", "Too long"),
    ]


@pytest.mark.parametrize(("handling", "severity"), [("fail_fast", "error"), ("continue", "warning")])
def test_what_is_wrong_with_an_item_names_it_and_leaves_the_others_their_chance(handling, severity):
    batch = {"items": ["one", "longer"], "error_handling": handling}
    assert found({**post(title="${item}", labels=["x"]), "batch": batch}) == [
        ("warning", '$.nodes[0].params["labels"][0]', "Too few"),
        (severity, "$.nodes[0].params.title", "Too long (item 1 of the batch)"),
    ]


def test_unknown_remains_itself_when_it_is_copied_or_sent_to_another_process():
    assert repr(UNKNOWN) == "UNKNOWN"
    for same in (copy.copy(UNKNOWN), copy.deepcopy(UNKNOWN), pickle.loads(pickle.dumps(UNKNOWN))):
        assert same is UNKNOWN


def test_a_source_that_fails_to_judge_a_use_stops_the_workflow(bench):
    bench.declare("t-post", ["title: str"])
    bench.check_use = {}.__getitem__
    (problem,) = bench.host.runner.validate(flow(step("a", "t-post", {"title": "t"})))
    assert (problem.severity, problem.path) == ("error", "$.nodes[0]")
    assert "Plugin bench" in problem.message


@pytest.mark.parametrize(
    ("node", "given", "titles"),
    [
        (post(title="a ${title}"), {"count": 3}, ["a x"]),
        (post(title="${secret}"), {"secret": "s"}, [UNKNOWN]),
        (post(title="${all}"), {"all": STILL_TO_COME}, [UNKNOWN]),
        (post(title="${item}") | {"batch": {"items": "${all}"}}, {"all": ["a", "b"]}, [UNKNOWN, "a", "b"]),
    ],
)
def test_at_the_start_of_a_run_a_use_knows_the_inputs_but_secrets_and_what_is_still_to_come(
    node, given, titles
):
    inputs = {"title": {"default": "x"}, "all": {"type": "any"}, "secret": {"secret": True}, "count": {}}
    assert [params["title"] for params in params_of(node, given=given, inputs=inputs)] == titles


def test_inputs_come_to_a_use_in_the_types_of_its_params():
    inputs = {"count": {"type": "int"}, "all": {"type": "list"}}
    node = post(count="${count}", labels="${all}", more={"n": "${count}"})
    (params,) = params_of(node, given={"count": "3", "all": [1]}, inputs=inputs)
    assert params == {"title": "t", "count": 3, "labels": [1], "more": {"n": 3}}
