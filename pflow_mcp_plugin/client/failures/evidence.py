"""The evidence of a failure, the excerpt of stderr that is shown, and the errors built from evidence."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs

from pflow_mcp_plugin.client.deadlines import Deadline
from pflow_mcp_plugin.client.request_failures import Exchange, challenge_parameters
from pflow_mcp_plugin.client.server_process import keep_stderr
from pflow_mcp_plugin.client.transport.messages import Observations
from pflow_mcp_plugin.config import display
from pflow_mcp_plugin.contract import Ran
from pflow_mcp_plugin.errors import CallFailed, ConnectionFailed, McpError, Phase, Where
from pflow_mcp_plugin.redaction import Redactor
from pflow_mcp_plugin.types import Server

# Sequences such as colours, and single control characters except tab and newline.
_TERMINAL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_MOST_LINES = 12
_HEAD, _TAIL = 3, 5
"""Lines of the beginning and of the end that an excerpt of stderr always shows."""
_LONGEST_LINE = 300
# Lines of a help text: its options are often `required`, but name no cause.
_OPTION = re.compile(r"\s*-{1,2}\w")
_USAGE = re.compile(r"\s*usage\b", re.IGNORECASE)
_NAMED_CAUSE = re.compile(
    r"^\W*(?:\w+ )?(?:error|fatal|panic|exception|traceback|abort(?:ed)?)\b"
    r"|\b\w*(?:error|exception|fatal|panic)(?:\[\w+\])?: ",
    re.IGNORECASE,
)
_POSSIBLE_CAUSE = re.compile(
    r"\b(?:cannot|can't|could not|failed|missing|required|not found|not set|denied|invalid|unable|unknown"
    r"|no such|refused|unsupported|must)\b",
    re.IGNORECASE,
)


@attrs.frozen(kw_only=True)
class Evidence:
    """The evidence: what is known at the moment of a failure. The server's own words in it are redacted."""

    server: Server
    phase: Phase
    tool: str = ""
    passed: Deadline | None = None
    installer: str = ""  # the package runner that was still installing the server when a deadline passed
    config_file: Path | None = None
    returncode: int | None = None
    memory_mb: float | None = None  # what its processes used when they exceeded its memory limit, in MiB
    stderr: str = ""
    stderr_folder: Path | None = None  # where long stderr is saved
    seen: Observations | None = None
    exchange: Exchange = attrs.field(factory=Exchange)
    closed: bool = False
    blank_notes: tuple[str, ...] = ()  # about variables without a value
    blank_steps: tuple[str, ...] = ()
    redactor: Redactor = attrs.field(factory=Redactor)

    def words(self, text: str, limit: int = 4000) -> str:
        """Return the server's words for an error built from the evidence: redacted and shortened."""
        return self.redactor.shortened(plain(self.redactor.piece(text)), limit)

    @property
    def url(self) -> str:
        """The server's URL for an error built from the evidence: without user info, even a short password."""
        return display.url(self.server.url, widely=True)

    @property
    def challenge(self) -> dict[str, str]:
        return challenge_parameters(self.exchange.headers.get("www-authenticate", ""))

    @property
    def where(self) -> Where:
        return Where(server=self.server.name, tool=self.tool, phase=self.phase)

    @property
    def calling(self) -> bool:
        return self.phase == "call"

    @property
    def reached(self) -> bool:
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
    """Build an error from its message and the evidence: an excerpt of stderr, variables without a value."""
    kind = CallFailed if evidence.calling else ConnectionFailed
    if not evidence.reached:  # stronger than what the cause alone suggests
        ran = "not ran"
    elif evidence.exchange.answered and ran == "not ran":
        ran, retryable = "unknown", False  # the server answered an earlier round of the call
    text, said, file = evidence.stderr.strip(), [], ""
    shown, is_whole = excerpt(text)
    if shown:
        if evidence.stderr_folder is not None and not is_whole:
            file = str(keep_stderr(evidence.stderr_folder, evidence.server.name, f"{text}\n") or "")
        heading = f"Its stderr (in full: {file}):" if file else "Its stderr:"
        said = [heading, *(f"  {line}" for line in shown)]
    facts = {"stderr": evidence.stderr, "stderr_file": file, "exit_code": evidence.returncode, **facts}
    notes = [message, *evidence.blank_notes, *said]
    if evidence.seen is not None and evidence.seen.first_stray and not evidence.calling:
        notes.insert(1, evidence.words(evidence.seen.first_stray))
    error = kind(
        "\n".join(notes), where=evidence.where, ran=ran, retryable=retryable, next_step=next_step, **facts
    )
    error.suggestions += evidence.blank_steps
    return error


def invalid_json(beginning: str, evidence: Evidence, fault: str = "") -> McpError:
    """Build from the evidence an error about a message that is not valid JSON, which shows how it begins."""
    shown = evidence.redactor.piece(beginning)[:200]
    why = f" ({fault})" if fault else ""
    note = ": stdout is for messages only" if evidence.seen is not None else ""
    message = f"Invalid JSON response from server {evidence.server.name}: {shown}{why}"
    return failure(message, evidence, next_step=f"report it to the server's author{note}")


def not_message(evidence: Evidence) -> McpError:
    """Build from the evidence an error about an answer that is JSON, but not a JSON-RPC message."""
    message = f"Server {evidence.server.name} answered with JSON that is not a JSON-RPC message"
    return failure(message, evidence, next_step="report it to the server's author")


def too_large(what: str, size: int, evidence: Evidence) -> McpError:
    """Build from the evidence an error about a message larger than the cap; `size` is in bytes."""
    name, cap = evidence.server.name, evidence.server.max_line_mb
    message = f"Server {name} sent {what} of more than {cap:g} MiB ({size:,} bytes received so far)"
    step = f"ask for less, or raise max_line_mb of server {name}"
    limit = int(cap * (1 << 20))
    return failure(message, evidence, next_step=step, limit_bytes=limit, size_bytes=size)


def plain(text: str) -> str:
    """Return a piece of evidence, such as stderr, without terminal control codes."""
    return _TERMINAL.sub("", text)


def excerpt(text: str) -> tuple[list[str], bool]:
    """Return the first and last lines of stderr, those that may name a cause, and whether these are all.

    Notes say where lines are left out.
    """
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    if len(lines) <= _MOST_LINES:
        chosen = list(range(len(lines)))
    else:
        middle = range(_HEAD, len(lines) - _TAIL)
        candidates = [index for index in middle if not _OPTION.match(lines[index])]
        # The line before `usage` often names the cause.
        named = [
            index
            for index in candidates
            if _NAMED_CAUSE.search(lines[index]) or _USAGE.match(lines[index + 1])
        ]
        possible = [it for it in candidates if it not in named and _POSSIBLE_CAUSE.search(lines[it])]
        most = _MOST_LINES - _HEAD - _TAIL
        found = _first_and_last(named, most)
        telling = sorted({*found, *_first_and_last(possible, most - len(found))})
        chosen = [*range(_HEAD), *telling, *range(len(lines) - _TAIL, len(lines))]
    is_whole = len(chosen) == len(lines) and all(len(line) <= _LONGEST_LINE for line in lines)
    shown, after = [], 0
    for index in chosen:
        if index > after:
            shown.append(f"... ({index - after:,} lines left out)")
        line, after = lines[index], index + 1
        if len(line) > _LONGEST_LINE:  # cut, between words if possible
            head = line[:_LONGEST_LINE]
            line = f"{head.rpartition(' ')[0] or head} ... ({len(line):,} characters in all)"
        shown.append(line)
    return shown, is_whole


def _first_and_last(indices: Sequence[int], most: int) -> list[int]:
    if most <= 0:
        return []
    return [*indices] if len(indices) <= most else [indices[0], *indices[len(indices) - most + 1 :]]
