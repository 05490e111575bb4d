"""What the check of data flows says moves is compared with what moves in real runs."""

import json
import re
from contextlib import suppress
from itertools import pairwise
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from workflow_parts import edge, flow, step

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.host.flow_policy import FlowPolicy, FlowRule
from pflow_mcp_plugin.host.workflow import check_workflow
from pflow_mcp_plugin.host.workflow.data_flows import DataMovement, FlowSearch

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
