"""The differences between two versions of a tool, as lines for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pflow_mcp_plugin.trust.tool_danger import Verdict

_MOST = 40


def lines(tool: str, verdict: Verdict) -> Iterator[str]:
    """Yield how a tool differs, in lines for a terminal: printable and bounded."""
    yield f"{tool}: {verdict.kind}"
    for difference in verdict.differences[:_MOST]:
        yield ascii(f"  {'!' if difference.dangerous else '~'} {difference.field}: {difference.what}")[1:-1]
