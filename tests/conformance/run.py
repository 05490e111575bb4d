"""Runs the official conformance suite against this package's client and the server of pflow.

`python tests/conformance/run.py [client|server] [SCENARIO ...]` runs what both protocol revisions require
of both sides, or only one side, or only the scenarios named, and prints a line for each. `baseline.yml`
says what is expected to fail, and why.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml

HERE = Path(__file__).resolve().parent
BASELINE = HERE / "baseline.yml"
sys.path.append(str(HERE.parent / "servers"))  # where this runs, without pytest

import real_servers  # noqa: E402 - found there

REVISIONS = ("2025-11-25", "2026-07-28")
SIDES = ("client", "server")
_CLIENT = f"{sys.executable} {HERE / 'client_under_test.py'}"
_CLIENT_SECONDS = 120
_SCENARIO_SECONDS = 180
_END_SECONDS = 20
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_MACHINES = ("auth/client-credentials-jwt", "auth/client-credentials-basic")
BEYOND = {
    ("client", "2025-11-25"): (
        *_MACHINES,
        "auth/2025-03-26-oauth-metadata-backcompat",
        "json-schema-2020-12-preservation",
    ),
    ("client", "2026-07-28"): (*_MACHINES, "json-schema-2020-12-preservation"),
    ("server", "2025-11-25"): ("server-session-lifecycle", "json-schema-2020-12"),
    ("server", "2026-07-28"): ("json-schema-2020-12", "http-header-validation"),
}
"""Scenarios that the revisions do not require, and that apply here."""


@dataclass(frozen=True)
class Case:
    """A scenario of one side at a revision of the protocol."""

    side: str
    revision: str
    scenario: str


@dataclass(frozen=True)
class Outcome:
    """How a scenario went: `passed`, `fails, as expected`, or `FAILED`; and the suite's own words."""

    case: Case
    verdict: str
    report: str


def main(words: list[str]) -> int:
    """Run the scenarios; 0 if each one passes or is expected to fail."""
    sides = [side for side in SIDES if side in words] or SIDES
    wanted = [word for word in words if word not in SIDES]
    cases = [
        Case(side, revision, scenario)
        for side in sides
        for revision in REVISIONS
        for scenario in _scenarios(side, revision)
        if not wanted or scenario in wanted
    ]
    with _server() as url, ThreadPoolExecutor(os.cpu_count()) as workers:
        outcomes = list(workers.map(lambda case: _run(case, url), cases))
    return _told(outcomes)


def _told(outcomes: Sequence[Outcome]) -> int:
    """Print how the scenarios went, and why those that failed did; return the exit code."""
    for outcome in outcomes:
        case = outcome.case
        print(f"{case.side}  {case.revision}  {case.scenario:45} {outcome.verdict}")
    failed = [outcome for outcome in outcomes if outcome.verdict == "FAILED"]
    for outcome in failed:
        print(f"\n=== {outcome.case}\n{outcome.report}")
    print()
    for (side, revision), counted in _counts(outcomes).items():
        print(f"{side} {revision}: {', '.join(f'{count} {verdict}' for verdict, count in counted.items())}")
    print(f"{len(outcomes) - len(failed)} of {len(outcomes)} scenarios went as they should")
    return 1 if failed or not outcomes else 0


def _counts(outcomes: Sequence[Outcome]) -> dict[tuple[str, str], Counter[str]]:
    counts: dict[tuple[str, str], Counter[str]] = {}
    for outcome in outcomes:
        counts.setdefault((outcome.case.side, outcome.case.revision), Counter())[outcome.verdict] += 1
    return counts


@cache
def _suite() -> list[str]:
    return real_servers.conformance()


def _scenarios(side: str, revision: str) -> Iterator[str]:
    """Yield the scenarios that a revision requires of a side, and those that apply beyond."""
    listed = subprocess.run(
        [*_suite(), "list", "--requirements", revision], capture_output=True, check=True, text=True
    ).stdout
    section = listed.partition(f"{side.capitalize()} scenarios")[2].partition("\n\n")[0]
    yield from re.findall(r"^ +- (\S+)", section, re.MULTILINE)
    yield from BEYOND[side, revision]


@contextmanager
def _server() -> Iterator[str]:
    """Run the server under test in a home of its own; give its URL."""
    with TemporaryDirectory(prefix="pflow-conformance-") as home:
        process = subprocess.Popen(
            [sys.executable, str(HERE / "server_under_test.py")],
            env={**os.environ, "PFLOW_HOME": home},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()
            process.wait(_END_SECONDS)


def _run(case: Case, url: str) -> Outcome:
    target = ["--command", _CLIENT] if case.side == "client" else ["--url", url]
    options = [*target, "--scenario", case.scenario, "--spec-version", case.revision]
    if case.side == "client" and case.scenario in BEYOND[case.side, case.revision]:
        options.append("--force")  # the suite skips what is not of the revision
    limits = ["--timeout", str(_CLIENT_SECONDS * 1000), "--expected-failures", str(BASELINE)]
    done = subprocess.run(
        [*_suite(), case.side, *options, *limits],
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=_SCENARIO_SECONDS,
        check=False,
    )
    report = _COLOURS.sub("", done.stdout + done.stderr)
    return Outcome(case, _verdict(case, done.returncode, report), report)


def _verdict(case: Case, exit_code: int, report: str) -> str:
    if exit_code:
        return "FAILED"
    if "OVERALL: PASSED" in report or re.search(
        r"^Passed: (\d+)/\1, 0 failed, 0 warnings$", report, re.MULTILINE
    ):
        return "passed"
    # Of a server's scenario some checks may be excused; of the client's, whole scenarios are, or nothing.
    known = yaml.safe_load(BASELINE.read_text(encoding="utf-8"))["client"]
    return "fails, as expected" if case.side == "server" or case.scenario in known else "FAILED"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
