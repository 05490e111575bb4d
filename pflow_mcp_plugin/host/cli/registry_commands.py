"""`pflow registry`, and `pflow workflow discover`, which searches in the same way."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

import attrs
import click

from pflow_mcp_plugin import contract
from pflow_mcp_plugin.contract import PflowError, Problem, Report
from pflow_mcp_plugin.contract.problems import problem_of
from pflow_mcp_plugin.host.cli.command_parameters import (
    WithLoneCache,
    limit_option,
    node_names,
    node_sources,
    run_options,
    taken_options,
)
from pflow_mcp_plugin.host.cli.output import findings_report, table_report
from pflow_mcp_plugin.host.standard_streams import printed, to_json
from pflow_mcp_plugin.terminal.human_units import count_text
from pflow_mcp_plugin.terminal.looks import Column, Table, abbreviated, barred_lines

if TYPE_CHECKING:
    from pflow_mcp_plugin.contract import Discovery, Entry, Host, ValuePath
    from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
    from pflow_mcp_plugin.host.embedded_host import EmbeddedHost
    from pflow_mcp_plugin.host.registry.node_index import NodeRow

_PATHS = 100
"""The number of paths that `registry run` shows to people."""
_SAMPLE = 40
"""The number of characters of a sample that it shows to people."""
_COLUMNS = (
    Column(title="NODE", whole=True),
    Column(title="SOURCE", spare=True, look="dim"),
    Column(title="DESCRIPTION", prose=True),
)
_FIELD_COLUMNS = (
    Column(whole=True),
    Column(whole=True),
    Column(whole=True, look="warn"),
    Column(broken=True),
)


@click.command()
@click.option(
    "--filter", "pattern", default="", metavar="WORD", help="Only node types whose name contains WORD."
)
@click.pass_obj
def list_nodes(host: EmbeddedHost, pattern: str) -> Report:
    """List the node types in the registry by name."""
    rows = host.registry.rows(pattern)
    nothing = f"No node type contains {pattern!r}" if pattern else "No node types"
    return table_report([row.to_dict() for row in rows], _COLUMNS, map(_cells, rows), nothing)


@click.command()
@click.argument("words", nargs=-1, required=True)
@limit_option(20)
@click.pass_obj
def search(host: EmbeddedHost, words: tuple[str, ...], limit: int) -> Report:
    """Search the registry's names, descriptions and parameters for WORDS; best matches first."""
    text = " ".join(words)
    rows = host.registry.search_rows(text, limit)
    # A list shorter than the limit is complete, and needs no second query.
    total = host.registry.count(text) if len(rows) == limit else len(rows)
    hidden = total - len(rows)
    more = (f"{hidden:,} more found; to see all: --limit {total}",) if hidden else ()
    data, nothing = [row.to_dict() for row in rows], f"Nothing matches {text!r}"
    return table_report(data, _COLUMNS, map(_cells, rows), nothing, *more, beside={"total": total})


@click.command()
@click.argument("nodes", nargs=-1, required=True, metavar="NODE...", shell_complete=node_names)
@click.pass_obj
def describe(host: EmbeddedHost, nodes: tuple[str, ...]) -> Report:
    """Show the parameters and outputs of each node type NODE.

    With --json, `data` is the entry of a single NODE, or a list of entries.
    """
    try:
        entries = host.registry.describe(nodes)
    except PflowError as error:
        known = cast("list[JSONObject]", error.details.get("entries", []))
        return Report(text=lambda: _descriptions(map(contract.Entry.from_dict, known)), error=error)
    data = [entry.to_dict() for entry in entries]
    return Report(data=data if len(nodes) > 1 else data[0], text=lambda: _descriptions(entries))


@click.command(cls=WithLoneCache)
@click.argument("node", shell_complete=node_names)
@click.argument("params", nargs=-1, metavar="[NAME=VALUE]...")
@click.option("--allow-extra", is_flag=True, help="Let the node take parameters that are not declared.")
@run_options
@click.pass_obj
def run(
    host: EmbeddedHost, /, node: str, params: tuple[str, ...], *, allow_extra: bool, **options: Any
) -> Report:
    """Run the node type NODE once and show its result, with the type of every path in it.

    Give lists and objects as JSON. A parameter that accepts any type takes the value as text; `-` is
    standard input, `@FILE` the text of a file, and `@@` begins text with `@`. The paths can be used in
    templates.
    """
    # These load the workflow room, which lists do not need.
    from pflow_mcp_plugin.host.cli.command_line_inputs import parse_inputs, typed_values
    from pflow_mcp_plugin.host.running.run_report import outcome_report, shown_run
    from pflow_mcp_plugin.host.workflow.coercion import typed

    words, runner = parse_inputs(params), host.runner.with_options(taken_options(options))
    entry = host.registry.get(node)
    words = typed_values(words)  # once it is clear that there is such a node
    with shown_run([entry.node], "brief", host.showing_inside) as (watcher, _):
        fields = entry.interface.fields
        given: dict[str, Any] = {
            name: typed(text, fields[name]) if name in fields else text for name, text in words.items()
        }
        ran = runner.run_node(node, given, watcher=watcher, allow_extra=allow_extra)
    outcome, shape = ran.outcome, ran.structure
    return attrs.evolve(
        outcome_report(outcome),
        data={
            "node": ran.node,
            "outputs": dict(outcome.outputs),
            "structure": [attrs.asdict(place) for place in shape],
            "run_id": outcome.run_id,
        },
        text=lambda: _came_back(outcome.outputs, shape) if outcome.success else "",
        is_data=False,
    )


@click.command()
@click.pass_obj
def export(host: EmbeddedHost) -> Report:
    """Print every entry of the registry, from all sources, as JSON."""
    data = host.registry.export()
    return Report(data=data, text=lambda: to_json(data), is_data=True)


class _ValidateCommand(click.Command):
    """The command `pflow registry validate`, which accepts the older `--NAME-wrappers` as `--source NAME`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(
            ctx, [re.sub(r"--([a-z0-9-]+)-wrappers", r"--source=\1", word) for word in args]
        )


@click.command(cls=_ValidateCommand)
@click.argument("nodes", nargs=-1, metavar="[NODE]...", shell_complete=node_names)
@click.option(
    "--source",
    default="",
    metavar="NAME",
    shell_complete=node_sources,
    help="Check the node types of this source only.",
)
@click.option("--all", "every", is_flag=True, help="Check every node type (the default without NODE).")
@click.pass_obj
def validate(host: EmbeddedHost, nodes: tuple[str, ...], *, source: str, every: bool) -> Report:
    """Check, without running anything, that the registry's node types load and have valid interfaces."""
    if sum(map(bool, (nodes, source, every))) > 1:
        raise PflowError("Give only one of node types, --source and --all", kind="usage")
    registry = host.registry
    with host.gathering() as reported:
        found = {name: registry.find(name) for name in nodes}
        problems = [registry.missing(name) for name, entry in found.items() if entry is None]
        entries = [entry for entry in found.values() if entry]
        if not nodes:
            everything = list(registry.entries())
            entries = [entry for entry in everything if source in ("", entry.source)]
            if not entries:
                known = ", ".join(sorted({entry.source for entry in everything}))
                message = f"No node type is of the source {source}"
                raise PflowError(message, suggestions=(f"Sources: {known}",), kind="not_found")
        problems += [problem for entry in entries for problem in _problems(entry, host)]
    sound = f"{count_text(len(entries), 'node type')} checked, no problems found"
    return findings_report("The registry", [*as_errors(reported), *problems], sound)


def as_errors(reported: Iterable[Problem]) -> Iterator[Problem]:
    """Yield the registry's reports for `pflow registry validate`: as errors where it left out a node type.

    An entry that another one overwrites still works, so it stays a warning; one whose module is not
    installed is found when it is loaded.
    """
    from pflow_mcp_plugin.host.registry.node_registry import Overwritten
    from pflow_mcp_plugin.host.registry.node_sources import Uninstalled

    for problem in reported:
        if isinstance(problem, Overwritten):
            yield problem
        elif not isinstance(problem, Uninstalled):
            yield attrs.evolve(problem, severity="error")


def _problems(entry: Entry, host: Host) -> Iterator[Problem]:
    # Only this check needs these; the other commands must not load them.
    from pflow_mcp_plugin.contract import NodeRef
    from pflow_mcp_plugin.host.workflow.coercion import is_type
    from pflow_mcp_plugin.host.workflow.compilation import load_node

    def problem(message: str) -> Problem:
        return Problem(message=message, kind="config", source=entry.source)

    try:
        node = load_node(NodeRef(id=entry.node, type=entry.node, entry=entry, host=host))
    except PflowError as error:
        yield problem_of(error, message=str(error), kind="config", source=entry.source)
    else:
        lacking = [name for name in ("set_params", "run") if not callable(getattr(node, name, None))]
        if lacking:
            where = f"{entry.module}:{entry.class_name}"
            yield problem(f"{entry.node}: {where} is not a node, it has no {' and no '.join(lacking)}")
    for part in ("params", "outputs"):
        seen = set()
        for field in getattr(entry.interface, part):
            if field.key in seen:
                yield problem(f"{entry.node}: {part} has {field.key} twice")
            seen.add(field.key)
            if not is_type(field.type):
                yield problem(f"{entry.node}: {part} {field.key} has an invalid type: {field.type!r}")


def _descriptions(entries: Iterable[Entry]) -> tuple[str | Table, ...]:
    found: list[str | Table] = []
    for entry in entries:
        found += [*([""] if found else []), *describe_entry(entry)]
    return tuple(found)


def describe_entry(entry: Entry) -> list[str | Table]:
    """Return an entry as `pflow registry describe` shows it to people."""
    interface = entry.interface
    claims = entry.claimed_purity != "" and entry.purity == "impure"
    lines: list[str | Table] = [entry.node, *(f"  {line}" for line in barred_lines(entry.description))]
    for title, fields in (("Parameters", interface.params), ("Outputs", interface.outputs)):
        rows = [(it.key, it.type, "required" if it.required else "", it.description) for it in fields]
        lines += ["", f"{title}:", Table(columns=_FIELD_COLUMNS, rows=rows, indent=2)] if rows else []
    lines += ["  and others, known only when it runs"] if interface.open_outputs else []
    lines += [
        "",
        f"Actions: {', '.join(interface.actions)}",
        f"Source: {entry.source}",
        f"Purity: {entry.purity}{' (it claims to be read-only)' if claims else ''}",
    ]
    effects = ", ".join(entry.effects).replace("_", " ")
    return [*lines, f"Effects: {effects}"] if effects else lines


def _came_back(outputs: Mapping[str, object], shape: Sequence[ValuePath]) -> tuple[str | Table, ...]:
    values = [f"{name}: {printed(value)}" for name, value in outputs.items()]
    rows = []
    for place in shape[:_PATHS]:
        sample = "" if place.sample is None else abbreviated(printed(place.sample), _SAMPLE)
        rows.append((place.path, place.type, sample))
    if len(shape) > _PATHS:
        rows.append(("...", f"{len(shape) - _PATHS} more", ""))
    columns = (Column(title="PATH", whole=True), Column(title="TYPE", whole=True), Column(title="SAMPLE"))
    return (Table(columns=columns, rows=rows), "", *values) if outputs else ("Done; it has no outputs",)


def _cells(row: NodeRow) -> tuple[str, str, str]:
    return row.node, row.source, row.description


_Found = TypeVar("_Found")
_CONFIDENCE = Column(title="CONFIDENCE", whole=True, right=True)


@click.command()
@click.argument("task", nargs=-1, required=True)
@limit_option(10)
@click.option("--full", is_flag=True, help="With --json, the whole entry of each.")
@click.pass_obj
def discover_nodes(host: EmbeddedHost, task: tuple[str, ...], limit: int, *, full: bool) -> Report:
    """Find the registry's node types for each part of TASK, a description in plain words.

    Set PFLOW_DISCOVER_MODEL to a model of the `llm` library to let it choose among them.
    """
    from pflow_mcp_plugin.host.registry.discovery import FoundNode, fitting

    text = " ".join(task)
    found = fitting(host.registry.discovered(text, limit))
    columns = (_COLUMNS[0], _CONFIDENCE, *_COLUMNS[1:])
    rows = [
        (it.item.row.node, f"{it.confidence:.2f}", it.item.row.source, it.item.row.description)
        for it in found.matches
    ]
    to_dict = FoundNode.to_dict if full else lambda it: it.entry.to_brief()
    return _report(found, text, to_dict, columns, rows)


@click.command()
@click.argument("task", nargs=-1, required=True)
@limit_option(10)
@click.pass_obj
def discover_workflows(host: EmbeddedHost, task: tuple[str, ...], limit: int) -> Report:
    """Find the saved workflows that do TASK, a description in plain words; best first.

    Set PFLOW_DISCOVER_MODEL to a model of the `llm` library to let it choose among them.
    """
    text = " ".join(task)
    found = host.library.discover(text, limit)
    columns = (Column(title="NAME", whole=True), _CONFIDENCE, Column(title="DESCRIPTION", prose=True))
    rows = [(it.item.name, f"{it.confidence:.2f}", it.item.description) for it in found.matches]
    return _report(found, text, lambda item: item.to_dict(), columns, rows)


def _report(
    found: Discovery[_Found],
    task: str,
    to_dict: Callable[[_Found], Mapping[str, JSON]],
    columns: Sequence[Column],
    rows: Sequence[Sequence[str]],
) -> Report:
    note = (f"Ranked by matching {found.ranked_by}: {found.note}",) if found.note else ()
    beside = {"ranked_by": found.ranked_by, **({"note": found.note} if found.note else {})}
    return table_report(
        found.to_list(to_dict), columns, rows, f"Nothing matches {task!r}", *note, beside=beside
    )
