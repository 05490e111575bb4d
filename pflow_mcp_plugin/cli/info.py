"""`pflow mcp info`: everything about one node."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

import click

from pflow_mcp_plugin.cli.dependencies import catalog, server_store
from pflow_mcp_plugin.cli.known_names import tool_nodes
from pflow_mcp_plugin.contract import Entry, Field, Host, Report
from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.contract.printable_text import printable
from pflow_mcp_plugin.discovery.tool_file import Head
from pflow_mcp_plugin.errors import McpError, Where
from pflow_mcp_plugin.registration.tool_source import ToolSource
from pflow_mcp_plugin.types import Tool


@click.command()
@click.argument("node", shell_complete=tool_nodes)
@click.pass_obj
def info(host: Host, node: str) -> Report:
    """Show what the tool behind NODE does, its parameters and outputs, and its server."""
    return describe(host, node)


def describe(host: Host, node: str) -> Report:
    """Return the report of `pflow mcp info` on a tool's node, as of the last sync; starts no server.

    Raises:
        McpError: The node does not exist; the message has the reason and the next step.
    """
    known = catalog(host)
    source = ToolSource(known, server_store(host))
    entry = source.get(node)
    if entry is None:
        raise _missing(source, node)
    labels = entry.labels
    head = known.head(labels["server"]) or Head(server=labels["server"])
    record = known.tool(labels["server"], labels["tool"])
    data = {**entry.to_dict(), "sync": _sync(head, record.tool if record else None)}
    return Report(data=data, text=lambda: "\n".join(_lines(entry, head)))


def _missing(source: ToolSource, node: str) -> McpError:
    problem = source.missing(node)
    where = Where(phase="config")
    if problem is None:
        message = f"{node} is not a node of an MCP server; their names begin with mcp-"
        return McpError(
            message,
            where=where,
            next_step="See them: pflow mcp tools",
            kind="not_found",
            action="resource_missing",
        )
    return McpError(
        problem.message,
        where=where,
        next_step=problem.suggestion,
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


def _lines(entry: Entry, head: Head) -> Iterator[str]:
    labels = entry.labels
    yield entry.node
    if entry.description:
        yield from ("  " + line for line in entry.description.splitlines())
    yield ""
    yield f"Tool      {labels['tool']} of server {labels['server']}"
    version = " ".join(part for part in (head.info.name, head.info.version) if part)
    yield f"Server    {version or 'sends no name'}, protocol {head.info.protocol}"
    yield f"Synced    {head.synced_at}"
    claims = entry.claimed_purity != "" and entry.purity == "impure"
    yield f"Purity    {entry.purity}{' (it claims to only read)' if claims else ''}"
    if entry.effects:
        yield f"Effects   {', '.join(entry.effects).replace('_', ' ')}"
    if entry.withheld:
        yield f"Withheld  {entry.withheld}"
    yield from _fields("Params", entry.interface.params, "none")
    if entry.interface.open:
        yield "  and others: the tool accepts arguments that its schema does not name"
    yield from _fields("Outputs", entry.interface.outputs, "none")
    if entry.interface.open_outputs:
        yield "  and others: the tool may return properties that its schema does not name"
    yield ""
    yield "Actions   " + ", ".join(entry.interface.actions)


def _fields(title: str, fields: Iterable[Field], none: str) -> Iterator[str]:
    listed = list(fields)
    yield ""
    yield title if listed else f"{title}: {none}"
    width = max((len(field.key) for field in listed), default=0)
    for field in listed:
        traits = ", ".join(_traits(field))
        yield f"  {printable(field.key):{width}}  {traits}"
        yield from (f"  {'':{width}}    {line}" for line in field.description.splitlines())


def _traits(field: Field) -> Iterator[str]:
    yield field.type
    if field.required:
        yield "required"
    schema = field.schema if isinstance(field.schema, dict) else {}
    if field.has_default:
        yield f"default {json.dumps(schema['default'], ensure_ascii=False)}"
    if isinstance(schema.get("enum"), list):
        yield "one of " + ", ".join(json.dumps(value, ensure_ascii=False) for value in schema["enum"])
