"""Decides which tools of a server become nodes, by the filter in its config."""

from __future__ import annotations

from fnmatch import fnmatchcase

from pflow_mcp_plugin.types import ToolFilter


def allows(wanted: ToolFilter, tool: str) -> bool:
    """Whether the filter lets a tool, by its raw name, become a node."""
    allowed = not wanted.allow or any(fnmatchcase(tool, glob) for glob in wanted.allow)
    return allowed and not any(fnmatchcase(tool, glob) for glob in wanted.deny)
