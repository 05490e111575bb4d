"""How long the files that runs leave behind are kept: traces, the artefacts beside them, and records.

# pflow.toml
[traces]
keep = 200  # at most this many runs; all by default
days = 30   # at most this many days; 90 by default, 0 forever
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from operator import itemgetter
from pathlib import Path

import attrs

from pflow_mcp_plugin.contract import Paths, PflowError, Problem
from pflow_mcp_plugin.contract.problems import fault, problem_of, refused
from pflow_mcp_plugin.host.flow_policy import POLICY_FILE, policy_table

SETTING = "PFLOW_TRACE_DAYS"
"""The environment variable, or else the setting, with the days for which files are kept; 0 keeps them all."""
TABLE = "traces"
"""The table of `pflow.toml` about the traces."""
DAYS = 90.0
_DAY = 86_400.0


@attrs.frozen(kw_only=True)
class Retention:
    """What is kept of earlier runs: the newest `runs` (None for any number), and nothing older than `days`.

    0 days keep everything.
    """

    runs: int | None = None
    days: float = DAYS


@attrs.frozen(kw_only=True)
class Removed:
    """What was removed of earlier runs: `runs` is the number of runs, `size` the number of bytes."""

    runs: int = 0
    size: int = 0

    def __add__(self, other: Removed) -> Removed:
        return Removed(runs=self.runs + other.runs, size=self.size + other.size)


def retention(config: Path, setting: Callable[[str], str | None]) -> Retention:
    """Return how long files of runs are kept; raise PflowError if `pflow.toml` or the setting is invalid."""
    table, days = policy_table(config, TABLE), os.environ.get(SETTING) or setting(SETTING)
    wrong = list(_mistakes(table, str(config / POLICY_FILE)))
    try:
        is_number = not days or float(days) >= 0
    except ValueError:
        is_number = False
    if not is_number:
        step = f"Run: pflow settings set {SETTING} 30"
        if os.environ.get(SETTING):
            step = f"Unset the environment variable, or set {SETTING}=30"
        wrong.append(fault(SETTING, f"Must be a number of days, 0 or more, not {days!r}", step))
    if wrong:
        raise refused("How long traces are kept", wrong, "config")
    return Retention(runs=table.get("keep"), days=float(days or table.get("days", DAYS)))


def check_retention(config: Path, setting: Callable[[str], str | None]) -> Sequence[Problem]:
    """Return the mistakes in the configured retention of traces, if that can be read."""
    try:
        retention(config, setting)
    except PflowError as error:
        return error.problems
    return ()


def _mistakes(table: object, source: str) -> Iterator[Problem]:
    if not isinstance(table, dict):
        yield fault(TABLE, "Must be a table", f"Write [{TABLE}]", source=source)
        return
    step = "Write keep = 200, or days = 30"
    for key, value in table.items():
        path = f"{TABLE}.{key}"
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if key not in ("keep", "days"):
            yield fault(path, f"Unknown key {key}", step, source=source)
        elif key == "keep" and not (number and isinstance(value, int) and value > 0):
            yield fault(path, "Must be a whole number above 0", step, source=source)
        elif key == "days" and not (number and value >= 0):
            yield fault(path, "Must be a number of days, 0 or more", step, source=source)


def remove_outdated(
    paths: Paths, setting: Callable[[str], str | None], report: Callable[[Problem], None]
) -> None:
    """Remove what runs left behind beyond the retention; looks for files that are too old once a day.

    What cannot be removed is left for the next attempt. An invalid retention removes nothing, and is
    reported once a day.
    """
    state = paths.state
    if not state.is_dir():
        return
    mark = state / ".last-removal"
    is_due = not 0 <= time.time() - _modified(mark) < _DAY  # less: the clock was ahead
    if is_due:
        with suppress(OSError):
            mark.touch(mode=0o600)
            os.utime(mark)
    try:
        # Only if it is due: a command may have to be asked for the setting.
        kept = retention(paths.config, setting if is_due else lambda _: None)
    except PflowError as error:
        if is_due:
            report(problem_of(error, severity="warning"))
        return
    prune(state, kept if is_due else attrs.evolve(kept, days=0))


def prune(state: Path, kept: Retention) -> Removed:
    """Remove at once what earlier runs left beyond the retention; return how much it was.

    A run with an open record keeps all that it left: the user has to decide about it.
    """
    if kept == Retention(days=0):
        return Removed()
    moment = time.time() - kept.days * _DAY if kept.days else 0.0
    traces, records = (state / "traces").glob("*.json"), (state / "runs" / "ended").glob("*.db")
    ages: dict[str, float] = {}
    with suppress(OSError):
        for path in (*traces, *records):
            ages[path.stem] = max(ages.get(path.stem, 0.0), _modified(path))
    removed = Removed()
    for number, (run, age) in enumerate(sorted(ages.items(), key=itemgetter(1, 0), reverse=True)):
        if age < moment or (kept.runs is not None and number >= kept.runs):
            removed += _remove_run(state, run)
    return removed + _remove_older(state, moment) if kept.days else removed


def _remove_run(state: Path, run: str) -> Removed:
    """Remove what a run left, unless its record is open; without its artefacts it could not be resumed."""
    if (state / "runs" / "open" / f"{run}.db").exists():
        return Removed()
    record = state / "runs" / "ended" / f"{run}.db"
    size = sum(_unlinked(path, runs=0).size for path in (record, record.with_suffix(".summary")))
    for folder in (record.with_suffix(""), state / "artifacts" / run):
        if folder.is_dir() and not folder.is_symlink():
            size += sum(_size(path) for path in folder.rglob("*"))
            import shutil  # most sweeps remove nothing

            shutil.rmtree(folder, ignore_errors=True)
    return Removed(size=size) + _unlinked(state / "traces" / f"{run}.json", runs=1)


def _remove_older(state: Path, moment: float) -> Removed:
    """Remove older files that belong to no run with a trace or a record."""
    removed = Removed()
    recorded = {path.stem for path in (state / "runs").glob("*/*.db")}
    for name in ("traces", "artifacts", "runs/ended"):
        root = state / name
        for folder, _, _ in os.walk(root, topdown=False):  # follows no links
            place = Path(folder)
            with suppress(OSError):
                unused = place != root and place.stat().st_mtime < moment
                for path in list(place.iterdir()):
                    is_file = path.is_symlink() or path.is_file()
                    is_recorded = Path(path.relative_to(root).parts[0]).stem in recorded
                    if is_file and not is_recorded and path.lstat().st_mtime < moment:
                        removed += _unlinked(path, runs=int(name == "traces"))
                if unused:
                    place.rmdir()  # unless a file is left in it
    return removed


def _unlinked(path: Path, *, runs: int) -> Removed:
    size = _size(path)
    try:
        path.unlink(missing_ok=True)
    except OSError:
        return Removed()
    return Removed(runs=runs, size=size)


def _size(path: Path) -> int:
    try:
        found = path.lstat()
    except OSError:
        return 0
    return found.st_size if stat.S_ISREG(found.st_mode) else 0


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
