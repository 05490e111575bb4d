"""The streamable HTTP transport: what is an answer, what is none, and what is sent when nobody waits."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from http_server import FaultServer, Reply, Request, Script, on_call, well, when, with_status

from pflow_mcp_plugin.client import Pool
from pflow_mcp_plugin.client.transport.http_transports import granted_pause
from pflow_mcp_plugin.errors import CallFailed, DeadlineExceeded
from pflow_mcp_plugin.exchange import Launch, ToolCall
from pflow_mcp_plugin.types import Server

ACT = ToolCall(server="web", tool="act")
DONE = {"content": [{"type": "text", "text": "done"}]}


class Modern:
    """A server of 2026-07-28 that says when its tools change; `on` answers other requests."""

    def __init__(self, on: Script) -> None:
        self._on = on

    async def __call__(self, request: Request, reply: Reply) -> bool:
        if request.rpc != "server/discover":
            return await self._on(request, reply)
        capabilities = {"tools": {"listChanged": True}}
        discovered = {"supportedVersions": ["2026-07-28"], "capabilities": capabilities}
        await reply.result({"resultType": "complete", **discovered})
        return True


def web(server: FaultServer, **options: object) -> Launch:
    return Launch(server=Server(name="web", transport="http", url=server.url(), **options))


def event(message: object) -> str:
    return f"data: {json.dumps(message)}"


def text(pool: Pool, launch: Launch) -> str:
    return str(pool.call(launch, ACT).content[0]["text"])


@pytest.mark.parametrize(
    ("wanted", "granted"), [(3000, 3), (0, 0.1), (30_000, 30), (30_001, 30), (10**4000, 30), (-1, 0.1)]
)
def test_a_pause_lies_between_a_tenth_of_a_second_and_thirty(wanted, granted):
    assert granted_pause(wanted) == granted


def test_a_reply_to_another_request_is_not_taken_for_the_answer(pool, serve):
    async def mixed_up(request: Request, reply: Reply) -> None:
        other = {"jsonrpc": "2.0", "id": 4711, "result": {"content": []}}
        await reply.events(event(other), event({**other, "id": request.message["id"], "result": DONE}))

    assert text(pool, web(serve(on_call(mixed_up)))) == "done"


@pytest.mark.parametrize("streamed", [True, False])
def test_a_reply_whose_id_came_back_as_text_is_the_answer(pool, serve, streamed):
    async def quote(request: Request, reply: Reply) -> None:
        message = {"jsonrpc": "2.0", "id": str(request.message["id"]), "result": DONE}
        await (reply.events(event(message)) if streamed else reply.json(message))

    assert text(pool, web(serve(on_call(quote)))) == "done"


NAMELESS = {"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": "too heavy"}}


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (lambda _, reply: reply.json(NAMELESS), "error -32000: too heavy"),
        (with_status(202), r"answered with nothing \(HTTP 202\)"),
    ],
)
def test_an_error_without_an_id_and_no_answer_are_those_of_the_request(pool, serve, fault, words):
    with pytest.raises(CallFailed, match=words) as caught:
        pool.call(web(serve(on_call(fault))), ACT)
    assert caught.value.ran == "unknown"


def test_arguments_that_are_no_json_are_not_sent(pool, serve):
    server = serve(well)
    with pytest.raises(CallFailed, match="cannot be written as JSON") as caught:
        pool.call(web(server), ToolCall(server="web", tool="act", arguments={"half": "\ud83d"}))
    assert caught.value.ran == "not ran"
    assert server.count("tools/call") == 0
    assert text(pool, web(server)) == "done"
    assert server.count("initialize") == 1


@pytest.mark.parametrize("protocol", ["handshake", "auto"])
def test_a_server_that_is_too_busy_to_connect_is_asked_again_when_it_says(pool, serve, protocol):
    server = serve(when(lambda _: len(server.requests) == 1, with_status(429, retry_after="0")))
    assert text(pool, web(server, protocol=protocol)) == "done"
    assert server.count("initialize") == (2 if protocol == "handshake" else 1)


def test_a_server_that_has_given_up_the_handshake_since_is_discovered(pool, serve):
    modern = on_call(lambda _, reply: reply.result({"resultType": "complete", **DONE}))
    server = serve(Modern(when(lambda request: request.rpc == "initialize", with_status(404), modern)))
    known = Launch(server=web(server).server, era="handshake")
    assert text(pool, known) == "done"
    assert server.requests[0].rpc == "initialize"


def test_a_refusal_to_tell_of_changed_tools_costs_nothing_else(pool, serve, warnings_seen):
    refused = threading.Event()

    async def refuse(request: Request, reply: Reply) -> bool:
        if request.rpc == "subscriptions/listen":
            await reply.status(500, b"no")
            refused.set()
        else:
            await reply.result({"resultType": "complete", **DONE})
        return True

    launch = web(serve(Modern(refuse)))
    assert text(pool, launch) == "done"
    assert refused.wait(10)
    assert text(pool, launch) == "done"
    assert warnings_seen == []


def test_a_stream_of_the_modern_era_is_not_resumed(pool, serve):
    async def cut(request: Request, reply: Reply) -> None:
        await reply.events("id: 1\nretry: 1\ndata:")
        reply.close()

    server = serve(Modern(on_call(cut)))
    with pytest.raises(CallFailed) as caught:
        pool.call(web(server), ACT)
    assert caught.value.message == "Server web: its event stream ended before the answer came"
    assert {request.method for request in server.requests} == {"POST"}


@pytest.mark.parametrize("modern", [True, False])
def test_a_call_that_met_its_deadline_is_cancelled_as_its_era_has_it(pool, serve, modern):
    told, hung_up = threading.Event(), threading.Event()

    async def hang(request: Request, reply: Reply) -> bool:
        if request.rpc == "notifications/cancelled":
            told.set()
        if request.rpc != "tools/call":
            return False
        await reply.events(": working")
        while not reply.writer.is_closing():
            await asyncio.sleep(0.02)
            reply.writer.write(b":\n\n")
        hung_up.set()
        return True

    launch = web(serve(Modern(hang) if modern else hang), call_timeout=0.5)
    with pytest.raises(DeadlineExceeded):
        pool.call(launch, ACT)
    assert hung_up.wait(10)
    pool.close()
    assert told.is_set() is not modern


def test_a_call_that_waits_ends_with_the_pool(serve, warnings_seen):
    begun = threading.Event()

    async def hang(request: Request, reply: Reply) -> bool:
        if request.rpc == "tools/call":
            begun.set()
            await asyncio.sleep(60)
        return False

    server = serve(hang, session="s")
    with ThreadPoolExecutor(1) as threads:
        pool = Pool(warnings_seen.append)
        waiting = threads.submit(pool.call, web(server), ACT)
        assert begun.wait(10)
        started = time.monotonic()
        pool.close()
        with pytest.raises(CallFailed) as caught:
            waiting.result(10)
    assert caught.value.ran == "unknown"
    assert time.monotonic() - started < 2  # what calls left over are given before they are cancelled
    assert server.requests[-1].method == "DELETE"


def test_an_event_that_is_no_message_does_not_end_the_standing_stream(pool, serve):
    changed = threading.Event()

    async def babble(request: Request, reply: Reply) -> bool:
        if request.method != "GET":
            return False
        note = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
        await reply.events("data: {nonsense", event(["no message"]), event(note))
        changed.set()
        await asyncio.sleep(60)
        return True

    server = serve(babble, session="s")
    launch = web(server)
    pool.info(launch)
    assert changed.wait(10)
    deadline = time.monotonic() + 10
    while not pool.changed_lists() and time.monotonic() < deadline:
        pool.call(launch, ACT)
    assert [each.server.name for each in pool.changed_lists()] == ["web"]
    assert sum(request.method == "GET" for request in server.requests) == 1
