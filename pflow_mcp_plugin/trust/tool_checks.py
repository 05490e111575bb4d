"""Checks of what a server says about itself and its tools; they need no model and start nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pflow_mcp_plugin.trust.claimed_names import claimed_names
from pflow_mcp_plugin.trust.doubtful_claims import contradictions, unexplained_arguments
from pflow_mcp_plugin.trust.hidden_text import hidden_text
from pflow_mcp_plugin.trust.name_index import NameIndex
from pflow_mcp_plugin.trust.shadowing import shadowing
from pflow_mcp_plugin.trust.tool_findings import Finding
from pflow_mcp_plugin.trust.tool_texts import Text, texts
from pflow_mcp_plugin.types import Tool


def check_tools(server: str, tools: Iterable[Tool], instructions: str, names: NameIndex) -> Iterator[Finding]:
    """Yield what a person should look at in a server's tools, tool by tool; never raises.

    Args:
        server: The server's name.
        tools: Its tools, as listed.
        instructions: Its instructions for agents.
        names: The names of all servers and their tools.
    """
    listed = list(tools)
    yield from claimed_names(server, (tool.name for tool in listed), names)
    said = [Text("instructions", instructions, "prose")]
    yield from hidden_text(server, "", said)
    yield from shadowing(server, "", said, names)
    for tool in listed:
        every = list(texts(tool))
        yield from hidden_text(server, tool.name, every)
        yield from shadowing(server, tool.name, every, names)
        yield from contradictions(server, tool)
        yield from unexplained_arguments(server, tool)
