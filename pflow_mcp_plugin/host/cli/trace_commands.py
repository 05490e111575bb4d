"""`pflow trace list | show | view`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from pflow_mcp_plugin.contract import PflowError, Report
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.host.cli.name_completion import runs
from pflow_mcp_plugin.host.cli.tables import table
from pflow_mcp_plugin.host.embedded_host import EmbeddedHost
from pflow_mcp_plugin.host.printable_json import to_json
from pflow_mcp_plugin.host.trace_files import LATEST, cached_words
from pflow_mcp_plugin.storage import write_output

_HEADERS = ("RUN", "WORKFLOW", "STARTED", "STEPS", "MILLISECONDS", "RESULT")
_SUMMARY = ("run_id", "workflow", "started", "milliseconds", "success")


@click.command()
@click.option(
    "--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Maximum number of runs."
)
@click.pass_obj
def list_traces(host: EmbeddedHost, limit: int) -> Report:
    """List past runs that have a trace, newest first."""
    paths = host.traces.paths()
    rows = [_summary(host, path) for path in paths[:limit]]
    older = f"\n{len(paths) - limit:,} older; to see them: --limit {len(paths)}" if len(paths) > limit else ""
    return Report(
        data=rows,
        text=lambda: table(_HEADERS, list(map(_cells, rows))) + older if rows else "No traces",
        beside={"total": len(paths)},
    )


@click.command()
@click.argument("run", default=LATEST, shell_complete=runs)
@click.pass_obj
def show(host: EmbeddedHost, run: str) -> Report:
    """Show the trace of RUN, which is an id, the beginning of one, `latest`, or the path of a trace file."""
    trace = host.traces.read(_path(host, run))
    return Report(data=trace, text=lambda: "\n".join(_lines(trace)))


@click.command()
@click.argument("run", default=LATEST, shell_complete=runs)
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Where to write it; trace-RUN.html by default.",
)
@click.pass_obj
def view(host: EmbeddedHost, run: str, output: Path | None) -> Report:
    """Write the trace of RUN, an id, `latest` or the path of a trace, as an HTML page for any browser."""
    from pflow_mcp_plugin.host.rendering.timeline import trace_page

    path = _path(host, run)
    target = output or Path(f"trace-{path.stem}.html")
    # Readable by its owner only, like the trace itself: it contains the data of the nodes.
    page = trace_page(host.traces.read(path)).encode("utf-8", "replace")
    write_output(target, page, private=True)
    return Report(data={"run_id": path.stem, "path": str(target)}, text=f"Wrote {target}")


def _path(host: EmbeddedHost, run: str) -> Path:
    """Return the trace file of a run; a path may also lead to one outside the folder, such as a copy."""
    return Path(run) if run.endswith(".json") else host.traces.find(run)


def _summary(host: EmbeddedHost, path: Path) -> dict[str, JSON]:
    row: dict[str, JSON] = {**dict.fromkeys(_SUMMARY), "run_id": path.stem, "path": str(path)}
    try:
        trace = host.traces.read(path)
    except PflowError as error:
        return {**row, "steps": None, "error": error.message}
    known = {key: trace[key] for key in _SUMMARY if key in trace}
    failure = trace.get("error")
    message = failure.get("message") if isinstance(failure, Mapping) else None
    return {**row, **known, "steps": len(trace["steps"]), "error": message}


def _cells(row: JSONObject) -> tuple[str, ...]:
    result = "succeeded" if row["success"] else str(row["error"] or "failed").partition("\n")[0]
    values = (row["run_id"], row["workflow"], row["started"], row["steps"], row["milliseconds"])
    return (*("" if value is None else str(value) for value in values), result)


def _lines(trace: Mapping[str, Any]) -> Iterator[str]:
    ended = "succeeded" if trace.get("success") else "failed"
    yield f"{trace.get('workflow')}: run {trace.get('run_id')} {ended} in {trace.get('milliseconds')} ms"
    if trace.get("inputs"):
        yield from _member("inputs", trace["inputs"])
    for step in trace["steps"]:
        yield ""
        mark = "ok" if step.get("error") is None else "FAILED"
        action = "" if step.get("action") in (None, "default") else f", action {step.get('action')}"
        cached = f", {words}" if (words := cached_words(step)) else ""
        yield f"{step.get('id')} ({step.get('type')})  {step.get('milliseconds')} ms  {mark}{cached}{action}"
        for name in ("error", "params", "outputs", "details"):
            if step.get(name):
                yield from _member(name, step[name])


def _member(name: str, value: object) -> Iterator[str]:
    text = value if isinstance(value, str) else to_json(value)
    yield f"  {name}: " + text.replace("\n", "\n  ")
