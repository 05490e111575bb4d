"""Takes out the code that guards each row of a matrix, and sees whether its tests notice.

`python tests/faults/unguarded.py faults [ROW...]`, or `threats [ROW...]`, copies the package for each
guard, takes that guard out of the copy and runs the row's tests against it, two at a time. They must
fail. Without arguments it does so for both. It prints a line for each guard and a count, and exits 1 if
one went unnoticed, or is not where `guards.py` or `threat_guards.py` says.

It tells something only of tests that pass with their guards: run `tox -e faults,threats` first.
"""

import ast
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from argparse import ArgumentParser
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from guards import Guard
from matrices import MATRICES, Matrix
from mutations import Package

HERE = Path(__file__).parent
PACKAGE = HERE.parents[1] / "pflow_mcp_plugin"
AT_ONCE = 2
SECONDS = 150
"""How long a run of pytest may take. One that does not end has not passed."""
FAILED = 1
"""What pytest exits with when tests ran and some failed; it has other codes for mistakes of ours."""
_SHOWN = 150
_LOG = "log"


def main() -> int:
    """Try the guards of the rows that the command line names, or of all; return the exit code."""
    parser = ArgumentParser(description="Take out the guards of a matrix, one by one.")
    parser.add_argument("matrix", nargs="?", choices=MATRICES, help="the matrix; both by default")
    parser.add_argument("rows", nargs="*", type=int, metavar="ROW", help="whose guards to take out")
    options = parser.parse_args()
    chosen = [options.matrix] if options.matrix else list(MATRICES)
    if unknown := set(options.rows) - {guard.row for name in chosen for guard in MATRICES[name].guards}:
        parser.error(f"no such rows: {sorted(unknown)}")
    noticed = [_all_noticed(name, MATRICES[name], set(options.rows)) for name in chosen]
    return 0 if all(noticed) else 1


def _all_noticed(name: str, matrix: Matrix, wanted: set[int]) -> bool:
    chosen = [guard for guard in matrix.guards if not wanted or guard.row in wanted]
    package = Package(PACKAGE)
    with ThreadPoolExecutor(AT_ONCE) as threads:
        noticed = list(threads.map(partial(_noticed, package, matrix), chosen))
    print(f"{name}: {sum(noticed)} of {len(chosen)} guards: the tests of their rows fail without them")
    return all(noticed)


def _noticed(package: Package, matrix: Matrix, guard: Guard) -> bool:
    started = time.monotonic()
    with TemporaryDirectory(prefix="unguarded-") as folder:
        noticed, how = _without(matrix, guard, package, Path(folder))
    seconds = time.monotonic() - started
    verdict = "noticed" if noticed else "UNNOTICED"
    change = f"{guard.place}: {guard.mutation.description}"
    print(f"row {guard.row:2} {verdict}: {change} ({seconds:.0f} s)\n       {how}", flush=True)
    return noticed


def _without(matrix: Matrix, guard: Guard, package: Package, folder: Path) -> tuple[bool, str]:
    """Take a guard out of a copy; return whether the row's tests failed over it, and how it went."""
    try:
        file, tree = package.mutated(guard.place, guard.mutation)
    except LookupError as error:
        return False, str(error)
    copy_package(folder)
    (folder / PACKAGE.name / file).write_text(ast.unparse(tree), encoding="utf-8")
    code = exit_code(_tests(matrix, guard), folder, SECONDS)
    if code is None:
        return True, f"did not end in {SECONDS} s"
    if code != FAILED:
        return False, f"pytest exited {code}: {last_line(folder, '')[:_SHOWN]}"
    failed = last_line(folder, "FAILED") or last_line(folder, "ERROR")
    return True, failed.rpartition("::")[2][:_SHOWN] or "a test did not end within its time"


def copy_package(folder: Path) -> None:
    """Copy the package to a folder, from which `exit_code` has it imported."""
    shutil.copytree(PACKAGE, folder / PACKAGE.name, ignore=shutil.ignore_patterns("__pycache__"))


def exit_code(tests: list[str], folder: Path, seconds: float) -> int | None:
    """Run tests with the copy of the package that is in a folder, up to the first that fails.

    Args:
        tests: Further arguments for pytest, which say what to run.
        folder: Takes all files, among them the log.
        seconds: How long that may take.

    Returns:
        The exit code of pytest, None if it did not end in time.
    """
    options = ["-q", "-x", "-p", "no:cacheprovider", f"--basetemp={folder / 'pytest'}"]
    # -P: the current folder does not count. A test that hangs ends its process, whatever it waits for.
    program = [sys.executable, "-P", "-m", "pytest", "--timeout-method=thread", *options]
    # TMPDIR goes down to every program that is started, servers too: they can be found by it.
    environment = {**os.environ, "PYTHONPATH": str(folder), "TMPDIR": str(folder), "COLUMNS": "250"}
    with (
        (folder / _LOG).open("wb") as output,
        subprocess.Popen(
            [*program, *tests],
            env=environment,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as run,
    ):
        try:
            return run.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            _end(run.pid, folder)


def last_line(folder: Path, word: str) -> str:
    """Return what follows a word in the last line of the log that begins with it, without folders above."""
    lines = (folder / _LOG).read_text(encoding="utf-8", errors="replace").splitlines()
    found = [line for line in lines if line.strip() and line.startswith(word)]
    return re.sub(r"^\S*?(?=tests/)", "", found[-1].removeprefix(word).strip()) if found else ""


def _tests(matrix: Matrix, guard: Guard) -> list[str]:
    among = f"row_{guard.row:02}_" + (f" and {guard.among}" if guard.among else "")
    return ["-k", among, *map(str, matrix.files_of(guard.row))]


def _end(leader: int, folder: Path) -> None:
    """End what a run left: without its guard, some things are left."""
    with suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)
    mark = f"TMPDIR={folder}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it ended meanwhile, or is another user's
            if mark in (process / "environ").read_bytes().split(b"\0"):
                os.kill(int(process.name), signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
