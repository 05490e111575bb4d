"""The progress of calls: noted in the trace, and reported to the run."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from pflow_mcp_plugin.contract.json_types import JSONObject
from pflow_mcp_plugin.exchange import ToolCall
from pflow_mcp_plugin.terminal.printable_text import printable

_LONGEST = 200
"""Characters; what shows it cuts it to the room that there is."""


@attrs.frozen
class CallProgress:
    """Passes on the progress that servers report during the calls of nodes; the host shows it.

    Attributes:
        annotate: Called with a node's id and details of its step.
        report: Called with a node's id, the amount done, the amount in total if known, and a message.
    """

    annotate: Callable[[str, JSONObject], None]
    report: Callable[[str, float, float | None, str], None]

    def __call__(self, call: ToolCall, done: float, total: float | None, text: str | None) -> None:
        """Note the progress of a call in the trace, and report it.

        Args:
            call: The call.
            done: Amount done so far.
            total: Amount in total, if known.
            text: Message of the server, if any.
        """
        if call.node_id:
            self.annotate(call.node_id, {"progress": {"done": done, "total": total, "message": text}})
            self.report(call.node_id, done, total, shortened(text))


def shortened(text: str | None) -> str:
    """Return a server's message about the progress of a call, in one short printable line."""
    shown = (text or "")[: 2 * _LONGEST]
    return " ".join(printable(shown).split())[:_LONGEST]
