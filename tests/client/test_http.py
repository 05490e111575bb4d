"""Streamable HTTP over loopback, and real servers over HTTP."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

import pytest
from http_server import FaultServer, Reply, Request, on_call, when

from pflow_mcp_plugin.client import Pool
from pflow_mcp_plugin.client.connection import Connection, _State
from pflow_mcp_plugin.client.transport.http_requests import request_headers
from pflow_mcp_plugin.errors import CallFailed, DeadlineExceeded, Where
from pflow_mcp_plugin.exchange import Launch, ToolCall
from pflow_mcp_plugin.types import Server


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


@pytest.mark.parametrize(
    ("auth", "header"),
    [
        ({"type": "bearer", "token": "t"}, {"Authorization": "Bearer t"}),
        ({"type": "api_key", "key": "k"}, {"X-API-Key": "k"}),
        ({"type": "api_key", "key": "k", "header": "X-Mine"}, {"X-Mine": "k"}),
        ({"type": "basic", "username": "u", "password": "p"}, {"Authorization": "Basic dTpw"}),
        ({}, {}),
    ],
)
def test_auth_becomes_a_header(auth, header):
    server = Server(name="web", transport="http", url="https://example.com", auth=auth, headers={"X-A": "1"})
    assert request_headers(server) == {"X-A": "1", **header}


class Modern:
    """A server of 2026-07-28 whose tool wants the argument `region` in a header, too."""

    def __init__(self, *, satisfied: bool = True) -> None:
        self._satisfied = satisfied

    async def __call__(self, request: Request, reply: Reply) -> bool:
        region = {"type": "string", "x-mcp-header": "Region"}
        schema = {"type": "object", "properties": {"region": region}}
        results = {
            "server/discover": {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}},
            "tools/list": {
                "tools": [{"name": "act", "inputSchema": schema}],
                "ttlMs": 0,
                "cacheScope": "private",
            },
        }
        if request.rpc in results:
            await reply.result({"resultType": "complete", **results[request.rpc]})
        elif request.headers.get("mcp-param-region") == "eu" and self._satisfied:
            await reply.result({"resultType": "complete", "content": [{"type": "text", "text": "done"}]})
        else:
            await reply.error(-32020, "the header does not match", 400)
        return True


def _in_region(server: FaultServer) -> tuple[Launch, ToolCall]:
    launch = Launch(server=Server(name="web", transport="http", url=server.url()))
    return launch, ToolCall(server="web", tool="act", arguments={"region": "eu"})


def test_an_argument_that_belongs_into_a_header_is_put_there(pool):
    with FaultServer(Modern()) as server:
        launch, call = _in_region(server)
        for _ in range(2):
            assert pool.call(launch, call).content[0]["text"] == "done"
        asked = [request.rpc for request in server.requests]
    assert asked == ["server/discover", "tools/call", "tools/list", "tools/call", "tools/call"]


def test_a_call_goes_no_more_than_twice_for_its_headers(pool):
    with FaultServer(Modern(satisfied=False)) as server:
        with pytest.raises(CallFailed, match="the header does not match") as caught:
            pool.call(*_in_region(server))
        assert caught.value.ran == "not ran"
        assert server.count("tools/call") == 2


def test_the_error_of_a_server_counts_more_than_its_status(pool):
    refuse = on_call(lambda _, reply: reply.error(-32602, "b is missing", 400))
    with (
        FaultServer(refuse) as server,
        pytest.raises(CallFailed, match="Invalid params: act on server web"),
    ):
        pool.call(*_in_region(server))


def test_a_lost_session_stays_lost_though_a_call_beside_it_meets_its_deadline():
    async def lose() -> bool:
        server = Server(name="web", transport="http", url="https://example.com")
        connection = Connection(Launch(server=server), None, print)
        connection._state = _State.RETIRED
        with suppress(DeadlineExceeded), connection._under_way():
            raise DeadlineExceeded("late", where=Where())
        return connection._state is _State.RETIRED

    assert asyncio.run(lose())


def test_a_standing_stream_that_ends_at_once_is_not_asked_for_without_a_pause(pool):
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

    with FaultServer(hasty, session="s") as server:
        pool.call(*_in_region(server))
    assert opened[3] - opened[0] >= 0.3


@pytest.mark.slow
def test_a_run_does_not_wait_for_a_server_that_will_not_end_its_session(warnings_seen):
    stuck = when(lambda request: request.method == "DELETE", lambda *_: asyncio.sleep(60))
    with FaultServer(stuck, session="s") as server:
        with Pool(warnings_seen.append) as pool:
            pool.call(*_in_region(server))
            started = time.monotonic()
        assert time.monotonic() - started < 8
