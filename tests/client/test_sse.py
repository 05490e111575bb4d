"""HTTP with server-sent events: a real server, and one that fails."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from anyio import ClosedResourceError
from http_server import FaultServer, Reply, Request, handshake
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification

from pflow_mcp_plugin.client.transport.http_transports import SseTransport
from pflow_mcp_plugin.errors import CallFailed, ConnectionFailed, DeadlineExceeded
from pflow_mcp_plugin.exchange import Launch, ToolCall
from pflow_mcp_plugin.types import Server

Call = Callable[[Request], Awaitable[None]]

ACT = ToolCall(server="old", tool="act")


class Streaming:
    """Answers over the one event stream; `on_call` answers calls of tools."""

    def __init__(self, on_call: Call | None = None, endpoint: str = "/messages?sessionId=1") -> None:
        self.stream: Reply | None = None
        self.connections = 0
        self._on_call = on_call
        self.endpoint = endpoint

    async def __call__(self, request: Request, reply: Reply) -> bool:
        if request.method == "GET":
            self.connections += 1
            self.stream = reply
            await reply.events(f"event: endpoint\ndata: {self.endpoint}")
            while not reply.writer.is_closing():
                await reply.raw(b": still here\n\n")
                await _pause()
            return True
        await reply.status(202, b"Accepted")
        if request.rpc == "tools/call" and self._on_call is not None:
            await self._on_call(request)
        elif request.rpc == "initialize":
            await self.answer(request, handshake())
        elif request.rpc == "tools/call":
            await self.answer(request, {"content": [{"type": "text", "text": "done"}]})
        return True

    async def answer(self, request: Request, result: object, request_id: object = None) -> None:
        """Send an answer down the stream."""
        message = {"jsonrpc": "2.0", "id": request_id or request.message["id"], "result": result}
        await self.event(json.dumps(message))

    async def event(self, data: str) -> None:
        """Send an event down the stream."""
        assert self.stream is not None
        await self.stream.raw(f"event: message\ndata: {data}\n\n".encode())


async def _pause() -> None:
    await asyncio.sleep(0.05)


def launch(server: FaultServer | str, **options) -> Launch:
    url = server if isinstance(server, str) else server.url(path="/sse")
    return Launch(server=Server(name="old", transport="sse", url=url, **options))


@pytest.mark.servers
def test_a_real_server_is_listed_and_called(pool, everything_sse):
    there = launch(everything_sse)
    listing = pool.list_tools(there)
    assert len(listing.tools) == 13
    assert (listing.info.era, listing.info.protocol) == ("handshake", "2025-11-25")
    result = pool.call(there, ToolCall(server="old", tool="echo", arguments={"message": "grüße"}))
    assert result.content[0]["text"] == "Echo: grüße"


def test_a_server_is_never_probed(pool, serve):
    server = serve(Streaming())
    pool.call(launch(server), ACT)
    asked = [request.rpc for request in server.requests if request.method == "POST"]
    assert asked == ["initialize", "notifications/initialized", "tools/call"]


@pytest.mark.servers
def test_a_real_server_of_streamable_http_is_recognized(pool, everything_http):
    with pytest.raises(ConnectionFailed, match=r"speaks streamable HTTP, but its type is sse") as caught:
        pool.info(launch(everything_http))
    assert caught.value.suggestions == ('set type = "http" for server old',)
    assert caught.value.details["speaks"] == "http"


@pytest.mark.servers
def test_a_real_server_of_server_sent_events_is_recognized_where_streamable_http_is_set(pool, everything_sse):
    there = Launch(server=Server(name="old", transport="http", url=everything_sse))
    with pytest.raises(
        ConnectionFailed, match=r"speaks HTTP with server-sent events, but its type is http"
    ) as caught:
        pool.info(there)
    assert caught.value.suggestions == ('set type = "sse" for server old',)


@pytest.mark.parametrize("code", [400, 404, 405, 406, 501])
def test_a_server_of_server_sent_events_is_recognized_by_its_stream(pool, serve, code):
    events = Streaming()

    async def refuses_posts(request: Request, reply: Reply) -> bool:
        if request.method == "POST" and request.target == "/sse":
            await reply.status(code)
            return True
        return await events(request, reply)

    server = serve(refuses_posts)
    there = Launch(server=Server(name="old", transport="http", url=server.url(path="/sse")))
    with pytest.raises(ConnectionFailed) as caught:
        pool.info(there)
    assert caught.value.details["speaks"] == "sse"


def test_a_server_that_opens_its_stream_for_a_message_too_is_recognized(pool, serve):
    events = Streaming()

    async def streams_always(request: Request, reply: Reply) -> bool:
        if request.target == "/sse":
            request = dataclasses.replace(request, method="GET")
        return await events(request, reply)

    server = serve(streams_always)
    there = Launch(
        server=Server(name="old", transport="http", url=server.url(path="/sse"), startup_timeout=1.5)
    )
    with pytest.raises(ConnectionFailed) as caught:
        pool.info(there)
    assert caught.value.details["speaks"] == "sse"


@pytest.mark.parametrize("silent", [True, False])
def test_a_stream_that_names_no_endpoint_may_be_that_of_streamable_http(pool, serve, silent):
    async def streamable(request: Request, reply: Reply) -> bool:
        if request.method != "GET":
            return False
        await reply.events(": nothing to say")
        while silent and not reply.writer.is_closing():
            await reply.raw(b": still here\n\n")
            await _pause()
        return True

    with pytest.raises(ConnectionFailed) as caught:
        pool.info(launch(serve(streamable), startup_timeout=1.5))
    assert caught.value.details["speaks"] == "http"


@pytest.mark.parametrize("code", [401, 403, 429, 500, 503])
def test_what_every_server_may_answer_says_nothing_of_its_transport(pool, serve, code):
    async def refuse(request: Request, reply: Reply) -> bool:
        await reply.status(code)
        return True

    server = serve(refuse)
    with pytest.raises(ConnectionFailed, match=f"HTTP {code}"):
        pool.info(launch(server))
    assert {request.method for request in server.requests} == {"GET"}


@pytest.mark.parametrize(
    ("body", "kind", "code", "words"),
    [
        (
            b'{"jsonrpc": "2.0", "error": {"code": -32000, "message": "no"}}',
            "application/json",
            400,
            "HTTP 400",
        ),
        (b"{}", "application/json", 200, "answered with application/json, not with MCP"),
    ],
)
def test_json_in_place_of_the_stream_is_told_as_what_it_is(pool, serve, body, kind, code, words):
    async def answer(request: Request, reply: Reply) -> bool:
        await reply.status(code, body, content_type=kind)
        return True

    with pytest.raises(ConnectionFailed, match=words):
        pool.info(launch(serve(answer)))


def test_headers_go_with_the_stream_and_with_each_message(pool, serve):
    server = serve(Streaming())
    pool.call(launch(server, auth={"type": "bearer", "token": "t"}), ACT)
    assert {request.headers.get("authorization") for request in server.requests} == {"Bearer t"}


def test_a_refused_message_fails_its_own_call_only(pool, serve):
    async def refuse(request: Request, reply: Reply) -> bool:
        if request.rpc == "tools/call" and request.message["params"]["arguments"]:
            await reply.status(500, b"boom")
            return True
        return await script(request, reply)

    script = Streaming()
    there = launch(serve(refuse))
    with pytest.raises(CallFailed, match="HTTP 500") as caught:
        pool.call(there, ToolCall(server="old", tool="act", arguments={"bad": True}))
    assert (caught.value.ran, caught.value.facts["body"]) == ("unknown", "boom")
    assert pool.call(there, ACT).content[0]["text"] == "done"
    assert script.connections == 1


@pytest.mark.parametrize(
    ("code", "words", "action"),
    [(401, "not logged in", "auth_failed"), (404, "no MCP endpoint", "resource_missing")],
)
def test_a_stream_that_is_refused_says_why(pool, serve, code, words, action):
    async def refuse(request: Request, reply: Reply) -> bool:
        await reply.status(code)
        return True

    with pytest.raises(ConnectionFailed, match=words) as caught:
        pool.info(launch(serve(refuse)))
    assert caught.value.action == action


def test_a_stream_that_is_cut_leaves_the_outcome_unknown_and_is_opened_anew(pool, serve):
    async def cut(request: Request) -> None:
        if script.connections == 1:
            script.stream.close()
        else:
            await script.answer(request, {"content": []})

    script = Streaming(cut)
    there = launch(serve(script))
    with pytest.raises(CallFailed, match="its event stream ended before the answer came") as caught:
        pool.call(there, ACT)
    assert (caught.value.ran, caught.value.retryable) == ("unknown", False)
    assert pool.call(there, ACT).content == ()
    assert script.connections == 2


def test_an_answer_with_a_wrong_id_counts_as_none(pool, serve):
    async def mixed_up(request: Request) -> None:
        await script.answer(request, {"content": []}, request_id=4711)

    script = Streaming(mixed_up)
    with pytest.raises(DeadlineExceeded, match="1 replies matched no request"):
        pool.call(launch(serve(script), call_timeout=1), ACT)


def test_a_reply_whose_id_came_back_as_text_is_the_answer(pool, serve):
    async def quote(request: Request) -> None:
        await script.answer(request, {"content": []}, request_id=str(request.message["id"]))

    script = Streaming(quote)
    assert pool.call(launch(serve(script), call_timeout=10), ACT).content == ()


def test_an_event_that_is_no_json_is_said_to_be_none(pool, serve):
    async def babble(request: Request) -> None:
        await script.event("{nonsense")

    script = Streaming(babble)
    with pytest.raises(CallFailed, match=r"^Invalid JSON response from server old: {nonsense") as caught:
        pool.call(launch(serve(script)), ACT)
    assert caught.value.ran == "unknown"


def test_messages_are_not_sent_to_another_host(pool, serve):
    other = serve(Streaming())
    server = serve(Streaming(endpoint=other.url("localhost")))
    with pytest.raises(ConnectionFailed, match="names another host for its messages"):
        pool.info(launch(server))
    assert other.requests == []


TOKEN = {"type": "bearer", "token": "t"}


def test_what_is_sent_once_another_host_was_named_does_not_go_there(serve):
    async def move(request: Request, reply: Reply) -> bool:
        await script(request, reply)
        if request.method == "POST":
            await script.stream.raw(f"event: endpoint\ndata: {other.url()}\n\n".encode())
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
    async def move(request: Request) -> None:
        await script.stream.raw(b"event: endpoint\ndata: /later\n\n")
        await script.answer(request, {"content": []})

    script = Streaming(move)
    server = serve(script)
    for _ in range(2):
        pool.call(launch(server), ACT)
    calls = [request.target for request in server.requests if request.rpc == "tools/call"]
    assert calls == ["/messages?sessionId=1", "/later"]


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_redirect_on_the_same_host_is_followed_and_keeps_headers(pool, serve, method):
    script = Streaming()

    async def redirect(request: Request, reply: Reply) -> bool:
        if request.method == method and "moved" not in request.target:
            await reply.status(307, location="/moved")
            return True
        return await script(request, reply)

    server = serve(redirect)
    assert pool.call(launch(server, auth=TOKEN), ACT).content[0]["text"] == "done"
    moved = [request for request in server.requests if "moved" in request.target]
    assert {(request.method, request.headers.get("authorization")) for request in moved} == {
        (method, "Bearer t")
    }


@pytest.mark.parametrize("endpoint", ["http://[bad", "http://127.0.0.1:99999/", "http://exa\x01mple/"])
def test_an_endpoint_that_is_no_address_is_refused_at_once(pool, serve, endpoint):
    server = serve(Streaming(endpoint=endpoint))
    with pytest.raises(ConnectionFailed, match="names an invalid address for its messages") as caught:
        pool.info(launch(server))
    assert caught.value.suggestions


def test_one_host_may_be_spelt_in_several_ways(pool, serve):
    script = Streaming()
    server = serve(script)
    script.endpoint = server.url("LocalHost", "/messages")
    assert pool.call(launch(server.url("localhost", "/sse")), ACT).content[0]["text"] == "done"


def test_an_event_that_is_no_answer_ends_the_call_it_means(pool, serve):
    async def shapeless(request: Request) -> None:
        await script.answer(request, None)

    script = Streaming(shapeless)
    with pytest.raises(CallFailed, match="answered with JSON that is not a JSON-RPC message"):
        pool.call(launch(serve(script)), ACT)


def test_a_stream_that_ends_at_once_is_a_failure_to_connect(pool, serve):
    async def over(request: Request, reply: Reply) -> bool:
        await reply.events()
        reply.close()
        return True

    with pytest.raises(ConnectionFailed, match="the stream ended before it named an endpoint"):
        pool.info(launch(serve(over)))


@pytest.mark.slow
def test_silence_instead_of_an_endpoint_meets_the_start_deadline(pool, serve):
    async def silent(request: Request, reply: Reply) -> bool:
        await reply.events(": wait")
        while not reply.writer.is_closing():
            await reply.raw(b": still\n\n")
            await _pause()
        return True

    with pytest.raises(ConnectionFailed, match="within 1 s"):
        pool.info(launch(serve(silent), startup_timeout=1))


def test_calls_at_once_get_their_own_answers(pool, serve):
    async def echo(request: Request) -> None:
        text = str(request.message["params"]["arguments"]["n"])
        await script.answer(request, {"content": [{"type": "text", "text": text}]})

    script = Streaming(echo)
    there = launch(serve(script))

    def call(n: int) -> str:
        answer = pool.call(there, ToolCall(server="old", tool="act", arguments={"n": n}))
        return str(answer.content[0]["text"])

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(call, range(8))) == [str(n) for n in range(8)]
