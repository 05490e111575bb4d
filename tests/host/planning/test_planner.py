import importlib.util
import json

import pytest
from workflow_parts import flow, step

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.host.planning.planner import EXISTING, Planner, PlanOptions

TASK = "read the text of a file"
HAS_LLM = importlib.util.find_spec("llm") is not None
OFFLINE = PlanOptions(offline=True)


@pytest.fixture
def planner(bench, monkeypatch):
    for name in ("PFLOW_PLAN_MODEL", "PFLOW_DISCOVER_MODEL"):
        monkeypatch.delenv(name, raising=False)
    host = bench.host
    return Planner(
        registry=host.registry, runner=host.runner, library=host.library, setting=host.settings.get
    )


def saved(bench, description, type_="read-file"):
    params = {"message": "x"} if type_ == "echo" else {"file_path": "x"}
    bench.host.library.save("mine", flow(step("a", type_, params)), description)


def test_a_saved_workflow_that_fits_is_the_plan(bench, planner):
    saved(bench, TASK)
    plan = planner.plan(TASK, PlanOptions())
    assert (plan.selection.selection_type, plan.selection.existing) == ("found_existing", "mine")
    assert plan.selection.confidence >= EXISTING
    assert plan.selection.chosen_nodes == ("read-file",)
    assert (plan.errors, plan.rounds, plan.model) == ([], 0, "")
    assert plan.notes == ("The saved workflow mine fits the task; for a new one: --new",)


@pytest.mark.parametrize(
    ("description", "type_", "options"),
    [
        (TASK, "read-file", PlanOptions(offline=True, new=True)),
        (TASK, "t-gone", OFFLINE),
        ("text", "echo", OFFLINE),
    ],
)
def test_one_that_is_not_wanted_or_broken_or_fits_less_is_not(bench, planner, description, type_, options):
    saved(bench, description, type_)
    plan = planner.plan(TASK, options)
    assert plan.selection.selection_type == "offline"
    assert plan.errors == []


def test_without_a_model_the_words_decide_and_a_note_says_so(planner):
    plan = planner.plan(TASK, PlanOptions())
    assert plan.selection.selection_type == "offline"
    assert "PFLOW_PLAN_MODEL" in plan.notes[0]
    assert not any("model" in note.lower() for note in planner.plan(TASK, OFFLINE).notes)


def test_where_no_node_fits_there_is_no_workflow_but_a_next_step(pflow):
    finished = pflow("plan", "frobnicate the gizmo", "--offline", "--save", "nonsense")
    assert (finished.exit_code, finished.stdout) == (2, "")
    assert "No node fits any part of the task" in finished.stderr
    assert "pflow registry list" in finished.stderr
    assert pflow("workflow", "show", "nonsense").exit_code == 2


def test_a_plan_that_hardly_fits_is_said_to_be_a_guess(planner):
    assert not any("guess" in note for note in planner.plan(TASK, OFFLINE).notes)
    weak = planner.plan(f"{TASK}, frobnicate it, fumigate it, expropriate it", OFFLINE)
    assert weak.selection.confidence < 0.3
    assert "No node fits the task well" in weak.notes[0]


@pytest.mark.parametrize("task", ["", "  \n", "x" * 8_001])
def test_a_task_must_say_something_and_not_too_much(planner, task):
    with pytest.raises(PflowError, match="The task ") as failed:
        planner.plan(task, OFFLINE)
    assert failed.value.kind == "usage"


def test_the_command_prints_a_workflow_that_can_be_kept_and_run(pflow, tmp_path):
    finished = pflow("plan", "read", "the", "text", "of", "a", "file", "--offline", "--explain")
    assert finished.exit_code == 0
    assert "Selection: offline, confidence " in finished.stderr
    assert "CANDIDATE" in finished.stderr
    file = tmp_path / "planned.json"
    file.write_text(finished.stdout, encoding="utf-8")
    assert pflow("validate", file).exit_code == 0
    assert json.loads(finished.stdout)["metadata"]["prompt"] == TASK


def test_the_command_saves_a_plan_under_a_name(pflow):
    wrong = pflow("plan", TASK, "--offline", "--save", "No Name")
    assert (wrong.exit_code, wrong.stdout) == (2, "")
    assert "'No Name' is not a valid workflow name" in wrong.stderr
    made = pflow("plan", TASK, "--offline", "--save", "reader", "--json")
    assert made.envelope["data"]["selection"]["selection_type"] == "offline"
    assert pflow("workflow", "show", "reader").exit_code == 0


@pytest.mark.skipif(HAS_LLM, reason="the extra [llm] is installed")
def test_without_the_library_no_model_can_be_asked_and_one_of_the_settings_is_passed_over(pflow):
    finished = pflow("plan", TASK, "--model", "sage")
    assert (finished.exit_code, finished.stdout) == (2, "")
    assert "The library llm is not installed" in finished.stderr
    assert "[llm]" in finished.stderr
    assert "--offline" in finished.stderr
    finished = pflow("plan", TASK, env={"PFLOW_PLAN_MODEL": "sage"})
    assert finished.exit_code == 0
    assert json.loads(finished.stdout)["nodes"]
    assert "Note: The model sage was not asked: The library llm is not installed" in finished.stderr
