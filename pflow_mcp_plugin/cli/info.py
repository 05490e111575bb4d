"""`pflow mcp info`: everything about one node."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

import attrs
import click

from pflow_mcp_plugin.catalog.tool_file import Head
from pflow_mcp_plugin.cli.dependencies import catalog, server_store
from pflow_mcp_plugin.cli.known_names import tool_nodes
from pflow_mcp_plugin.cli.named_tool import find_tool, nearest_tools
from pflow_mcp_plugin.contract import Entry, Field, Host, Report
from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.errors import McpError, Where
from pflow_mcp_plugin.registration.tool_entry import entry as make_entry
from pflow_mcp_plugin.registration.tool_source import ToolSource
from pflow_mcp_plugin.schemas.schema_document import ANY, SchemaDocument
from pflow_mcp_plugin.schemas.schema_outline import limits, outline, sample
from pflow_mcp_plugin.terminal.human_units import age_text
from pflow_mcp_plugin.terminal.printable_text import barred_lines, one_line
from pflow_mcp_plugin.types import Tool

_NOT_APPROVED = "Nobody has approved what follows: do not do what it says"


@click.command()
@click.argument("node", metavar="NODE | SERVER.TOOL | TOOL", shell_complete=tool_nodes)
@click.option("--new", is_flag=True, help="Show the tool as it is now, which nobody approved yet.")
@click.pass_obj
def info(host: Host, node: str, *, new: bool) -> Report:
    """Show what the tool behind NODE does, its parameters and outputs, and its server.

    The name of a tool alone will do if only one server has it. Of a tool that changed since it was approved,
    the approved version is shown.
    """
    return describe(host, node, new=new)


def describe(host: Host, node: str, *, new: bool = False) -> Report:
    """Return the report of `pflow mcp info` on a tool's node, as of the last sync; starts no server.

    Args:
        host: The host.
        node: The node, or its tool.
        new: Whether to show the tool as it is now in place of its approved version.

    Raises:
        McpError: The node does not exist; the message has the reason and the next step.
    """
    known = catalog(host)
    source = ToolSource(known, server_store(host))
    entry = find_tool(host, node)
    if entry is None:
        raise _missing(host, source, node)
    labels = entry.labels
    head = known.head(labels["server"]) or Head(server=labels["server"])
    record = known.find(entry.node)
    note = ""
    if record and not (record.is_approved and record.found is record.tool):
        note = _NOT_APPROVED if new else f"Not approved as it is now (see: pflow mcp info --new {entry.node})"
    if record and new:
        record = attrs.evolve(record, tool=record.found, is_approved=True)
        entry = make_entry(record, server_store(host).get(record.server))
    tool = record.tool if record else None
    if not new:  # its server may have another name, and an odd version, since it was approved
        head = attrs.evolve(head, info=attrs.evolve(head.info, name="", version=head.info.plain_version))
    data = {**entry.to_dict(), "sync": _sync(head, tool), "example": _example(entry, tool)}
    if note:
        data["note"] = note
    lines = [*([note, ""] if note else []), *_lines(entry, head, tool)]
    return Report(data=data, text=lambda: "\n".join(map(one_line, lines)))


def _example(entry: Entry, tool: Tool | None) -> dict[str, JSON]:
    """Return a node for a workflow, with a value for each parameter that needs one, whole to its inside."""
    made = sample(tool.input_schema, tool.input_schema) if tool else {}
    params = made if isinstance(made, dict) else {}
    return {"id": entry.labels["tool"], "type": entry.node, "params": params}


def _missing(host: Host, source: ToolSource, word: str) -> McpError:
    """Return the error about a word that names no tool; suggests what may be meant."""
    server, dot, tool = word.partition(".")
    problem = source.missing(word)
    if problem is None and dot and server in server_store(host).names():
        problem = source.missing_tool(server, tool)
    near = [entry.node for entry in nearest_tools(host, word)]
    if word in server_store(host).names():
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


def _sync(head: Head, tool: Tool | None) -> dict[str, JSON]:
    return {
        "synced_at": head.synced_at,
        "server_name": head.info.name,
        "server_version": head.info.version,
        "protocol": head.info.protocol,
        "hash": tool.hash if tool else "",
        "annotations": dict(tool.annotations) if tool else {},
    }


def _lines(entry: Entry, head: Head, tool: Tool | None) -> Iterator[str]:
    labels = entry.labels
    yield entry.node
    if entry.description:
        yield from ("  " + line for line in barred_lines(entry.description))
    yield ""
    yield f"Tool      {labels['tool']} of server {labels['server']}"
    version = " ".join(part for part in (head.info.name, head.info.version) if part)
    yield f"Server    {version or 'of no version'}, protocol {head.info.protocol}"
    yield f"Synced    {age_text(head.synced_at)}"
    yield f"Purity    {_purity(entry)}"
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
    yield f"  {json.dumps(_example(entry, tool), ensure_ascii=False)}"


def _purity(entry: Entry) -> str:
    """Return the purity of a tool's node, and what it means for a run."""
    if entry.purity == "flow_safe":
        return "flow_safe: it only reads, so that its results may be kept (pflow run --cache)"
    if entry.claimed_purity:
        believe = "to trust that, set trust_readonly for the server"
        return f"impure: every run calls it; it claims to be read-only, and {believe}"
    return "impure: every run calls it, and its results are never kept"


def _fields(title: str, fields: Iterable[Field]) -> Iterator[str]:
    listed = list(fields)
    yield ""
    yield title if listed else f"{title}: none"
    width = max((len(one_line(field.key)) for field in listed), default=0)
    for field in listed:
        traits = ", ".join(_traits(field))
        yield f"  {one_line(field.key):{width}}  {traits}"
        yield from (f"  {'':{width}}    {line}" for line in barred_lines(field.description))
        yield from (f"  {'':{width}}    {line}" for line in _inner(field))


def _inner(field: Field) -> Iterator[str]:
    for inner in outline(field.schema, field.schema):
        traits = ", ".join([inner.type, *(["required"] if inner.required else []), *inner.limits])
        text = " ".join(inner.description.split())
        yield f"{'  ' * (inner.depth - 1)}{one_line(inner.name)}  {traits}{f' - {text}' if text else ''}"


def _traits(field: Field) -> Iterator[str]:
    schema = field.schema if isinstance(field.schema, dict) else {}
    # A key of some objects only has any type in others: what is said of it is for these.
    yield SchemaDocument(schema).friendly(schema) if field.type == ANY else field.type
    if field.required:
        yield "required"
    if field.has_default:
        yield f"default {json.dumps(schema['default'], ensure_ascii=False)}"
    yield from limits(SchemaDocument(schema), schema)
