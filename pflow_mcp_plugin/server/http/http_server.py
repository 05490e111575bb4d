"""Serves pflow's HTTP application with uvicorn until a signal; running requests then get some time to end."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import signal
import socket
import ssl
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import FrameType

import attrs
import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.redaction import Redactor
from pflow_mcp_plugin.server.http.http_app import RequestLimits
from pflow_mcp_plugin.terminal.looks import one_line

RECEIVE_SECONDS: float = 60
"""Seconds for a complete request to arrive, once the connection is ready for it."""
UNREAD_SECONDS: float = 120
"""Seconds until a connection is closed because its client does not read (Linux)."""
MOST_CONNECTIONS = 512
"""Connections at once; further ones are closed as soon as they are opened."""


class BoundedConnection(H11Protocol):
    """An HTTP connection that is closed if its next request takes too long to arrive; uvicorn lacks that."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            transport.abort()
        # The system then notices clients that are gone, or no longer read.
        connection: socket.socket = transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(UNREAD_SECONDS * 1000))
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Receive bytes of an HTTP request; its body may still be arriving after it was answered."""
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stop_watching()

    def _watch(self) -> None:
        arriving = self.conn.their_state in {h11.IDLE, h11.SEND_BODY} and not self.transport.is_closing()
        if not arriving:
            self._stop_watching()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(RECEIVE_SECONDS, self.transport.abort)

    def _stop_watching(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


_LOGGERS = ("uvicorn", "mcp", "sse_starlette", "asyncio")


class _FailureLines(logging.Handler):
    """Logs what failed in the HTTP server and where, but no exception's message: it may quote the request."""

    def __init__(self, redactor: Redactor) -> None:
        super().__init__(logging.ERROR)
        self._redactor = redactor

    def emit(self, record: logging.LogRecord) -> None:
        text = self._redactor.text(record.getMessage().splitlines()[0] if record.getMessage() else "")
        error, kind = record.exc_info[1] if record.exc_info else None, ""
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        if error is not None:
            last = traceback.extract_tb(error.__traceback__)[-1:]
            where = f" in {Path(last[0].filename).name}:{last[0].lineno}" if last else ""
            kind = f" ({type(error).__name__}{where})"
        print(f"Error: {one_line(text)}{kind}", file=sys.stderr, flush=True)  # noqa: T201


@contextmanager
def failures_logged(redactor: Redactor) -> Iterator[None]:
    """Log failures of the HTTP server to stderr, redacted; requests are not logged."""
    handler = _FailureLines(redactor)
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    before = [logger.propagate for logger in loggers]
    for logger in loggers:
        logger.addHandler(handler)
        logger.propagate = False
    try:
        yield
    finally:
        for logger, propagated in zip(loggers, before, strict=True):
            logger.removeHandler(handler)
            logger.propagate = propagated


_KEEP_ALIVE = 30
"""Seconds that an idle connection is kept; clients usually close theirs before."""
_BACKSTOP = 5
"""Seconds that cancelled requests have to end."""
_LAST_RESORT = 10
"""Seconds after that until the process exits, whatever still runs in it."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_INTERRUPTED = 130


@attrs.frozen(kw_only=True)
class Tls:
    """The PEM files to serve HTTPS with uvicorn: certificate, intermediate ones and, if apart, its key."""

    certificate: Path
    key: Path | None = None

    def check(self) -> None:
        try:
            # An empty password: without one, OpenSSL would ask for that of an encrypted key.
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self.certificate, self.key, lambda: "")
        except (OSError, ssl.SSLError) as error:
            message = f"The certificate {self.certificate} and its key cannot be used: {error}"
            raise PflowError(message, kind="usage") from error


class HttpServer:
    """Serves pflow on a listening socket; after `stop`, HTTP requests have `grace` seconds to end."""

    def __init__(
        self,
        app: ASGIApp,
        limits: RequestLimits,
        listening: socket.socket,
        *,
        tls: Tls | None = None,
        grace: float = 10,
    ) -> None:
        self._limits = limits
        self._listening = listening
        self._grace = grace
        self._signals: list[int] = []
        self._stop_wanted = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._uvicorn = uvicorn.Server(
            uvicorn.Config(
                app,
                http=BoundedConnection,
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                timeout_keep_alive=_KEEP_ALIVE,
                timeout_graceful_shutdown=math.ceil(grace) + _BACKSTOP,
                h11_max_incomplete_event_size=64 << 10,
                ssl_certfile=tls.certificate if tls else None,
                ssl_keyfile=tls.key if tls else None,
            )
        )
        self._uvicorn.capture_signals = nullcontext  # type: ignore[method-assign, assignment]  # `_signals_taken` does

    def run(self, redactor: Redactor | None = None) -> int:
        """Serve HTTP until a signal or `stop`; return the exit code: 130 after Ctrl-C, otherwise 0."""
        with failures_logged(redactor or Redactor()), self._signals_taken():
            asyncio.run(self._serve())
        return _INTERRUPTED if signal.SIGINT in self._signals[:1] else 0

    def stop(self) -> None:
        """Shut the HTTP server down once running requests have ended; may be called from any thread."""
        self._stop_wanted.set()
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._drain)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        if self._stop_wanted.is_set():
            self._drain()
        await self._uvicorn.serve(sockets=[self._listening])

    def _drain(self) -> None:
        self._uvicorn.should_exit = True
        self._limits.drain()
        asyncio.get_running_loop().call_later(self._grace, self._limits.cancel)

    def _hurry(self) -> None:
        self._limits.cancel()
        asyncio.get_running_loop().call_later(1, setattr, self._uvicorn, "force_exit", True)  # noqa: FBT003

    @contextmanager
    def _signals_taken(self) -> Iterator[None]:
        """Let the first signal stop the HTTP server, the second cancel its requests, the third exit."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return

        # Not a bound method: sse-starlette ends all streams at once if the handler is a method of a server.
        def handle(number: int, _frame: FrameType | None) -> None:
            self._signals.append(number)
            if len(self._signals) == 1:
                # If the process is still there then, a reaper process ends the servers that it started.
                timer = threading.Timer(self._grace + _BACKSTOP + _LAST_RESORT, os._exit, (1,))
                timer.daemon = True
                timer.start()
                self.stop()
            elif len(self._signals) == 2 and self._loop is not None:
                self._loop.call_soon_threadsafe(self._hurry)
            else:
                os._exit(128 + number)

        before = {number: signal.signal(number, handle) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
