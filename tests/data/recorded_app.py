"""What a web server of the tests runs in: a log of each request, faults on demand, and a test's control.

The test's side is `loopback_program.py`.
"""

import json
import os
import socket
import sys
import threading
from collections.abc import Callable, Mapping, MutableMapping
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qsl

import attrs
import uvicorn
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

CONTROL = "/-/"


@attrs.define(kw_only=True)
class Fault:
    """What is played instead of an answer; `LoopbackProgram.fail` says what the fields mean."""

    endpoint: str
    times: int | None
    status: int
    body: Any
    headers: dict[str, str]
    when: dict[str, str]
    broken: bool

    def fits(self, entry: Mapping[str, Any]) -> bool:
        """Whether it is to be played for a request."""
        sent = entry["json"] if isinstance(entry["json"], dict) else entry["form"]
        return self.times != 0 and self.endpoint == entry["endpoint"] and self.when.items() <= sent.items()

    def answer(self) -> Response:
        """Return what is answered."""
        kind = PlainTextResponse if isinstance(self.body, str) else JSONResponse
        return kind(self.body, self.status, self.headers)


class RecordedApp:
    """An ASGI application around another.

    Args:
        app: The one that answers.
        endpoint_of: Names a path for the log and for faults; empty for one that is not there.
        controls: What a test may have done, by name; each takes keywords and returns what JSON can hold.
    """

    def __init__(
        self, app: ASGIApp, endpoint_of: Callable[[str], str], controls: Mapping[str, Callable[..., Any]]
    ) -> None:
        self._app = app
        self._endpoint_of = endpoint_of
        self._log: list[dict[str, Any]] = []
        self._faults: list[Fault] = []
        self._controls = {
            "requests": lambda: self._log,
            "fail": lambda **fields: self._faults.append(Fault(**fields)),
            "mend": self._faults.clear,
            **controls,
            "reset": lambda: self._reset(controls.get("reset")),
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body = await Request(scope, receive).body()
        if scope["path"].startswith(CONTROL):
            await (await self._obey(scope["path"].removeprefix(CONTROL), body))(scope, receive, send)
            return
        entry = self._entry(scope, body)
        self._log.append(entry)
        await self._answer(entry, scope, with_body(body, receive), _noting_status(entry, send))

    async def _answer(self, entry: dict[str, Any], scope: Scope, receive: Receive, send: Send) -> None:
        fault = next((fault for fault in self._faults if fault.fits(entry)), None)
        if fault is None:
            await self._app(scope, receive, send)
            return
        if fault.times is not None:
            fault.times -= 1
        if fault.broken:
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"9")]})
        else:
            await fault.answer()(scope, receive, send)

    def _entry(self, scope: Scope, body: bytes) -> dict[str, Any]:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        kind = headers.get("content-type", "")
        form = dict(parse_qsl(body.decode(), keep_blank_values=True)) if "urlencoded" in kind else {}
        sent = None
        if "json" in kind:
            with suppress(ValueError):
                sent = json.loads(body)
        return {
            "endpoint": self._endpoint_of(scope["path"]),
            "method": scope["method"],
            "path": scope["path"],
            "query": dict(parse_qsl(scope["query_string"].decode(), keep_blank_values=True)),
            "form": form,
            "json": sent,
            "headers": headers,
            "status": None,
        }

    async def _obey(self, action: str, body: bytes) -> Response:
        if action not in self._controls:
            return PlainTextResponse(f"there is no control {action!r}", 404)
        return JSONResponse(self._controls[action](**json.loads(body or b"{}")))

    def _reset(self, also: Callable[[], object] | None) -> None:
        self._log.clear()
        self._faults.clear()
        if also is not None:
            also()


def change(switches: Any, changes: Mapping[str, Any]) -> None:
    """Set some of an attrs object's attributes."""
    type(switches)(**changes)
    for name, value in changes.items():
        setattr(switches, name, value)


def listening_socket() -> socket.socket:
    """Return a socket on a free port of loopback, on which nobody else can listen."""
    # With the protocol named, asyncio turns off Nagle's algorithm, which costs 40 ms an answer.
    listening = socket.socket(proto=socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    listening.listen(128)
    return listening


def origin_of(listening: socket.socket) -> str:
    """Return the origin under which a socket is reached."""
    return f"https://127.0.0.1:{listening.getsockname()[1]}"


def read_settings() -> dict[str, Any]:
    """Return what the test wants, and end this process once the test is gone."""
    settings: dict[str, Any] = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_the_test, daemon=True).start()
    return settings


def serve(app: ASGIApp, listening: socket.socket, certificate: str) -> None:
    """Say where it listens, and serve until this process is ended."""
    print(origin_of(listening), flush=True)
    config = uvicorn.Config(app, log_level="warning", ssl_certfile=certificate, access_log=False)
    uvicorn.Server(config).run(sockets=[listening])


def _end_with_the_test() -> None:
    sys.stdin.read()
    os._exit(0)


def with_body(body: bytes, receive: Receive) -> Receive:
    """Return what gives an application a body that was read before."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Message:
        return waiting.pop() if waiting else await receive()

    return replayed


def _noting_status(entry: MutableMapping[str, Any], send: Send) -> Send:
    async def noting(message: Message) -> None:
        if message["type"] == "http.response.start":
            entry["status"] = message["status"]
        await send(message)

    return noting
