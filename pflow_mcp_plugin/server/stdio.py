"""Serves pflow over standard input and output.

The SDK's own transport hands each line to another thread and back, in both directions, and cannot be
ended by a signal while a thread waits for the next line. Here the event loop reads when there is
something to read, and writes what fits into the pipe.
"""

from __future__ import annotations

import asyncio
import json
import os
import queue
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any, Self

import anyio
import attrs
from anyio.streams.memory import MemoryObjectSendStream
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.runner import serve_dual_era_loop, serve_loop
from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.jsonrpc_dispatcher import cancelled_request_id_from_params
from mcp.shared.message import SessionMessage
from mcp_types import (
    PROTOCOL_VERSION_META_KEY,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.server.received_message import parsed, refusal

LONGEST_LINE = 64 << 20
"""Bytes of the longest message; a client that sends a longer one is disconnected."""
MOST_UNREAD = 64 << 20
"""Bytes of answers that the client may leave unread; beyond that, nothing is read from it."""
MOST_UNANSWERED = 2_000
"""Requests that may be unanswered; beyond that, nothing is read from the client either."""
_LAST_ANSWERS = 0.5
"""Seconds that requests have after the end of the input, before their runs are cancelled."""
_POLL = 0.01
_CHUNK = 1 << 18
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def serve_stdio(server: Server[Any]) -> int:
    """Serve over stdio until the client closes standard input or a signal ends the program.

    Returns the exit code: 0, or 128 and the number of the signal.
    """
    for name, stream in (("input", sys.stdin), ("output", sys.stdout)):
        if stream is None:  # closed by whoever started the program: another file may have its number by now
            raise PflowError(
                f"Standard {name} is closed, and the protocol needs it",
                kind="usage",
                suggestions=("Start it from a client, or serve over HTTP with --http HOST:PORT",),
            )
    if sys.stdin.isatty():
        _say("Serving pflow on standard input and output; a client starts this command (Ctrl-C ends it)")
    return anyio.run(_serve, server)


def _say(line: str) -> None:
    if sys.stderr is not None:
        with suppress(OSError):
            sys.stderr.write(f"{line}\n")
            sys.stderr.flush()


async def _serve(server: Server[Any]) -> int:
    signals: list[int] = []
    with (
        claimed_streams() as (incoming, outgoing),
        anyio.CancelScope() as scope,
        _ended_by_signals(signals, scope.cancel),
    ):
        await serve_descriptors(server, incoming, outgoing)
    return 128 + signals[0] if signals else 0


async def serve_descriptors(server: Server[Any], incoming: int, outgoing: int) -> None:
    """Serve MCP on two file descriptors, with and without a handshake: clients mix both on one stdin."""
    # `Server.run` holds a connection to the era of its first request: it refuses `initialize` after
    # `server/discover`. Clients send both, in either order, so each era has a loop of its own here. Call
    # `Server.run` instead once the SDK's runner accepts `initialize` after `server/discover` (2.3 does not).
    handshake, legacy = anyio.create_memory_object_stream[SessionMessage | Exception](float("inf"))
    enveloped, modern = anyio.create_memory_object_stream[SessionMessage | Exception](float("inf"))
    # The answer to a handshake announces changes if the server serves subscriptions to them.
    changes = server.get_request_handler("subscriptions/listen") is not None
    options = server.create_initialization_options(
        NotificationOptions(tools_changed=changes, resources_changed=changes, prompts_changed=changes)
    )
    async with LineWriter(outgoing) as writer, server.lifespan(server) as state:
        with LineReader(incoming, EraStreams(handshake, enveloped), writer):
            async with anyio.create_task_group() as loops:
                loops.start_soon(partial(serve_dual_era_loop, server, modern, writer, lifespan_state=state))
                await serve_loop(server, legacy, writer, lifespan_state=state, init_options=options)


@contextmanager
def _ended_by_signals(received: list[int], end: Callable[[], object]) -> Iterator[None]:
    """Call `end` on the signals that end serving over stdio, unless they are ignored, and note them."""
    loop = asyncio.get_running_loop()

    def ended(number: int) -> None:
        received.append(number)
        end()

    before = {number: signal.getsignal(number) for number in _SIGNALS}
    taken = [number for number in _SIGNALS if before[number] is not signal.SIG_IGN]
    for number in taken:
        loop.add_signal_handler(number, ended, number)
    try:
        yield
    finally:
        for number in taken:
            loop.remove_signal_handler(number)
            signal.signal(number, before[number])


@contextmanager
def claimed_streams() -> Iterator[tuple[int, int]]:
    """Take stdin and stdout for serving, as two file descriptors.

    Meanwhile what nodes and their child processes print goes to standard error, and they read nothing.
    """
    with ExitStack() as stack:
        incoming, outgoing = os.dup(0), os.dup(1)
        for copy, number in ((incoming, 0), (outgoing, 1)):
            stack.callback(os.close, copy)
            stack.callback(os.dup2, copy, number)
        nowhere = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nowhere, 0)
        os.close(nowhere)
        sys.stdout.flush()
        os.dup2(2, 1)
        stack.callback(sys.stdout.flush)  # first: what was printed meanwhile goes where the rest went
        yield incoming, outgoing


@attrs.frozen
class EraStreams:
    """Passes each message from stdin on to the protocol era that it belongs to.

    `handshake` receives the requests of a connection that `initialize` opens, `enveloped` those that name
    their protocol version themselves, as since 2026-07-28.
    """

    handshake: MemoryObjectSendStream[SessionMessage | Exception]
    enveloped: MemoryObjectSendStream[SessionMessage | Exception]

    def send_nowait(self, item: SessionMessage) -> None:
        """Pass a message from stdin on; each era checks whether a notification or an answer is for it."""
        message = item.message
        params: Mapping[str, Any] = getattr(message, "params", None) or {}
        meta = params.get("_meta")
        has_envelope = isinstance(meta, Mapping) and PROTOCOL_VERSION_META_KEY in meta
        streams = [self.handshake, self.enveloped]
        if isinstance(message, JSONRPCRequest):
            streams = [self.enveloped if has_envelope and message.method != "initialize" else self.handshake]
        for stream in streams:
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # this era has ended
                stream.send_nowait(item)

    def close(self) -> None:
        self.handshake.close()
        self.enveloped.close()


class LineReader:
    """Reads the messages of a client from stdin, one a line, while its `with` block runs.

    `messages` is closed at the end of the input. The writer answers each line that is not a message, and
    notes which requests were answered.
    """

    def __init__(self, descriptor: int, messages: EraStreams, writer: LineWriter) -> None:
        self._descriptor = descriptor
        self._messages = messages
        self._writer = writer
        self._begun = bytearray()
        self._loop = asyncio.get_running_loop()
        self._ended = False
        self._hung_up = select.poll()
        self._hung_up.register(descriptor, 0)

    def __enter__(self) -> Self:
        try:
            self._loop.add_reader(self._descriptor, self._ready)
        except OSError:  # a regular file, which cannot be waited for
            threading.Thread(target=self._read_all, name="pflow-stdin", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended = True
        self._loop.remove_reader(self._descriptor)
        self._messages.close()

    def _ready(self) -> None:
        with suppress(BlockingIOError):  # another process has read what was there
            self._take(self._read())
        if self._is_behind():
            self._loop.remove_reader(self._descriptor)
            self._go_on()

    def _is_behind(self) -> bool:
        return self._writer.unread > MOST_UNREAD or len(self._writer.unanswered) > MOST_UNANSWERED

    def _go_on(self) -> None:
        # Once the client has read what it was sent, or has closed its end.
        if self._ended:
            return
        if not self._is_behind() or self._hung_up.poll(0):
            self._loop.add_reader(self._descriptor, self._ready)
        else:
            self._loop.call_later(_POLL, self._go_on)

    def _read(self) -> bytes:
        try:
            return os.read(self._descriptor, _CHUNK)
        except BlockingIOError:
            raise
        except OSError:  # such as a terminal that is gone
            return b""

    def _read_all(self) -> None:
        chunk = b"\n"
        while chunk:
            chunk = self._read()
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._take, chunk)

    def _take(self, chunk: bytes) -> None:
        end = chunk.rfind(b"\n") + 1
        if end:
            lines = bytes(self._begun) + chunk[:end]
            self._begun.clear()
            for line in lines.split(b"\n"):
                if line.strip():
                    self._deliver(line)
        self._begun += chunk[end:]
        if len(self._begun) > LONGEST_LINE:
            _say(f"Error: the client sent a message of more than {LONGEST_LINE:,} bytes; serving ends")
        elif chunk:
            return
        elif self._begun.strip():
            self._deliver(bytes(self._begun))
        self._ended = True
        self._loop.remove_reader(self._descriptor)
        self._end(self._loop.time() + _LAST_ANSWERS)

    def _end(self, deadline: float) -> None:
        """End reading stdin; requests piped in before its end are still answered, if that is quick."""
        is_done = not self._writer.unanswered and not self._writer.unread
        if is_done or self._loop.time() >= deadline:
            self._messages.close()
        else:
            self._loop.call_later(_POLL, self._end, deadline)

    def _deliver(self, line: bytes) -> None:
        try:
            message = parsed(line)
        except ValueError:
            self._writer.refuse(line)
            return
        if isinstance(message, JSONRPCRequest):
            number = coerce_request_id(message.id)
            if number in self._writer.unanswered:
                self._writer.refuse(line, 'A request with this id is still open, and 7 and "7" count as one')
                return
            self._writer.unanswered.add(number)
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            self._writer.note_end(cancelled_request_id_from_params(message.params))
        self._messages.send_nowait(SessionMessage(message))


class LineWriter:
    """Writes messages to stdout, one a line: the stream that the SDK sends to.

    A message that fits into the pipe is written at once. Others are left to a thread, which waits for
    the client to read.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLOUT)
        self._waiting: queue.SimpleQueue[tuple[bytes, Callable[[], object]] | None] = queue.SimpleQueue()
        self._count = 0
        self.unread = 0
        """Bytes that wait for the client to read."""
        self.unanswered: set[RequestId] = set()
        """The ids of the requests that go on, as the SDK compares them: 7 and "7" are one."""
        self._thread: threading.Thread | None = None
        self._gone = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End the thread that writes to stdout once it has written everything; messages can still be sent."""
        if self._thread is not None:
            self._waiting.put(None)
            self._thread = None

    async def send(self, item: SessionMessage) -> None:
        """Write a message to stdout; raises `anyio.BrokenResourceError` if the client has closed its end."""
        text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        line = text.encode() + b"\n"
        if self._gone:
            raise anyio.BrokenResourceError
        if isinstance(item.message, JSONRPCResponse | JSONRPCError):
            self.note_end(item.message.id)  # first: the client may use the id again as soon as it has read it
        written = self._put(line)
        if written is not None:
            await written.wait()

    def note_end(self, number: RequestId | None) -> None:
        """Note that the request with this id was answered, or cancelled by the client."""
        if number is not None:
            self.unanswered.discard(coerce_request_id(number))

    def refuse(self, line: bytes, *otherwise: str) -> None:
        """Answer a line from stdin that is not a message with its `refusal`, so that no client waits."""
        if not self._gone:
            self._put(json.dumps(refusal(line, *otherwise)).encode() + b"\n")

    def _put(self, line: bytes) -> anyio.Event | None:
        if not self._count and len(line) <= select.PIPE_BUF and self._poll.poll(0):
            self._write(self._descriptor, line)
            return None
        if self._thread is None:
            # A descriptor of its own: this one may be closed, and its number given away, while it waits.
            own = (os.dup(self._descriptor),)
            self._thread = threading.Thread(
                target=self._write_all, args=own, name="pflow-stdout", daemon=True
            )
            self._thread.start()
        loop, written = asyncio.get_running_loop(), anyio.Event()

        def tell() -> None:
            self._count -= 1
            self.unread -= len(line)
            written.set()

        self._count += 1
        self.unread += len(line)
        self._waiting.put((line, lambda: loop.call_soon_threadsafe(tell)))
        return written

    def _write_all(self, descriptor: int) -> None:
        while (item := self._waiting.get()) is not None:
            line, tell = item
            self._write(descriptor, line)
            with suppress(RuntimeError):  # the loop is closed
                tell()
        os.close(descriptor)

    def _write(self, descriptor: int, line: bytes) -> None:
        rest = memoryview(line)
        try:
            while rest and not self._gone:
                try:
                    rest = rest[os.write(descriptor, rest) :]
                except BlockingIOError:  # another process that shares the pipe made it non-blocking
                    self._poll.poll()
        except OSError:
            self._gone = True
