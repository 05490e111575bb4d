"""Explains failures: gathers what is known when a connection fails, and turns it into one of our errors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from pflow_mcp_plugin.client.deadlines import Deadline
from pflow_mcp_plugin.client.failures.evidence import Evidence, failure, plain
from pflow_mcp_plugin.client.failures.http_failures import from_network, from_status
from pflow_mcp_plugin.client.failures.server_failures import (
    from_error,
    from_exit,
    from_memory,
    from_seen,
    from_socket,
    stopped_reading,
    unreachable_step,
)
from pflow_mcp_plugin.client.request_failures import (
    Exchange,
    NoAccessToken,
    RequestFailed,
    Undelivered,
    causes,
    leaves,
)
from pflow_mcp_plugin.config.server_schema import server_path
from pflow_mcp_plugin.errors import DeadlineExceeded, McpError, Phase
from pflow_mcp_plugin.exchange import Launch
from pflow_mcp_plugin.network.certificates import CertificatesUnreadable, KeyNotPinned
from pflow_mcp_plugin.network.egress import HostRefused
from pflow_mcp_plugin.redaction import Redactor

if TYPE_CHECKING:
    from pflow_mcp_plugin.client.transport.http_transports import HttpTransport
    from pflow_mcp_plugin.client.transport.line_transports import LineTransport
    from pflow_mcp_plugin.processes.process_group import ProcessGroup

_LAST_WORDS_SECONDS = 0.5
"""How long the explainer of a failure waits for the process to end and its stderr to be read."""
E = TypeVar("E", bound=McpError)
T = TypeVar("T")


class Explainer:
    """The explainer of one connection: gathers the evidence when it fails, and returns our error."""

    def __init__(self, launch: Launch, process: ProcessGroup | None, stderr_folder: Path | None) -> None:
        # The transport, once it exists, is one of these two.
        self.lines: LineTransport | None = None
        self.remote: HttpTransport | None = None
        self.memory_mb: float | None = None  # what it used when it was ended for exceeding its limit
        self.installer = ""  # the package runner that was still installing it when its start took too long
        self._launch = launch
        self._process = process
        self._stderr_folder = stderr_folder

    async def explained(
        self,
        error: BaseException,
        phase: Phase,
        *,
        tool: str = "",
        passed: Deadline | None = None,
        closed: bool = False,
        answered: bool = False,
    ) -> McpError:
        """Gather the evidence for an exception; return the error to raise."""
        returncode = None
        if passed is None and self.lines is not None and self._process is not None:
            if self.lines.finished:  # a process that closed its stdout is given a moment to exit
                await self.lines.exited(_LAST_WORDS_SECONDS)
                if self._process.returncode is not None:
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self.lines.stderr.closed.wait(), _LAST_WORDS_SECONDS)
            returncode = self.lines.exit_code
        leaf, redactor = next(leaves(error)), self._launch.redactor
        # A deadline carries no details of the request; the status shows that the server had answered at all.
        status = self.remote.status if passed is not None and self.remote is not None else None
        known = leaf.exchange if isinstance(leaf, RequestFailed) else Exchange(status=status)
        exchange = attrs.evolve(
            known,
            headers=redactor.value(dict(known.headers)),
            body=redactor.piece(known.body),
            unsent=any(isinstance(cause, Undelivered) for cause in causes(leaf)),
            answered=answered,
            replies=self.remote.unmatched if self.remote is not None else 0,
        )
        evidence = Evidence(
            server=self._launch.server,
            phase=phase,
            tool=tool,
            passed=passed,
            installer=self.installer if passed else "",
            config_file=self._launch.config_file,
            returncode=returncode,
            memory_mb=self.memory_mb,
            stderr="" if self.lines is None else _fit(self.lines.stderr.text, redactor.piece),
            stderr_folder=self._stderr_folder,
            seen=self.lines.seen if self.lines is not None else None,
            exchange=exchange,
            closed=closed,
            blanks=self._launch.blanks,
            redactor=redactor,
        )
        return explain(error, evidence)


def explain(error: BaseException, evidence: Evidence) -> McpError:
    """Translate a failure into one of our errors, redacted, with the original as `__cause__`."""
    # The order matters: a process that exits, for example, also breaks its pipes, and the SDK then reports
    # "Connection closed". The first witness is the closest to the cause.
    found = (
        from_memory(evidence)
        or from_seen(evidence)
        or _from_deadline(evidence)
        or from_exit(evidence)
        or from_socket(evidence, error)
        or from_network(evidence, error)
        or from_status(evidence)
        or from_error(error, evidence)
    )
    found.__cause__ = error
    return fit_to_show(found, evidence.redactor)


def fit_to_show(error: E, redactor: Redactor) -> E:
    """Redact a translated error and remove terminal codes: parts of it come from the server."""
    error.message = _fit(error.message, redactor.text)
    error.args = (error.message,)
    error.details, error.facts = redactor.value(error.details), redactor.value(error.facts)
    error.suggestions = tuple(_fit(step, redactor.text) for step in error.suggestions)
    return error


def _fit(text: str, redact: Callable[[str], str]) -> str:
    """Redact a text and remove terminal codes, which may be part of a secret, or split one."""
    return redact(plain(redact(text)))


def _from_deadline(evidence: Evidence) -> McpError | None:
    if evidence.passed is None:
        return None
    if evidence.exchange.unsent:
        return stopped_reading(evidence)
    name, field, late = evidence.server.name, evidence.passed.name, evidence.passed.seconds
    unmatched = evidence.seen.unmatched if evidence.seen else evidence.exchange.replies
    note = f"; {unmatched} replies matched no request" if unmatched else ""
    if evidence.installer:
        note = f": {evidence.installer} may still have been installing it"
    setting = f"{field} of server {name}"
    if evidence.config_file is not None:
        setting = f"{server_path(name)}.{field} in {evidence.config_file}"
    if not evidence.calling:
        return failure(
            f"Server {name} did not finish its {evidence.phase} within {late:g} s{note}",
            evidence,
            retryable=True,
            next_step=unreachable_step(evidence.stderr) or f"raise {setting} if it needs longer",
            seconds=late,
            status=evidence.exchange.status,
        )
    return DeadlineExceeded(
        f"Tool {evidence.tool} on server {name} did not answer within {late:g} s ({field}){note}",
        where=evidence.where,
        ran="unknown",
        next_step=f"raise {setting} if the tool needs longer",
        seconds=late,
        stderr=evidence.stderr,
    )


def run_sign_in(launch: Launch, action: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a login or logout in an event loop; explain its failure."""
    from asyncio import run

    try:
        return run(action())
    except (NoAccessToken, HostRefused, KeyNotPinned, CertificatesUnreadable) as error:
        evidence = Evidence(
            server=launch.server,
            phase="connect",
            exchange=Exchange(error=error, unsent=True),
            blanks=launch.blanks,
            redactor=launch.redactor,
        )
        raise explain(error, evidence) from error
