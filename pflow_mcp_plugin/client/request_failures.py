"""Failed requests: their exceptions, what is known about the exchange, and the causes behind them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Literal

import attrs

from pflow_mcp_plugin.redaction import Redactor

# The parameters of a challenge (RFC 9110, section 11.6.1; RFC 6750 for `scope` and `error`).
_CHALLENGE = re.compile(r'(\w+)=(?:"([^"]*)"|([^\s,]+))')


@attrs.frozen(kw_only=True)
class Exchange:
    """What is known of a request failure: how much was sent, and what came back over HTTP."""

    unsent: bool = False  # the server certainly did not receive the complete request
    answered: bool = False  # it answered an earlier round of the same call
    status: int | None = None
    headers: Mapping[str, str] = attrs.field(factory=dict)
    body: str = ""  # the beginning of it, unless it was an event stream
    error: Exception | None = None  # of the network, or one of those below
    cut: bool = False  # an event stream ended before the answer arrived
    resumes: int = 0
    session_lost: bool = False  # the server no longer knows the session of the request
    replies: int = 0  # those that matched no request of the connection


@attrs.define(slots=False)
class RequestFailed(Exception):
    """The exception of a failed request, with its exchange: it got no valid MCP answer."""

    exchange: Exchange

    def __str__(self) -> str:
        known = self.exchange
        if known.error is not None:
            return str(known.error) or type(known.error).__name__
        return "the event stream ended" if known.cut else f"HTTP {known.status}"


class Undelivered(Exception):
    """The request failed, and the server certainly did not receive all of it."""


@attrs.define(slots=False)
class MessageTooLarge(Exception):
    """How a request failed: by an answer or event over the cap; `size` is in decompressed bytes."""

    what: str
    size: int


class AnswerTooSlow(Exception):
    """How a request failed: its exchange took longer than the server's `timeout`."""


class ForeignEndpoint(Exception):
    """How a request failed: the server named an address on another host for requests."""


class BadEndpoint(Exception):
    """The request failed: the server names an invalid address for requests; the argument is its beginning."""


class InvalidJson(Exception):
    """The exception of a failed request: its answer is invalid JSON; it has the beginning, and the reason."""


class NotMessage(Exception):
    """The exception of a failed request: the answer is JSON, but not a JSON-RPC message."""


@attrs.define(slots=False)
class NoAccessToken(Exception):
    """The request failed: there is no access token for it, and it was not sent."""

    reason: str  # what happened, to be read after the name of the server; it contains no secret of ours
    # What helps: a new login, a later attempt, other credentials in the config, room and permissions for the
    # files of the sign-in, an unlocked keyring, or the operator of the server or the authorization server.
    remedy: Literal["login", "later", "credentials", "storage", "keyring", "operator"]
    scope: str = ""  # the scopes that are missing, if that is the reason
    step: str = ""  # the next step, where the remedy alone does not say it

    def __str__(self) -> str:
        return self.reason


def in_words(error: BaseException, redactor: Redactor) -> str:
    """Return the exception of a failed request in words: its redacted message, and its class."""
    kind, text = type(error).__name__, redactor.shortened(" ".join(str(error).split()), 200)
    return f"{text} ({kind})" if text else kind


def challenge_parameters(header: str) -> dict[str, str]:
    """Return the parameters of `WWW-Authenticate`, with which a request failed; the first of each name."""
    found = reversed(list(_CHALLENGE.finditer(header)))
    return {match[1].lower(): match[2] or match[3] or "" for match in found}


def leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield the causes behind a failed request: the exceptions in its exception groups."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from leaves(inner)
    else:
        yield error


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield the exceptions of a failed request, each followed by its causes."""
    while error is not None:
        yield from leaves(error)
        error = error.__cause__ or error.__context__
