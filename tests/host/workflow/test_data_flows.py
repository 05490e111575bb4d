import json
import re
from contextlib import suppress
from itertools import pairwise
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from node_types import NodeTypes, entry_of, fields
from workflow_parts import edge, flow, step

from pflow_mcp_plugin.contract import Interface, PflowError
from pflow_mcp_plugin.host.flow_policy import FlowPolicy, FlowRule
from pflow_mcp_plugin.host.workflow import check_workflow
from pflow_mcp_plugin.host.workflow.data_flows import MOST_FLOWS, DataMovement, FlowSearch, find_flows

EFFECTS = {
    "fetch": ("untrusted_output",),
    "post": ("sends_data",),
    "delete": ("destructive",),
    "both": ("untrusted_output", "sends_data"),
    "open": ("untrusted_output",),
}


class Types(NodeTypes):
    def find(self, node_type):
        if node_type in ("unknown", ""):
            return None
        if node_type == "silent":
            return entry_of("silent", Interface(open=True, open_outputs=True), effects=("sends_data",))
        if node_type == "report":
            return entry_of("report", Interface(inputs=("error",)), effects=("sends_data",))
        if node_type == "workflow":
            return entry_of("workflow")
        if node_type == "transform":
            takes = fields("expression: str", "outputs: dict", "data")
            return entry_of("transform", Interface(params=takes), source="pflow")
        canonical = "fetch" if node_type == "alias" else node_type
        interface = Interface(
            params=fields("text", "data"),
            inputs=("text",),
            outputs=fields("text", "title"),
            open_outputs=canonical == "open",
            actions=("default", "error", "again"),
        )
        return entry_of(canonical, interface, effects=EFFECTS.get(canonical, ()))


def node(node_type, node_id="", **params):
    return step(node_id or node_type, node_type, params)


def flows(*nodes, policy=None, given=(), every=True, errors=False, **workflow):
    checked = check_workflow({"nodes": list(nodes), **workflow}, Types(), frozenset(given))
    found = [problem for problem in checked.problems if problem.severity == "error"]
    assert errors or not found, found
    return find_flows(checked, policy or FlowPolicy(), given, every=every)


def shown(*nodes, **options):
    return [str(flow) for flow in flows(*nodes, **options).flows]


def deny(*rules):
    return FlowPolicy(
        deny=tuple(FlowRule(begin=a, end=b, path=f"flows.deny[{i}]") for i, (a, b) in enumerate(rules))
    )


FETCH, POST, READING = node("fetch"), node("post", data="x"), node("post", text="${fetch.text}")
OUT = {"fetch": {"output_mappings": {"title": "text"}}}
INTO = {"post": {"input_mappings": {"text": "fetch.title"}}}
HEARS, AT_ROOT = node("post", data="${text}"), {"enable_namespacing": False}
OPTIONAL = {"inputs": {"note": {"required": False}}}
EACH = {**FETCH, "batch": {"items": [1]}}
BATCH = {"items": "${fetch.text}", "as": "it"}
BY_TEXT = "fetch (fetch: untrusted output) --text--> post (post: sends data)"


def test_a_flow_is_shown_node_by_node_with_the_keys_it_travels_by():
    found = flows(
        node("fetch", text="https://example.com"),
        node("ask", text="Sum up: ${fetch.text}"),
        node("post", data={"blocks": [{"body": "${ask.text}"}]}),
    )
    (flow,) = found.flows
    assert str(flow) == (
        "fetch (fetch: untrusted output) --text--> ask (ask: text) --text--> post (post: sends data)"
    )
    assert flow.to_dict() == {
        "from": "fetch",
        "to": "post",
        "effects": ["untrusted_output", "sends_data"],
        "path": [
            {"node": "fetch", "type": "fetch", "key": "text"},
            {"node": "ask", "type": "ask", "param": "text", "key": "text"},
            {"node": "post", "type": "post", "param": "data"},
        ],
    }
    (problem,) = found.problems
    assert (problem.severity, problem.path) == ("warning", "$.nodes[2]")
    assert str(flow) in problem.message


@pytest.mark.parametrize(
    ("nodes", "workflow", "ways"),
    [
        ([node("post", text="x"), node("fetch", text="${post.text}")], {}, []),
        # An escaped template carries nothing.
        ([FETCH, node("post", data="$${fetch.text}")], {}, []),
        # The items of a batch carry data, and so do its results.
        ([FETCH, {**node("post", text="${it.url}"), "batch": BATCH}], {}, ["text"]),
        ([EACH, node("post", data="${fetch.results[0].text}")], {}, ["results"]),
        # An item hides what has its name at the root.
        ([FETCH, {**HEARS, "batch": {"items": ["constant"], "as": "text"}}], AT_ROOT, []),
        ([FETCH, HEARS], AT_ROOT, ["text"]),
        # With namespacing, natural keys reach nobody but through mappings.
        ([FETCH, POST], {}, []),
        ([FETCH, POST], {"mappings": OUT}, ["text"]),
        ([FETCH, POST], {"mappings": INTO}, ["title"]),
        # A set param is not read from the store, unless it is left out.
        ([FETCH, node("post", text="constant")], {"mappings": OUT}, []),
        ([FETCH, node("post", text="${note}")], {"mappings": OUT, **OPTIONAL}, ["text"]),
    ],
)
def test_data_moves_where_a_node_reads_what_another_wrote(nodes, workflow, ways):
    assert shown(*nodes, **workflow) == [BY_TEXT.replace("text", way) for way in ways]


HEARD = [node("ask", "b", text="x"), node("post", text="${b.text}")]
SILENT = [FETCH, node("silent", text="constant")]
BACK = [edge("post", "fetch"), edge("fetch", "post", "again")]
LOST = [node("unknown", text="${fetch.text}"), node("post", text="${unknown.x}")]


@pytest.mark.parametrize(
    ("nodes", "options", "number"),
    [
        # Without namespacing, strangers may choose the keys.
        ([node("open"), *HEARD], {}, 0),
        ([node("open"), *HEARD], AT_ROOT, 1),
        # A node that does not say what it reads may read everything at the root.
        (SILENT, {}, 0),
        (SILENT, AT_ROOT, 1),
        (SILENT, {"mappings": {"fetch": {"output_mappings": {"title": "headline"}}}}, 1),
        (SILENT, {"mappings": {"silent": {"input_mappings": {"text": "fetch.title"}}}}, 1),
        # A loop carries data back, and a node reads again what it wrote when it last ran.
        ([READING, FETCH], {"edges": BACK, "errors": True}, 1),
        ([READING, FETCH], {"edges": BACK[:1], "errors": True}, 0),
        ([node("both")], {}, 0),
        ([node("both")], {"edges": [edge("both", "both", "again")]}, 1),
        # A workflow with mistakes still has its flows.
        ([FETCH, *LOST, FETCH], {"errors": True}, 1),
    ],
)
def test_there_are_flows_where_data_may_move(nodes, options, number):
    assert len(shown(*nodes, **options)) == number


def test_a_node_that_writes_anything_reads_it_again_after_its_failure():
    edges = [edge("silent", "silent", "error")]
    (flow,) = shown(node("silent"), edges=edges, policy=deny(("silent", "silent")), every=False)
    assert flow.startswith("silent")


def test_a_mapping_may_name_a_key_that_looks_like_a_path():
    mappings = {"fetch": {"output_mappings": {"title": "a.b"}}, "post": {"input_mappings": {"text": "a.b"}}}
    (flow,) = shown(node("fetch"), node("post"), mappings=mappings, errors=True)
    assert "--a.b--> post" in flow


@pytest.mark.parametrize(
    ("params", "param"),
    [
        ({"expression": "length(fetch.text)"}, "expression"),
        ({"expression": "keys($)"}, "expression"),
        ({"outputs": {"result": "lines(fetch.text)"}}, "outputs"),
        ({"expression": "length(@)", "data": "${fetch.text}"}, "data"),
    ],
)
def test_data_moves_through_the_expressions_of_a_transform(params, param):
    nodes = (node("fetch"), node("transform", "t", **params), node("post", text="${t.result}"))
    (flow,) = shown(*nodes)
    assert flow.endswith(f"--> t (transform: {param}) --result--> post (post: sends data)")
    assert shown(node("fetch"), node("transform", "t", expression="`1`"), nodes[2]) == []


def test_only_what_a_rule_denies_is_denied_and_an_alias_is_no_way_around_it():
    assert flows(FETCH, READING, every=False) == flows(node("ask"))
    for word in ("fetch", "alias"):
        nodes = (node("alias"), node("post", text="${alias.text}"))
        assert flows(*nodes, policy=deny((word, "post")), every=False).flows


def test_an_undeclared_input_counts_where_a_run_is_given_one():
    options = {"policy": deny(("inputs", "post")), "every": False, "enable_namespacing": False}
    assert flows(node("post", data="x"), **options).flows == ()
    assert len(flows(node("post", data="x"), given=("text",), **options).flows) == 1


def chain(count, kind, *, namespaced=True):
    nodes = [
        node(kind(n), f"n{n}", **({"text": f"${{n{n - 1}.text}}"} if n and namespaced else {}))
        for n in range(count)
    ]
    return check_workflow({"nodes": nodes, "enable_namespacing": namespaced}, Types())


class CountedMovement(DataMovement):
    looked_at = 0

    def readers(self, place):
        self.looked_at += 1
        return super().readers(place)


@pytest.mark.parametrize("namespaced", [True, False])
@pytest.mark.parametrize(
    "kind",
    [
        lambda number: ("fetch", "post")[number % 2],
        lambda number: "both",
        lambda number: "fetch" if number < 499 else "post",
    ],
    ids=["in turns", "both", "one end"],
)
def test_the_search_is_bounded_by_the_size_of_the_workflow(kind, namespaced):
    checked = chain(500, kind, namespaced=namespaced)
    movement = CountedMovement(checked)
    search = FlowSearch(movement, FlowPolicy())
    found = search.run(search.unruled)
    assert 0 < movement.looked_at <= (len(found.flows) + 2) * 500
    assert len(found.flows) <= MOST_FLOWS
    assert len(json.dumps([flow.to_dict() for flow in found.flows])) < 2_000_000


def test_beginnings_that_lead_to_no_end_cost_one_look_at_each_node():
    checked = chain(500, lambda number: "fetch")
    movement = CountedMovement(checked)
    search = FlowSearch(movement, deny(("fetch", "post"), ("*", "nothing")))
    assert search.run(search.unruled) == search.run(search.denied)
    assert 0 < movement.looked_at <= 2 * 500


def test_a_long_path_and_a_long_list_are_cut_for_people():
    long = chain(100, lambda number: {0: "fetch", 99: "post"}.get(number, "ask"))
    (flow,) = find_flows(long, FlowPolicy(), every=True).flows
    assert " --text--> ... 84 more nodes ... --> n92 (ask: text)" in str(flow)
    assert len(flow.to_dict()["path"]) == 100
    found = find_flows(chain(400, lambda number: "both"), FlowPolicy(), every=True)
    assert found.more
    assert "more data flows" in found.problems[-1].message


def test_denied_flows_stand_before_all_others():
    checked = chain(400, lambda number: "both" if number < 398 else ("fetch", "delete")[number - 398])
    found = find_flows(checked, deny(("fetch", "delete")), every=True)
    assert found.flows[0].rule
    assert not found.flows[1].rule


# Through workflows that run as nodes.


def inside(*nodes, node_id="sub", outputs=None, **params):
    workflow = flow(*nodes, inputs={name: {} for name in params}, outputs=outputs or {})
    return step(node_id, "workflow", {"workflow": workflow, **params})


def sent(text):
    return node("post", text=text)


FROM_FETCH = {"given": "${fetch.text}"}
SECRETIVE = inside(FETCH, node("keep", text="x"), outputs={"kept": "${keep.text}"})
OPEN = inside(FETCH, node("keep", text="x"), outputs={"kept": "${fetch.text}"})
THROUGH = inside(node("keep", text="${given}"), outputs={"o": "${keep.text}"}, **FROM_FETCH)
SAME = inside(node("keep", text="x"), outputs={"o": "${given}"}, **FROM_FETCH)


@pytest.mark.parametrize(
    ("nodes", "way"),
    [
        ([OPEN, sent("${sub.kept}")], ["sub/fetch", "sub", "post"]),
        ([FETCH, THROUGH, sent("${sub.o}")], ["fetch", "sub", "sub/keep", "sub", "post"]),
        ([FETCH, SAME, sent("${sub.o}")], ["fetch", "sub", "sub", "post"]),
        # What an output does not name stays inside, but for an error and what the last node writes.
        ([SECRETIVE, sent("${sub.kept}")], []),
        ([FETCH, inside(node("post", text="x"), **FROM_FETCH)], []),
        ([SECRETIVE, sent("${sub.error}")], ["sub/fetch", "sub", "post"]),
        ([inside(node("keep", text="x"), FETCH), sent("${sub.text}")], ["sub/fetch", "sub", "post"]),
        ([SECRETIVE, step("report", "report")], []),
    ],
)
def test_data_moves_through_workflows_that_run_as_nodes(nodes, way):
    assert [[it.node for it in found.path] for found in flows(*nodes).flows] == ([way] if way else [])


def test_an_error_inside_a_workflow_is_read_at_the_root():
    (found,) = shown(SECRETIVE, step("report", "report"), enable_namespacing=False)
    assert found.startswith("sub/fetch (fetch: untrusted output) --*--> sub --error--> report")


def test_a_policy_denies_flows_through_workflows():
    sub = inside(sent("${given}"), given="${text}")
    (found,) = flows(sub, policy=deny(("inputs", "post")), every=False, inputs={"text": {}}).flows
    assert (found.path[0].node, found.path[-1].node, found.rule) == ("inputs", "sub/post", "flows.deny[0]")


# In a host: whatever compiles a workflow asks the policy.

RULE = '[flows]\ndeny = [{from = "t-fetch", to = "t-post"}]\n'
WORKFLOW = flow(step("a", "t-fetch"), step("b", "t-post", {"text": "${a.text}"}))


@pytest.fixture
def under(bench):
    """Return a host with nodes that never run, once it has a policy."""

    def under(policy):
        for name in ("t-fetch", "t-post"):
            bench.declare(name, ["text"], ["text"])
        assert bench.host.runner.validate(WORKFLOW) == ()
        bench.configure(policy)
        return bench.host

    return under


def test_a_denied_flow_is_an_error_where_it_ends(under):
    runner = under(RULE).runner
    assert [(it.severity, it.path) for it in runner.validate(WORKFLOW)] == [("error", "$.nodes[1]")]
    assert [it.rule for it in runner.validate_flows(WORKFLOW)[1].flows] == ["flows.deny[0]"]


@pytest.mark.parametrize("ask", ["compile", "validate", "validate_flows"])
def test_a_policy_with_mistakes_stops_whatever_asks_it(under, ask):
    with pytest.raises(PflowError, match="Unknown key flow") as caught:
        getattr(under("[flow]\n").runner, ask)(WORKFLOW)
    assert caught.value.kind == "config"


MARK = re.compile(r"<<(\w+)>>")
KEYS = ("text", "other", "shared", "error", "n0", "n1", "n2", "in", "results")
EVERYTHING = FlowPolicy(
    deny=(
        FlowRule(begin="t-*", end="t-*", path="flows.deny[0]"),
        FlowRule(begin="inputs", end="t-*", path="flows.deny[1]"),
    )
)


class Marking:
    arrived: ClassVar[set[tuple[str, str]]] = set()
    runs: ClassVar[dict[str, int]] = {}
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ("text",)

    def set_params(self, params):
        self.params = params

    def given(self, shared):
        taken = {key: shared[key] for key in self.reads if key not in self.params and key in shared}
        return {**{key: value for key, value in self.params.items() if not key.startswith("__")}, **taken}

    def run(self, shared):
        mine = self.params["__node_id__"]
        marks = set(MARK.findall(json.dumps(self.given(shared), default=str)))
        self.arrived.update((mark, mine) for mark in marks)
        text = " ".join(f"<<{mark}>>" for mark in sorted({*marks, mine}))
        return self.end(shared, mine, text)

    def end(self, shared, mine, text):
        for key in self.writes:
            shared[key] = {"text": text, "list": [text]}
        return "default"


class Passing(Marking):
    reads = ("text", "other")
    writes = ("text", "other")


class Reporting(Marking):
    reads = ("error", "shared")
    writes = ("shared",)


class Open(Marking):
    reads = ("other",)
    writes = KEYS[:3] + KEYS[4:]


class Silent(Marking):
    def given(self, shared):
        return {**super().given(shared), **{key: shared[key] for key in shared if not key.startswith("__")}}


class Failing(Passing):
    def end(self, shared, mine, text):
        raise PflowError(f"failed with {text}")


class Turning(Passing):
    def end(self, shared, mine, text):
        super().end(shared, mine, text)
        self.runs[mine] = self.runs.get(mine, 0) + 1
        return "again" if self.runs[mine] < 3 else "default"


@pytest.fixture
def marking(bench):
    actions = ("default", "error", "again")
    for made in (Passing, Reporting, Open, Failing, Turning):
        options = {"open_outputs": made is Open, "actions": actions, "inputs": made.reads}
        bench.node(f"t-{made.__name__.lower()}", ("text", "other", "data"), made.writes, **options)(made)
    bench.node("t-silent", open=True, open_outputs=True, actions=actions)(Silent)
    return bench


TYPES = st.sampled_from(
    ("t-passing", "t-passing", "t-reporting", "t-open", "t-silent", "t-failing", "t-turning")
)
NAMES = st.sampled_from(("text", "other", "shared", "error", "n0", "headline", "a.b"))


def paths(earlier):
    keys = ("text", "other.list[0]", "error", "results")
    outputs = [f"{node_id}.{key}" for node_id in earlier for key in keys]
    names = ("text", "other", "shared", "error", "headline", "a.b", "in", "opt", "opt")
    return st.sampled_from((*earlier, *outputs, *outputs, *names))


@st.composite
def params(draw, earlier, *, batch):
    """Draw the params of a node: of two that it also reads from the store, and of one that it does not."""
    named = paths(earlier).map("${{{}}}".format)
    item = st.sampled_from(("${item}", "a ${item.text}"))
    values = st.one_of(
        item if batch else named,
        named,
        named.map(lambda text: f"a {text} b"),
        named.map(lambda text: [1, {"deep": text}]),
        st.just("constant"),
    )
    return draw(st.dictionaries(st.sampled_from(("text", "other", "data")), values, max_size=2))


@st.composite
def workflows(draw):
    ids = [f"n{number}" for number in range(draw(st.integers(2, 4)))]
    nodes, mappings = [], {}
    for number, node_id in enumerate(ids):
        earlier = ids[:number] if draw(st.integers(0, 3)) else ids
        batch = draw(st.integers(0, 3)) == 0
        node = step(node_id, draw(TYPES), draw(params(earlier, batch=batch)))
        if batch:
            listed = draw(paths(earlier).map("${{{}}}".format))
            handling = draw(st.sampled_from(("continue", "fail_fast")))
            node["batch"] = {"items": [listed, 1], "error_handling": handling}
        nodes.append(node)
        if draw(st.booleans()):
            into = st.dictionaries(st.sampled_from(("text", "other", "error")), paths(earlier), max_size=2)
            out = st.dictionaries(st.sampled_from(("text", "error", "results")), NAMES, max_size=2)
            mappings[node_id] = {"input_mappings": draw(into), "output_mappings": draw(out)}
    following = [edge(one, other) for one, other in pairwise(ids)]
    taken = st.tuples(st.sampled_from(ids), st.sampled_from(("error", "again")))
    routes = draw(st.dictionaries(taken, st.sampled_from(ids), max_size=5))
    return flow(
        *nodes,
        edges=[*following, *[edge(one, to, action) for (one, action), to in routes.items()]],
        inputs={"in": {}, "opt": {"required": False}},
        mappings=mappings,
        enable_namespacing=draw(st.booleans()),
        template_resolution_mode="permissive",
    )


def found(workflow, types, inputs):
    checked = check_workflow(workflow, types, frozenset(inputs))
    search = FlowSearch(DataMovement(checked, inputs), EVERYTHING)
    return {(it.path[0].node, it.path[-1].node) for it in search.run(search.denied).flows}


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(workflow=workflows(), more=st.sampled_from(({}, {"text": "<<inputs>>"}, {"opt": "<<inputs>>"})))
def test_no_flow_is_missed_that_a_run_shows(marking, workflow, more):
    Marking.arrived.clear()
    Marking.runs.clear()
    inputs = {"in": "<<inputs>>", **({} if workflow["enable_namespacing"] and "text" in more else more)}
    with suppress(PflowError):  # a few are refused
        marking.run_bounded(30, workflow, inputs, trace=False)
    assert Marking.arrived - found(workflow, marking.host.registry, inputs) == set()
