import os
import re
import time

import pytest
from workflow_parts import flow, step

from pflow_mcp_plugin.contract import Paths, PflowError
from pflow_mcp_plugin.host.retention import (
    Removed,
    Retention,
    check_retention,
    prune,
    remove_outdated,
    retention,
)

DAY = 86_400


def _age(path, days):
    moment = time.time() - days * DAY
    os.utime(path, (moment, moment), follow_symlinks=False)


@pytest.fixture
def left(pflow, pflow_home, write):
    """What an older and a newer run left behind, and a run that looks for outdated files again."""
    write(flow(step("say", "echo", {"message": "hi"})))
    state = pflow_home / "state"
    for name, days in (("old", 100), ("new", 80)):
        _run(state, name, days)

    def run(**env):
        mark = state / ".last-removal"
        if mark.exists():
            _age(mark, 2)
        assert pflow("run", "wf.json", env=env).exit_code == 0
        return sorted(path.stem for path in (state / "traces").iterdir() if len(path.stem) == 3)

    return run


def test_a_number_of_runs_is_kept_and_each_run_sees_to_it(pflow, pflow_home, write):
    write(flow(step("say", "echo", {"message": "hi"})))
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
    assert (removed["removed"], removed["size"]) == (1, 7)  # the old trace, and its image
    assert pflow("trace", "prune", "--older-than", "70d", "--json").envelope["data"]["removed"] == 1
    told = pflow("trace", "prune", "--keep", "0").stdout
    assert told == "Removed 1 trace, 0.0 MB with their artefacts and records\n"
    assert pflow("trace", "list").stdout == "No traces\n"
    assert pflow("trace", "prune").stdout == "Nothing to remove\n"


def test_a_mistake_keeps_everything_and_is_found_by_the_check(left, pflow, pflow_home):
    (pflow_home / "config").mkdir()
    (pflow_home / "config" / "pflow.toml").write_text("[traces]\nkeep = 0")
    assert left() == ["new", "old"]
    assert pflow("run", "wf.json").stderr == ""  # the warning was that of the day
    (pflow_home / "state" / ".last-removal").unlink()
    assert "traces.keep: Must be" in pflow("run", "wf.json").stderr
    pruned = pflow("trace", "prune")
    assert (pruned.exit_code, "traces.keep: Must be" in pruned.stderr) == (2, True)
    checked = pflow("config", "check", "--json")
    (problem,) = checked.envelope["error"]["details"]["problems"]
    assert (problem["path"], problem["source"]) == ("traces.keep", str(pflow_home / "config" / "pflow.toml"))


@pytest.mark.parametrize(
    ("table", "variable", "setting", "kept"),
    [
        ("", "", None, Retention(runs=None, days=90)),
        ("keep = 1\ndays = 30", "", None, Retention(runs=1, days=30)),
        ("days = 30", "", "5", Retention(days=5)),
        ("days = 30", "7", "5", Retention(days=7)),
        ("", "-1", None, "PFLOW_TRACE_DAYS: .*-1.*[Uu]nset"),
        ("", "", "30d", "PFLOW_TRACE_DAYS: .*30d.*settings set"),
        ("keep = true", "7", None, "traces.keep"),
        ("keep =", "7", None, "line 2"),
    ],
)
def test_a_variable_wins_over_a_setting_and_that_over_the_file(
    tmp_path, monkeypatch, table, variable, setting, kept
):
    (tmp_path / "pflow.toml").write_text(f"[traces]\n{table}")
    monkeypatch.setenv("PFLOW_TRACE_DAYS", variable)
    settings = {"PFLOW_TRACE_DAYS": setting}.get
    if isinstance(kept, Retention):
        assert retention(tmp_path, settings) == kept
        return
    with pytest.raises(PflowError) as caught:
        retention(tmp_path, settings)
    assert re.search(kept, f"{caught.value.message} {caught.value.suggestions}")
    assert caught.value.exit_code == 2


def test_each_mistake_in_the_file_is_told_with_the_next_step(tmp_path):
    (tmp_path / "pflow.toml").write_text("[traces]\nkeep = true\ndays = '3'\nyears = 1\n")
    found = [(it.path, it.kind, it.message, bool(it.suggestion)) for it in check_retention(tmp_path, {}.get)]
    assert found == [
        ("traces.keep", "config", "Must be a whole number above 0", True),
        ("traces.days", "config", "Must be a number of days, 0 or more", True),
        ("traces.years", "config", "Unknown key years", True),
    ]
    for table in ("traces.keep = 1.5", "traces.days = -1", "traces = 3"):
        (tmp_path / "pflow.toml").write_text(table)
        assert [it.path for it in check_retention(tmp_path, {}.get)] == [table.partition(" ")[0]]
    (tmp_path / "pflow.toml").write_text("[traces]\nkeep = 1\ndays = 0\n")
    assert not list(check_retention(tmp_path, {}.get))


def _run(state, name, days):
    trace, artefact = state / "traces" / f"{name}.json", state / "artifacts" / name / "image.png"
    for path, content in ((trace, "{}"), (artefact, "image")):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        _age(path, days)
    _age(artefact.parent, days)


def _there(state):
    return sorted(path.relative_to(state).as_posix() for path in state.rglob("*") if path.is_file())


def test_what_is_pruned_is_counted_and_the_newest_stays(tmp_path):
    for name, days in (("a", 9), ("b", 5), ("c", 1)):
        _run(tmp_path, name, days)
    assert prune(tmp_path, Retention(runs=None, days=0)) == Removed()
    assert prune(tmp_path, Retention(runs=2, days=0)) == Removed(runs=1, size=7)
    assert not (tmp_path / "artifacts" / "a").exists()
    assert prune(tmp_path, Retention(runs=2, days=3)) == Removed(runs=1, size=7)
    assert _there(tmp_path) == ["artifacts/c/image.png", "traces/c.json"]
    assert not (tmp_path / "artifacts" / "b").exists()
    (tmp_path / "artifacts" / "d").symlink_to(tmp_path / "artifacts" / "c")
    (tmp_path / "traces" / "d.json").write_text("{}")
    _age(tmp_path / "traces" / "d.json", 8)
    assert prune(tmp_path, Retention(runs=1, days=0)) == Removed(runs=1, size=2)
    assert _there(tmp_path)[0] == "artifacts/c/image.png"


def test_a_link_is_removed_and_not_what_it_leads_to(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").touch()
    _age(tmp_path / "mine" / "file", 9)
    for run in ("with-a-trace", "without"):
        _run(tmp_path, run, 9)
        (tmp_path / "artifacts" / run / "link").symlink_to(tmp_path / "mine")
        _age(tmp_path / "artifacts" / run / "link", 9)
    (tmp_path / "traces" / "without.json").unlink()
    prune(tmp_path, Retention(days=5))
    assert _there(tmp_path) == ["mine/file"]
    assert not list(tmp_path.rglob("link"))


def test_an_open_run_keeps_all_it_left_and_an_ended_one_goes_as_a_whole(tmp_path):
    for name, folder in (("stays", "open"), ("goes", "ended")):
        _run(tmp_path, name, 9)
        result = tmp_path / "runs" / folder / name / "1.json"
        result.parent.mkdir(parents=True)
        result.write_text("{}")
        record = tmp_path / "runs" / folder / f"{name}.db"
        record.write_text("rows")
        _age(result, 9)
        _age(record, 2)
    everything = _there(tmp_path)
    assert prune(tmp_path, Retention(days=5)) == Removed()
    assert _there(tmp_path) == everything
    assert prune(tmp_path, Retention(runs=0, days=1)) == Removed(runs=1, size=13)
    assert _there(tmp_path) == [it for it in everything if "goes" not in it]


def test_the_setting_is_asked_for_once_a_day(tmp_path):
    state, asked = tmp_path / "state", []
    paths = Paths(config=tmp_path, data=tmp_path, state=state, cache=tmp_path)
    remove_outdated(paths, asked.append, pytest.fail)
    assert (asked, state.exists()) == ([], False)
    for hours, times in ((25, 1), (0, 1), (23, 1), (25, 2), (-48, 3)):  # -48: the clock was ahead
        _run(state, "old", 91)
        _run(state, "new", 89)
        mark = state / ".last-removal"
        if mark.exists():
            _age(mark, hours / 24)
        remove_outdated(paths, asked.append, pytest.fail)
        assert len(asked) == times
        assert (state / "traces" / "old.json").exists() is (0 <= hours < 24)
        assert (state / "traces" / "new.json").exists()
        assert mark.stat().st_mode & 0o777 == 0o600
