"""Chooses which tools are served, by name and effect."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.server.given_names import nearest
from pflow_mcp_plugin.server.served_tool import ServedTool


def selected(
    tools: Sequence[ServedTool], patterns: Sequence[str], *, read_only: bool = False
) -> tuple[ServedTool, ...]:
    """Return the tools to serve.

    Args:
        tools: All tools.
        patterns: Names, or patterns such as `registry_*`; all tools if there are none.
        read_only: Whether to leave out those that may change something.

    Raises:
        PflowError: A pattern matches no tool.
    """
    names = [tool.name for tool in tools]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            close = nearest(pattern, names)
            hint = f"Did you mean {close}?" if close else f"The tools: {', '.join(names)}"
            raise PflowError(f"There is no tool {pattern}", kind="usage", suggestions=(hint,))
    return matching(tools, patterns, read_only=read_only)


def matching(
    tools: Sequence[ServedTool], patterns: Sequence[str], *, read_only: bool = False
) -> tuple[ServedTool, ...]:
    """Return the tools to serve where tools come and go: a pattern need not match any.

    Args:
        tools: All tools.
        patterns: As for `selected`.
        read_only: As for `selected`.
    """
    return tuple(
        tool
        for tool in tools
        if (not patterns or any(fnmatchcase(tool.name, pattern) for pattern in patterns))
        and (tool.claims.read_only or not read_only)
    )
