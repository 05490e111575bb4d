"""How far a run has come."""

from __future__ import annotations

import attrs

from pflow_mcp_plugin.contract.validators import text


@attrs.frozen(kw_only=True)
class Progress:
    """How far a run has come.

    Attributes:
        done: The number of node executions that have ended.
        total: The number expected if every node takes its default action; None if unknown.
        message: What the run does now, for people: `node fetch`, or what the node itself reports.
    """

    done: float
    total: float | None = None
    message: str = attrs.field(default="", validator=text)
