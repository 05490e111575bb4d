import json

import pytest
from node_types import NodeTypes, entry_of
from workflow_parts import flow, step, trace_of

from pflow_mcp_plugin.contract import Field, PflowError
from pflow_mcp_plugin.host.workflow import WorkflowPlace, check_workflow
from pflow_mcp_plugin.host.workflow.document_reader import MOST_NODES
from pflow_mcp_plugin.host.workflow.sub_workflows import DEEPEST

GREET = flow(
    step("say", "echo", {"message": "hi ${name} ${times}"}),
    inputs={"name": {"type": "str"}, "times": {"type": "int", "default": 1}},
    outputs={"text": "${say.message}"},
)
ECHO = flow(step("e", "echo", {"message": 1}))


def calling(workflow, node_id="greet", **params):
    return step(node_id, "workflow", {"workflow": workflow, **params})


@pytest.fixture
def problems(bench):
    def check(*nodes, **workflow):
        found = bench.host.runner.validate(flow(*nodes, **workflow))
        return [f"{problem.path}: {problem.message}" for problem in found]

    return check


@pytest.fixture
def files(tmp_path):
    """Write workflows, by their paths; return their folder."""

    def write(workflows):
        for name, workflow in workflows.items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(json.dumps(workflow))
        return tmp_path

    return write


@pytest.mark.parametrize("namespaced", [True, False])
def test_the_use_of_a_misspelt_node_is_checked_as_that_of_the_one_that_is_meant(problems, namespaced):
    nodes = [step("a", "ecko", {"mesage": "hi"}), step("b", "echo", {"message": "${a.mesage}"})]
    inner = calling(flow(step("c", "reed-file")))
    found = problems(*nodes, inner, enable_namespacing=namespaced)
    assert {each.partition(": ")[2] for each in found if ": in workflow" not in each} >= {
        "Unknown node type ecko",
        "Node a (ecko) has no parameter mesage",
        "Node a (ecko) needs parameter message",
        "${a.mesage}: node a (echo) has no output mesage",
        "Unknown node type reed-file",
        "Node c (reed-file) needs parameter file_path",
    }


def test_what_a_sub_workflow_without_namespacing_lacks_may_be_passed_to_it(bench):
    inner = flow({"id": "echo"}, enable_namespacing=False)
    assert bench.run(flow(calling(inner, message="hi"))).outputs == {"message": "hi"}


def test_an_input_of_the_workflow_is_passed_on_under_its_own_name(problems):
    assert problems(calling(GREET), inputs={"name": {"type": "str"}}) == []


def test_problems_in_a_saved_workflow_name_it_and_its_file(bench):
    bench.host.library.save("inner", flow(step("a", "echo", {"massage": 1})))
    bench.host.library.save("outer", flow(calling("inner")))
    found = bench.host.runner.validate(flow(calling("outer")))
    assert {problem.source for problem in found} == {str(bench.host.library.path("inner"))}
    assert found[0].path == "$.nodes[0].params.massage"
    assert found[0].message.startswith("in workflow inner: Node a (echo) has no parameter massage")
    assert len(found) == len(set(found)) == 2


def test_a_file_is_looked_up_beside_the_workflow_that_names_it(bench, files, tmp_path):
    files({"parts/outer.json": flow(calling("greet.json", name="A")), "parts/greet.json": GREET})
    top = flow(calling("parts/outer.json"))
    runner = bench.host.runner.at(WorkflowPlace(file=tmp_path / "top.json", name="top.json"))
    assert runner.validate(top) == ()
    [problem] = bench.host.runner.validate(top)
    assert "has no file of its own" in problem.message
    assert (problem.path, problem.kind) == ("$.nodes[0].params.workflow", "validation")
    assert problem.suggestion == "Save it too (pflow workflow save), and write its name"
    [problem] = runner.validate(flow(calling("parts/gret.json")))
    assert (problem.path, problem.kind) == ("$.nodes[0].params.workflow", "not_found")
    assert problem.suggestion == f"Did you mean {tmp_path / 'parts' / 'greet.json'}?"


@pytest.mark.parametrize(
    ("called", "message"),
    [
        ("gret", "No workflow is saved as gret"),
        ("${name}", "Node greet cannot choose a workflow when it runs"),
        (None, "needs parameter workflow"),
        ("", "names no workflow"),
        ({}, "The workflow has no nodes"),
        ("self", "would run itself: self -> self"),
        ({**ECHO, "inputs": {"workflow": {"default": 1}}}, "has an input workflow"),
    ],
)
def test_a_workflow_that_cannot_be_found_is_one_error(bench, called, message):
    node = calling(called) if called is not None else step("greet", "workflow")
    bench.host.library.save("greet", GREET)
    bench.host.library.save("self", flow(calling("self")))
    found = bench.host.runner.validate(flow(node, inputs={"name": {"type": "str"}}))
    errors = [problem for problem in found if problem.severity == "error"]
    assert len(errors) == 1
    assert message in errors[0].message
    assert errors[0].suggestion


def test_a_workflow_that_runs_itself_is_refused_with_the_way(bench, files, tmp_path):
    inner = flow(calling("./c.json"))
    files(
        {"a.json": flow(calling("b.json")), "b.json": flow(calling(inner)), "c.json": flow(calling("a.json"))}
    )
    top = WorkflowPlace(file=tmp_path / "a.json", name="a.json")
    [problem] = bench.host.runner.at(top).validate(json.loads((tmp_path / "a.json").read_text()))
    assert "would run itself: a.json -> b.json -> ./c.json -> a.json" in problem.message
    assert (problem.path, problem.kind) == ("$.nodes[0].params.workflow", "validation")
    assert problem.suggestion


def test_workflows_may_run_one_in_another_so_deep_and_no_deeper(bench):
    def nested(levels):
        return flow(calling(nested(levels - 1))) if levels > 1 else ECHO

    assert bench.host.runner.validate(nested(DEEPEST)) == ()
    [problem] = bench.host.runner.validate(nested(DEEPEST + 1))
    inside = " -> ".join(["..."] * (DEEPEST - 1) + ["greet"])
    assert problem.message == f"Workflows are nested more than {DEEPEST} deep: {inside}"
    assert problem.suggestion
    # The depth counts from the top for a workflow that was checked before.
    bench.host.library.save("deep", nested(DEEPEST - 1))
    assert bench.host.runner.validate(flow(calling("deep"))) == ()
    found = bench.host.runner.validate(flow(calling("deep"), calling(flow(calling("deep")), "deeper")))
    assert [problem.severity for problem in found] == ["error"]
    assert f"more than {DEEPEST} deep" in found[0].message


def test_workflows_that_multiply_are_refused_quickly(bench):
    library = bench.host.library
    for level in range(DEEPEST):
        below = flow(*[calling(f"{name}-{level - 1}", f"n{name}") for name in "abcd"]) if level else ECHO
        for name in "abcd":
            library.save(f"{name}-{level}", below)
    top = library.get(f"a-{DEEPEST - 1}")
    found = bench.host.runner.validate(top)
    assert any(f"more than {MOST_NODES:,}" in problem.message for problem in found)
    with pytest.raises(PflowError):
        bench.host.runner.run(top, {})
    found, _ = bench.host.runner.validate_flows(top)
    assert found


class Types(NodeTypes):
    """A node type of each purity or other fact that is asked for, and `workflow`."""

    def __init__(self, **facts):
        super().__init__(entry_of("a", **facts), entry_of("workflow", description="its own"))


@pytest.mark.parametrize("cacheable", [True, False])
def test_the_result_of_a_workflow_is_kept_if_those_of_its_nodes_are(cacheable):
    types = Types(purity="flow_safe", cacheable=cacheable)
    checked = check_workflow(flow(calling(flow({"id": "a"}))), types)
    assert checked.entries["workflow:{greet}"].cacheable is cacheable


@pytest.mark.parametrize(
    ("node", "cached"),
    [
        (step("t", "transform", {"expression": "upper(name)"}), True),
        (step("t", "branch", {"cases": [{"when": "name == 'a'", "action": "default"}]}), True),
        (step("t", "transform", {"expression": "now()"}), False),
        (step("t", "transform", {"outputs": {"at": "now()"}}), False),
        (step("t", "read-file", {"file_path": "${name}"}), False),
    ],
)
def test_a_workflow_that_only_computes_is_kept_unless_it_asks_the_time(bench, node, cached):
    inner = flow(node, inputs={"name": {"type": "str"}})
    workflow = flow({**calling(inner, name="a"), "cache": True})
    refused = "Node greet (workflow) is never cached: its results are not kept"
    warnings = [it.message for it in bench.host.runner.validate(workflow)]
    assert (refused in warnings) is not cached
    if cached:
        bench.run(workflow)
        assert trace_of(bench.run(workflow))["steps"][0]["details"]["cache"]["cached"] == 1


@pytest.mark.parametrize(("written", "shown"), [("greets", "greets"), ("", "its own")])
def test_a_node_that_runs_a_workflow_has_its_description_or_its_own(written, shown):
    checked = check_workflow(flow(calling(flow({"id": "a"}, description=written))), Types())
    assert checked.entries["workflow:{greet}"].description == shown


def test_a_workflow_is_read_with_those_that_it_runs_in_it_however_deep(bench, files):
    inner = flow(calling("deep/middle.json"))
    middle = flow(calling("../greet.json", name="Ann"))
    folder = files({"greet.json": GREET, "deep/middle.json": middle, "outer.json": flow(calling(inner))})
    read = bench.host.runner.read_file(folder / "outer.json")
    (folder / "greet.json").unlink()
    assert bench.run(read).outputs == {"text": "hi Ann 1"}
    for _ in range(3):
        read = read["nodes"][0]["params"]["workflow"]
    assert read == GREET
    saved = flow(calling("saved-one"))
    assert bench.host.runner.read_file(files({"outer.json": saved}) / "outer.json") == saved


@pytest.mark.parametrize(
    ("called", "message"),
    [("./gone.json", "No such file"), ("./outer.json", "would run itself"), ("./bad.json", "not valid JSON")],
)
def test_a_workflow_with_a_file_that_cannot_be_run_is_not_read(bench, files, called, message):
    folder = files({"outer.json": flow(calling(called))})
    (folder / "bad.json").write_text("{")
    with pytest.raises(PflowError, match=message):
        bench.host.runner.read_file(folder / "outer.json")


ISSUE = {"type": "object", "properties": {"id": {"type": "integer"}, "tags": {"type": "array"}}}


@pytest.fixture
def interface(bench):
    bench.declare(
        "t-make",
        params=["title: str"],
        outputs=["url: str", "count: int | None", Field(key="issue", type="dict", schema=ISSUE), "odd: file"],
    )

    def interface(outputs=None, **parts):
        nodes = [step("make", "t-make", {"title": "x"})]
        workflow = {"nodes": nodes, "outputs": outputs or {}, **parts}
        return bench.host.runner.interface(workflow)

    return interface


def types(interface):
    return {field.key: field.type for field in interface.outputs}


def test_an_output_has_the_type_of_what_its_template_names(interface):
    named = {
        "url": ("${make.url}", "str"),
        "count": ("${make.count}", "int | None"),
        "id": ("${make.issue.id}", "int"),
        "tags": ({"source": "${make.issue.tags}", "description": "Its tags"}, "list"),
        "text": ("See ${make.url} (${make.count})", "str"),
        "all": ("${make}", "dict"),
        "inside": ("${make.url.parts}", "any"),
        "odd": ("${make.odd}", "any"),
    }
    found = interface({key: source for key, (source, _) in named.items()})
    assert types(found) == {key: kind for key, (_, kind) in named.items()}
    assert found.outputs[3].description == "Its tags"
    assert found.outputs[2].schema == {"type": "integer"}


def test_an_output_of_an_input_may_be_none_where_the_input_may(interface):
    text = {"type": "str"}
    inputs = {"given": text, "optional": {**text, "required": False}, "filled": {**text, "default": "x"}}
    found = interface({name: f"${{{name}}}" for name in inputs}, inputs=inputs)
    assert types(found) == {"given": "str", "optional": "str | None", "filled": "str"}


def test_the_outputs_of_a_batch_are_lists_and_counts(interface):
    nodes = [step("make", "t-make", batch={"items": ["a", "b"], "as": "it"})]
    found = interface({"all": "${make.results}", "done": "${make.succeeded}"}, nodes=nodes)
    assert types(found) == {"all": "list", "done": "int"}
    assert found.outputs[0].schema is None


def test_a_template_that_may_stay_as_text_has_no_type_and_without_outputs_those_of_the_last_node_are_open(
    interface,
):
    assert types(interface({"url": "${make.url}"}, template_resolution_mode="permissive")) == {"url": "any"}
    assert interface().open_outputs is True
    assert interface({"url": "${make.url}"}).open_outputs is False
