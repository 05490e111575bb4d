"""`pflow mcp info`: everything about one node."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import click

from pflow_mcp_plugin.cli.compose import catalog, server_store
from pflow_mcp_plugin.cli.options import json_option
from pflow_mcp_plugin.contract import Entry, Field, Host, Report
from pflow_mcp_plugin.discovery.toolfile import ToolFile
from pflow_mcp_plugin.errors import ToolNotFound, Where
from pflow_mcp_plugin.registration.entry import printable
from pflow_mcp_plugin.registration.source import ToolSource


@click.command()
@click.argument("node")
@json_option
@click.pass_obj
def info(host: Host, node: str) -> Report:
    """Show a node: what its tool does, takes and gives, and where it comes from."""
    return describe(host, node)


def describe(host: Host, node: str) -> Report:
    """Describe a node of a tool, as of the last sync; starts no server.

    Raises:
        ToolNotFound: There is no such node; says why, and the next step.
    """
    known = catalog(host)
    source = ToolSource(known, server_store(host))
    entry = source.get(node)
    if entry is None:
        raise _missing(source, node)
    labels = entry.extra["labels"]
    content = known.file(labels["server"]) or ToolFile(server=labels["server"])
    data = {**entry.to_dict(), "sync": _sync(content, labels["tool"])}
    return Report(data=data, text=lambda: "\n".join(_lines(entry, content)))


def _missing(source: ToolSource, node: str) -> ToolNotFound:
    problem = source.missing(node)
    where = Where(phase="config")
    if problem is None:
        message = f"{node} is no node of an MCP server; their names begin with mcp-"
        return ToolNotFound(message, where=where, next_step="See them: pflow mcp tools")
    return ToolNotFound(problem.message, where=where, next_step=problem.suggestion)


def _sync(content: ToolFile, tool: str) -> dict[str, Any]:
    known = content.tool(tool)
    return {
        "synced_at": content.synced_at,
        "server_name": content.info.name,
        "server_version": content.info.version,
        "protocol": content.info.protocol,
        "hash": known.hash if known else "",
        "annotations": dict(known.annotations) if known else {},
    }


def _lines(entry: Entry, content: ToolFile) -> Iterator[str]:
    labels = entry.extra["labels"]
    yield entry.node
    if entry.description:
        yield from ("  " + line for line in entry.description.splitlines())
    yield ""
    yield f"Tool      {printable(labels['tool'])} of server {labels['server']}"
    version = " ".join(part for part in (content.info.name, content.info.version) if part)
    yield f"Server    {printable(version) or 'says nothing of itself'}, protocol {content.info.protocol}"
    yield f"Synced    {content.synced_at}"
    yield f"Purity    {entry.purity}"
    yield from _fields("Params", entry.interface.params, "takes none")
    if entry.interface.open:
        yield "  and others: the tool takes arguments it does not name"
    yield from _fields("Outputs", entry.interface.outputs, "none")
    if entry.interface.open_outputs:
        yield "  and others: the tool may give what it does not name"
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
        yield from (f"  {'':{width}}    {line}" for line in printable(field.description).splitlines())


def _traits(field: Field) -> Iterator[str]:
    yield field.type
    if field.required:
        yield "required"
    schema = field.schema if isinstance(field.schema, dict) else {}
    if field.has_default:
        yield f"default {json.dumps(schema['default'], ensure_ascii=False)}"
    if isinstance(schema.get("enum"), list):
        yield "one of " + ", ".join(json.dumps(value, ensure_ascii=False) for value in schema["enum"])
