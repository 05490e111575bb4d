"""`pflow trace list | show | view | prune`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import click

from pflow_mcp_plugin.contract import PflowError, Report
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.host.cli.command_parameters import limit_option, runs, seconds
from pflow_mcp_plugin.host.cli.output import table_report, write_file
from pflow_mcp_plugin.host.embedded_host import EmbeddedHost
from pflow_mcp_plugin.host.standard_streams import printed
from pflow_mcp_plugin.host.trace_files import (
    LATEST,
    MARKS,
    StepState,
    TracedStep,
    action_words,
    objects_in,
    run_state,
    shown_type,
    step_words,
    traced_steps,
)
from pflow_mcp_plugin.schemas.schema_reader import table_of
from pflow_mcp_plugin.terminal.human_units import age_text, count_text, duration_text
from pflow_mcp_plugin.terminal.looks import Cell, Column, Look, Table, abbreviated, barred_lines
from pflow_mcp_plugin.terminal.similar_names import did_you_mean

_COLUMNS = (
    Column(title="RUN", whole=True),
    Column(title="RESULT", whole=True),
    Column(title="STARTED", whole=True),
    Column(title="TIME", whole=True, right=True, spare=True),
    Column(title="STEPS", whole=True, right=True, spare=True),
    Column(title="WORKFLOW"),
    Column(title="ERROR", spare=True, look="bad"),
)
_FAILED_COLUMNS = (*_COLUMNS[:-1], _COLUMNS[-1]._replace(spare=False))
_STEP_COLUMNS = (
    Column(whole=True),
    Column(title="STEP", whole=True, tree=True),
    Column(title="TIME", whole=True, right=True),
    Column(title="TYPE", look="dim"),
    Column(title="NOTE"),
)
_SUMMARY = ("run_id", "workflow", "started", "milliseconds", "success")
_LONGEST = 200
"""The number of characters of an output that the brief form shows."""
_MB = 1 << 20


@click.command()
@limit_option(20, "runs")
@click.option("--failed", is_flag=True, help="Only runs that did not succeed.")
@click.option("--workflow", default="", metavar="NAME", help="Only runs of this workflow: a name or a file.")
@click.option(
    "--since",
    callback=seconds,
    metavar="TIME",
    help="Only runs that ended within this time, such as 2h or 2d.",
)
@click.pass_obj
def list_traces(
    host: EmbeddedHost, /, limit: int, *, failed: bool, workflow: str, since: float | None
) -> Report:
    """List past runs that have a trace, newest first."""
    paths = host.traces.paths()
    if since is not None:
        paths = [path for path in paths if path.stat().st_mtime >= time.time() - since]

    def is_wanted(row: JSONObject) -> bool:
        name = str(row["workflow"] or "")
        is_of_workflow = workflow in ("", name, Path(name).name, Path(name).stem)
        return is_of_workflow and not (failed and row["success"])

    if failed or workflow:
        found = [row for row in (_summary(host, path) for path in paths) if is_wanted(row)]
        rows, total = found[:limit], len(found)
    else:  # only the ones shown are read
        rows, total = [_summary(host, path) for path in paths[:limit]], len(paths)
    older = (f"{total - limit:,} older; to see them: --limit {total}",) if total > limit else ()
    columns = _FAILED_COLUMNS if failed else _COLUMNS
    nothing = "No such traces" if failed or workflow or since is not None else "No traces"
    return table_report(rows, columns, map(_cells, rows), nothing, *older, beside={"total": total})


@click.command()
@click.argument("run", default=LATEST, shell_complete=runs)
@click.option("--step", "step_id", metavar="ID", help="Show everything in the trace about this step.")
@click.option("--failed", is_flag=True, help="Show only the steps and items that failed, with their params.")
@click.option("--full", is_flag=True, help="Show everything in the trace about every step.")
@click.pass_obj
def show(host: EmbeddedHost, run: str, *, step_id: str | None, failed: bool, full: bool) -> Report:
    """Show the trace of RUN: an id or its beginning, `latest`, or the path of a trace file.

    By default, show a line for each step, and the outputs. An item of a batch is a step too: --step 'ID[0]'.
    """
    trace = host.traces.read(_path(host, run))
    if failed and (full or step_id is not None):
        raise PflowError("--failed excludes --step and --full", kind="usage")
    if failed:
        lost = [each for step in traced_steps(trace) for each in failures(step)]
        rows = [{"name": each.name, "state": each.state, **each.content} for each in lost]
        return Report(data=rows, text=lambda: "\n".join(_failed(trace, lost)))
    if step_id is not None:
        steps = _steps(trace, step_id)
        contents = [step.content for step in steps]
        return Report(data=contents, text=lambda: "\n".join(_whole_steps(steps)))
    left = _open_steps(host, str(trace.get("run_id")))
    told = (f"Open: {', '.join(left)}; decide with: pflow resume {trace['run_id']}",) if left else ()
    return Report(
        data=trace,
        text=lambda: "\n".join([*_full(trace), *told]) if full else (*_brief(trace), *told),
        beside={"open": left} if left else {},
    )


@click.command()
@click.argument("run", default=LATEST, shell_complete=runs)
@click.option(
    "--output",
    type=click.Path(path_type=Path, allow_dash=True),
    metavar="FILE",
    help="Where to write it; trace-RUN.html by default, - for standard output.",
)
@click.option("--open", "opened", is_flag=True, help="Open the page in the browser.")
@click.pass_obj
def view(host: EmbeddedHost, run: str, *, output: Path | None, opened: bool) -> Report:
    """Write the trace of RUN, an id, `latest` or the path of a trace, as an HTML page for any browser."""
    from pflow_mcp_plugin.host.rendering.timeline import trace_page

    path = _path(host, run)
    page = trace_page(host.traces.read(path))
    # Readable by its owner only, like the trace itself: it contains the data of the nodes.
    target = output or Path(f"trace-{path.stem}.html")
    data = {"run_id": path.stem}
    return write_file(page, target, data, source=path, private=True, opened=opened)


@click.command()
@click.option("--keep", type=click.IntRange(min=0), metavar="N", help="Keep the newest N runs.")
@click.option(
    "--older-than", callback=seconds, metavar="TIME", help="Remove traces older than this, such as 30d."
)
@click.pass_obj
def prune(host: EmbeddedHost, keep: int | None, older_than: float | None) -> Report:
    """Remove traces, artefacts and records of past runs; by default, those beyond the configured retention.

    The retention is set in `pflow.toml`: [traces] keep = 200, or days = 30. With both options, a run is
    removed if either says so. What a killed run or one with an open step left stays.
    """
    from pflow_mcp_plugin.host.retention import Retention, retention
    from pflow_mcp_plugin.host.retention import prune as remove

    # Everything is older than 0; a retention of 0 days keeps everything.
    kept = Retention(runs=0 if older_than == 0 else keep, days=(older_than or 0) / 86_400)
    if keep is None and older_than is None:
        kept = retention(host.paths.config, host.settings.get)
    removed = remove(host.paths.state, kept)
    size = f"{removed.size / _MB:,.1f} MB"
    text = f"Removed {count_text(removed.runs, 'trace')}, {size} with their artefacts and records"
    text = text if removed.runs or removed.size else "Nothing to remove"
    return Report(data={"removed": removed.runs, "size": removed.size}, text=text)


def _open_steps(host: EmbeddedHost, run_id: str) -> list[str]:
    """For `pflow trace show`, list the steps that are open: they wait for a decision or an answer."""
    path = host.paths.state / "runs" / "open" / f"{run_id}.db"
    if Path(run_id).name != run_id or not path.is_file():
        return []
    from pflow_mcp_plugin.host.running.run_record import RunRecord

    with suppress(PflowError), closing(RunRecord.open(path)) as record:  # unless the run is still going on
        return [step.place for step in record.steps() if step.is_open]
    return []


def _path(host: EmbeddedHost, run: str) -> Path:
    """Return the file of RUN in `pflow trace show` or `view`; it may be a path, such as that of a copy."""
    return Path(run) if run.endswith(".json") else host.traces.find(run)


def _summary(host: EmbeddedHost, path: Path) -> dict[str, JSON]:
    row: dict[str, JSON] = {**dict.fromkeys(_SUMMARY), "run_id": path.stem, "path": str(path)}
    try:
        trace = host.traces.read(path)
    except PflowError as error:
        return {**row, "steps": None, "state": None, "error": error.message}
    known = {key: trace[key] for key in _SUMMARY if key in trace}
    message = table_of(trace.get("error")).get("message")
    return {**row, **known, "steps": len(trace["steps"]), "state": run_state(trace), "error": message}


def _cells(row: JSONObject) -> tuple[Cell, ...]:
    state = row["state"]
    looks: dict[object, Look] = {"ok": "good", "interrupted": "warn"}
    return (
        str(row["run_id"]),
        (str(state or "unreadable"), looks.get(state, "bad")),
        age_text(str(row["started"])) if row["started"] else "",
        _took(row["milliseconds"]),
        "" if row["steps"] is None else str(row["steps"]),
        Path(str(row["workflow"] or "")).name,
        _in_one_line(row["error"]),
    )


def _in_one_line(text: object) -> str:
    return abbreviated(" ".join(str(text or "").split()), _LONGEST)


def _took(milliseconds: object) -> str:
    known = isinstance(milliseconds, int | float) and 0 <= milliseconds < 1e12
    return duration_text(float(milliseconds)) if known else ""  # type: ignore[arg-type]  # it is a number


def _heading(trace: Mapping[str, Any]) -> str:
    took, started = _took(trace.get("milliseconds")), trace.get("started")
    age = f", {age_text(str(started))}" if started else ""
    return f"{trace.get('workflow')}: run {trace.get('run_id')} {run_state(trace)} in {took}{age}"


def _brief(trace: Mapping[str, Any]) -> Iterator[str | Table]:
    yield _heading(trace)
    rows: list[tuple[Cell, ...]] = []
    for start in trace.get("preparations") or ():
        lost: StepState = "interrupted" if run_state(trace) == "interrupted" else "failed"
        error = start.get("error") or ""
        mark, took = MARKS[lost if error else "ok"], _took(start.get("milliseconds"))
        rows.append((mark, "start", took, str(start.get("label")), error))
    steps = traced_steps(trace)
    for step in (it for outer in steps for it in outer.with_inner()):
        rows.append(_step_cells(step))
        # The failed items that have no steps; a single one is named by the error of its failed step.
        failed = [it for it in step.item_steps if it.state != "ok" and not it.steps]
        rows += [_step_cells(it) for it in failed] if step.state == "ok" or len(failed) > 1 else []
    yield Table(columns=_STEP_COLUMNS, rows=rows)
    for name, value in table_of(trace.get("outputs")).items():
        yield f"{name}: {_in_one_line(printed(value))}"
    if failure := table_of(trace.get("error")):
        first, *rest = barred_lines(f"Error: {failure.get('message')}")
        yield Table(columns=(Column(whole=True),), rows=[((first, "bad"),)], below={0: rest})
    if any(map(failures, steps)):
        yield f"Failed: pflow trace show {trace.get('run_id')} --failed"
    yield f"More: pflow trace show {trace.get('run_id')} --step ID"
    yield f"Page: pflow trace view {trace.get('run_id')} --open"


def _step_cells(step: TracedStep) -> tuple[Cell, ...]:
    mark = MARKS[step.state]
    error = _in_one_line(step.content.get("error"))
    notes = (
        step_words(step.content),
        _items_words(step),
        action_words(step.content),
        f"handled: {error}" if step.state == "handled" else error,
    )
    return (
        mark,
        "  " * step.depth + step.name,
        "" if step.state == "skipped" else _own_time(step.content),
        shown_type(step.content.get("type")),
        ("; ".join(filter(None, notes)), mark[1] if step.state != "ok" else ""),
    )


def _own_time(step: Mapping[str, Any]) -> str:
    # Without the time spent waiting for preparations.
    took, waited = step.get("milliseconds"), step.get("waited")
    if isinstance(took, int | float) and isinstance(waited, int | float):
        return _took(max(took - waited, 0.0))
    return _took(took)


def _items_words(step: TracedStep) -> str:
    if not step.batch:
        return ""
    failed = f", {step.batch['failed']} failed" if step.batch.get("failed") else ""
    return f"{step.batch.get('count')} items{failed}"


def _steps(trace: Mapping[str, Any], wanted: str) -> list[TracedStep]:
    """Find the steps that `pflow trace show --step` is to show, by name or id; of a batch, one per item."""
    steps = [it for step in traced_steps(trace) for it in step.with_inner()]
    name, _, rest = wanted.rpartition("[")
    found = [step for step in steps if wanted in (step.name, str(step.content.get("id")))]
    if not found and rest.endswith("]") and rest[:-1].isdecimal():
        batches = [it for it in steps if it.batch and name in (it.name, str(it.content.get("id")))]
        found = _items(batches, name, int(rest[:-1])) if batches else []
    if found:
        return found
    known = list(dict.fromkeys(str(step.content.get("id")) for step in steps))
    hint = did_you_mean(wanted, known, f"Its steps are: {', '.join(known) or 'none'}")
    if inner := next((name for name in known if name.endswith(f"/{wanted}")), None):
        hint = f"Did you mean {inner}?"
    raise PflowError(f"The run has no step {wanted}", suggestions=(hint,), kind="not_found")


def _items(batches: Sequence[TracedStep], name: str, index: int) -> list[TracedStep]:
    if found := [item for step in batches if (item := step.item(index))]:
        return found
    count = batches[0].batch.get("count")
    missing = not isinstance(count, int) or index >= count
    message = f"{name} has {count} items, from 0" if missing else f"The trace did not keep {name}[{index}]"
    kept = ", ".join(item.name for step in batches for item in step.item_steps)
    raise PflowError(message, suggestions=(f"It kept: {kept}",) if kept else (), kind="not_found")


def failures(step: TracedStep) -> list[TracedStep]:
    """For `pflow trace show --failed`, list a step's innermost failed steps, handled or not."""
    inside = [lost for each in (*step.steps, *step.item_steps) for lost in failures(each)]
    is_lost = step.content.get("error") is not None
    return [*inside, step] if is_lost and all(lost.state != step.state for lost in inside) else inside


def _failed(trace: Mapping[str, Any], lost: Sequence[TracedStep]) -> Iterator[str]:
    yield _heading(trace)
    if not lost:
        error = trace.get("error")
        yield f"Error: {error.get('message')}" if isinstance(error, Mapping) else "No step failed"
    for step in lost:
        yield ""
        yield from _whole_step(step)
    for step in (it for outer in traced_steps(trace) for it in outer.with_inner()):
        kept = sum(item.state != "ok" for item in step.item_steps)
        failed = step.batch.get("failed")
        if isinstance(failed, int) and failed > kept:
            yield f"\n{count_text(failed - kept, 'more item')} of {step.name} failed"


def _full(trace: Mapping[str, Any]) -> Iterator[str]:
    yield _heading(trace)
    for name in ("inputs", "outputs"):
        if trace.get(name):
            yield from _member(name, trace[name])
    for start in trace.get("preparations") or ():
        error = f": {start['error']}" if start.get("error") else ""
        yield f"\nstart of {start.get('label')}  {_took(start.get('milliseconds'))}{error}"
    yield ""
    yield from _whole_steps(traced_steps(trace))


def _whole_steps(steps: Sequence[TracedStep]) -> Iterator[str]:
    for outer in steps:
        for step in outer.with_inner():
            indent = "  " * (step.depth - outer.depth)
            for line in _whole_step(step):
                yield indent + line.replace("\n", f"\n{indent}")


def _whole_step(step: TracedStep) -> Iterator[str]:
    content, words = step.content, step_words(step.content)
    how = [step.state, words if words != step.state else "", _items_words(step), action_words(content)]
    told = ", ".join(filter(None, how))
    yield "  ".join(filter(None, (f"{step.name} ({content.get('type')})", _own_time(content), told)))
    if content.get("error"):
        yield from _member("error", content["error"])
    errors = objects_in(step.batch.get("errors"))
    # If there is a single item's error, the error of the step says the same.
    for error in errors if content.get("error") is None or len(errors) > 1 else ():
        yield from _member(f"{step.name}[{error.get('index')}]", error.get("error"))
    shown = {**content, "outputs": _own_outputs(step), "details": _own_details(step)}
    for name in ("item", "params", "outputs", "details"):
        if shown.get(name):
            yield from _member(name, shown[name])


def _own_outputs(step: TracedStep) -> object:
    """Return a step's outputs as `pflow trace show` prints them, without the error and batch counts above."""
    outputs = step.content.get("outputs")
    if not isinstance(outputs, Mapping):
        return outputs
    if step.batch:
        return outputs.get("results")
    told = (None, step.content.get("error"))
    return {key: value for key, value in outputs.items() if key != "error" or value not in told}


def _own_details(step: TracedStep) -> object:
    """Return a step's details that `pflow trace show` prints, without repeating its params and outputs."""
    details, outputs = step.content.get("details"), step.content.get("outputs")
    if not isinstance(details, Mapping):
        return details
    told: tuple[object, ...] = ({}, step.content.get("params"))
    shown = {key: value for key, value in details.items() if key != "batch" and value not in told}
    if isinstance(failure := shown.pop("failure", None), Mapping):
        known = {**(outputs if isinstance(outputs, Mapping) else {}), **step.batch, **shown}
        lost = {key: value for key, value in failure.items() if key not in known or known[key] != value}
        shown |= {"failure": lost} if lost else {}
    return shown


def _member(name: str, value: object) -> Iterator[str]:
    yield f"  {name}: " + printed(value).replace("\n", "\n  ")
