"""The progress of a run, as a host reports it to whoever started the run."""

from __future__ import annotations

import attrs

from pflow_mcp_plugin.contract.validators import text


@attrs.frozen(kw_only=True)
class Progress:
    """The progress of a run in any host: how many of its nodes have ended.

    Attributes:
        done: The number of node executions that have ended.
        total: The number expected if every node takes its default action; None if unknown.
        message: What the run does now, for people: `node fetch`, or what the node itself reports.
    """

    done: float
    total: float | None = None
    message: str = attrs.field(default="", validator=text)
