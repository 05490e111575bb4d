"""What a workflow certainly needs, and this machine lacks, stops it before the first node."""

import importlib.util
import os

import pytest
from programs import executable
from workflow_parts import edge, flow, step

from pflow_mcp_plugin.contract import PflowError

HAS_LLM = importlib.util.find_spec("llm") is not None
MISSING = "no-such-program-anywhere"
COMMAND = {"type": "shell", "params": {"command": [MISSING, "--version"]}}
ASK = {"type": "llm", "params": {"prompt": "Hi"}}
INSIDE = {"type": "workflow", "params": {"workflow": flow({"id": "inner", **COMMAND})}}


def workflow(node, *more, edges=()):
    """Return a workflow that notes its beginning, then runs a node."""
    last = {"id": "last", **node}
    return flow(step("first", "t-begin"), last, *more, edges=[edge("first", "last"), *edges])


@pytest.fixture
def began(bench):
    """The runs in which the first node ran."""
    begun = []
    bench.acts("t-begin")(lambda shared, params: begun.append(1))
    return begun


def refused(bench, document):
    with pytest.raises(PflowError) as caught:
        bench.run(document)
    assert caught.value.kind == "config"
    return caught.value


@pytest.mark.parametrize("node", [COMMAND, INSIDE], ids=["a node", "a workflow inside"])
def test_the_program_of_a_list_that_is_not_there_is_named_and_nothing_runs(bench, began, node):
    error = refused(bench, workflow(node))
    assert error.message == f"Workflow wf: Command not found: {MISSING}"
    assert error.suggestions == ("Install it, or give its full path",)
    assert not began
    [problem] = bench.host.runner.validate(workflow(node))
    assert (problem.severity, problem.message) == ("warning", f"Command not found: {MISSING}")


@pytest.mark.skipif(HAS_LLM, reason="the extra [llm] is installed")
@pytest.mark.parametrize("depth", [0, 2])
def test_without_the_library_llm_nothing_runs_however_deep_its_node_is(bench, began, depth):
    node = ASK
    for _ in range(depth):
        node = {"type": "workflow", "params": {"workflow": flow({"id": "inner", **node})}}
    error = refused(bench, workflow(node))
    assert "The library llm is not installed" in error.message
    assert "[llm]" in error.suggestions[0]
    assert not began


def test_everything_that_is_missing_is_named_at_once(bench, began):
    other = step("other", "shell", {"command": ["x" * 200]})
    error = refused(bench, workflow(COMMAND, other, edges=[edge("last", "other")]))
    first, second = (problem.message for problem in error.problems)
    assert (first, second[:27]) == (f"Command not found: {MISSING}", f"Command not found: {'x' * 8}")
    assert len(second) < 150


@pytest.mark.parametrize(
    "node",
    [
        {**COMMAND, "when": "`false`"},
        {**COMMAND, "batch": {"items": "${first.found}"}},
        {**INSIDE, "when": "`false`"},
    ],
    ids=["behind a condition", "for each item of a list", "a workflow behind a condition"],
)
def test_what_may_not_be_needed_stops_nothing(bench, began, node):
    bench.acts("t-begin", outputs=["found: list"])(lambda shared, params: shared.update(found=[]))
    outcome = bench.run(workflow(node))
    assert outcome.success
    assert [warning.message for warning in bench.warnings] == [f"Command not found: {MISSING}"]


def test_a_node_whose_failure_has_an_edge_may_lack_its_program(bench, began):
    instead = step("instead", "echo", {"message": "done without"})
    edges = [edge("last", "instead", "error")]
    assert bench.run(workflow(COMMAND, instead, edges=edges)).outputs == {"message": "done without"}


def test_a_program_is_looked_for_where_the_node_does(bench, began, tmp_path):
    program = executable(tmp_path / MISSING, "#!/bin/sh\necho found\n")
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    for params in ({**COMMAND["params"], "env": {"PATH": path}}, {"command": [str(program)]}):
        assert bench.run(workflow({"type": "shell", "params": params})).outputs["stdout"] == "found\n"


def test_what_only_the_run_knows_and_what_a_step_may_make_is_left_to_the_run(bench, began, tmp_path):
    path = tmp_path / "made-by-a-step"
    bench.acts("t-begin", outputs=["name: str"])(lambda shared, params: shared.update(name=MISSING))
    for command in (["${first.name}"], [str(path)]):
        failed = bench.run(workflow({"type": "shell", "params": {"command": command}}))
        assert "Command not found" in failed.error.message
