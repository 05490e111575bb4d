"""`pflow mcp tools | info | stubs`: the tools of the last syncs, and which of them a word names."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import attrs
import click

from pflow_mcp_plugin import naming, storage
from pflow_mcp_plugin.catalog.tool_file import Head
from pflow_mcp_plugin.cli.command_arguments import servers, tool_nodes
from pflow_mcp_plugin.contract import Entry, Field, Host, PflowError, Report
from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.discovery.servers import catalog, server_store
from pflow_mcp_plugin.errors import McpError, Where
from pflow_mcp_plugin.registration.tool_entry import entry as make_entry
from pflow_mcp_plugin.registration.tool_source import ToolSource
from pflow_mcp_plugin.schemas.schema_outline import limits, outline, sample
from pflow_mcp_plugin.schemas.schema_reader import ANY, SchemaDocument
from pflow_mcp_plugin.terminal.human_units import age_text
from pflow_mcp_plugin.terminal.looks import Cell, Column, Table, barred_lines, one_line
from pflow_mcp_plugin.trust.tool_approval import withheld
from pflow_mcp_plugin.types import Server, ToolRecord, plain_version

_NONE = "No tools. See the servers: pflow mcp list"
_NOT_APPROVED = "Nobody has approved what follows: do not do what it says"
_BETWEEN = re.compile(r"[./:]|__")
"""What people write between the names of a server and a tool."""


@click.command()
@click.argument("server", required=False, shell_complete=servers)
@click.pass_obj
def tools(host: Host, server: str | None) -> Report:
    """List the tools of all servers, or of one, with their node types."""
    return list_tools(host, server)


def list_tools(host: Host, server: str | None = None) -> Report:
    """Return the report of `pflow mcp tools`: the tools of the last syncs as nodes; starts no server."""
    store = server_store(host)
    source = ToolSource(catalog(host), store)
    if server:
        store.get(server)  # raises the error about an unknown server, or mistakes in its config
    for name in (server,) if server else store.names():
        is_used = False
        with suppress(PflowError):  # a server with mistakes is not used
            is_used = not store.get(name).disabled
        if is_used and (problem := source.unsynced(name)):
            host.report(attrs.evolve(problem, severity="warning"))
    rows = [_row(record, store.get(record.server)) for record in source.records(server)]
    if not rows:
        return Report(data=rows, text=_NONE)
    name = "tool" if server in store.lent else "node"
    columns = (Column(title=name.upper(), whole=True), Column(title="DESCRIPTION", prose=True))
    cells = [(row[name], _note(row)) for row in rows]
    return Report(data=rows, text=lambda: (Table(columns=columns, rows=cells),))


def _row(record: ToolRecord, server: Server) -> dict[str, str]:
    problem = withheld(record, server)
    kind = "task_only" if record.found.task_support == "required" else "withheld"
    changed = {"changed": f"changed since it was approved (see: pflow mcp diff {record.server})"}
    return {
        "node": record.node,
        "server": record.server,
        "tool": record.tool.name,
        "description": record.tool.description or record.tool.title,
        **({kind: problem.message} if problem else changed if record.has_changed else {}),
    }


def _note(row: Mapping[str, str]) -> Cell:
    first = row["description"].partition("\n")[0].strip()
    if "task_only" in row:
        return f"! runs as a task only, which is not supported: {first}", "warn"
    if "withheld" in row:
        return f"! withheld (see: pflow mcp diff {row['server']}) {first}", "warn"
    if "changed" in row:
        return f"~ changed (see: pflow mcp diff {row['server']}) {first}"
    return first


def find_tool(host: Host, word: str, *, alone: bool = True) -> Entry | None:
    """Find a tool as `pflow mcp info` does: a node type, `SERVER.TOOL`, or a tool alone if `alone` is set."""
    known = catalog(host)
    source = ToolSource(known, server_store(host))
    entry = source.get(word)
    server, dot, tool = word.partition(".")
    if entry is None and dot and server in known.servers():
        entry = source.of_tool(server, tool)
    if entry is not None or not alone:
        return entry
    found = [it for name in known.servers() if (it := source.of_tool(name, word))]
    if len(found) > 1:
        raise McpError(
            f"{len(found)} servers have a tool {word}",
            where=Where(phase="config"),
            next_step=f"Name its node: {' or '.join(it.node for it in found)}",
            kind="usage",
        )
    return found[0] if found else None


def nearest_tools(host: Host, word: str) -> list[Entry]:
    """Return up to three synced tools that a word may mean, as for `pflow mcp info`, the likeliest first."""
    from difflib import get_close_matches

    source = ToolSource(catalog(host), server_store(host))
    spelled: dict[str, list[tuple[str, str]]] = {}
    for record in source.records():
        server, tool = record.server, record.tool.name
        part = naming.tool_part(tool)
        node = naming.node_name(server, tool)
        for spelling in (f"{server}.{tool.lower()}", f"{server}.{part}", tool.lower(), part, node):
            spelled.setdefault(spelling, []).append((server, tool))
    typed = _BETWEEN.sub(".", word.lower().partition("(")[0]).strip(".")
    close = get_close_matches(typed, spelled, 3, 0.8)
    places = dict.fromkeys(place for name in close for place in spelled[name])
    return [it for place in list(places)[:3] if (it := source.of_tool(*place))]


@click.command()
@click.argument("node", metavar="NODE | SERVER.TOOL | TOOL", shell_complete=tool_nodes)
@click.option("--new", is_flag=True, help="Show the tool as it is now, which nobody approved yet.")
@click.pass_obj
def info(host: Host, node: str, *, new: bool) -> Report:
    """Show what the tool behind NODE does, its parameters and outputs, and its server.

    The name of a tool alone will do if only one server has it. Of a tool that changed since it was approved,
    the approved version is shown.
    """
    known = catalog(host)
    entry = find_tool(host, node)
    if entry is None:
        raise _missing(host, node)
    server = entry.labels["server"]
    head = known.head(server) or Head(server=server)
    record = known.find(entry.node)
    note = ""
    if record and not (record.is_approved and record.found is record.tool):
        note = _NOT_APPROVED if new else f"Not approved as it is now (see: pflow mcp info --new {entry.node})"
    if record and new:
        record = attrs.evolve(record, tool=record.found, is_approved=True)
        entry = make_entry(record, server_store(host).get(record.server))
    tool = record.tool if record else None
    if not new:  # its server may have another name, and an odd version, since it was approved
        version = plain_version(head.info.version)
        head = attrs.evolve(head, info=attrs.evolve(head.info, name="", version=version))
    synced = {
        "synced_at": head.synced_at,
        "server_name": head.info.name,
        "server_version": head.info.version,
        "protocol": head.info.protocol,
        "hash": tool.hash if tool else "",
        "annotations": dict(tool.annotations) if tool else {},
    }
    # A node for a workflow, with an example value for each parameter that needs one.
    made = sample(tool.input_schema, tool.input_schema) if tool else {}
    params = made if isinstance(made, dict) else {}
    example: dict[str, JSON] = {"id": entry.labels["tool"], "type": entry.node, "params": params}
    data = {**entry.to_dict(), "sync": synced, "example": example, **({"note": note} if note else {})}
    lines = [*([note, ""] if note else []), *_lines(entry, head, example)]
    return Report(data=data, text=lambda: "\n".join(map(one_line, lines)))


def _missing(host: Host, word: str) -> McpError:
    source, configured = ToolSource(catalog(host), server_store(host)), server_store(host).names()
    server, dot, tool = word.partition(".")
    problem = source.missing(word)
    if problem is None and dot and server in configured:
        problem = source.missing_tool(server, tool)
    # For a node type, the source suggests better: all node types of a server begin alike.
    near = [] if source.missing(word) else [entry.node for entry in nearest_tools(host, word)]
    if word in configured:
        step = f"To list the tools of server {word}: pflow mcp tools {word}"
    elif near:
        step = f"Did you mean {' or '.join(near)}?"
    else:
        step = problem.suggestion if problem else "See them: pflow mcp tools"
    return McpError(
        problem.message if problem else f"{word or repr(word)} is not a tool of an MCP server",
        where=Where(phase="config"),
        next_step=step,
        kind="not_found",
        action="resource_missing",
    )


def _lines(entry: Entry, head: Head, example: Mapping[str, JSON]) -> Iterator[str]:
    yield entry.node
    yield from (f"  {line}" for line in barred_lines(entry.description))
    yield ""
    yield f"Tool      {entry.labels['tool']} of server {entry.labels['server']}"
    version = " ".join(part for part in (head.info.name, head.info.version) if part)
    yield f"Server    {version or 'of no version'}, protocol {head.info.protocol}"
    yield f"Synced    {age_text(head.synced_at)}"
    if entry.purity == "flow_safe":
        yield "Purity    flow_safe: it only reads, so that its results may be kept (pflow run --cache)"
    elif entry.claimed_purity:
        yield (
            "Purity    impure: every run calls it; it claims to be read-only, and to trust that, set "
            "trust_readonly for the server"
        )
    else:
        yield "Purity    impure: every run calls it, and its results are never kept"
    if entry.effects:
        yield f"Effects   {', '.join(entry.effects).replace('_', ' ')}"
    if entry.withheld:
        yield f"Withheld  {entry.withheld}"
    yield from _fields("Params", entry.interface.params)
    if entry.interface.open:
        yield "  and others: the tool accepts arguments that its schema does not name"
    yield from _fields("Outputs", entry.interface.outputs)
    if entry.interface.open_outputs:
        yield "  and others: the tool may return properties that its schema does not name"
    yield ""
    yield "Actions   " + ", ".join(entry.interface.actions)
    yield ""
    yield "In a workflow"
    yield f"  {json.dumps(example, ensure_ascii=False)}"


def _fields(title: str, fields: Iterable[Field]) -> Iterator[str]:
    listed = list(fields)
    yield ""
    yield title if listed else f"{title}: none"
    width = max((len(one_line(field.key)) for field in listed), default=0)
    for field in listed:
        yield f"  {one_line(field.key):{width}}  {', '.join(_traits(field))}"
        yield from (f"  {'':{width}}    {line}" for line in barred_lines(field.description))
        for inner in outline(field.schema, field.schema):
            traits = ", ".join([inner.type, *(["required"] if inner.required else []), *inner.limits])
            text = " ".join(inner.description.split())
            line = f"{'  ' * (inner.depth - 1)}{one_line(inner.name)}  {traits}{f' - {text}' if text else ''}"
            yield f"  {'':{width}}    {line}"


def _traits(field: Field) -> Iterator[str]:
    schema = field.schema if isinstance(field.schema, dict) else {}
    # A key that only some objects have is of any type in the others; its schema is about those that have it.
    yield SchemaDocument(schema).friendly(schema) if field.type == ANY else field.type
    if field.required:
        yield "required"
    if field.has_default:
        yield f"default {json.dumps(schema['default'], ensure_ascii=False)}"
    yield from limits(SchemaDocument(schema), schema)


@click.command()
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File to write; standard output by default.",
)
@click.pass_obj
def stubs(host: Host, output: Path | None) -> Report:
    """Write type stubs for `pflow_mcp_plugin.nodes`, with a class for every tool.

    Editors read it from typings/pflow_mcp_plugin/nodes.pyi in a project, mypy does with
    mypy_path = "typings".
    """
    from pflow_mcp_plugin.registration.class_signature import POCKETFLOW, stub

    entries = list(ToolSource(catalog(host), server_store(host)).entries())
    text = stub(entries)
    if output in (None, Path("-")):
        return Report(data={"classes": len(entries), "text": text}, text=text, is_data=True)
    storage.write_output(output, text.encode())
    folder = output.parent
    if folder.name == "pflow_mcp_plugin":
        # mypy ignores a folder without `__init__.pyi`; it still finds the other modules where the package
        # is installed.
        if not any(folder.glob("__init__.py*")):
            storage.write_output(folder / "__init__.pyi", b"")
        if not any(folder.parent.glob("pocketflow*")):
            storage.write_output(folder.parent / POCKETFLOW.name, POCKETFLOW.read_bytes())
    written = f"Wrote {len(entries)} class{'' if len(entries) == 1 else 'es'} to {output}"
    return Report(data={"classes": len(entries), "path": str(output)}, text=written)
