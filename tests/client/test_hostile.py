"""Servers that send what no server should: one error each, with words and a next step."""

import asyncio
import json
import os
from concurrent.futures import ThreadPoolExecutor

import pytest
from http_server import FaultServer, Reply, Request, on_call, with_status

from pflow_mcp_plugin.client import Pool
from pflow_mcp_plugin.errors import CallFailed, ConnectionFailed
from pflow_mcp_plugin.exchange import CallResult, Launch, ToolCall
from pflow_mcp_plugin.types import Server

HALF = r'{"content": [{"type": "text", "text": "cut \ud83d"}]}'
SECRET = "s3cret-token"


def act(pool: Pool, launch: Launch, tool: str = "act", **arguments: object) -> CallResult:
    return pool.call(launch, ToolCall(server=launch.server.name, tool=tool, arguments=arguments))


def failure_of(pool: Pool, launch: Launch) -> CallFailed:
    with pytest.raises(CallFailed) as caught:
        act(pool, launch)
    assert caught.value.suggestions
    return caught.value


def web(server: FaultServer, **options: object) -> Launch:
    return Launch(server=Server(name="odd", transport="http", url=server.url(), **options))


def answer(request: Request, result: str) -> bytes:
    return f'{{"jsonrpc": "2.0", "id": {request.message["id"]}, "result": {result}}}'.encode()


@pytest.mark.parametrize(
    "script",
    [
        f"raw('{{oops {SECRET}\\n')",
        f"fail(-32000, 'no', {{'key': ['{SECRET}']}})",
        f"raw('{{' + 'x' * 187 + '{SECRET}\\n')",
        f"print('x' * 40 + '{SECRET}', file=sys.stderr, flush=True); os._exit(1)",
    ],
)
def test_no_error_shows_a_secret_that_a_server_lets_out(pool, scripted, script):
    error = failure_of(pool, scripted(script, secrets=(SECRET,)))
    assert "s3cret" not in f"{error.to_dict()} {error} {error.details}"


def test_the_words_of_a_server_are_cut(pool, scripted):
    error = failure_of(pool, scripted("fail(1, 'a' * 2_000_000, ['b'] * 2_000_000)"))
    assert "(2,000,000 characters in all)" in error.message
    assert len(json.dumps(error.to_dict())) < 10_000


@pytest.mark.parametrize(
    ("status", "header", "body", "words"),
    [
        (429, "retry-after: Mon, 01 Jan 99999999999 00:00:00 GMT", b"", "too many requests"),
        (500, "content-type: application/json", b"[" * 60_000, "HTTP 500"),
        (500, "mcp-session-id: \xff", b"", "HTTP 500"),
    ],
    ids=["date", "nested", "session"],
)
def test_an_answer_that_cannot_be_read_costs_its_own_call_only(pool, serve, status, header, body, words):
    async def odd(request: Request, reply: Reply) -> None:
        head = f"HTTP/1.1 {status} No\r\n{header}\r\ncontent-length: {len(body)}\r\n\r\n"
        await reply.raw(head.encode("latin-1") + body)

    server = serve(on_call(odd))
    there = web(server)
    with pytest.raises(CallFailed, match=words):
        act(pool, there)
    assert pool.list_tools(there).tools
    assert server.count("initialize") == 1


def test_half_a_character_in_an_answer_is_replaced_over_stdio(pool, scripted):
    script = f'raw(\'{{"jsonrpc": "2.0", "id": %d, "result": %s}}\\n\' % (request[\'id\'], {HALF!r}))'
    assert act(pool, scripted(script)).content[0]["text"] == "cut \ufffd"


@pytest.mark.parametrize(
    ("kind", "before", "after", "half"),
    [
        ("application/json", b"", b"", rb"\ud83d"),
        ("text/event-stream", b"data: ", b"\n\n", b"\xff"),
        ("application/json", b"\xef\xbb\xbf", b"", b"\xff"),
    ],
    ids=["json", "events", "byte order mark"],
)
def test_what_is_no_character_in_an_answer_is_replaced_over_http(pool, serve, kind, before, after, half):
    async def halve(request: Request, reply: Reply) -> None:
        data = answer(request, HALF).replace(rb"\ud83d", half)
        await reply.status(200, before + data + after, content_type=kind)

    assert act(pool, web(serve(on_call(halve)))).content[0]["text"] == "cut \ufffd"


def test_an_answer_nested_too_deeply_is_said_to_be(pool, scripted):
    with pytest.raises(CallFailed, match=r"^Invalid JSON response from server odd: .*recursion limit"):
        act(pool, scripted("raw('[' * 100_000 + '\\n')"))


def test_more_calls_at_once_than_connections_are_usual_all_run(pool, serve):
    together = asyncio.Barrier(120)

    async def wait_for_all(request: Request, reply: Reply) -> None:
        await together.wait()
        await reply.text("all here")

    server = serve(on_call(wait_for_all))
    with ThreadPoolExecutor(120) as threads:
        there = web(server, timeout=15)
        pool.info(there)
        results = list(threads.map(lambda _: act(pool, there), range(120)))
    assert {result.content[0]["text"] for result in results} == {"all here"}


@pytest.mark.parametrize("path", ["/mcp", "/moved"])
def test_a_call_may_take_a_call_timeout_that_was_raised(pool, serve, path):
    released = asyncio.Event()

    async def slow(request: Request, reply: Reply) -> bool:
        if request.target == "/moved":
            await reply.status(307, location="/mcp")
            return True
        if request.rpc == "tools/call":
            asyncio.get_running_loop().call_later(1.5, released.set)
            await released.wait()
        return False

    server = serve(slow)
    options = {"timeout": 0.5, "sse_timeout": 0.7, "call_timeout": 31}
    launch = Launch(server=Server(name="odd", transport="http", url=server.url(path=path), **options))
    assert act(pool, launch).content[0]["text"] == "done"


def test_a_server_that_cannot_be_watched_is_not_started(pool, demo, monkeypatch):
    monkeypatch.delattr(os, "waitid")
    with pytest.raises(ConnectionFailed, match="Server demo cannot be started") as caught:
        pool.info(demo)
    assert caught.value.suggestions


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream; charset=utf-16"])
def test_an_http_answer_nested_too_deeply_is_said_to_be(pool, serve, kind):
    body = b"data: " * ("event" in kind) + b"[" * 100_000 + b"\n\n"
    with pytest.raises(CallFailed, match=r"^Invalid JSON response from server odd: .*\(recursion limit"):
        act(pool, web(serve(on_call(with_status(200, body, content_type=kind)))))


@pytest.mark.parametrize(
    ("code", "headers", "words"),
    [
        (204, {}, "answered with nothing"),
        (302, {"location": "javascript:alert(1)"}, "redirects to an invalid address"),
        (307, {"location": "http://127.0.0.1:99999/"}, "redirects to an invalid address"),
        (307, {"location": "\x01"}, "redirects to itself"),
        (302, {"location": "http://other/" + "a" * 60_000}, "redirects to another host"),
        (403, {"www_authenticate": f'Bearer scope="\x1b[31m{"a" * 60_000}"'}, "access denied"),
        (429, {"retry_after": "9" * 60_000}, "too many requests"),
    ],
)
def test_what_a_server_puts_into_headers_is_told_in_short(pool, serve, code, headers, words):
    error = failure_of(pool, web(serve(on_call(with_status(code, **headers)))))
    assert words in error.message
    shown = "".join((str(error), *error.suggestions))
    assert len(shown) < 3000
    assert "\x1b" not in shown


@pytest.mark.parametrize(
    "before",
    [
        "notify('progress', {'progressToken': token, 'progress': 10**400, 'total': 10**400})",
        "notify('progress', {'progressToken': token, 'progress': float('nan'), 'message': ['x']})",
        "notify('cancelled', {'requestId': [1]})",
        "notify('cancelled', {'requestId': '9' * 6000})",
        "raw(json.dumps({'jsonrpc': '2.0', 'id': '9' * 6000, 'method': 'ping'}) + '\\n')",
        "raw('\\ufeff')",
        "raw('\\0\\n')",
    ],
)
def test_an_odd_message_before_the_answer_does_no_harm(pool, scripted, capfd, before):
    script = f"token = request['params']['_meta']['progressToken']; {before}; reply({{'content': []}})"
    assert act(pool, scripted(script)).content == ()
    assert "Traceback" not in capfd.readouterr().err


def test_answers_in_a_batch_are_taken_one_by_one(pool, scripted):
    script = "raw(json.dumps([{'jsonrpc': '2.0', 'id': request['id'], 'result': {'content': []}}]) + '\\n')"
    assert act(pool, scripted(script)).content == ()


def test_null_is_no_structured_content_in_the_handshakes_versions(pool, scripted):
    assert not act(pool, scripted("reply({'content': [], 'structuredContent': None})")).has_structured


def test_a_tool_whose_name_is_endless_is_left_out(pool, scripted):
    tools = "[{'name': 'x' * n, 'inputSchema': {'type': 'object'}} for n in (3, 10_000)]"
    listing = pool.list_tools(scripted(start=f"state['tools'] = {tools}"))
    assert [tool.name for tool in listing.tools] == ["xxx"]
    assert listing.skipped == (("x" * 256, "its name has 10,000 characters"),)
