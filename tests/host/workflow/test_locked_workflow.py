import pytest
from workflow_parts import flow, step

from pflow_mcp_plugin.contract import PflowError, Problem, RunOptions

ECHO = step("c", "echo", {"message": "x"})
FLOW = flow(step("a", "t-say"), step("b", "t-say"), ECHO)


@pytest.fixture
def saying(bench):
    bench.acts("t-say", outputs=["said"])(lambda shared, params: None)
    return bench


def differing(**fields):
    problem = Problem(message="t-say is not the locked one: 1 → 2", suggestion="Lock it again", **fields)
    return lambda check: [problem]


def locked(bench):
    return bench.host.runner.with_options(RunOptions(locked=True))


def found(bench, workflow=FLOW):
    problems = locked(bench).validate(workflow)
    return [(problem.severity, problem.kind, problem.message) for problem in problems]


@pytest.mark.parametrize("kind", ["validation", "connection"])
def test_what_differs_stops_the_compilation_whatever_its_kind(saying, kind):
    saying.plug(pflow_check_lock=differing(kind=kind))
    with pytest.raises(PflowError) as refused:
        locked(saying).compile(FLOW, "flow", {})
    assert (refused.value.kind, refused.value.exit_code) == ("validation", 2)
    assert "1 → 2" in refused.value.message
    assert refused.value.suggestions == ("Lock it again",)


def test_a_warning_of_a_plugin_stops_nothing_and_is_among_those_of_the_workflow(saying):
    saying.plug(pflow_check_lock=differing(severity="warning"))
    compiled = locked(saying).compile(FLOW, "flow", {})
    assert "1 → 2" in " ".join(problem.message for problem in compiled.warnings)


def test_differences_are_told_together_with_the_other_problems(saying):
    saying.plug(pflow_check_lock=differing())
    messages = str(found(saying, flow(*FLOW["nodes"], step("d", "t-sy"), {"id": ""})))
    assert "1 → 2" in messages
    assert "t-sy" in messages


def raising(error):
    def check_lock(check):
        raise error

    return check_lock


PROBLEMS = (Problem(message="first", path="x"), Problem(message="second", path="y"))


@pytest.mark.parametrize(
    ("hook", "expected"),
    [
        (raising(RuntimeError("no ink")), ["RuntimeError: no ink"]),
        (lambda check: [5], ["TypeError: it returned a int, not a Problem"]),
        (raising(PflowError("lock.toml, line 1: not TOML", kind="config")), ["lock.toml, line 1: not TOML"]),
        (
            raising(PflowError("lock.toml: 2 problems", problems=PROBLEMS)),
            ["lock.toml: 2 problems", "first", "second"],
        ),
    ],
)
def test_a_plugin_that_fails_has_compared_nothing_so_nothing_runs(saying, hook, expected):
    saying.plug(pflow_check_lock=hook)
    errors = [problem for problem in locked(saying).validate(FLOW) if problem.severity == "error"]
    blamed = f"Plugin {errors[0].source} could not compare the workflow with its lock file: "
    assert errors[0].message.startswith(f"{blamed}{expected[0]}")
    assert [problem.message for problem in errors[1:]] == expected[1:]
    assert {problem.kind for problem in errors} == {"validation"}
    with pytest.raises(PflowError) as refused:
        locked(saying).compile(FLOW, "flow", {})
    assert refused.value.exit_code == 2


@pytest.mark.parametrize(
    ("workflow", "message"),
    [
        (FLOW, "Plugin bench has no lock file, so its nodes may change: t-say"),
        (flow(ECHO), "Nothing in this workflow is locked: it has no node of a plugin"),
    ],
)
def test_what_no_lock_file_can_hold_is_a_warning(saying, workflow, message):
    saying.plug(pflow_check_lock=lambda check: ())
    assert found(saying, workflow) == [("warning", "validation", message)]
