"""Which tests run each line of the package, in the programs that they start too, and how long they take.

`python tests/faults/line_coverage.py FOLDER ARGUMENT...` adds what the tests that `pytest ARGUMENT...`
selects run. It runs them under coverage.py with this module as a plugin of pytest: the name of a test is
the context in which its lines are counted. A program that a test starts reads it from its environment.
"""

import json
import os
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Generator, Mapping
from itertools import accumulate
from pathlib import Path

import pytest

_TEST = "PFLOW_COVERED_BY"
_SECONDS = "PFLOW_TEST_SECONDS"
"""The variable with the file that keeps how long each test took."""
_SETTINGS = f"""
[run]
source_pkgs = pflow_mcp_plugin
parallel = true
patch = subprocess
sigterm = true
context = ${{{_TEST}-}}
"""


def record(folder: Path, arguments: list[str]) -> None:
    """Run tests and keep in a folder what they ran, beside what it keeps already."""
    here = Path(__file__).resolve().parent
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    settings = folder / "settings"
    settings.write_text(_SETTINGS, encoding="utf-8")
    variables = {
        "COVERAGE_FILE": str(folder / "coverage"),
        "COVERAGE_PROCESS_START": str(settings),
        "PFLOW_FRESH_STARTS": "1",
        "PYTHONPATH": os.pathsep.join(map(str, (here, here.parents[1]))),
        _SECONDS: str(folder / "seconds.json"),
    }
    program = [sys.executable, "-m", "coverage"]
    pytest_run = ["run", f"--rcfile={settings}", "-m", "pytest", "-q", "-p", Path(__file__).stem, *arguments]
    environment = {**os.environ, **variables}
    # Tests of what is loaded or left open see coverage itself and fail; what they ran counts all the same.
    subprocess.run([*program, *pytest_run], cwd=here.parents[1], env=environment, check=False)
    combine = ["combine", "--quiet", "--append", f"--rcfile={settings}"]
    subprocess.run([*program, *combine], env=environment, check=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Count what runs now for this test."""
    import coverage

    if measured := coverage.Coverage.current():
        measured.switch_context(item.nodeid)
    os.environ[_TEST] = item.nodeid
    # The settings as coverage.py passes them on have this process's context; those in the file name none.
    os.environ.pop("COVERAGE_PROCESS_CONFIG", None)
    return (yield)


class _Seconds:
    """Keeps how long the tests took that passed; what fails here tells nothing about a change."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._failed: set[str] = set()
        if file.exists():
            self._seconds |= json.loads(file.read_bytes())

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid] += report.duration
        self._failed |= {report.nodeid} if report.failed else set()

    def pytest_sessionfinish(self) -> None:
        passed = {test: took for test, took in self._seconds.items() if test not in self._failed}
        self._file.write_text(json.dumps(passed), encoding="utf-8")


def pytest_configure(config: pytest.Config) -> None:
    """Note how long tests take, in the process that all reports reach."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Seconds(Path(os.environ[_SECONDS])))


class TestsOfLines:
    """Which tests run given lines.

    Args:
        folder: From `record`.
    """

    __test__ = False

    def __init__(self, folder: Path) -> None:
        self._seconds: dict[str, float] = json.loads((folder / "seconds.json").read_bytes())
        import coverage

        data = coverage.CoverageData(str(folder / "coverage"))
        data.read()
        self._lines: dict[str, dict[int, list[str]]] = {}
        for file in data.measured_files():
            inside = file.rpartition("/pflow_mcp_plugin/")[2]
            for line, names in data.contexts_by_lineno(file).items():
                self._lines.setdefault(inside, {}).setdefault(line, []).extend(names)

    def tests(self, places: Mapping[Path, Collection[int] | None], near: Path) -> dict[str, float]:
        """Return the tests that run lines, and their seconds: a quick one of each file before others.

        Args:
            places: The lines, by file below the package; None for all of a file.
            near: Tests in the folder that mirrors its own come first.
        """
        known = {path: self._lines.get(path.as_posix(), {}) for path in places}
        found = {
            test
            for path, lines in places.items()
            for line in (known[path] if lines is None else lines)
            for test in known[path].get(line, ())
            if test in self._seconds
        }
        ranks: Counter[str] = Counter()
        order = {}
        for test in sorted(found, key=lambda test: (self._seconds[test], test)):
            file = test.partition("::")[0]
            order[test] = (not file.startswith(f"tests/{near.parts[0]}/"), ranks[file])
            ranks[file] += 1
        return {test: self._seconds[test] for test in sorted(order, key=order.__getitem__)}


def within(budget: float, tests: Mapping[str, float]) -> list[str]:
    """Return the first of the tests that take no longer together; always one."""
    ends = accumulate(tests.values())
    return [test for test, end in zip(tests, ends, strict=True) if end <= budget] or list(tests)[:1]


if __name__ == "__main__":
    record(Path(sys.argv[1]), sys.argv[2:])
