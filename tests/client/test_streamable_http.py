"""Streamable HTTP: what is an answer, what is none, and what is sent with a call and when nobody waits."""

import asyncio
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from http_server import FaultServer, Reply, Request, Script, on_call, well, when, with_status

from pflow_mcp_plugin.client import Pool
from pflow_mcp_plugin.client.connection import Connection, _State
from pflow_mcp_plugin.errors import CallFailed, DeadlineExceeded, Where
from pflow_mcp_plugin.exchange import Launch, ToolCall
from pflow_mcp_plugin.types import Server

ACT = ToolCall(server="web", tool="act")
DONE = {"content": [{"type": "text", "text": "done"}]}


DISCOVERED = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {"listChanged": True}}}


def modern(on: Script) -> Script:
    """A server of 2026-07-28 that says when its tools change; `on` answers other requests."""
    return when(
        lambda request: request.rpc == "server/discover",
        lambda _, reply: reply.result({"resultType": "complete", **DISCOVERED}),
        on,
    )


def web(server: FaultServer, **options: object) -> Launch:
    return Launch(server=Server(name="web", transport="http", url=server.url(), **options))


def event(message: object) -> str:
    return f"data: {json.dumps(message)}"


def text(pool: Pool, launch: Launch) -> str:
    return str(pool.call(launch, ACT).content[0]["text"])


@pytest.mark.servers
@pytest.mark.parametrize("transport", ["http", "sse"])
def test_a_real_server_is_listed_and_called(pool, everything_http, everything_sse, transport):
    url = everything_sse if transport == "sse" else everything_http
    launch = Launch(server=Server(name="web", transport=transport, url=url))
    listing = pool.list_tools(launch)
    assert len(listing.tools) == 13
    assert (listing.info.era, listing.info.protocol) == ("handshake", "2025-11-25")
    result = pool.call(launch, ToolCall(server="web", tool="echo", arguments={"message": "grüße"}))
    assert result.content[0]["text"] == "Echo: grüße"


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


def wants_its_region_in_a_header(*, satisfied: bool) -> Script:
    """A server whose tool wants the argument `region` in a header, too."""
    region = {"type": "string", "x-mcp-header": "Region"}
    tool = {"name": "act", "inputSchema": {"type": "object", "properties": {"region": region}}}
    listed = {"tools": [tool], "ttlMs": 0, "cacheScope": "private"}

    async def script(request: Request, reply: Reply) -> bool:
        if request.rpc == "tools/list":
            await reply.result({"resultType": "complete", **listed})
        elif request.headers.get("mcp-param-region") == "eu" and satisfied:
            await reply.result({"resultType": "complete", **DONE})
        else:
            await reply.error(-32020, "the header does not match", 400)
        return True

    return modern(script)


IN_REGION = ToolCall(server="web", tool="act", arguments={"region": "eu"})


def test_an_argument_that_belongs_into_a_header_is_put_there(pool, serve):
    server = serve(wants_its_region_in_a_header(satisfied=True))
    for _ in range(2):
        assert pool.call(web(server), IN_REGION).content[0]["text"] == "done"
    asked = [request.rpc for request in server.requests if request.rpc != "subscriptions/listen"]
    assert asked == ["server/discover", "tools/call", "tools/list", "tools/call", "tools/call"]


def test_a_call_goes_no_more_than_twice_for_its_headers(pool, serve):
    server = serve(wants_its_region_in_a_header(satisfied=False))
    with pytest.raises(CallFailed, match="the header does not match") as caught:
        pool.call(web(server), IN_REGION)
    assert caught.value.ran == "not ran"
    assert server.count("tools/call") == 2


def test_the_error_of_a_server_counts_more_than_its_status(pool, serve):
    refuse = on_call(lambda _, reply: reply.error(-32602, "b is missing", 400))
    with pytest.raises(CallFailed, match="Invalid params: act on server web"):
        pool.call(web(serve(refuse)), ACT)


@pytest.mark.parametrize("protocol", ["handshake", "auto"])
def test_a_server_that_is_too_busy_to_connect_is_asked_again_when_it_says(pool, serve, protocol):
    server = serve(when(lambda _: len(server.requests) == 1, with_status(429, retry_after="0")))
    assert text(pool, web(server, protocol=protocol)) == "done"
    assert server.count("initialize") == (2 if protocol == "handshake" else 1)


def test_a_server_that_has_given_up_the_handshake_since_is_discovered(pool, serve):
    called = on_call(lambda _, reply: reply.result({"resultType": "complete", **DONE}))
    server = serve(modern(when(lambda request: request.rpc == "initialize", with_status(404), called)))
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

    launch = web(serve(modern(refuse)))
    assert text(pool, launch) == "done"
    assert refused.wait(10)
    assert text(pool, launch) == "done"
    assert warnings_seen == []


def test_a_stream_of_the_modern_era_is_not_resumed(pool, serve):
    async def cut(request: Request, reply: Reply) -> None:
        await reply.events("id: 1\nretry: 1\ndata:")
        reply.close()

    server = serve(modern(on_call(cut)))
    with pytest.raises(CallFailed) as caught:
        pool.call(web(server), ACT)
    assert caught.value.message == "Server web: its event stream ended before the answer came"
    assert {request.method for request in server.requests} == {"POST"}


@pytest.mark.parametrize("is_modern", [True, False])
def test_a_call_that_met_its_deadline_is_cancelled_as_its_era_has_it(pool, serve, is_modern):
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

    launch = web(serve(modern(hang) if is_modern else hang), call_timeout=0.5)
    with pytest.raises(DeadlineExceeded):
        pool.call(launch, ACT)
    assert hung_up.wait(10)
    pool.close()
    assert told.is_set() is not is_modern


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


def test_a_lost_session_stays_lost_though_a_call_beside_it_meets_its_deadline():
    async def lose() -> bool:
        server = Server(name="web", transport="http", url="https://example.com")
        connection = Connection(Launch(server=server), None, print)
        connection._state = _State.RETIRED
        with suppress(DeadlineExceeded), connection._under_way():
            raise DeadlineExceeded("late", where=Where())
        return connection._state is _State.RETIRED

    assert asyncio.run(lose())


def test_a_standing_stream_that_ends_at_once_is_not_asked_for_without_a_pause(pool, serve):
    asked = asyncio.Event()
    opened: list[float] = []

    async def hasty(request: Request, reply: Reply) -> bool:
        if request.method == "GET":
            opened.append(time.monotonic())
            await reply.events("id: 1\nretry: 0\ndata:")
            reply.close()
            if len(opened) == 4:
                asked.set()
        elif request.rpc == "tools/call":
            await asked.wait()
        return request.method == "GET"

    pool.call(web(serve(hasty, session="s")), ACT)
    assert opened[3] - opened[0] >= 0.3


@pytest.mark.slow
def test_a_run_does_not_wait_for_a_server_that_will_not_end_its_session(serve, warnings_seen):
    stuck = when(lambda request: request.method == "DELETE", lambda *_: asyncio.sleep(60))
    launch = web(serve(stuck, session="s"))
    with Pool(warnings_seen.append) as pool:
        pool.call(launch, ACT)
        started = time.monotonic()
    assert time.monotonic() - started < 8
