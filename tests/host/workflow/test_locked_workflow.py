import json
from pathlib import Path

import pytest

from pflow_mcp_plugin.contract import PflowError, Problem, RunOptions, hookimpl
from pflow_mcp_plugin.host.cli.main import main
from pflow_mcp_plugin.host.plugins import create_manager

ECHO = {"id": "c", "type": "echo", "params": {"message": "x"}}
FLOW = {"nodes": [{"id": "a", "type": "t-say"}, {"id": "b", "type": "t-say"}, ECHO]}


@pytest.fixture
def saying(bench):
    ran = []

    @bench.node("t-say", outputs=["said"])
    class Say:
        def set_params(self, params):
            pass

        def run(self, shared):
            ran.append(1)

    bench.ran = ran
    return bench


def noting(checks):
    def note(check):
        checks.append(check)

    return note


def differing(**fields):
    problem = Problem(message="t-say is not the locked one: 1 → 2", suggestion="Lock it again", **fields)
    return lambda check: [problem]


def locked(bench):
    return bench.host.runner.with_options(RunOptions(locked=True))


def found(bench, workflow=FLOW):
    problems = locked(bench).validate(workflow)
    return [(problem.severity, problem.kind, problem.message) for problem in problems]


def test_without_being_asked_for_no_lock_is_checked(saying):
    asked = []
    saying.plug(pflow_check_lock=noting(asked))
    saying.host.runner.validate(FLOW)
    saying.host.runner.compile(FLOW)
    assert saying.run({"nodes": [{"id": "a", "type": "t-say"}]}).success
    assert asked == []


@pytest.mark.parametrize("kind", ["validation", "not_found", "connection", "config"])
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
    messages = str(found(saying, {"nodes": [*FLOW["nodes"], {"id": "d", "type": "t-sy"}, {"id": ""}]}))
    assert "1 → 2" in messages
    assert "t-sy" in messages


def broken(check):
    raise RuntimeError("no ink")


def unreadable(check):
    raise PflowError("lock.toml, line 1: not TOML", suggestions=("Correct it",), kind="config")


def with_problems(check):
    problems = (Problem(message="first", path="x"), Problem(message="second", path="y"))
    raise PflowError("lock.toml: 2 problems", problems=problems, kind="config")


@pytest.mark.parametrize(
    ("hook", "expected"),
    [
        (broken, ["RuntimeError: no ink"]),
        (lambda check: [5], ["TypeError: it returned a int, not a Problem"]),
        (lambda check: 5, ["TypeError: "]),
        (unreadable, ["lock.toml, line 1: not TOML"]),
        (with_problems, ["lock.toml: 2 problems", "first", "second"]),
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


def test_nodes_whose_plugin_has_no_lock_file_are_named(saying):
    saying.plug(pflow_check_lock=lambda check: ())
    (warning,) = found(saying)
    assert warning == (
        "warning",
        "validation",
        "Plugin bench has no lock file, so its nodes may change: t-say",
    )


def test_a_workflow_without_a_node_of_a_plugin_is_said_to_have_nothing_locked(saying):
    (warning,) = found(saying, {"nodes": [ECHO]})
    assert warning == (
        "warning",
        "validation",
        "Nothing in this workflow is locked: it has no node of a plugin",
    )


class Locking:
    """A plugin without nodes that refuses everything, and notes where it was told to look."""

    def __init__(self):
        self.folders = []

    @hookimpl
    def pflow_check_lock(self, check):
        self.folders.append(check.folder)
        return [Problem(message="not as locked")]


@pytest.fixture
def typed(pflow_home, tmp_path, monkeypatch, capsys):
    """Run a command line with a plugin that refuses everything; returns its exit code and what it printed."""
    monkeypatch.chdir(tmp_path)
    locking = Locking()

    def run(*words):
        manager = create_manager()
        manager.register(locking, "locking")
        code = main([*words], manager)
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    run.folders = locking.folders
    return run


def flow(path):
    path.parent.mkdir(exist_ok=True)
    nodes = [{"id": "c", "type": "write-file", "params": {"file_path": "ran", "content": "x"}}]
    path.write_text(json.dumps({"nodes": nodes}))
    return str(path)


def test_a_locked_run_is_refused_with_exit_code_2_before_anything_runs(typed, tmp_path):
    path = flow(tmp_path / "flow.json")
    code, out, err = typed("run", path, "--locked")
    assert (code, out) == (2, "")
    assert "not as locked" in err
    assert not (tmp_path / "ran").exists()
    code, out, _ = typed("run", path, "--locked", "--json")
    assert (code, json.loads(out)["error"]["type"]) == (2, "validation")
    assert typed("run", path)[0] == 0
    assert (tmp_path / "ran").exists()


def test_a_lock_file_is_looked_for_beside_a_file_only(typed, tmp_path):
    typed("validate", flow(tmp_path / "flows" / "flow.json"), "--locked")
    typed("workflow", "save", flow(tmp_path / "flow.json"), "--name", "kept")
    typed("validate", "kept", "--locked")
    typed("validate", "flow.json", "--locked")
    assert typed.folders == [tmp_path / "flows", None, Path()]
