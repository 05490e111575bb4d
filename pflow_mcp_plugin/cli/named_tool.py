"""The tool that a word on the command line names: a node, `SERVER.TOOL`, or the name of a tool alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from shlex import quote

from pflow_mcp_plugin import naming
from pflow_mcp_plugin.cli.dependencies import catalog, server_store
from pflow_mcp_plugin.contract import Entry, Host
from pflow_mcp_plugin.errors import McpError, Where
from pflow_mcp_plugin.registration.tool_source import ToolSource

_BETWEEN = re.compile(r"[./:]|__")
"""What people write between the names of a server and a tool."""


def find_tool(host: Host, word: str, *, alone: bool = True) -> Entry | None:
    """Return the tool that a word names, None if there is none; starts no server.

    Args:
        host: The host.
        word: A node type, `SERVER.TOOL`, or the name of a tool that only one server has.
        alone: Whether the name of a tool will do.

    Raises:
        McpError: Several servers have a tool of this name.
    """
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
    """Return the tools that a word may have been meant for, the likeliest first; at most three."""
    from difflib import get_close_matches

    source = ToolSource(catalog(host), server_store(host))
    spelled: dict[str, list[tuple[str, str]]] = {}
    for record in source.records():
        for spelling in _spellings(record.server, record.tool.name):
            spelled.setdefault(spelling, []).append((record.server, record.tool.name))
    typed = _BETWEEN.sub(".", word.lower().partition("(")[0]).strip(".")
    close = get_close_matches(typed, spelled, 3, 0.8)
    places = dict.fromkeys(place for name in close for place in spelled[name])
    return [it for place in list(places)[:3] if (it := source.of_tool(*place))]


def call_of(entry: Entry) -> str:
    """Return the command that calls a tool, as it is typed."""
    return "pflow mcp call " + quote(f"{entry.labels['server']}.{entry.labels['tool']}")


def _spellings(server: str, tool: str) -> Iterator[str]:
    part = naming.tool_part(tool)
    yield from (f"{server}.{tool.lower()}", f"{server}.{part}", tool.lower(), part)
    yield naming.node_name(server, tool)
