"""The budgets: each line of the table says what is run against what, and how far it may go."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs

from benchmarks.pairs import compare, run

_HERE = Path(__file__).resolve().parent
_STEPS = 10
_TOOLS = 100


@attrs.frozen(kw_only=True)
class Line:
    """One line of the table.

    Attributes:
        name: What was measured.
        measured: The figure, with its unit.
        limit: The budget, with its unit.
        kept: Whether the figure is within the budget.
        details: The numbers behind it, for the JSON file.
    """

    name: str
    measured: str
    limit: str
    kept: bool
    details: object = None


@attrs.frozen(kw_only=True)
class Bench:
    """A home with servers in it, and how often to run.

    Attributes:
        folder: Scratch folder; `$PFLOW_HOME` is inside.
        pairs: How many pairs each comparison takes.
    """

    folder: Path
    pairs: int

    @property
    def env(self) -> dict[str, str]:
        """What the measured programs find in their environment; both sides may keep compiled modules."""
        return {"PFLOW_HOME": str(self.folder / "home"), "PYTHONPATH": "", "PYTHONDONTWRITEBYTECODE": ""}

    def pflow(self, *arguments: str) -> list[str]:
        """Return the command of the installed program."""
        return [str(Path(sys.executable).parent / "pflow-mcp"), *arguments]

    def add(self, name: str, command: Sequence[str]) -> None:
        """Configure a server and sync its tools."""
        run(self.pflow("mcp", "add", name, "--", *command), self.env, self.folder)
        run(self.pflow("mcp", "sync", name), self.env, self.folder)

    def against(self, name: str, limit: float, ours: Sequence[str], theirs: Sequence[str]) -> Line:
        """Compare two commands; the limit is on the ratio of their times."""
        found = compare(ours, theirs, self.pairs, self.env, self.folder)
        return Line(
            name=name,
            measured=f"{found.ratio:.2f} ×",
            limit=f"≤ {limit:.2f} ×",
            kept=found.ratio <= limit,
            details=attrs.asdict(found),
        )


def listings(bench: Bench) -> Iterator[Line]:
    """Compare the listing commands, with 100 tools, with a Python that does nothing."""
    bench.add("many", [sys.executable, str(_HERE / "many_tools.py"), str(_TOOLS)])
    nothing = [sys.executable, "-c", "pass"]
    for words in (("mcp", "list"), ("registry", "list")):
        name = f"`pflow {' '.join(words)}` ({_TOOLS} tools) / `python -c pass`"
        yield bench.against(name, 10.0, bench.pflow(*words), nothing)


def cold_run_demo(bench: Bench) -> Iterator[Line]:
    """Compare a cold run of ten steps on the demo server with the bare SDK's ten calls."""
    command = [sys.executable, "-m", "pflow_mcp_plugin.server.demo"]
    yield _cold_run(bench, "demo", command, ("add", {"a": 1, "b": 2}))


def cold_run_time(bench: Bench) -> Iterator[Line]:
    """The same on `mcp-server-time`, as the tests install it."""
    sys.path.insert(0, str(_HERE.parent / "tests" / "servers"))
    from real_servers import local_time

    yield _cold_run(bench, "time", local_time(), ("get_current_time", {"timezone": "UTC"}))


def _cold_run(bench: Bench, server: str, command: list[str], call: tuple[str, dict[str, object]]) -> Line:
    tool, arguments = call
    bench.add(server, command)
    node = f"mcp-{server}-{tool.replace('_', '-')}"
    nodes = [{"id": f"step{number}", "type": node, "params": arguments} for number in range(_STEPS)]
    workflow = bench.folder / f"{server}.json"
    workflow.write_text(json.dumps({"nodes": nodes}), encoding="utf-8")
    ours = bench.pflow("run", str(workflow))
    theirs = [sys.executable, str(_HERE / "bare_sdk.py"), str(_STEPS), tool, json.dumps(arguments), *command]
    return bench.against(
        f"cold run of {_STEPS} steps ({server} server) / bare SDK script", 0.70, ours, theirs
    )


def installed(bench: Bench) -> Iterator[Line]:
    """Install the package into an environment of its own and weigh it."""
    python = bench.folder / "venv" / "bin" / "python"
    run([sys.executable, "-m", "venv", str(bench.folder / "venv")], {}, bench.folder)
    run([str(python), "-m", "pip", "install", "--quiet", str(_HERE.parent)], {}, bench.folder)
    weight = json.loads(run([str(python), str(_HERE / "installed_size.py")], {}, bench.folder)[1])
    kept = weight["mb"] <= 90 and weight["packages"] <= 45
    measured = f"{weight['mb']} MB, {weight['packages']} packages"
    yield Line(
        name="installed size", measured=measured, limit="≤ 90 MB, ≤ 45 packages", kept=kept, details=weight
    )


LINES = {
    "listings": listings,
    "cold-run-demo": cold_run_demo,
    "cold-run-time": cold_run_time,
    "installed": installed,
}
"""What `--only` may name."""
