"""Measure, print the table, and save it as JSON and Markdown under `benchmarks/results/`."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Iterable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import attrs

from benchmarks.budgets import LINES, Bench, Line
from benchmarks.paired_runs import run


def main() -> int:
    """Run the selected measurements; return 1 if a budget was exceeded."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--pairs", type=int, default=15, help="runs of each side of a comparison")
    parser.add_argument("--only", action="append", choices=sorted(LINES), help="measure only this one")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args()
    lines = list(measure(options.only or LINES, options.pairs))
    on = machine()
    table = markdown(lines, options.pairs, on)
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "table.md").write_text(table, encoding="utf-8")
    figures = {"machine": on, "pairs": options.pairs, "lines": [attrs.asdict(line) for line in lines]}
    (options.output / "figures.json").write_text(json.dumps(figures, indent=2), encoding="utf-8")
    print(table)
    return 0 if all(line.kept for line in lines) else 1


def measure(names: Iterable[str], pairs: int) -> Iterable[Line]:
    """Yield the lines of the table as they are measured."""
    with TemporaryDirectory(prefix="pflow-benchmarks-") as folder:
        bench = Bench(folder=Path(folder), pairs=pairs)
        for name in names:
            print(f"measuring {name} ...", file=sys.stderr)
            yield from LINES[name](bench)


def markdown(lines: Iterable[Line], pairs: int, on: str) -> str:
    """Return the table as Markdown.

    Args:
        lines: Its lines.
        pairs: How many pairs were run.
        on: Description of the machine, which is printed under the table.
    """
    rows = [f"| {line.name} | {line.measured} | {line.limit} | {_verdict(line)} |" for line in lines]
    head = ["| what | measured | budget | kept |", "|---|---|---|---|"]
    note = f"Medians of {pairs} pairs, run in turn on one machine: {on}."
    return "\n".join([*head, *rows, "", note, ""])


def machine() -> str:
    """Return a short description of the machine and its speed, since milliseconds depend on it."""
    system = f"{platform.system()} {platform.machine()}"
    nothing = [sys.executable, "-c", "pass"]
    start = median(run(nothing, {}, Path.cwd()).seconds for _ in range(15)) * 1000
    version = platform.python_version()
    return f"{os.cpu_count()} cores, {system}, Python {version}, `python -c pass` in {start:.0f} ms"


def _verdict(line: Line) -> str:
    return "yes" if line.kept else "**no**"


if __name__ == "__main__":
    sys.exit(main())
