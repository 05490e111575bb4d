"""HTTP with server-sent events: a real server, and one that fails."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from anyio import ClosedResourceError
from http_server import FaultServer, Reply, Request, always, handshake, when, with_status
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification

from pflow_mcp_plugin.client import Pool
from pflow_mcp_plugin.client.transport.http_transports import SseTransport
from pflow_mcp_plugin.errors import CallFailed, ConnectionFailed
from pflow_mcp_plugin.exchange import Launch, ToolCall
from pflow_mcp_plugin.types import Server

ACT = ToolCall(server="old", tool="act")


DONE = {"content": [{"type": "text", "text": "done"}]}
ERROR = b'{"jsonrpc": "2.0", "error": {"code": -32000, "message": "no"}}'
TOKEN = {"type": "bearer", "token": "t"}


class Streaming:
    """Answers over the one event stream; `on_call` answers calls of tools."""

    def __init__(self, on_call: Call | None = None, endpoint: str = "/messages?sessionId=1") -> None:
        self.stream: Reply | None = None
        self.connections = 0
        self._on_call = on_call or (lambda _, request: self.answer(request, DONE))
        self.endpoint = endpoint

    async def __call__(self, request: Request, reply: Reply) -> bool:
        if request.method == "GET":
            self.connections += 1
            self.stream = reply
            await open_stream(reply, f"event: endpoint\ndata: {self.endpoint}")
            return True
        await reply.status(202, b"Accepted")
        if request.rpc == "tools/call":
            await self._on_call(self, request)
        elif request.rpc == "initialize":
            await self.answer(request, handshake())
        return True

    async def answer(self, request: Request, result: object, request_id: object = None) -> None:
        """Send an answer down the stream."""
        message = {"jsonrpc": "2.0", "id": request_id or request.message["id"], "result": result}
        await self.event(json.dumps(message))

    async def event(self, data: str, kind: str = "message") -> None:
        """Send an event down the stream."""
        assert self.stream is not None
        await self.stream.raw(f"event: {kind}\ndata: {data}\n\n".encode())


Call = Callable[[Streaming, Request], Awaitable[object]]


async def open_stream(reply: Reply, first: str = ": nothing to say") -> None:
    """Begin an event stream that lasts until the client hangs up."""
    await reply.events(first)
    while not reply.writer.is_closing():
        await reply.raw(b": still here\n\n")
        await asyncio.sleep(0.05)


def launch(server: FaultServer | str, transport: str = "sse", **options: Any) -> Launch:
    url = server if isinstance(server, str) else server.url(path="/sse")
    return Launch(server=Server(name="old", transport=transport, url=url, **options))


def called(pool: Pool, there: Launch) -> str:
    return str(pool.call(there, ACT).content[0]["text"])


def speaks(pool: Pool, there: Launch) -> str:
    """Return the transport that the failure to connect names."""
    with pytest.raises(ConnectionFailed) as caught:
        pool.info(there)
    return str(caught.value.details["speaks"])


@pytest.mark.parametrize("code", [400, 404, 405])
def test_a_server_of_server_sent_events_is_recognized_by_its_stream(pool, serve, code):
    posted = when(
        lambda request: request.method == "POST" and request.target == "/sse", with_status(code), Streaming()
    )
    assert speaks(pool, launch(serve(posted), "http")) == "sse"


def test_a_server_that_opens_its_stream_for_a_message_too_is_recognized(pool, serve):
    events = Streaming()

    async def streams_always(request: Request, reply: Reply) -> bool:
        if request.target == "/sse":
            request = dataclasses.replace(request, method="GET")
        return await events(request, reply)

    assert speaks(pool, launch(serve(streams_always), "http", startup_timeout=1.5)) == "sse"


@pytest.mark.parametrize("silent", [True, False])
def test_a_stream_that_names_no_endpoint_may_be_that_of_streamable_http(pool, serve, silent):
    async def stream(request: Request, reply: Reply) -> None:
        await (open_stream(reply) if silent else reply.events(": nothing to say"))

    streamable = when(lambda request: request.method == "GET", stream)
    assert speaks(pool, launch(serve(streamable), startup_timeout=1.5)) == "http"


@pytest.mark.parametrize("code", [401, 429, 503])
def test_what_every_server_may_answer_says_nothing_of_its_transport(pool, serve, code):
    server = serve(always(with_status(code)))
    with pytest.raises(ConnectionFailed, match=f"HTTP {code}"):
        pool.info(launch(server))
    assert {request.method for request in server.requests} == {"GET"}


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (with_status(400, ERROR, content_type="application/json"), "HTTP 400"),
        (
            with_status(200, b"{}", content_type="application/json"),
            "answered with application/json, not with MCP",
        ),
        (with_status(401), "not logged in"),
        (with_status(404), "no MCP endpoint"),
        (lambda _, reply: reply.events(), "the stream ended before it named an endpoint"),
    ],
)
def test_what_comes_in_place_of_the_stream_is_told_as_what_it_is(pool, serve, answer, words):
    with pytest.raises(ConnectionFailed, match=words) as caught:
        pool.info(launch(serve(always(answer))))
    actions = {"not logged in": "auth_failed", "no MCP endpoint": "resource_missing"}
    assert caught.value.action == actions.get(words, "error")


def test_the_server_is_not_probed_and_headers_go_with_the_stream_and_with_each_message(pool, serve):
    server = serve(Streaming())
    assert called(pool, launch(server, auth=TOKEN)) == "done"
    assert {request.headers.get("authorization") for request in server.requests} == {"Bearer t"}
    asked = [request.rpc for request in server.requests if request.method == "POST"]
    assert asked == ["initialize", "notifications/initialized", "tools/call"]


def test_a_refused_message_fails_its_own_call_only(pool, serve):
    script = Streaming()
    bad = when(lambda request: b'"bad"' in request.body, with_status(500, b"boom"), script)
    there = launch(serve(bad))
    with pytest.raises(CallFailed, match="HTTP 500") as caught:
        pool.call(there, ToolCall(server="old", tool="act", arguments={"bad": True}))
    assert (caught.value.ran, caught.value.details["body"]) == ("unknown", "boom")
    assert called(pool, there) == "done"
    assert script.connections == 1


def test_a_stream_that_is_cut_leaves_the_outcome_unknown_and_is_opened_anew(pool, serve):
    async def cut(script: Streaming, request: Request) -> None:
        if script.connections == 1:
            script.stream.close()
        else:
            await script.answer(request, DONE)

    script = Streaming(cut)
    there = launch(serve(script))
    with pytest.raises(CallFailed, match="its event stream ended before the answer came") as caught:
        pool.call(there, ACT)
    assert (caught.value.ran, caught.value.retryable) == ("unknown", False)
    assert called(pool, there) == "done"
    assert script.connections == 2


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (lambda script, _: script.event("{nonsense"), "^Invalid JSON response from server old: {nonsense"),
        (lambda script, it: script.answer(it, None), "answered with JSON that is not a JSON-RPC message"),
    ],
)
def test_an_event_that_is_no_answer_ends_the_call_it_means(pool, serve, fault, words):
    with pytest.raises(CallFailed, match=words) as caught:
        pool.call(launch(serve(Streaming(fault))), ACT)
    assert caught.value.ran == "unknown"


def test_what_is_sent_once_another_host_was_named_does_not_go_there(serve):
    async def move(request: Request, reply: Reply) -> bool:
        await script(request, reply)
        if request.method == "POST":
            await script.event(other.url(), "endpoint")
        return True

    async def send_twice() -> None:
        async with SseTransport(launch(server, auth=TOKEN).server) as (incoming, sink):
            ping = SessionMessage(JSONRPCNotification(jsonrpc="2.0", method="notifications/ping"))
            await sink.send(ping)
            assert [message async for message in incoming] == []
            with pytest.raises(ClosedResourceError):
                await sink.send(ping)

    script = Streaming()
    other, server = serve(Streaming()), serve(move)
    asyncio.run(asyncio.wait_for(send_twice(), 20))
    assert other.requests == []


def test_an_endpoint_that_is_named_later_on_the_same_host_is_used_from_then_on(pool, serve):
    async def move(script: Streaming, request: Request) -> None:
        await script.event("/later", "endpoint")
        await script.answer(request, DONE)

    server = serve(Streaming(move))
    for _ in range(2):
        pool.call(launch(server), ACT)
    calls = [request.target for request in server.requests if request.rpc == "tools/call"]
    assert calls == ["/messages?sessionId=1", "/later"]


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_redirect_on_the_same_host_is_followed_and_keeps_headers(pool, serve, method):
    redirected = when(
        lambda request: request.method == method and "moved" not in request.target,
        with_status(307, location="/moved"),
        Streaming(),
    )
    server = serve(redirected)
    assert called(pool, launch(server, auth=TOKEN)) == "done"
    moved = [request for request in server.requests if "moved" in request.target]
    assert {(it.method, it.headers.get("authorization")) for it in moved} == {(method, "Bearer t")}


@pytest.mark.parametrize("endpoint", ["http://[bad", "http://127.0.0.1:99999/", "http://exa\x01mple/"])
def test_an_endpoint_that_is_no_address_is_refused_at_once(pool, serve, endpoint):
    server = serve(Streaming(endpoint=endpoint))
    with pytest.raises(ConnectionFailed, match="names an invalid address for its messages") as caught:
        pool.info(launch(server))
    assert caught.value.suggestions


@pytest.mark.slow
def test_silence_instead_of_an_endpoint_meets_the_start_deadline(pool, serve):
    server = serve(always(lambda _, reply: open_stream(reply)))
    with pytest.raises(ConnectionFailed, match=r"within 0\.5 s"):
        pool.info(launch(server, startup_timeout=0.5))
