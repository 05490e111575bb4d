"""What is known when something fails, and the error made of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from pflow_mcp_plugin.client.exchange import Exchange
from pflow_mcp_plugin.client.failures.excerpt import excerpt, plain
from pflow_mcp_plugin.contract import Ran
from pflow_mcp_plugin.errors import CallFailed, ConnectionFailed, McpError, Phase, Where
from pflow_mcp_plugin.exchange import Blanks
from pflow_mcp_plugin.redaction import Redactor
from pflow_mcp_plugin.types import Server

if TYPE_CHECKING:
    from pflow_mcp_plugin.client.messages import Observations

_LONGEST_WORDS = 4000
"""Characters of what a server says that go into a message."""
_SHOWN = 200
"""Characters of what is no message at all."""


@attrs.frozen(kw_only=True)
class Evidence:
    """What is known at the moment of a failure.

    Attributes:
        server: The server's config.
        phase: What was being done.
        tool: The raw tool name during a call.
        seconds: The deadline that passed, None if none did.
        deadline: Which deadline that was.
        returncode: How the process ended, None if it runs or there is none.
        stderr: The end of what the server wrote there.
        keep: Keeps all of it in a file and returns which; None where there is none.
        seen: What the stdio transport noticed.
        exchange: What the request saw.
        closed: Whether the connection is over.
        blanks: Variables of `env` that have no value.
        redactor: Knows the secrets of the server.
    """

    server: Server
    phase: Phase
    tool: str = ""
    seconds: float | None = None
    deadline: str = ""
    returncode: int | None = None
    stderr: str = ""
    keep: Callable[[str, str], Path | None] = lambda *_: None
    seen: Observations | None = None
    exchange: Exchange = attrs.field(factory=Exchange)
    closed: bool = False
    blanks: Blanks = attrs.field(factory=Blanks)
    redactor: Redactor = attrs.field(factory=Redactor)

    def words(self, text: str, limit: int = _LONGEST_WORDS) -> str:
        """Return a server's words as they go into a message: first without secrets, then cut."""
        text = self.redactor.text(text)
        if len(text) <= limit:
            return text
        return f"{text[:limit]}... ({len(text):,} characters in all)"

    @property
    def where(self) -> Where:
        """Server, tool and phase."""
        return Where(server=self.server.name, tool=self.tool, phase=self.phase)

    @property
    def calling(self) -> bool:
        """Whether a call was under way."""
        return self.phase == "call"

    @property
    def reached(self) -> bool:
        """Whether a call may have reached its server."""
        return self.calling and not self.exchange.unsent


def failure(
    message: str,
    evidence: Evidence,
    *,
    ran: Ran = "unknown",
    retryable: bool = False,
    next_step: str = "",
    **facts: Any,
) -> McpError:
    """Return the error; what was never sent did not run, whatever the caller thinks."""
    kind = CallFailed if evidence.calling else ConnectionFailed
    if not evidence.reached:
        ran = "not ran"
    elif evidence.exchange.answered and ran == "not ran":
        ran, retryable = "unknown", False  # an earlier round of the call was answered
    said, file = _stderr_note(evidence)
    facts = {"stderr": evidence.stderr, "stderr_file": file, "exit_code": evidence.returncode, **facts}
    notes = [message, *evidence.blanks.notes, *said]
    error = kind(
        "\n".join(notes), where=evidence.where, ran=ran, retryable=retryable, next_step=next_step, **facts
    )
    error.suggestions += evidence.blanks.steps
    return error


def invalid_json(beginning: str, evidence: Evidence, fault: str = "") -> McpError:
    """Return the error for a message that is no JSON, whatever way it came."""
    shown = evidence.redactor.text(beginning)[:_SHOWN]
    step = "report it to the server's author"
    why = f" ({fault})" if fault else ""
    return failure(
        f"Invalid JSON response from server {evidence.server.name}: {shown}{why}",
        evidence,
        next_step=f"{step}: stdout is for messages only" if evidence.seen is not None else step,
    )


def not_message(evidence: Evidence) -> McpError:
    """Return the error for an answer that is JSON, but no JSON-RPC message."""
    return failure(
        f"Server {evidence.server.name} answered with JSON that is no JSON-RPC message",
        evidence,
        next_step="report it to the server's author",
    )


def in_words(error: BaseException) -> str:
    """Return what an exception that nobody foresaw says, for people: its words, then its kind."""
    kind, text = type(error).__name__, " ".join(str(error).split())[:_SHOWN]
    return f"{text} ({kind})" if text else kind


def _stderr_note(evidence: Evidence) -> tuple[list[str], str]:
    """Return the lines about stderr, and the file with all of it where they show only a part."""
    redacted = evidence.redactor.text(evidence.stderr)
    text = evidence.redactor.text(plain(redacted)).strip()  # terminal codes may have split a secret
    shown = excerpt(text)
    if not shown.lines:
        return [], ""
    path = None if shown.is_whole else evidence.keep(evidence.server.name, f"{text}\n")
    file = "" if path is None else str(path)
    heading = f"Its last words on stderr (in full: {file}):" if file else "Its last words on stderr:"
    return [heading, *(f"  {line}" for line in shown.lines)], file


def leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield the exceptions inside nested exception groups."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from leaves(inner)
    else:
        yield error


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception and what it came from, down to the first."""
    while error is not None:
        yield from leaves(error)
        error = error.__cause__ or error.__context__
