"""How a request can fail, as the transports say it: typed exceptions, and what is known of the exchange."""

from __future__ import annotations

from collections.abc import Mapping

import attrs


@attrs.frozen(kw_only=True)
class Exchange:
    """What is known of a request that failed.

    Attributes:
        unsent: Whether it is certain that the server did not get the whole of it.
        answered: Whether the server answered an earlier round of the same call.
        status: HTTP status of the answer.
        headers: Its headers.
        body: The beginning of its body, unless it was an event stream.
        error: What ended the exchange: a network error, or one of the errors below.
        cut: Whether an event stream ended before the answer came.
        resumes: How often the stream was resumed.
        session_lost: Whether the server no longer knows the session of the request.
        replies: Replies over HTTP that nobody on the connection waited for.
    """

    unsent: bool = False
    answered: bool = False
    status: int | None = None
    headers: Mapping[str, str] = attrs.field(factory=dict)
    body: str = ""
    error: Exception | None = None
    cut: bool = False
    resumes: int = 0
    session_lost: bool = False
    replies: int = 0


class RequestFailed(Exception):
    """A request over HTTP got no answer of the protocol.

    Attributes:
        exchange: What is known of it.
    """

    def __init__(self, exchange: Exchange) -> None:
        super().__init__(exchange)
        self.exchange = exchange

    def __str__(self) -> str:
        known = self.exchange
        if known.error is not None:
            return str(known.error) or type(known.error).__name__
        return "the event stream ended" if known.cut else f"HTTP {known.status}"


class Undelivered(Exception):
    """The server did not get the whole of a request; raised as the cause of what ended it."""


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


class NotMessage(Exception):
    """An answer is JSON, but no JSON-RPC message."""


class CertificatesUnreadable(Exception):
    """The file or folder with the certificates to trust cannot be read."""
