"""What one request saw on its way, kept beside the SDK, which drops most of it."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

import attrs


@attrs.define(kw_only=True)
class Exchange:
    """Filled while a request is under way.

    The variable `current` is set in the task that makes the request; the SDK carries a task's
    context along to the HTTP exchange, so both ends fill the same object.

    Attributes:
        sent: Whether the request left the session.
        unsent: Whether it is certain that the server did not get the whole of it.
        raw: The result as it came, before any model saw it.
        status: HTTP status of the last answer.
        headers: Its headers.
        body: The beginning of its body, when it was an error or no MCP answer.
        error: The network error that ended the exchange.
    """

    sent: bool = False
    unsent: bool = False
    raw: Mapping[str, Any] | None = None
    status: int | None = None
    headers: Mapping[str, str] = attrs.field(factory=dict)
    body: str = ""
    error: Exception | None = None


current: ContextVar[Exchange | None] = ContextVar("pflow_mcp_exchange", default=None)
