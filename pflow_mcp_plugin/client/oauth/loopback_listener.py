"""Receives the redirect that ends a login in a browser, on a port of this machine (RFC 8252, 7.3)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from html import escape
from http import HTTPStatus
from types import TracebackType
from typing import Self

from pflow_mcp_plugin.client.oauth.authorization_response import fields_of, is_answer_to
from pflow_mcp_plugin.client.request_failures import NoAccessToken

HOST = "127.0.0.1"
PATH = "/callback"

_MINUTES = 5
"""How long a person may take to sign in."""
_HEAD_LIMIT = 1 << 16
_HEAD_SECONDS = 10.0
_LAST_SECONDS = 2.0
"""How long the browser may take to fetch the page that says what happened."""
_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>pflow: {title}</title>
<style>
body {{ font: 1.1rem/1.5 system-ui, sans-serif; max-width: 34rem; margin: 15vh auto; padding: 0 1rem }}
</style>
<h1>{title}</h1>
<p>{text}</p>
"""
_OTHER = "pflow is waiting for the answer to another login. Use the page that it opened last."
_HEADERS = (
    "Content-Type: text/html; charset=utf-8",
    "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    "Referrer-Policy: no-referrer",
    "X-Content-Type-Options: nosniff",
    "Cache-Control: no-store",
    "Connection: close",
)


class LoopbackListener:
    """Waits for a redirect to this machine; an async context manager. Leaving it ends every connection.

    Args:
        port: The port to listen on; 0 for any.

    Raises:
        OSError: Another program uses the port (when it is entered).
    """

    def __init__(self, port: int = 0) -> None:
        self._port = port
        self._state = ""
        self._unanswered: set[asyncio.Task[None]] = set()
        self._arrived: set[asyncio.Task[None]] = set()

    @property
    def redirect_uri(self) -> str:
        """Where the authorization server has to send the browser."""
        return f"http://{HOST}:{self._port}{PATH}"

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._fields: asyncio.Future[Mapping[str, str]] = loop.create_future()
        self._outcome: asyncio.Future[tuple[str, str]] = loop.create_future()
        self._server = await asyncio.start_server(self._serve, HOST, self._port, limit=_HEAD_LIMIT)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.tell("Not signed in", "The login has failed. The terminal says why.")
        self._server.close()
        for task in self._unanswered - self._arrived:
            task.cancel()
        if self._arrived:
            await asyncio.wait(self._arrived, timeout=_LAST_SECONDS)
        for task in self._unanswered:
            task.cancel()

    async def response(self, state: str) -> Mapping[str, str]:
        """Return the fields of the redirect that answers the request with a state; others are refused.

        Raises:
            NoAccessToken: None came in time.
        """
        self._state = state
        try:
            async with asyncio.timeout(_MINUTES * 60):
                return await self._fields
        except TimeoutError:
            raise NoAccessToken(f"nobody signed in within {_MINUTES} minutes", "login") from None

    def tell(self, title: str, text: str) -> None:
        """Show the person in the browser what has come of the redirect; the first word counts."""
        if not self._outcome.done():
            self._outcome.set_result((title, text))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - the server makes one for each connection
        self._unanswered.add(task)
        try:
            async with asyncio.timeout(_HEAD_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
            writer.write(await self._answer(head, task))
            await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # no browser that follows a redirect
        except asyncio.CancelledError:
            pass  # Python 3.11 would report it as the failure of a callback
        finally:
            self._unanswered.discard(task)
            self._arrived.discard(task)
            writer.close()

    async def _answer(self, head: bytes, task: asyncio.Task[None]) -> bytes:
        method, _, rest = head.partition(b"\r\n")[0].decode("latin-1").partition(" ")
        path, _, query = rest.rpartition(" ")[0].partition("?")
        if path != PATH:
            return _page(HTTPStatus.NOT_FOUND, "Not found", "There is nothing here.")
        if method != "GET":
            return _page(HTTPStatus.METHOD_NOT_ALLOWED, "Not allowed", "Only GET is.")
        fields = fields_of(query)
        if not is_answer_to(self._state, fields):
            return _page(HTTPStatus.BAD_REQUEST, "Another login", _OTHER)
        if not self._fields.done():
            self._fields.set_result(fields)
        self._arrived.add(task)
        return _page(HTTPStatus.OK, *await asyncio.shield(self._outcome))


def _page(status: HTTPStatus, title: str, text: str) -> bytes:
    body = _PAGE.format(title=escape(title), text=escape(text)).encode()
    head = (f"HTTP/1.1 {status.value} {status.phrase}", *_HEADERS, f"Content-Length: {len(body)}", "", "")
    return "\r\n".join(head).encode("ascii") + body
