"""From any JSON value to a plan or our own error: normalised, checked, compiled and drawn."""

import json
import re
from copy import deepcopy
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import event, example, given, settings
from hypothesis import strategies as st
from node_types import NodeTypes, entry_of, fields
from workflow_parts import edge, flow, step

from pflow_mcp_plugin.contract import Field, Interface, Paths, PflowError
from pflow_mcp_plugin.contract.problems import errors_in
from pflow_mcp_plugin.host.embedded_host import EmbeddedHost
from pflow_mcp_plugin.host.flow_policy import FlowPolicy
from pflow_mcp_plugin.host.plugins import Plugins, create_manager
from pflow_mcp_plugin.host.rendering.drawn_workflow import DrawnWorkflow
from pflow_mcp_plugin.host.rendering.mermaid import mermaid
from pflow_mcp_plugin.host.rendering.python_export import python_script
from pflow_mcp_plugin.host.rendering.svg_drawing import svg
from pflow_mcp_plugin.host.running import WorkflowRunner
from pflow_mcp_plugin.host.workflow import bind_inputs, check_workflow, normalise
from pflow_mcp_plugin.host.workflow.data_flows import find_flows

pytestmark = pytest.mark.slow

PLUGINS = Plugins(lambda problem: None, create_manager())
HOST = EmbeddedHost(
    Paths(**dict.fromkeys(("config", "data", "state", "cache"), Path("/nowhere"))), None, print
)
IDS = ["a", "b", "c"]


STRICT = Interface(
    params=fields("str: str", "int: int", "list: list", "dict: dict", "bool: bool"),
    outputs=(Field(key="out", type="dict", schema={"properties": {"x": {}}}),),
    actions=("default", "error", "timeout", "done"),
    inputs=("str",),
)
TRANSFORM = Interface(params=fields("expression: str", "outputs: dict", "data"))
KNOWN = (
    entry_of("strict", STRICT),
    entry_of("open", Interface(open=True)),
    entry_of("transform", TRANSFORM, source="pflow"),
    entry_of("branch", Interface(params=fields("cases: list")), source="pflow"),
)


class Types(NodeTypes):
    def __init__(self):
        super().__init__(*KNOWN)

    def upgrade(self, node):
        return {**node, "type": "open"} if node.get("type") == "old" else None


texts = st.text(max_size=6) | st.sampled_from(
    [
        *("${a.out.x}", "${b.out[0]}", "x ${i} y", "${", "$${a}", "${item}", "${a}", "a", "i"),
        *("__run__", "[1]", "1e999", "i ==", "a.result.b", "b.case == 'one'", "length(str)"),
    ]
)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | texts
odd = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


def some(**members):
    """Draw objects with some of the members."""
    return st.fixed_dictionaries({}, optional=members)


words = st.sampled_from(["x", "$${a}", "${i}", "${i} and 1", "3"])
params = some(str=words, int=st.integers(), list=st.lists(odd, max_size=2))
counts = st.integers(0, 3)
batches = st.fixed_dictionaries(
    {"items": st.just("${i}") | st.lists(odd, max_size=2)},
    optional={
        "as": st.just("item"),
        "parallel": st.booleans(),
        "max_concurrent": st.integers(1, 5),
        "error_handling": st.sampled_from(["fail_fast", "continue"]),
        "max_retries": counts,
        "retry_wait": counts,
    },
)
retries = st.fixed_dictionaries({"max": counts}, optional={"wait": st.floats(0, 9), "backoff": st.just(2)})
expressions = st.sampled_from(["i", "$", "@", "length(i)", "i[?x == $.str].y", "{a: i}", "to_csv(i)"])
ways = some(when=expressions | odd, action=st.sampled_from(["done", "error", "default"]))
made = st.dictionaries(st.sampled_from(["result", "n", "error"]), expressions, max_size=2)
types_and_params = st.one_of(
    *[st.tuples(st.just(known), params) for known in ("strict", "open", "old")],
    st.tuples(st.just("transform"), expressions.map(lambda text: {"expression": text})),
    st.tuples(st.just("transform"), some(outputs=made, data=st.just("${i}"))),
    st.tuples(st.just("branch"), some(cases=st.lists(ways, max_size=3))),
)
settings_of_nodes = some(
    purpose=odd,
    theirs=odd,
    cache=st.sampled_from([True, False, None, {}, {"ttl": 60}]),
    when=expressions,
)
repeated = (
    st.just({}) | batches.map(lambda batch: {"batch": batch}) | retries.map(lambda retry: {"retry": retry})
)
specs = some(type=st.just("any"), default=odd, required=st.booleans(), description=st.text(max_size=3))

BOX = "{http://www.w3.org/2000/svg}rect"


@st.composite
def sound_workflows(draw):
    ids = IDS[: draw(st.integers(1, 3))]
    nodes = []
    for node_id in ids:
        node_type, given_params = draw(types_and_params)
        nodes.append({**step(node_id, node_type, given_params), **draw(settings_of_nodes), **draw(repeated)})
    actions = draw(st.lists(st.sampled_from(["error", "done", "timeout"]), max_size=2, unique=True))
    chain = [edge(one, other) for one, other in pairwise(ids)]
    back = [edge(ids[-1], draw(st.sampled_from(ids)), action) for action in actions]
    last = f"${{{ids[-1]}}}"
    mappings = {ids[0]: {"input_mappings": {"str": "i"}, "output_mappings": {"out": "kept"}}}
    return {
        "nodes": nodes,
        "edges": chain + back,
        "inputs": {"i": draw(specs), "str": draw(specs)},
        "outputs": draw(st.sampled_from([{}, {"o": last}, {"o": {"source": last}}])),
        "mappings": draw(st.sampled_from([{}, mappings])),
        "start_node": draw(st.sampled_from([ids[0], None])),
        "enable_namespacing": draw(st.booleans()),
        "template_resolution_mode": draw(st.sampled_from(["strict", "permissive"])),
        "metadata": draw(odd),
    }


def places(value):
    for key in [*value] if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, key
        yield from places(value[key])


@st.composite
def workflows(draw):
    """A valid workflow in which up to three places are odd, missing or duplicated."""
    workflow = deepcopy(draw(sound_workflows()))  # strategies share what they draw
    for _ in range(draw(st.integers(0, 3))):
        found = list(places(workflow))
        holder, key = found[draw(st.integers(0, len(found) - 1))]
        match draw(st.sampled_from(["replace", "add", "remove"])):
            case "replace":
                holder[key] = draw(odd)
            case "add" if isinstance(holder, dict):
                holder[draw(texts)] = draw(odd)
            case "add":
                holder.append(deepcopy(holder[key]))
            case _:
                del holder[key]
    return workflow


givens = (
    st.none()
    | st.just({})
    | st.fixed_dictionaries({"i": odd}, optional={"str": odd, "__run__": odd, "more": odd})
)
anything = workflows() | workflows() | workflows() | odd


UNKNOWN_START = flow(step("a", "open"), start_node="z")
TWINS = flow(step("a", "open"), step("a", "open"))


@settings(max_examples=120)
@given(anything, givens)
@example(UNKNOWN_START, None)
@example(TWINS, None)
def test_any_json_value_becomes_a_plan_or_our_own_error_and_a_plan_if_it_validates(workflow, given_inputs):
    before = json.dumps(workflow)
    checked = check_workflow(workflow, Types(), frozenset(given_inputs or ()))
    find_flows(checked, FlowPolicy(), every=True)
    bound = bind_inputs(checked.document, given_inputs or {})[1]
    is_right = not errors_in([*checked.problems, *bound])
    try:
        runner = WorkflowRunner(host=HOST, types=Types(), plugins=PLUGINS)
        if isinstance(workflow, dict):
            runner.interface(workflow)
        compiled, error = runner.compile(workflow, "wf", given_inputs), None
    except PflowError as raised:
        compiled, error = None, raised
    if error is not None:
        assert not is_right
        assert error.kind in ("validation", "not_found")
        assert error.problems
    else:
        event("compiled")
        assert [node.ref.id for node in compiled.nodes] == [node.id for node in compiled.document.nodes]
        assert compiled.workflow.certain <= {node.ref.id for node in compiled.nodes}
        compile(python_script(compiled, normalise(workflow)), "wf.py", "exec")
    assert json.dumps(workflow) == before


@settings(max_examples=100)
@given(
    shape=some(expression=expressions | odd, outputs=odd | made, data=odd),
    chosen=st.lists(ways | odd, max_size=3) | odd,
    when=expressions | odd,
)
def test_whatever_stands_in_place_of_an_expression_is_checked(shape, chosen, when):
    branch = step("b", "branch", {"cases": chosen}, when=when)
    edges = [edge("a", "b", when=when), edge("b", "a", "error")]
    checked = check_workflow(flow(step("a", "transform", shape), branch, edges=edges), Types())
    find_flows(checked, FlowPolicy(), every=True)
    assert all(problem.suggestion for problem in checked.problems)


def ends(path):
    place, begin = (0.0, 0.0), None
    for letter, numbers in re.findall(r"([MCHV])([^MCHV]*)", path):
        values = [float(number) for number in numbers.split()]
        place = {"H": (values[0], place[1]), "V": (place[0], values[0])}.get(letter, (*values[-2:],))
        begin = begin or place
    return begin, place


def on_the_edge(place, box):
    (x, y), (left, top, width, height) = place, box
    across, down = left <= x <= left + width, top <= y <= top + height
    return (across and y in (top, top + height)) or (down and x in (left, left + width))


def edges_of(drawn):
    """Return where each edge of a drawing begins and ends."""
    lines = drawn.iter(BOX.replace("rect", "path"))
    return [ends(line.attrib["d"]) for line in lines if "edge" in line.attrib.get("class", "")]


@pytest.mark.parametrize(("columns", "along"), [(0, 1), (3, 0)])
def test_edges_run_downwards_or_across(columns, along):
    workflow = flow(step("a", "open"), step("b", "open"), edges=[edge("a", "b")])
    whole = DrawnWorkflow.read(workflow, "w", Types().upgrade)
    ((begin, end),) = edges_of(ET.fromstring(svg(whole, columns)))
    assert begin[along] < end[along]
    assert begin[1 - along] == end[1 - along]


@settings(max_examples=50)
@given(anything)
@example(UNKNOWN_START)
@example(TWINS)
def test_whatever_can_be_read_can_be_drawn(workflow):
    try:
        whole = DrawnWorkflow.read(workflow, "w", Types().upgrade)
    except PflowError:
        return
    document = whole.document
    if any(node.type == "branch" for node in document.nodes):  # no box
        return
    for columns in (0, 3, 6):
        drawn = ET.fromstring(svg(whole, columns))  # it is well-formed
        sides = ("x", "y", "width", "height")
        boxes = [tuple(float(box.attrib[side]) for side in sides) for box in drawn.iter(BOX)]
        assert len(boxes) == len(document.nodes)
        width, height = float(drawn.attrib["width"]), float(drawn.attrib["height"])
        assert all(x >= 0 and y >= 0 and x + w <= width and y + h <= height for x, y, w, h in boxes)
        places = {box[:2] for box in boxes}
        assert len(places) == len({node.id for node in document.nodes})  # no box covers another
        assert columns == 0 or len({x for x, _ in places}) <= columns
        for both in edges_of(drawn):
            assert all(any(on_the_edge(end, box) for box in boxes) for end in both)
    every = [whole, *(inner for _, inner in whole.every())]
    assert len(mermaid(whole).splitlines()) == bool(whole.graph.start) + sum(
        1 + len(one.document.nodes) + sum(map(len, one.graph.successors.values())) for one in every
    )
