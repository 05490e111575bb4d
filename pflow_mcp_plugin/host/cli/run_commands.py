"""`pflow run` and `pflow validate`."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import click
from click.shell_completion import CompletionItem

from pflow_mcp_plugin.contract import Outcome, PflowError, Problem, Report, RunControl, RunOptions
from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.host.cli.command_line_inputs import complete_inputs, declared_inputs, parse_inputs
from pflow_mcp_plugin.host.cli.command_parameters import (
    WithLoneCache,
    files,
    run_options,
    taken_options,
    workflow_run_options,
    workflows,
)
from pflow_mcp_plugin.host.cli.output import findings_report
from pflow_mcp_plugin.host.embedded_host import EmbeddedHost
from pflow_mcp_plugin.host.running.run_report import UNDECIDED_CODE, outcome_report, shown_run
from pflow_mcp_plugin.host.standard_streams import to_json
from pflow_mcp_plugin.host.workflow import Compiled, WorkflowPlace
from pflow_mcp_plugin.host.workflow.compilation import PlannedNode
from pflow_mcp_plugin.host.workflow.findings import cut
from pflow_mcp_plugin.host.workflow.templates import follow, or_text, resolve
from pflow_mcp_plugin.host.workflow.workflow_document import bind_inputs
from pflow_mcp_plugin.host.workflow.workflow_text import located, locating, read_workflow, similar_files
from pflow_mcp_plugin.host.workflow_name import is_name, suggested_name
from pflow_mcp_plugin.redaction import REDACTED
from pflow_mcp_plugin.storage import is_descriptor
from pflow_mcp_plugin.terminal.looks import Column, Table, printable
from pflow_mcp_plugin.terminal.similar_names import did_you_mean

if TYPE_CHECKING:
    from pflow_mcp_plugin.host.running.terminal_display import Detail


def _input_names(
    context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    inputs = declared_inputs(find_workflow(context.obj, context.params["workflow"]))
    given = {text.partition("=")[0] for text in context.params.get("inputs") or ()}
    name, equals, _ = incomplete.partition("=")
    if equals:
        choices = inputs[name].field.choices if name in inputs else ()
        words = (it if isinstance(it, str) else json.dumps(it) for it in choices)
        return [CompletionItem(f"{name}={word}") for word in words]
    return [CompletionItem(f"{name}=", type="stem") for name in inputs if name not in given]


_WORKFLOW = "workflow of pflow run"


class _RunCommand(WithLoneCache):
    """The command `pflow run`: its help lists the workflow's inputs; unknown options may mean inputs."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        name = ctx.meta.get(_WORKFLOW)
        with suppress(PflowError):
            inputs = declared_inputs(find_workflow(ctx.obj, name)) if isinstance(name, str) else {}
            if inputs:
                with formatter.section(f"Inputs of {name}"):
                    formatter.write_dl([(f"{spec.name}=", printable(spec.about)) for spec in inputs.values()])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            if not set(ctx.help_option_names).isdisjoint(args):
                found, *_ = self.make_parser(ctx).parse_args(self.spelled_out(args))
                ctx.meta[_WORKFLOW] = found.get("workflow")
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            _, is_long, name = error.option_name.partition("--")
            steps = [f"If {name} is an input: {name}=VALUE"] if is_long else []
            steps.append(f"See: {ctx.command_path} --help")
            raise PflowError(error.format_message(), suggestions=tuple(steps), kind="usage") from error


@click.command(cls=_RunCommand)
@click.argument("workflow", shell_complete=workflows)
@click.argument("inputs", nargs=-1, metavar="[NAME=VALUE]...", shell_complete=_input_names)
@click.option(
    "--inputs",
    "inputs_file",
    metavar="FILE",
    shell_complete=files,
    help="A JSON or YAML file with an object of inputs; - for standard input. NAME=VALUE takes precedence.",
)
@click.option(
    "--trace/--no-trace", default=True, help="Whether to write a trace; the default is to write one."
)
@click.option("--dry-run", is_flag=True, help="Check the workflow and show what would run; run nothing.")
@run_options
@workflow_run_options
@click.pass_obj
def run(
    host: EmbeddedHost,
    /,
    workflow: str,
    inputs: tuple[str, ...],
    inputs_file: str | None,
    *,
    trace: bool,
    **options: Any,
) -> Report:
    """Run WORKFLOW, a JSON or YAML file or the name of a saved workflow, with inputs given as NAME=VALUE.

    NAME=- takes the value from standard input, NAME=@FILE from a file.
    """
    detail = shown_detail(options)
    place = place_of(host, workflow)
    runner = host.runner.at(place).with_options(taken_options(options))
    runner = runner.allowing_extra() if options["allow_extra"] else runner
    typed = parse_inputs(inputs)
    with locating(_file(host, place)):
        document = find_workflow(host, workflow)
        compiling = partial(runner.compile, document, workflow)
        values = complete_inputs(document, typed, inputs_file, compiling, host.setting)
        compiled = compiling(values)
    if options["dry_run"]:
        for warning in (*compiled.warnings, *compiled.unmet):
            host.report(warning)
        return dry_run_report(compiled, values)
    how = partial(runner.run_compiled, compiled, values, trace=trace)
    return run_report(host, compiled, how, detail, options["timeout"])


def shown_detail(options: Mapping[str, Any]) -> Detail | None:
    """Return what `pflow run` shows by its `--quiet` and `--verbose`; both together are wrong usage."""
    if options["quiet"] and options["verbose"]:
        raise PflowError("--quiet and --verbose exclude each other", kind="usage")
    return None if options["quiet"] else "verbose" if options["verbose"] else "usual"


def run_report(
    host: EmbeddedHost,
    compiled: Compiled,
    how: Callable[..., Outcome],
    detail: Detail | None,
    timeout: float | None,
) -> Report:
    """Run a compiled workflow for `pflow run`, by `how`, within its time limit; return what is printed."""
    names = [node.ref.id for node in compiled.every()]
    with shown_run(names, detail, host.showing_inside) as (watcher, ended):
        with _limited(timeout) as (control, expired):
            outcome = how(watcher=watcher, control=control)
        failure = outcome.error
        if expired.is_set() and failure is not None and failure.kind == "interrupted":
            error = PflowError(
                f"The run was stopped after {timeout:g} s, its time limit",
                details=failure.details,
                suggestions=("To allow more time: --timeout", *failure.suggestions),
                action="timeout",
                ran=failure.ran,
            )
            code = outcome.exit_code if outcome.exit_code == UNDECIDED_CODE else 1
            outcome = attrs.evolve(outcome, error=error, exit_code=code)
        ended(outcome)
    return outcome_report(outcome)


@contextmanager
def _limited(seconds: float | None) -> Iterator[tuple[RunControl, threading.Event]]:
    control, expired = RunControl(), threading.Event()

    def expire() -> None:
        expired.set()
        control.cancel()

    timer = threading.Timer(seconds or 0, expire)
    timer.daemon = True
    if seconds is not None:
        timer.start()
    try:
        yield control, expired
    finally:
        timer.cancel()


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="WORKFLOW...", shell_complete=workflows)
@click.option("--allow-extra", is_flag=True, help="Let nodes take parameters that are not declared.")
@click.option("--locked", is_flag=True, help="Also compare the nodes with the lock file.")
@click.option(
    "--flows",
    is_flag=True,
    help="Also list how data from untrusted sources reaches nodes that are destructive or send data.",
)
@click.pass_obj
def validate(host: EmbeddedHost, /, names: tuple[str, ...], **options: bool) -> Report:
    """Validate each WORKFLOW, a file or a saved name, before `pflow run`: list all problems, run nothing."""
    if len(names) == 1:
        return _validated(host, names[0], **options)
    data: list[dict[str, object]] = []
    named: list[Problem] = []
    sound, invalid = [], []
    for name in dict.fromkeys(names):
        try:
            report = _validated(host, name, **options)
            problems = report.error.problems if report.error else ()
        except PflowError as error:
            if error.kind not in ("validation", "not_found"):  # that is not about this workflow
                raise
            only = Problem(message=error.message, suggestion="; ".join(error.suggestions), kind=error.kind)
            report, problems = Report(error=error), error.problems or (only,)
        findings = report.data
        if report.error:
            findings = {"valid": False, "problems": [problem.to_dict() for problem in problems]}
            invalid.append(name)
            for it in problems:
                message = it.message if name in it.message else f"{name}: {it.message}"
                named.append(attrs.evolve(it, message=message))
        else:
            sound.append(report.render())
        data.append({"workflow": name, "findings": findings})
    message = f"{len(invalid)} of {len(data)} workflows are invalid: {', '.join(invalid)}"
    failure = PflowError(message, problems=tuple(named), kind="validation") if invalid else None
    return Report(data=data, text="\n".join(sound), error=failure)


def _validated(host: EmbeddedHost, workflow: str, *, locked: bool, flows: bool, allow_extra: bool) -> Report:
    place = place_of(host, workflow)
    file = _file(host, place)
    with locating(file):
        document = find_workflow(host, workflow)
    runner = host.runner.at(place).with_options(RunOptions(locked=locked))
    runner = runner.allowing_extra() if allow_extra else runner
    listed: dict[str, object] = {}
    sound = f"{workflow} is valid"
    if flows:
        problems, found = runner.validate_flows(document)
        listed = {"flows": [flow.to_dict() for flow in found.flows]}
    else:
        problems = runner.validate(document)
    problems = located(problems, file)
    data = {"valid": True, "problems": [problem.to_dict() for problem in problems], **listed}
    report = findings_report(workflow, problems, sound, data=data, kind="validation", details=listed)
    if flows and not found.flows and not report.error:
        none = (
            "No data flows found: no untrusted output reaches a node that is destructive or sends data, "
            "except where the policy allows it"
        )
        report = attrs.evolve(report, text=f"{report.render()}\n{none}")
    return report


def _file(host: EmbeddedHost, place: WorkflowPlace) -> Path | None:
    is_saved = place.file is None and not is_descriptor(place.name)  # a descriptor cannot be read again
    return host.library.path(place.name) if is_saved else place.file


def place_of(host: EmbeddedHost, word: str) -> WorkflowPlace:
    """Return the place relative to which a workflow of `pflow run` or `pflow validate` names others."""
    is_saved = is_name(word) and word in host.library.names()
    return WorkflowPlace(name=word, file=None if is_saved or is_descriptor(word) else Path(word))


def find_workflow(host: EmbeddedHost, word: str) -> dict[str, JSON]:
    """For `pflow run`, `pflow validate` and others, read the WORKFLOW they name: a saved name or a file.

    A saved name wins over a file of the same name without suffix; `./NAME` is always the file.
    """
    if is_name(word) and word in host.library.names():
        return host.library.get(word)
    if is_name(word) and not Path(word).is_file():
        message = f"{word} is neither a saved workflow nor a file"
        hints = _meant(host, word) or ("See: pflow workflow list",)
        raise PflowError(message, suggestions=hints, kind="not_found")
    if "=" in word and not Path(word).exists():
        step = "Name the workflow first: pflow run WORKFLOW NAME=VALUE"
        raise PflowError(f"{word} is an input, not a workflow", suggestions=(step,), kind="usage")
    if not word.strip():
        step = "Name a file, or a saved workflow; see: pflow workflow list"
        raise PflowError("The name of the workflow is empty", suggestions=(step,), kind="usage")
    try:
        return read_workflow(Path(word))
    except PflowError as error:
        if error.kind == "not_found":
            error.suggestions = tuple(dict.fromkeys((*error.suggestions, *_meant(host, word))))
        raise


def _meant(host: EmbeddedHost, word: str) -> tuple[str, ...]:
    if host.registry.find(word) is not None:
        return (f"It is a node type, not a workflow; run it with: pflow {word}",)
    names = host.library.names()
    # `./daily_report.json` may mean the workflow that was saved as `daily-report`.
    saved = did_you_mean(suggested_name(Path(word)), names)
    return (*([saved] if saved else []), *similar_files(Path(word)))


_COLUMNS = (
    Column(title="NODE", whole=True),
    Column(title="TYPE"),
    Column(title="HOW"),
    Column(title="PARAMS", spare=True),
)
_INNER = "workflow"
"""The param of a node that runs a workflow; the templates in it refer to values of that workflow."""
_SERVER = "server"
"""The label under which an entry names the server that its node needs."""


def dry_run_report(compiled: Compiled, given: dict[str, object]) -> Report:
    """Return what the command `pflow run --dry-run` prints; `given` are the inputs before defaults.

    Secret inputs are not shown. Params are shown with the values of inputs; outputs of nodes stay templates.
    """
    values, _ = bind_inputs(compiled.document, given)
    secret = {name for name, spec in compiled.document.inputs.items() if spec.secret}
    inputs = {name: REDACTED if name in secret else value for name, value in values.items()}
    outermost = {node.ref.id for node in compiled.nodes}

    def filled(node: PlannedNode, value: object) -> Any:
        if node.ref.id not in outermost:
            return value  # names in it refer to other inputs
        return resolve(value, or_text(lambda reference: follow(inputs, reference.path)))

    nodes, rows = [], []
    for node in compiled.every():
        known = partial(filled, node)
        written = {key: value for key, value in node.ref.params.items() if not key.startswith("__")}
        params: dict[str, JSON] = known(written)
        if node.sub and _INNER in written:
            params[_INNER] = written[_INNER]
        described = {
            "id": node.ref.id,
            "type": node.ref.type,
            "params": params,
            **node.constructs.described(known),
            "kept_seconds": node.ttl,
            "server": node.ref.entry.labels.get(_SERVER, ""),
        }
        nodes.append(described)
        kept = [] if node.ttl is None else [f"or its result of the last {node.ttl:g} s"]
        shown = ", ".join(f"{key}={cut(' '.join(to_json(it).split()))}" for key, it in params.items())
        rows.append((node.ref.id, node.ref.type, "; ".join([*node.constructs.words(known), *kept]), shown))
    servers = list(dict.fromkeys(str(node["server"]) for node in nodes if node["server"]))
    lines = [f"{compiled.name} is valid; nothing was run"]
    lines += [f"input {name} = {to_json(value)}" for name, value in inputs.items()]
    return Report(
        data={"inputs": inputs, "nodes": nodes, "servers": servers},
        text=(*lines, Table(columns=_COLUMNS, rows=rows), f"Servers: {', '.join(servers) or 'none'}"),
    )
