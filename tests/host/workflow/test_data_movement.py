"""What the check of data flows says moves is compared with what moves in real runs."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from itertools import pairwise
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.host.flow_policy import FlowPolicy, FlowRule
from pflow_mcp_plugin.host.workflow import check_workflow
from pflow_mcp_plugin.host.workflow.data_flows import FlowSearch
from pflow_mcp_plugin.host.workflow.data_movement import DataMovement, bits_of, places_in

MARK = re.compile(r"<<(\w+)>>")
KEYS = ("text", "other", "shared", "error", "n0", "n1", "n2", "in", "results")
EVERYTHING = FlowPolicy(
    deny=(
        FlowRule(begin="t-*", end="t-*", path="flows.deny[0]"),
        FlowRule(begin="inputs", end="t-*", path="flows.deny[1]"),
    )
)


class Marking:
    """A node that notes whose marks it is given, and writes them on with its own."""

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
    """A node that says nothing of what it reads and writes."""

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
    params = ("text", "other", "data")
    for name, made in {
        "t-pass": Passing,
        "t-report": Reporting,
        "t-open": Open,
        "t-fail": Failing,
        "t-turn": Turning,
    }.items():
        options = {"open_outputs": made is Open, "actions": actions}
        bench.node(name, params, made.writes, inputs=made.reads, **options)(made)
    bench.node("t-silent", open=True, open_outputs=True, actions=actions)(Silent)
    Marking.arrived.clear()
    Marking.runs.clear()
    return bench


NAMES = st.sampled_from(KEYS)
IDS = st.sampled_from(("n0", "n1", "n2", "n3"))
PATHS = st.one_of(
    st.builds("{}.{}".format, IDS, NAMES),
    st.builds("{}.{}.list[0]".format, IDS, NAMES),
    IDS,
    NAMES,
    st.sampled_from(("item", "item.text", "in", "opt", "n1.results[0].text")),
)
TEMPLATES = PATHS.map("${{{}}}".format)
VALUES = st.one_of(
    TEMPLATES,
    TEMPLATES,
    TEMPLATES.map(lambda text: f"a {text} b"),
    TEMPLATES.map(lambda text: [1, {"deep": text}]),
    st.just("constant"),
)
PARAMS = st.dictionaries(st.sampled_from(("text", "other", "data")), VALUES, min_size=1, max_size=2)
BATCH = st.one_of(
    TEMPLATES.map(lambda text: {"items": [text, 1]}),
    TEMPLATES.map(lambda text: {"items": text, "as": "item"}),
)
MAPPING = st.fixed_dictionaries(
    {},
    optional={
        "input_mappings": st.dictionaries(st.sampled_from(("text", "error")), PATHS, max_size=1),
        "output_mappings": st.dictionaries(st.sampled_from(("text", "error", "results")), NAMES, max_size=2),
    },
)
TYPES = st.sampled_from(("t-pass", "t-report", "t-open", "t-silent", "t-fail", "t-turn"))


@st.composite
def workflows(draw):
    ids = [f"n{number}" for number in range(draw(st.integers(2, 4)))]
    nodes = [{"id": node_id, "type": draw(TYPES), "params": draw(PARAMS)} for node_id in ids]
    for node in nodes:
        if draw(st.integers(0, 4)) == 0:
            node["batch"] = {
                **draw(BATCH),
                "error_handling": draw(st.sampled_from(("continue", "fail_fast"))),
            }
    following = [{"from": one, "to": other} for one, other in pairwise(ids)]
    routes = st.dictionaries(
        st.tuples(st.sampled_from(ids), st.sampled_from(("error", "again"))), st.sampled_from(ids), max_size=5
    )
    edges = [{"from": one, "action": action, "to": to} for (one, action), to in draw(routes).items()]
    return {
        "nodes": nodes,
        "edges": [*following, *edges],
        "inputs": {"in": {}, "opt": {"required": False}},
        "mappings": draw(st.dictionaries(st.sampled_from(ids), MAPPING, max_size=2)),
        "enable_namespacing": draw(st.booleans()),
        "template_resolution_mode": "permissive",
    }


def found(workflow, types, inputs):
    """Return the pairs of which the check says that data flows from one to the other."""
    checked = check_workflow(workflow, types, frozenset(inputs))
    movement = DataMovement(checked, inputs)
    search = FlowSearch(movement, EVERYTHING)
    return {(flow.path[0].node, flow.path[-1].node) for flow in search.run(search.denied).flows}


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(workflow=workflows(), more=st.sampled_from(({}, {"text": "<<inputs>>"}, {"opt": "<<inputs>>"})))
def test_no_flow_is_missed_that_a_run_shows(marking, workflow, more):
    Marking.arrived.clear()
    Marking.runs.clear()
    inputs = {"in": "<<inputs>>", **({} if workflow["enable_namespacing"] and "text" in more else more)}
    with suppress(PflowError):  # a few are refused
        marking.runner(max_steps=30).run(workflow, inputs, trace=False)
    assert Marking.arrived - found(workflow, marking.host.registry, inputs) == set()


def test_a_set_of_nodes_is_the_bits_of_their_places():
    assert list(places_in(bits_of([3, 0, 1000, 8]))) == [0, 3, 8, 1000]
    assert bits_of([]) == 0
