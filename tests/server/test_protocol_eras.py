"""Clients that use both eras of the protocol, in any order, told by their raw messages."""

import asyncio
import itertools
import json
import os
from contextlib import ExitStack

import anyio
import mcp_types as types
import pytest
from mcp.server.lowlevel import Server

from pflow_mcp_plugin.server.offer import Offer
from pflow_mcp_plugin.server.pflow_server import ServingOptions, build_server
from pflow_mcp_plugin.server.stdio import serve_descriptors

SECONDS = 60
KEY = "io.modelcontextprotocol/"
ENVELOPE = {
    f"{KEY}protocolVersion": "2026-07-28",
    f"{KEY}clientInfo": {"name": "modern", "version": "2"},
    f"{KEY}clientCapabilities": {},
}
HANDSHAKE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "legacy", "version": "1"},
}
CALL = {"name": "who", "arguments": {}}
REQUESTS = {
    "discover": ("server/discover", {"_meta": ENVELOPE}),
    "initialize": ("initialize", HANDSHAKE),
    "list": ("tools/list", {}),
    "enveloped list": ("tools/list", {"_meta": ENVELOPE}),
    "call": ("tools/call", CALL),
    "enveloped call": ("tools/call", {**CALL, "_meta": ENVELOPE}),
}
STEPS = ("discover", "initialize", "list", "call")


async def _list(_context, _params):
    return types.ListToolsResult(tools=[types.Tool(name="who", input_schema={"type": "object"})])


async def _call(context, _params):
    client = context.session.client_params
    text = f"{context.protocol_version} {client.client_info.name}"
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)])


class Connection:
    """The client's end of a connection over pipes."""

    def __init__(self, reader, writing):
        self._reader = reader
        self._writing = writing

    def say(self, **message):
        os.write(self._writing, json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    async def ask(self, name, number):
        method, params = REQUESTS[name]
        self.say(id=number, method=method, params=params)
        return await self.answer(number)

    async def answer(self, number):
        answer = json.loads(await self._reader.readline())
        assert answer["id"] == number
        return answer


def over_pipes(play, call=_call, served=None):
    """Serve a server that tells who calls it, or another, over pipes, and have a client talk to it."""

    async def main():
        with ExitStack() as files:
            incoming, writing = os.pipe()
            reading, outgoing = os.pipe()
            files.callback(os.close, incoming)
            files.callback(os.close, outgoing)
            reader = asyncio.StreamReader()
            loop = asyncio.get_running_loop()
            pipe, _ = await loop.connect_read_pipe(
                lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(reading, "rb")
            )
            files.callback(pipe.close)
            server = served or Server("tested", on_list_tools=_list, on_call_tool=call)
            with anyio.fail_after(SECONDS):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(serve_descriptors, server, incoming, outgoing)
                    try:
                        return await play(Connection(reader, writing))
                    finally:
                        os.close(writing)

    return anyio.run(main)


def check_modern(name, answer):
    """Assert that a request that carries its envelope was answered, for the client that sent it."""
    result = answer["result"]
    assert result["resultType"] == "complete"
    if name == "discover":
        assert "2026-07-28" in result["supportedVersions"]
    elif name.endswith("list"):
        assert [tool["name"] for tool in result["tools"]] == ["who"]
    else:
        assert result["content"] == [{"type": "text", "text": "2026-07-28 modern"}]


def check_legacy(name, answer, *, shaken):
    """Assert that a request of a handshake was answered if that came before, and refused if not."""
    if not shaken:
        assert answer["error"]["code"] == types.INVALID_PARAMS
        return
    result = answer["result"]
    assert "resultType" not in result
    if name == "initialize":
        assert result["protocolVersion"] == "2025-06-18"
    elif name == "list":
        assert [tool["name"] for tool in result["tools"]] == ["who"]
        assert "ttlMs" not in result
    else:
        assert result["content"] == [{"type": "text", "text": "2025-06-18 legacy"}]


@pytest.mark.parametrize("prefixes", list(itertools.product(("", "enveloped "), repeat=2)))
@pytest.mark.parametrize("order", list(itertools.permutations(STEPS)), ids="-".join)
def test_one_connection_serves_both_eras_in_any_order(order, prefixes):
    eras = dict(zip(("list", "call"), prefixes, strict=True))
    names = [eras.get(step, "") + step for step in order]

    async def play(client):
        shaken = False
        for number, name in enumerate(names):
            answer = await client.ask(name, number)
            shaken = shaken or name == "initialize"
            if name == "discover" or name.startswith("enveloped"):
                check_modern(name, answer)
            else:
                check_legacy(name, answer, shaken=shaken)

    over_pipes(play)


def test_a_handshake_follows_a_version_that_is_not_served():
    async def play(client):
        meta = {**ENVELOPE, f"{KEY}protocolVersion": "2031-01-01"}
        client.say(id=1, method="server/discover", params={"_meta": meta})
        refused = await client.answer(1)
        assert refused["error"]["code"] == types.UNSUPPORTED_PROTOCOL_VERSION
        check_legacy("initialize", await client.ask("initialize", 2), shaken=True)
        client.say(method="notifications/initialized")
        check_legacy("list", await client.ask("list", 3), shaken=True)

    over_pipes(play)


@pytest.mark.parametrize("era", ["", "enveloped "])
def test_a_call_is_cancelled_in_the_era_that_it_began_in(era):
    async def play(client):
        await client.ask("discover", 1)
        await client.ask("initialize", 2)
        method, params = REQUESTS[f"{era}call"]
        client.say(id=3, method=method, params=params)
        await began.wait()
        client.say(method="notifications/cancelled", params={"requestId": 3})
        await ended.wait()

    began, ended = anyio.Event(), anyio.Event()

    async def endless(_context, _params):
        began.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    over_pipes(play, endless)


def test_a_handshake_announces_changes_if_they_are_told(pflow_host):
    async def play(client):
        told = (await client.ask("initialize", 1))["result"]["capabilities"]
        return {name: table.get("listChanged") for name, table in told.items()}

    offer = Offer(pflow_host.host)
    told = over_pipes(play, served=build_server(pflow_host.host, offer.tools, offer.options()))
    assert (told["tools"], told["resources"], told["prompts"]) == (True, True, True)
    silent = over_pipes(play, served=build_server(pflow_host.host, offer.tools, ServingOptions()))
    assert silent["tools"] is False
