"""Gathers what is known about a failure of one connection when it happens."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import attrs

from pflow_mcp_plugin.client.deadlines import Deadline
from pflow_mcp_plugin.client.exception_chain import causes, in_words, leaves
from pflow_mcp_plugin.client.failures import Evidence, explain
from pflow_mcp_plugin.client.failures.excerpt import plain
from pflow_mcp_plugin.client.process.stderr_files import StderrFiles
from pflow_mcp_plugin.client.request_failures import Exchange, RequestFailed, Undelivered
from pflow_mcp_plugin.errors import McpError, Phase
from pflow_mcp_plugin.exchange import Launch

if TYPE_CHECKING:
    from pflow_mcp_plugin.client.process.spawning import ServerProcess
    from pflow_mcp_plugin.client.transport.sockets import SocketTransport
    from pflow_mcp_plugin.client.transport.sse import SseTransport
    from pflow_mcp_plugin.client.transport.stdio import StdioTransport
    from pflow_mcp_plugin.client.transport.streamable_http import StreamableHttp

_LAST_WORDS_SECONDS = 0.5
"""How long the explainer of a failure waits for the process to end and its stderr to be read."""


class Explainer:
    """The explainer of one connection: gathers the evidence when it fails, and returns our error.

    Args:
        launch: The server.
        process: Its process, if it was started for this connection.
        files: Save its stderr.

    Attributes:
        lines: The transport if it speaks in lines, once it exists.
        remote: The transport if it uses HTTP, once it exists.
        memory_mb: What the server used when it was ended for exceeding its memory limit, in MiB.
        installer: The package runner that was still installing the server when its start took too long.
    """

    def __init__(self, launch: Launch, process: ServerProcess | None, files: StderrFiles) -> None:
        self.lines: StdioTransport | SocketTransport | None = None
        self.remote: StreamableHttp | SseTransport | None = None
        self.memory_mb: float | None = None
        self.installer = ""
        self._launch = launch
        self._process = process
        self._files = files
        self._redactor = launch.redactor

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
        """Gather the evidence for an exception of the explainer's connection; return the error to raise.

        Args:
            error: The original exception.
            phase: What was being done.
            tool: The tool that was called.
            passed: The deadline that passed, None if the failure has another cause.
            closed: Whether the connection is over.
            answered: Whether the server had answered an earlier round of the call.
        """
        evidence = Evidence(
            server=self._launch.server,
            phase=phase,
            tool=tool,
            seconds=passed.seconds if passed else None,
            deadline=passed.name if passed else "",
            installer=self.installer if passed else "",
            config_file=self._launch.config_file,
            returncode=await self._ended() if passed is None else None,
            memory_mb=self.memory_mb,
            stderr=self._stderr(),
            keep=self._files.keep,
            seen=self.lines.seen if self.lines is not None else None,
            exchange=self._exchange(error, late=passed is not None, answered=answered),
            closed=closed,
            blanks=self._launch.blanks,
            redactor=self._redactor,
        )
        return explain(error, evidence)

    def _exchange(self, error: BaseException, *, late: bool, answered: bool) -> Exchange:
        """Return what an error and its causes say about the request that it ended."""
        leaf = next(leaves(error))
        # A deadline carries no details of the request; the status shows that the server had answered at all.
        status = self.remote.status if late and self.remote is not None else None
        known = leaf.exchange if isinstance(leaf, RequestFailed) else Exchange(status=status)
        return attrs.evolve(
            known,
            headers=self._redactor.value(dict(known.headers)),
            body=self._redactor.piece(known.body),
            unsent=any(isinstance(cause, Undelivered) for cause in causes(leaf)),
            answered=answered,
            replies=self.remote.unmatched if self.remote is not None else 0,
        )

    def cause(self, error: BaseException) -> str:
        """Return what broke the explainer's connection, as text."""
        return in_words(next(leaves(error)), self._redactor)

    def _stderr(self) -> str:
        """Return the end of the server's stderr, redacted and without terminal codes."""
        if self.lines is None:
            return ""
        # Terminal codes may be part of a secret, or split one.
        return self._redactor.piece(plain(self._redactor.piece(self.lines.stderr.text)))

    async def _ended(self) -> int | None:
        """Return the exit code; a process that closed its stdout is given a moment to exit."""
        if self.lines is None or self._process is None:
            return None
        if self.lines.finished:
            await self.lines.exited(_LAST_WORDS_SECONDS)
            if self._process.returncode is not None:
                await _within(self.lines.stderr.closed, _LAST_WORDS_SECONDS)
        return self.lines.exit_code


async def _within(event: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(event.wait(), seconds)
    except TimeoutError:
        return
