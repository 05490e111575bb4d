"""The stdio transport: newline-delimited JSON-RPC over a server's pipes.

Ours rather than the SDK's, which hangs on one byte that is not UTF-8 and takes quadratic time on
a long line. `messages` interprets the lines; this module attaches to a process and ends it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from types import TracebackType

from pflow_mcp_plugin.client.process.package_runners import ROLL_BACK_NOTICE, ROLL_BACK_SECONDS
from pflow_mcp_plugin.client.process.shutdown import EXIT_GRACE, LAST_WORDS_SECONDS, ProcessEnd, see_through
from pflow_mcp_plugin.client.process.spawning import ServerProcess
from pflow_mcp_plugin.client.transport.messages import MessageQueue, MessageSink, MessageStream, Observations
from pflow_mcp_plugin.client.transport.pipes import ChunkReader, PipeWriter, TailReader, read_pipe

_HUNG_GRACE = 0.1
"""Seconds that a stdio server which hung in a call has to exit before SIGTERM."""


class StdioTransport:
    """The stdio transport: an async context manager that yields the two streams of a session.

    Args:
        process: The server.
        installs: Whether a package runner starts it, which may have to install it first.
        line_cap: The largest message, in MiB.
        write_seconds: How long the server may leave its stdin unread.
        warn: Called once, if the server writes lines that are not messages, and if it is ended while it is
            installed.

    Attributes:
        stderr: The end of the server's stderr.
        finished: Whether the server closed its stdout.
        hung: Whether to end it without waiting for it to exit by itself.
    """

    def __init__(
        self,
        process: ServerProcess,
        *,
        line_cap: float,
        write_seconds: float,
        warn: Callable[[str], None],
        installs: bool = False,
    ) -> None:
        self.process = process
        self.stderr = TailReader()
        self._writer = PipeWriter(write_seconds)
        self._messages = MessageStream(self._writer, line_cap, warn)
        self._reader = ChunkReader(self._messages.feed, self._on_end)
        self._transports: list[asyncio.ReadTransport] = []
        self._installs = installs
        self._warn = warn
        self._end_of = ProcessEnd(process)
        self.finished = False
        self.hung = False

    async def __aenter__(self) -> tuple[MessageQueue, MessageSink]:
        try:
            await self._attach()
        except BaseException:  # cancelled while attaching the pipes: `__aexit__` is not called then
            await self._end()
            raise
        return self._messages.streams

    async def _attach(self) -> None:
        popen = self.process.popen
        assert popen.stdin is not None and popen.stdout is not None and popen.stderr is not None  # noqa: PT018, S101 - spawned with pipes
        await self._writer.connect(popen.stdin)
        self._transports.append(await read_pipe(self.stderr, popen.stderr))
        self._transports.append(await read_pipe(self._reader, popen.stdout))
        self._messages.read_from(self._transports[-1])

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._end()

    async def _end(self) -> None:
        """End the server, even if cancelled: close its stdin, wait, SIGTERM to its group, SIGKILL."""
        await see_through(self._stop())

    async def _stop(self) -> None:
        with contextlib.ExitStack() as leaving:
            leaving.callback(self._release)
            installing = self.installing  # asked before the pipe is closed: then, it is unknown
            self._installs = False
            if self.finished:
                await self.exited(LAST_WORDS_SECONDS)
            self._end_of.expect()
            self._messages.incoming.end()
            if installing:
                loop = asyncio.get_running_loop()
                notice = loop.call_later(EXIT_GRACE, self._warn, ROLL_BACK_NOTICE)
                leaving.callback(notice.cancel)
            await self._writer.close(0.5)
            await self._end_of.bring_about(
                _HUNG_GRACE if self.hung or self.seen.broken else EXIT_GRACE,
                after_sigterm=ROLL_BACK_SECONDS if installing else EXIT_GRACE,
            )
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.stderr.closed.wait(), LAST_WORDS_SECONDS)

    def _release(self) -> None:
        for transport in self._transports:
            transport.close()
        self.process.release()

    @property
    def installing(self) -> bool:
        """Whether a package runner may still be installing the stdio server, which has not used its pipes."""
        if not self._installs or self.finished:
            return False
        untouched = self._writer.untouched  # unknown on systems other than Linux
        return not self._reader.begun if untouched is None else untouched

    @property
    def seen(self) -> Observations:
        """What was noticed on the server's stdin and stdout."""
        return self._messages.seen

    @property
    def unheard(self) -> bool:
        """Whether the server closed its stdin before reading anything from it."""
        return self._writer.unread

    @property
    def exit_code(self) -> int | None:
        """The exit code of the stdio server if it ended by itself, else None."""
        return self._end_of.exit_code

    async def exited(self, seconds: float) -> bool:
        """Wait for the stdio server's process to end, and return whether it did."""
        return await self._end_of.reached(seconds)

    def _on_end(self) -> None:
        self.finished = True
        self._messages.end()
