"""`pflow resume`: goes on with a run where it ended, without doing anything twice."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from pflow_mcp_plugin.contract import PflowError, Report, RunOptions
from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.host.cli.command_line_inputs import complete_inputs, parse_inputs
from pflow_mcp_plugin.host.cli.command_parameters import time_limit, workflows
from pflow_mcp_plugin.host.cli.run_commands import (
    find_workflow,
    locating,
    place_of,
    run_report,
    shown_detail,
)
from pflow_mcp_plugin.host.embedded_host import EmbeddedHost
from pflow_mcp_plugin.host.running.recorded_run import runs_folder, undecided
from pflow_mcp_plugin.host.running.run_record import RecordedStep, RunRecord, records, remove_record
from pflow_mcp_plugin.host.running.runner import UNDECIDED_CODE, Resumed
from pflow_mcp_plugin.host.standard_streams import is_terminal
from pflow_mcp_plugin.host.workflow import WorkflowPlace
from pflow_mcp_plugin.terminal.printable_text import abbreviated, printable
from pflow_mcp_plugin.terminal.similar_names import did_you_mean
from pflow_mcp_plugin.terminal.tables import Column, Table

_DECISIONS = {
    "assume_not_done": "not sent",
    "rerun": "not sent",
    "skip": "skipped",
    "forget": "forgotten",
}
"""The state that a step has after an option, besides --assume-done."""
_LONGEST = 60
"""Characters that a table shows of an error or of params."""


def _resumable(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the runs that can be resumed."""
    found = (path.stem for path in records(runs_folder(context.obj)))
    return [CompletionItem(run) for run in found if run.startswith(incomplete)][:50]


@click.command()
@click.argument("words", nargs=-1, metavar="[RUN] [NAME=VALUE]...", shell_complete=_resumable)
@click.option("--list", "listed", is_flag=True, help="List the runs that can be resumed; run nothing.")
@click.option("--dry-run", is_flag=True, help="Show what is taken from the record; run nothing.")
@click.option(
    "--workflow",
    metavar="WORKFLOW",
    shell_complete=workflows,
    help="The workflow as it is now, if you mended it.",
)
@click.option(
    "--assume-done", multiple=True, metavar="STEP=JSON", help="The step happened, with this result."
)
@click.option("--assume-not-done", multiple=True, metavar="STEP", help="The step did not happen: run it.")
@click.option("--skip", multiple=True, metavar="STEP", help="Go on as if the step had been skipped.")
@click.option("--rerun", multiple=True, metavar="STEP", help="Run a step again that was done.")
@click.option(
    "--forget", multiple=True, metavar="STEP", help="A step that was done is not in the workflow any more."
)
@click.option("--abandon", is_flag=True, help="Remove the record of RUN: it cannot be resumed any more.")
@click.option("--only-failed", is_flag=True, help="Run the items of batches again that failed.")
@click.option("--allow-extra", is_flag=True, help="Let nodes take parameters that are not declared.")
@click.option(
    "--timeout", callback=time_limit, metavar="TIME", help="Stop the run after a time such as 90s or 15m."
)
@click.option("--quiet", "-q", is_flag=True, help="Show nothing on the terminal while the workflow runs.")
@click.option("--verbose", "-v", is_flag=True, help="Show everything that nodes say, and what they wait for.")
@click.pass_obj
def resume(host: EmbeddedHost, /, words: tuple[str, ...], *, listed: bool, **options: Any) -> Report:
    """Go on with RUN, by default the last that failed or was killed: keep what it has done, run the rest.

    Nothing is done twice. If nobody knows whether a step happened, and it may do harm, pflow asks; without a
    terminal it stops with exit code 4. STEP is the name that --list prints, such as send[3]; a node's id
    means all its open steps.
    """
    if listed:
        return _list_report(host)
    run = next((word for word in words if "=" not in word), "")
    typed = parse_inputs([word for word in words if word != run])
    detail = shown_detail(options)
    record = _record(host, run)
    if options["abandon"]:
        record.close()
        if not run:
            step = f"Name it: pflow resume {record.path.stem} --abandon"
            raise PflowError("--abandon needs the id of a run", suggestions=(step,), kind="usage")
        remove_record(record.path)
        return Report(data={"run": run}, text=f"Run {run} cannot be resumed any more")
    try:
        head, steps = record.head(), record.steps()
        _decide(record, steps, options)
        left = [step for step in steps if step.undecided]
        if left and not options["dry_run"] and is_terminal(sys.stdin) and is_terminal(sys.stderr):
            _ask(record, left)
            left = [step for step in steps if step.undecided]
        if options["dry_run"]:
            return _steps_report(record, steps)
        if left:
            error = undecided(record.path.stem, left)
            return Report(error=error, exit_code=UNDECIDED_CODE)
        return _resumed(host, record, head, typed, detail, options)
    finally:
        record.close()


def _resumed(
    host: EmbeddedHost,
    record: RunRecord,
    head: Mapping[str, Any],
    typed: Mapping[str, str],
    detail: Any,
    options: Mapping[str, Any],
) -> Report:
    if head["folder"] and Path(head["folder"]).is_dir():
        os.chdir(head["folder"])  # files in params are relative to it
    if options["workflow"]:
        place = place_of(host, options["workflow"])
        document = find_workflow(host, options["workflow"])
    else:
        place = WorkflowPlace(name=head["name"], file=Path(head["file"]) if head["file"] else None)
        document = head["workflow"]
    runner = host.runner.at(place).with_options(RunOptions(**head["options"]))
    runner = runner.allowing_extra() if options["allow_extra"] else runner
    declared = document.get("inputs")
    known = {
        name: it for name, it in head["inputs"].items() if isinstance(declared, dict) and name in declared
    }
    with locating(place.file):
        compiling = partial(runner.compile, document, head["name"])
        setting = lambda key: host.settings.get(key)  # noqa: E731, PLW0108 - most need no settings
        values = complete_inputs(document, typed, None, compiling, setting, known)
        compiled = compiling(values)
    resumed = Resumed(record=record, only_failed=options["only_failed"])
    how = partial(runner.run_compiled, compiled, values, resumed=resumed)
    return run_report(host, compiled, how, detail, options["timeout"])


def _record(host: EmbeddedHost, run: str) -> RunRecord:
    """Open the record of a run, by default of the last one that did not end well."""
    found = records(runs_folder(host))
    if run:
        named = next((path for path in found if path.stem == run), None)
        if named is not None:
            return RunRecord.open(named)
        hint = did_you_mean(run, [path.stem for path in found], "See: pflow resume --list")
        message = f"There is no run {run} to resume: it succeeded, its record was removed, or it never was"
        raise PflowError(message, suggestions=(hint,), kind="not_found")
    for path in found:
        with suppress(PflowError):  # it is going on, or cannot be read
            record = RunRecord.open(path)
            if record.head().get("error") != "":
                return record
            record.close()
    step = "See: pflow resume --list" if found else "Every run has ended well, or left nothing to resume"
    raise PflowError("There is no run to resume", suggestions=(step,), kind="not_found")


def _decide(record: RunRecord, steps: Sequence[RecordedStep], options: Mapping[str, Any]) -> None:
    """Record what the options say about steps; raise before anything is recorded if one is wrong."""
    decided: list[tuple[RecordedStep, Any, dict[str, Any] | None]] = []
    for word in options["assume_done"]:
        name, equals, text = word.partition("=")
        if not equals:
            step = f"Write --assume-done {name}=RESULT, such as {name}=null"
            raise PflowError(f"--assume-done {name} has no result", suggestions=(step,), kind="usage")
        decided += [(it, "done", _outputs(_value(text))) for it in _named(name, steps, "--assume-done")]
    for option, state in _DECISIONS.items():
        flag = f"--{option.replace('_', '-')}"
        decided += [(it, state, None) for name in options[option] for it in _named(name, steps, flag)]
    if options["dry_run"]:
        for decided_step, state, _ in decided:
            decided_step.state = state
        return
    for decided_step, state, outputs in decided:
        record.decide(decided_step, state, outputs)


def _named(name: str, steps: Sequence[RecordedStep], flag: str) -> list[RecordedStep]:
    """Return the step of a place, or all open steps of a node, or all its steps for what was done."""
    if found := [step for step in steps if step.place == name]:
        return found
    of_node = [step for step in steps if step.node == name]
    if found := [step for step in of_node if step.undecided or flag in ("--rerun", "--forget")]:
        return found
    places = [step.place for step in steps]
    hint = did_you_mean(name, places, "See: pflow resume --dry-run")
    what = "has no open step" if of_node else "is no step of the run"
    raise PflowError(f"{flag}: {name} {what}", suggestions=(hint,), kind="usage")


def _outputs(value: Any) -> dict[str, Any]:
    """Return what a node writes whose result is known to be this."""
    natural = (
        {key: it for key, it in value.items() if not key.startswith("__")} if isinstance(value, dict) else {}
    )
    return {**natural, "result": value, "error": None}


def _value(text: str) -> JSON:
    try:
        value: JSON = json.loads(text)
    except ValueError:  # a text need not be in quotes
        return text
    return value


def _ask(record: RunRecord, left: Sequence[RecordedStep]) -> None:
    """Ask what became of steps, once for each."""
    click.echo("Nobody knows whether these steps happened.", err=True)
    for step in left:
        click.echo(printable(f"{step.place} ({step.type}) {abbreviated(step.shown, 4 * _LONGEST)}"), err=True)
        answer = click.prompt(
            "Did it happen? yes, no, skip or stop",
            type=click.Choice(["yes", "no", "skip", "stop"]),
            show_choices=False,
            err=True,
        )
        if answer == "stop":
            return
        if answer == "yes":
            text = click.prompt("Its result, as JSON", default="null", err=True)
            record.decide(step, "done", _outputs(_value(text)))
        else:
            record.decide(step, "not sent" if answer == "no" else "skipped")


_RUNS = (
    Column(title="RUN", whole=True),
    Column(title="WORKFLOW"),
    Column(title="STATE"),
    Column(title="DONE"),
    Column(title="OPEN", spare=True),
)
_STEPS = (
    Column(title="STEP", whole=True),
    Column(title="TYPE"),
    Column(title="STATE"),
    Column(title="THEN"),
    Column(title="PARAMS", spare=True),
)


def _list_report(host: EmbeddedHost) -> Report:
    data = list(_runs(host))
    rows = [
        (it["run"], it["workflow"], it["state"], str(it["done"]), ", ".join(it["open"]) or "-") for it in data
    ]
    text: tuple[Any, ...] = (Table(columns=_RUNS, rows=rows),) if rows else ("There is no run to resume",)
    return Report(data=data, text=text)


def _runs(host: EmbeddedHost) -> Iterator[dict[str, Any]]:
    for path in records(runs_folder(host)):
        listed = {"run": path.stem, "workflow": "", "state": "", "done": 0, "open": []}
        try:
            record = RunRecord.open(path)
        except PflowError as error:
            yield {
                **listed,
                "state": "going on" if error.kind == "usage" else abbreviated(error.message, _LONGEST),
            }
            continue
        try:
            head, steps = record.head(), record.steps()
        finally:
            record.close()
        ended = head.get("error")
        yield {
            **listed,
            "workflow": head["name"],
            "state": "killed" if ended is None else "failed" if ended else "ended",
            "done": sum(step.state == "done" for step in steps),
            "open": [step.place for step in steps if step.undecided],
        }


def _steps_report(record: RunRecord, steps: Sequence[RecordedStep]) -> Report:
    data = [{**step.to_dict(), "then": _then(step)} for step in steps]
    rows = [(it.place, it.type, it.state, _then(it), abbreviated(it.shown, _LONGEST)) for it in steps]
    head = f"Run {record.path.stem}: these steps have begun, all others will be run"
    return Report(
        data={"run": record.path.stem, "steps": data}, text=(head, Table(columns=_STEPS, rows=rows))
    )


def _then(step: RecordedStep) -> str:
    """Return what a resumed run does about a step."""
    if step.undecided:
        return "decide"
    if step.state in ("done", "skipped") or (step.state == "failed" and step.routed):
        return "keep"
    return "leave out" if step.state == "forgotten" else "run"
