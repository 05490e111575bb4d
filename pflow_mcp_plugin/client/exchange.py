"""What one request saw on its way, kept beside the SDK, which drops most of it."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from asyncio import Timeout


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
        body: The beginning of its body, unless it was an event stream.
        error: What ended the exchange: a network error, or one of the errors below.
        cut: Whether an event stream ended before the answer came.
        resumes: How often the stream was taken up again.
        session_lost: Whether the server no longer knows the session of the request.
        rpc_error: Whether the answer is a JSON-RPC error, whatever its status.
        replies: Whole JSON answers that came, to this request or to none.
        deadline: Until when the request may be tried; None is for ever.
    """

    sent: bool = False
    unsent: bool = False
    raw: Mapping[str, Any] | None = None
    status: int | None = None
    headers: Mapping[str, str] = attrs.field(factory=dict)
    body: str = ""
    error: Exception | None = None
    cut: bool = False
    resumes: int = 0
    session_lost: bool = False
    rpc_error: bool = False
    replies: int = 0
    deadline: Timeout | None = None


class TooLarge(Exception):
    """A message is larger than the cap.

    Attributes:
        what: What is too large.
        limit: Bytes allowed.
        size: Bytes that had come, decoded.
    """

    def __init__(self, what: str, limit: int, size: int) -> None:
        super().__init__(what, limit, size)
        self.what = what
        self.limit = limit
        self.size = size


class AnswerTooSlow(Exception):
    """One HTTP exchange took longer than the server's `timeout`."""


class ForeignEndpoint(Exception):
    """A server sends its messages' way to another host than its own."""


class BadEndpoint(Exception):
    """A server says that messages go to what is no address; the argument is its beginning."""


class InvalidJson(Exception):
    """A message is no JSON; the arguments are its beginning, and why it is none."""


class CertificatesUnreadable(Exception):
    """The file or folder with the certificates to trust cannot be read."""


current: ContextVar[Exchange | None] = ContextVar("pflow_mcp_exchange", default=None)
