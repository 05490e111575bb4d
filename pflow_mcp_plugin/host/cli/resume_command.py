"""`pflow resume`: continues a run where it ended, without doing anything twice."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import click
from click.shell_completion import CompletionItem

from pflow_mcp_plugin.contract import Decision, PflowError, Report, RunOptions
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.host.cli.command_line_inputs import complete_inputs, parse_inputs
from pflow_mcp_plugin.host.cli.command_parameters import taken_options, workflow_run_options, workflows
from pflow_mcp_plugin.host.cli.output import table_report
from pflow_mcp_plugin.host.cli.run_commands import find_workflow, place_of, run_report, shown_detail
from pflow_mcp_plugin.host.embedded_host import EmbeddedHost
from pflow_mcp_plugin.host.running.earlier_steps import EarlierSteps
from pflow_mcp_plugin.host.running.recorded_run import runs_folder
from pflow_mcp_plugin.host.running.resumption import EarlierRun, abandoned, listed_runs
from pflow_mcp_plugin.host.running.run_record import UNDECIDED, RecordedStep, records
from pflow_mcp_plugin.host.running.run_report import UNDECIDED_CODE
from pflow_mcp_plugin.host.running.verification import try_recipes
from pflow_mcp_plugin.host.standard_streams import is_terminal
from pflow_mcp_plugin.host.workflow import WorkflowPlace
from pflow_mcp_plugin.host.workflow.workflow_text import locating
from pflow_mcp_plugin.storage.json_and_toml import strict_json
from pflow_mcp_plugin.terminal.looks import Column, Table, abbreviated, printable

if TYPE_CHECKING:
    from pflow_mcp_plugin.host.running.terminal_display import Detail

_DECISIONS = {
    "assume_not_done": Decision(choice="not done"),
    "rerun": Decision(choice="rerun"),
    "skip": Decision(choice="skip"),
    "forget": Decision(choice="forget"),
}
"""The decision that each option except --assume-done makes about its steps."""
_EXAMPLE = "RESULT"
"""What suggestions write where a result belongs."""
_LONGEST = 60
"""Characters that a table shows of an error or of params."""


def _resumable(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
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
    help="The workflow as it is now, if you fixed it.",
)
@click.option(
    "--assume-done", multiple=True, metavar="STEP=JSON", help="The step happened, with this result."
)
@click.option("--assume-not-done", multiple=True, metavar="STEP", help="The step did not happen: run it.")
@click.option("--skip", multiple=True, metavar="STEP", help="Go on as if the step had been skipped.")
@click.option("--rerun", multiple=True, metavar="STEP", help="Run a completed step again.")
@click.option(
    "--forget", multiple=True, metavar="STEP", help="A completed step is no longer in the workflow."
)
@click.option("--answer", multiple=True, metavar="STEP=TEXT", help="Answer what a node asks.")
@click.option("--abandon", is_flag=True, help="Remove the record of RUN: it can no longer be resumed.")
@click.option("--only-failed", is_flag=True, help="Run the failed items of batches again.")
@workflow_run_options
@click.pass_obj
def resume(host: EmbeddedHost, /, words: tuple[str, ...], *, listed: bool, **options: Any) -> Report:
    """Go on with RUN, by default the last that failed or was killed: keep what it has done, run the rest.

    Nothing is done twice. If nobody knows whether a step happened, and it may do harm, pflow asks; without a
    terminal it stops with exit code 4. STEP is the name that --list prints, such as send[3]; a node's id
    means all its open steps.
    """
    if listed:
        return _list_report(host)
    run = next((word for word in words if "=" not in word), None)
    typed = parse_inputs([word for word in words if word != run])
    detail = shown_detail(options)
    if options["abandon"]:
        return _abandoned(host, run, options)
    with EarlierRun.opened(runs_folder(host), run) as earlier:
        earlier.decide(_decisions(options))
        if options["dry_run"]:
            return _steps_report(host, earlier, options)
        folder = earlier.head["folder"]
        if folder and Path(folder).is_dir():
            os.chdir(folder)  # files in params are relative to it
        if earlier.undecided:
            asked = _options(earlier, options)
            try_recipes(earlier.undecided, earlier.decide, host.runner, host, asked)
        if earlier.undecided and is_terminal(sys.stdin) and is_terminal(sys.stderr):
            _ask(earlier)
        if (error := earlier.refusal()) is not None:
            return Report(error=error, exit_code=UNDECIDED_CODE)
        return _resumed(host, earlier, typed, detail, options)


def _abandoned(host: EmbeddedHost, run: str | None, options: Mapping[str, Any]) -> Report:
    if options["dry_run"]:
        raise PflowError("--abandon and --dry-run exclude each other", kind="usage")
    if not run:
        with EarlierRun.opened(runs_folder(host)) as earlier:
            step = f"Name it: pflow resume {earlier.run_id} --abandon"
            raise PflowError("--abandon needs the id of a run", suggestions=(step,), kind="usage")
    abandoned(runs_folder(host), run)
    return Report(data={"run": run}, text=f"Run {run} can no longer be resumed")


def _resumed(
    host: EmbeddedHost,
    earlier: EarlierRun,
    typed: Mapping[str, str],
    detail: Detail | None,
    options: Mapping[str, Any],
) -> Report:
    place, document = _workflow_now(host, earlier, options)
    runner = host.runner.at(place).with_options(_options(earlier, options))
    runner = runner.allowing_extra() if options["allow_extra"] else runner
    with locating(place.file):
        compiling = partial(runner.compile, document, earlier.head["name"])
        values = complete_inputs(document, typed, None, compiling, host.setting, earlier.inputs(document))
        compiled = compiling(values)
    earlier.only_failed = options["only_failed"]
    how = partial(runner.run_compiled, compiled, values, resumed=earlier)
    return run_report(host, compiled, how, detail, options["timeout"])


def _workflow_now(
    host: EmbeddedHost, earlier: EarlierRun, options: Mapping[str, Any]
) -> tuple[WorkflowPlace, JSONObject]:
    if named := options["workflow"]:
        return place_of(host, named), find_workflow(host, named)
    return earlier.place, earlier.workflow


def _options(earlier: EarlierRun, options: Mapping[str, Any]) -> RunOptions:
    """Return the run's options for `pflow resume`: those given now, then those given before."""
    given = attrs.asdict(taken_options({**options}))
    asked = {name: it for name, it in given.items() if it is not None and it is not False}
    return attrs.evolve(earlier.options, **asked)


def _decisions(options: Mapping[str, Any]) -> Iterator[tuple[str, Decision]]:
    for word in options["assume_done"]:
        name, equals, text = word.partition("=")
        if not equals:
            step = f"Write --assume-done {name}=RESULT, such as {name}=null"
            raise PflowError(f"--assume-done {name} has no result", suggestions=(step,), kind="usage")
        result = _value(text)
        if result == text and (text == _EXAMPLE or text.lstrip()[:1] in ("{", "[")):
            message = f"The result of {name} is not JSON: {abbreviated(text, _LONGEST)}"
            step = "Write it as JSON, such as '{\"id\": 7}'; text with a bracket first needs quotes"
            raise PflowError(message, suggestions=(step,), kind="usage")
        yield name, Decision(choice="done", result=result)
    for word in options["answer"]:
        name, equals, text = word.partition("=")
        if not equals:
            step = f"Write --answer {name}=TEXT"
            raise PflowError(f"--answer {name} has no answer", suggestions=(step,), kind="usage")
        yield name, Decision(choice="answer", result=text)
    for option, decision in _DECISIONS.items():
        yield from ((name, decision) for name in options[option])


def _value(text: str) -> JSON:
    try:
        return strict_json(text)
    except (ValueError, RecursionError):  # text need not be in quotes
        return text


def _ask(earlier: EarlierRun) -> None:
    click.echo("Nobody knows whether these steps happened.", err=True)
    for step in earlier.undecided:
        click.echo(printable(f"{step.place} ({step.type}) {abbreviated(step.shown, 4 * _LONGEST)}"), err=True)
        if step.error:
            click.echo(printable(f"  {step.error}"), err=True)
        answer = click.prompt(
            "Did it happen? yes, no, skip or stop",
            type=click.Choice(["yes", "no", "skip", "stop"]),
            show_choices=False,
            err=True,
        )
        if answer == "stop":
            return
        decision = Decision(choice="not done" if answer == "no" else "skip")
        if answer == "yes":
            text = click.prompt("Its result, as JSON", default="null", err=True)
            decision = Decision(choice="done", result=_value(text))
        earlier.decide([(step.place, decision)])


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
    data = list(listed_runs(runs_folder(host)))
    rows = []
    for it in data:
        state, still_open = abbreviated(it["state"], _LONGEST), ", ".join(it["open"]) or "-"
        rows.append((it["run"], it["workflow"], state, str(it["done"]), still_open))
    return table_report(data, _RUNS, rows, "There is no run to resume")


def _steps_report(host: EmbeddedHost, earlier: EarlierRun, options: Mapping[str, Any]) -> Report:
    known: EarlierSteps | None = None
    # Only the workflow tells which failures an edge handled, and what follows what runs again.
    if options["only_failed"] or options["rerun"] or options["workflow"]:
        place, document = _workflow_now(host, earlier, options)
        with locating(place.file):
            compiled = host.runner.at(place).compile(document, earlier.head["name"])
        known = EarlierSteps(earlier.steps, compiled, only_failed=options["only_failed"])
    then = [(step, _then(step, known)) for step in earlier.steps]
    data = [{**step.to_dict(), "then": what} for step, what in then]
    rows = [(it.place, it.type, it.state, what, abbreviated(it.shown, _LONGEST)) for it, what in then]
    head = f"Run {earlier.run_id}: these steps have begun, all others will be run"
    return Report(data={"run": earlier.run_id, "steps": data}, text=(head, Table(columns=_STEPS, rows=rows)))


def _then(step: RecordedStep, known: EarlierSteps | None) -> str:
    if step.undecided:
        return "verify" if step.recipe else "decide"
    if step.state == "asked":
        return "ask"
    if step.key and step.state in UNDECIDED:
        return "run again with its key"
    if step.state == "forgotten" or (known and step in known.changed):
        return "run if changed"
    is_kept = step.state == "failed" and step.routed and not (known and known.repeats(step))
    return "keep" if step.state in ("done", "skipped") or is_kept else "run"
