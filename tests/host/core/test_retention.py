import json
import os
import time

import pytest

DAY = 86_400


def _age(path, days):
    moment = time.time() - days * DAY
    os.utime(path, (moment, moment), follow_symlinks=False)


@pytest.fixture
def left(pflow, pflow_home, tmp_path):
    """What an older and a newer run left behind, and a run that looks for outdated files again."""
    (tmp_path / "wf.json").write_text(
        json.dumps({"nodes": [{"id": "say", "type": "echo", "params": {"message": "hi"}}]})
    )
    state = pflow_home / "state"
    for name, days in (("old", 100), ("new", 80)):
        trace, artefact = state / "traces" / f"{name}.json", state / "artifacts" / name / "image.png"
        for path in (trace, artefact):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("{}")
            _age(path, days)
        _age(artefact.parent, days)

    def run(**env):
        mark = state / ".last-removal"
        if mark.exists():
            _age(mark, 2)
        assert pflow("run", "wf.json", env=env).exit_code == 0
        artefacts = sorted(path.relative_to(state).as_posix() for path in (state / "artifacts").rglob("*"))
        return artefacts, sorted(path.stem for path in (state / "traces").iterdir() if len(path.stem) == 3)

    return run


def test_traces_and_artefacts_are_kept_for_ninety_days(left):
    assert left() == (["artifacts/new", "artifacts/new/image.png"], ["new"])


def test_a_setting_says_how_long_they_are_kept_and_zero_is_for_ever(left, pflow):
    kept = ["artifacts/new", "artifacts/new/image.png", "artifacts/old", "artifacts/old/image.png"]
    assert left(PFLOW_TRACE_DAYS="0") == (kept, ["new", "old"])
    assert left(PFLOW_TRACE_DAYS="some") == (kept, ["new", "old"])
    assert pflow("settings", "set", "PFLOW_TRACE_DAYS", "70").exit_code == 0
    assert left() == ([], [])


def test_outdated_files_are_looked_for_once_a_day(left, pflow_home, pflow):
    left(PFLOW_TRACE_DAYS="0")
    assert pflow("run", "wf.json", env={"PFLOW_TRACE_DAYS": "1"}).exit_code == 0
    assert (pflow_home / "state" / "traces" / "old.json").exists()


def test_a_link_is_removed_and_not_what_it_leads_to(left, pflow_home, tmp_path):
    target = tmp_path / "elsewhere"
    target.mkdir()
    (target / "file").write_text("mine")
    _age(target / "file", 200)
    link = pflow_home / "state" / "artifacts" / "old" / "link"
    link.symlink_to(target)
    _age(link, 200)
    left()
    assert (target / "file").read_text() == "mine"
    assert not link.is_symlink()


def test_a_number_of_runs_is_kept_and_each_run_sees_to_it(pflow, pflow_home, tmp_path):
    node = {"id": "say", "type": "echo", "params": {"message": "hi"}}
    (tmp_path / "wf.json").write_text(json.dumps({"nodes": [node]}))
    (pflow_home / "config").mkdir()
    (pflow_home / "config" / "pflow.toml").write_text("[traces]\nkeep = 2\n")
    state = pflow_home / "state"
    ids = []
    for _ in range(3):
        ids.append(pflow("run", "wf.json", "--json").envelope["data"]["run_id"])
        (state / "artifacts" / ids[-1]).mkdir(parents=True)
        (state / "artifacts" / ids[-1] / "image.png").write_text("x")
    assert {path.stem for path in (state / "traces").iterdir()} == set(ids[1:])
    assert {path.name for path in (state / "artifacts").iterdir()} == set(ids[1:])


def test_what_is_not_kept_is_removed_at_once_when_asked(left, pflow):
    left(PFLOW_TRACE_DAYS="0")
    removed = pflow("trace", "prune", "--json").envelope["data"]
    assert (removed["removed"], removed["size"]) == (1, 4)  # the old trace, and its image
    assert pflow("trace", "prune", "--older-than", "70d", "--json").envelope["data"]["removed"] == 1
    told = pflow("trace", "prune", "--keep", "0").stdout
    assert told == "Removed 1 trace, 0.0 MB with their artefacts\n"
    assert pflow("trace", "list").stdout == "No traces\n"
    assert pflow("trace", "prune").stdout == "Nothing to remove\n"


@pytest.mark.parametrize(
    ("table", "path"),
    [
        ("[traces]\nkeep = 0", "traces.keep"),
        ("[traces]\nkeep = 1.5", "traces.keep"),
        ("[traces]\ndays = -1", "traces.days"),
        ("[traces]\nyears = 1", "traces.years"),
        ("traces = 3", "traces"),
    ],
)
def test_a_mistake_keeps_everything_and_is_found_by_the_check(left, pflow, pflow_home, table, path):
    (pflow_home / "config").mkdir()
    (pflow_home / "config" / "pflow.toml").write_text(table)
    assert left()[1] == ["new", "old"]
    checked = pflow("config", "check", "--json")
    (problem,) = checked.envelope["error"]["details"]["problems"]
    assert (problem["path"], problem["source"]) == (path, str(pflow_home / "config" / "pflow.toml"))
