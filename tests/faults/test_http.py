"""Faults 35 to 55: what goes wrong with an HTTP server, and what the user is told."""

import asyncio
import gzip
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from certificates import Authority
from http_server import (
    FaultServer,
    Reply,
    Request,
    Script,
    always,
    on,
    on_call,
    trickling,
    well,
    when,
    with_status,
)

from pflow_mcp_plugin.client.transport import http_transports
from pflow_mcp_plugin.config.expansion import expand
from pflow_mcp_plugin.errors import DeadlineExceeded, McpError
from pflow_mcp_plugin.exchange import Launch, ToolCall
from pflow_mcp_plugin.types import Server

KIB = 1 << 10
MIB = 1 << 20
pytestmark = pytest.mark.usefixtures("bare_network")


@pytest.fixture(autouse=True)
def _no_threads() -> Iterator[None]:
    """Fail a test that leaves a thread."""
    before = set(threading.enumerate())
    yield
    deadline = time.monotonic() + 5
    while (left := set(threading.enumerate()) - before) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not left, f"threads left behind: {left}"


@pytest.fixture
def serve(no_leftovers: None) -> Iterator[Callable[..., FaultServer]]:
    """Start servers that play a script."""
    with ExitStack() as stack:
        yield lambda script, **options: stack.enter_context(FaultServer(script, **options))


def launch(server: FaultServer | str, **options: Any) -> Launch:
    url = server if isinstance(server, str) else server.url()
    return Launch(server=Server(name="odd", transport="http", url=url, **options))


def act(**arguments: object) -> ToolCall:
    return ToolCall(server="odd", tool="act", arguments=arguments)


def text(result) -> str:
    return result.content[0]["text"]


def test_row_35_a_refused_connection_names_the_address_without_a_password(connection_fails):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: nobody else gets the port
        place = f"127.0.0.1:{taken.getsockname()[1]}/mcp"
        begins = f"Server odd: connection refused by http://****@{place}"
        error = connection_fails(launch(f"http://me:pw@{place}"), begins, retryable=True)
    assert "check that the server runs" in error.suggestions[0]


def test_row_36_a_host_that_is_not_found_is_named_with_its_port(connection_fails):
    begins = "Server odd: host nothing.invalid was not found (port 8443)"
    error = connection_fails(launch("https://nothing.invalid:8443/mcp"), begins, seconds=35)
    assert (error.details["host"], error.details["port"]) == ("nothing.invalid", 8443)


@pytest.fixture
def authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Authority:
    """A CA that this process trusts."""
    made = Authority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(made.file))
    return made


@pytest.fixture
def refuses(connection_fails, serve) -> Callable[..., None]:
    """Check that a server with this TLS side is not talked to, whatever `insecure` says."""

    def check(context: Any, begins: str, step: str) -> None:
        server = serve(well, tls=context)
        for insecure in (False, True):
            error = connection_fails(launch(server, insecure=insecure), begins)
            assert error.message.endswith("nothing was sent")
            assert step in error.suggestions[0]
        assert server.requests == []

    return check


def test_row_37_a_self_signed_certificate_is_not_accepted(authority, refuses):
    context = authority.server_context("127.0.0.1", self_signed=True)
    refuses(context, "Server odd: the certificate of 127.0.0.1 is self-signed", "openssl s_client")


def test_row_38_an_expired_certificate_is_not_accepted(authority, refuses):
    context = authority.server_context("127.0.0.1", days=-1)
    refuses(context, "Server odd: the certificate of 127.0.0.1 has expired", "renewed")


def test_a_certificate_of_the_future_is_not_accepted(authority, refuses):
    context = authority.server_context("127.0.0.1", days=40)
    refuses(context, "Server odd: the certificate of 127.0.0.1 is not valid yet", "clock")


def test_row_39_a_certificate_for_another_host_is_not_accepted(authority, refuses):
    context = authority.server_context("other.example", "127.0.0.2")
    refuses(context, "Server odd: the certificate of 127.0.0.1 is ", "the name that the certificate is for")


def test_row_40_who_is_not_logged_in_is_told_how(serve, connection_fails):
    server = serve(on("initialize", with_status(401, b"no", www_authenticate='Bearer realm="x"')))
    error = connection_fails(server, f"Server odd: not logged in at {server.url()} (HTTP 401)")
    assert error.action == "auth_failed"
    assert 'auth = { type = "bearer", token = "${ODD_TOKEN}" }' in error.suggestions[0]
    assert server.count("initialize") == 1


def test_row_40_a_refused_token_is_named_by_its_variable(serve, call_fails):
    server = serve(on_call(with_status(401)))
    there = launch(server, auth={"type": "bearer", "token": "t", "token_env": "ODD_KEY"})
    error = call_fails(there, "Server odd: not logged in", ran="not ran")
    assert (error.action, error.exit_code) == ("auth_failed", 3)
    assert "ODD_KEY" in error.suggestions[0]
    assert server.count("tools/call") == 1


def test_row_40_an_unset_variable_is_named_before_anything_is_sent(serve):
    server = serve(well)
    auth = {"type": "bearer", "token": "${ODD_TOKEN}"}
    with pytest.raises(McpError, match="ODD_TOKEN is not set") as caught:
        expand(launch(server, auth=auth).server, {}.get)
    assert type(caught.value) is McpError
    assert caught.value.where.server == "odd"
    assert "ODD_TOKEN" in caught.value.problems[0].suggestion
    assert server.requests == []


def test_row_41_the_scope_that_is_missing_is_named(serve, call_fails):
    challenge = 'Bearer error="insufficient_scope", scope="files:read files:write"'
    server = serve(on_call(with_status(403, www_authenticate=challenge)))
    begins = (
        f"Server odd: access denied at {server.url()} (HTTP 403): it needs the scope files:read files:write"
    )
    error = call_fails(server, begins, ran="not ran")
    assert (error.action, error.exit_code) == ("auth_failed", 3)
    assert error.details["scope"] == "files:read files:write"
    assert "a token with the scope files:read files:write" in error.suggestions[0]


def test_row_42_without_a_session_404_means_there_is_no_endpoint(serve, connection_fails):
    server = serve(always(with_status(404, b"Not Found")))
    error = connection_fails(server, f"Server odd: no MCP endpoint at {server.url()} (HTTP 404)")
    assert (error.action, error.details["status"]) == ("resource_missing", 404)
    assert "/mcp" in error.suggestions[0]


def forgetful(serve: Callable[..., FaultServer], rpc: str = "tools/call") -> FaultServer:
    """Start a server that forgets its first session before the first call, or another request."""

    async def forget(request: Request, reply: Reply) -> bool:
        if request.rpc != rpc or request.headers["mcp-session-id"] == "second":
            return False
        server.session = "second"
        error = {"code": -32001, "message": "Session not found"}
        await reply.json({"jsonrpc": "2.0", "id": None, "error": error}, 404)
        return True

    server = serve(forget, session="first")
    return server


def test_row_43_a_lost_session_is_made_anew_and_a_safe_call_goes_again(bench, serve):
    server = forgetful(serve)
    result = bench.pool.call(launch(server), act(), safe_to_repeat=True)
    assert text(result) == "done"
    assert (server.count("initialize"), server.count("tools/call")) == (2, 2)


def test_row_43_a_lost_session_is_made_anew_and_an_unsafe_call_fails(bench, serve, call_fails):
    server = forgetful(serve)
    there = launch(server)
    error = call_fails(there, "Server odd no longer knows this session (HTTP 404)")
    assert error.details["status"] == 404
    assert (server.count("initialize"), server.count("tools/call")) == (2, 1)
    assert text(bench.pool.call(there, act())) == "done"
    assert server.count("initialize") == 2
    assert bench.warnings == ["server odd lost its connection and is being reconnected; its state is lost"]


def test_row_43_a_list_of_tools_is_asked_for_again(bench, serve):
    server = forgetful(serve, "tools/list")
    assert len(bench.pool.list_tools(launch(server)).tools) == 1
    assert server.count("initialize") == 2


def test_row_43_a_session_that_is_lost_each_time_ends_in_an_error(serve, call_fails):
    server = serve(on_call(with_status(404)), session="always")
    call_fails(server, "Server odd no longer knows this session", safe_to_repeat=True)
    assert (server.count("initialize"), server.count("tools/call")) == (2, 2)


def test_row_44_a_call_that_came_too_soon_goes_again_when_the_server_says(bench, serve):
    async def busy(request: Request, reply: Reply) -> None:
        if server.count("tools/call") == 1:
            await reply.status(429, retry_after="1")
        else:
            await reply.text("late")

    server = serve(on_call(busy))
    assert text(bench.pool.call(launch(server), act())) == "late"
    first, second = server.times("tools/call")
    assert second - first >= 1


@pytest.mark.parametrize(("after", "calls"), [("99", 1), ("0", 2)])
def test_row_44_a_wait_beyond_the_deadline_or_a_second_one_is_an_error(serve, after, calls, call_fails):
    server = serve(on_call(with_status(429, retry_after=after)))
    begins = "Server odd: too many requests (HTTP 429)"
    error = call_fails(launch(server, call_timeout=5), begins, ran="not ran", retryable=True)
    assert (error.action, error.retry_after) == ("rate_limited", float(after))
    assert server.count("tools/call") == calls


def test_row_45_a_server_error_gives_status_and_a_redacted_snippet(serve, call_fails):
    server = serve(on_call(with_status(500, b"boom for token s3cret-token in\n line 7")))
    there = Launch(server=launch(server).server, secrets=("s3cret-token",))
    error = call_fails(there, f"Server odd: HTTP 500 from {server.url()}: boom for token *** in line 7")
    assert error.details["status"] == 500
    assert "s3cret" not in str(error.details)


@pytest.mark.parametrize(
    ("code", "action", "step"),
    [
        (408, "timeout", "it gave up before any timeout of pflow had passed: ask it for less"),
        (503, "error", "try again after 7 s"),
    ],
)
def test_row_45_a_server_that_gave_up_or_is_unavailable_leads_to_a_later_try(
    serve, code, action, step, call_fails
):
    server = serve(on_call(with_status(code, retry_after="7")))
    ran = "not ran" if code == 408 else "unknown"
    error = call_fails(launch(server), f"Server odd: HTTP {code} from {server.url()}", ran=ran)
    assert (error.action, error.retry_after) == (action, 7)
    assert error.suggestions[0].startswith(step)


def test_row_46_a_redirect_to_another_host_is_refused(serve, call_fails):
    other = serve(well)
    server = serve(on_call(with_status(307, location=other.url("localhost"))))
    begins = f"Server odd: {server.url()} redirects to another host, {other.url('localhost')}; refused"
    error = call_fails(server, begins, ran="not ran")
    assert (error.details["status"], error.details["location"]) == (307, other.url("localhost"))
    assert other.requests == []


def test_row_46_a_redirect_is_told_without_the_password_of_the_url(serve, call_fails):
    server = serve(on_call(with_status(307, location="/else")))
    there = launch(server.url().replace("://", "://me:pw@"))
    error = call_fails(there, "Server odd: http://****@", ran="not ran")
    assert "me:pw" not in str((error, error.details, error.suggestions))


def test_row_46_a_redirect_from_https_to_plain_http_is_refused(serve, authority, call_fails):
    async def downgrade(request: Request, reply: Reply) -> None:
        await reply.status(307, location=server.url().replace("https", "http"))

    server = serve(on_call(downgrade), tls=authority.server_context("127.0.0.1"))
    error = call_fails(server, f"Server odd: {server.url()} redirects to plain http", ran="not ran")
    assert error.details["location"] == server.url().replace("https", "http")
    assert server.count("tools/call") == 1


def test_row_46_a_redirect_on_the_same_host_is_followed(bench, serve):
    slash = when(lambda request: request.target == "/mcp", with_status(307, location="/mcp/"))
    assert text(bench.pool.call(launch(serve(slash)), act())) == "done"


ANSWER = "the answer to the call"
"""Stands for it among events."""


def cut(number: int = 1, pause: object = 1) -> str:
    """Return an event after which a stream may be taken up again."""
    return f"id: {number}\nretry: {pause}\ndata:"


def resumable(*events: str, end: Callable[[Reply], object] = Reply.close) -> Script:
    """Answer a call, and each time that it is taken up again, with the next event; the last one stays."""
    left = list(events)
    ids: list[int] = []

    async def script(request: Request, reply: Reply) -> bool:
        resuming = "last-event-id" in request.headers
        if request.rpc != "tools/call" and not resuming:
            return False
        ids.extend([] if resuming else [request.message["id"]])
        event = left.pop(0) if len(left) > 1 else left[0]
        await reply.events(reply.answer_event("at last", ids[0]) if event == ANSWER else event)
        if end is not Reply.close:
            await asyncio.sleep(0.05)  # the event arrives before that
        end(reply)
        return True

    return script


def resumes(server: FaultServer) -> list[Request]:
    return [request for request in server.requests if "last-event-id" in request.headers]


def test_row_47_a_stream_that_is_cut_leaves_the_outcome_unknown(serve, call_fails):
    server = serve(resumable(": working"))
    call_fails(server, "Server odd: its event stream ended before the answer came")
    assert server.count("tools/call") == 1


def test_row_48_a_stream_that_is_cut_is_taken_up_again(bench, serve):
    server = serve(resumable(cut(2), cut(1), ANSWER))
    assert text(bench.pool.call(launch(server), act())) == "at last"
    assert [request.headers["last-event-id"] for request in resumes(server)] == ["2", "1"]


@pytest.mark.parametrize("end", [Reply.close, Reply.reset])
def test_row_48_a_stream_is_taken_up_again_twice_at_most_however_it_ends(serve, call_fails, end):
    server = serve(resumable(cut(), end=end))
    begins = "Server odd: its event stream ended before the answer came, also after resuming it 2 times"
    error = call_fails(server, begins)
    assert error.details["resumes"] == len(resumes(server)) == 2
    assert server.count("tools/call") == 1


def test_row_48_a_call_that_cannot_be_taken_up_again_has_an_unknown_outcome(serve, call_fails):
    gone = when(lambda request: request.method == "GET", with_status(500), resumable(cut()))
    call_fails(launch(serve(gone)), "Server odd: its event stream ended before the answer came")


def test_row_48_a_stream_that_is_taken_up_again_and_is_no_json_is_told_as_that(serve, call_fails):
    server = serve(resumable(cut(), "data: {oops"))
    call_fails(server, "Invalid JSON response from server odd")
    assert len(resumes(server)) == 1


@pytest.mark.parametrize("pause", ["9" * 5000, "99999999"])
def test_row_49_a_hostile_pause_is_cut_down_to_the_longest_one(bench, serve, monkeypatch, pause):
    assert http_transports.granted_pause(99_999_999) == 30
    monkeypatch.setattr(http_transports, "_LONGEST_PAUSE", 300)  # nobody wants to wait for 30 s
    assert 0.3 <= paused(bench, serve, pause) < 10


def test_row_49_a_pause_of_nothing_is_made_a_short_one(bench, serve):
    assert paused(bench, serve, "0") >= 0.1


def paused(bench: Any, serve: Callable[..., FaultServer], pause: str) -> float:
    """Cut the stream of a call once, and return the time until it was taken up again."""
    server = serve(resumable(cut(1, pause), ANSWER))
    assert text(bench.pool.call(launch(server, call_timeout=15), act())) == "at last"
    (resumed,) = resumes(server)
    return resumed.came - server.times("tools/call")[0]


def test_row_49_a_pause_beyond_the_deadline_of_the_call_ends_at_it(bench, serve, call_fails):
    there = launch(serve(resumable(cut(1, "99999999"))), call_timeout=0.5)
    call_fails(there, "Tool act on server odd did not answer within 0.5 s", DeadlineExceeded)
    assert bench.pool.list_tools(there).tools  # the connection has not suffered


def test_row_50_an_event_over_the_limit_is_named_with_its_size(serve, call_fails):
    async def flood(request: Request, reply: Reply) -> None:
        await reply.events()
        await reply.raw(b"data: ")
        for _ in range(1000):
            await reply.raw(b"x" * 64 * KIB)
        await asyncio.sleep(60)

    there = launch(serve(on_call(flood)), max_line_mb=1, call_timeout=5)
    error = call_fails(there, "Server odd sent an event of more than 1 MiB (")
    assert error.details["limit_bytes"] == MIB
    assert MIB < error.details["size_bytes"] < 3 * MIB
    assert "max_line_mb" in error.suggestions[0]


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
def test_row_51_a_compressed_bomb_is_capped_on_what_it_decodes_to(serve, kind, call_fails):
    bomb = gzip.compress(b'data: "' + b" " * 64 * MIB)
    explode = with_status(200, bomb, content_type=kind, content_encoding="gzip")
    sent = "event" if kind == "text/event-stream" else "answer"
    there = launch(serve(on_call(explode)), max_line_mb=1)
    error = call_fails(there, f"Server odd sent an {sent} of more than 1 MiB (")
    assert error.details["limit_bytes"] == MIB
    assert len(bomb) < MIB < error.details["size_bytes"] < 4 * MIB
    assert "max_line_mb" in error.suggestions[0]


_ANSWERS = b"HTTP/1.1 200 OK\r\ncontent-type: "
_TRUNCATED = _ANSWERS + b"application/json\r\ncontent-length: 100\r\n\r\n{"


@pytest.mark.parametrize("end", ["reset", "truncate"])
def test_row_52_a_broken_answer_harms_its_own_call_only(bench, serve, end, call_fails):
    broken = asyncio.Event()

    async def fault(request: Request, reply: Reply) -> None:
        if request.message["params"]["arguments"].get("bad"):
            await reply.raw(_TRUNCATED)
            (reply.reset if end == "reset" else reply.close)()
            broken.set()
            return
        await broken.wait()
        await reply.text("unharmed")

    server = serve(on_call(fault))
    there = launch(server)
    bench.pool.info(there)
    with ThreadPoolExecutor(1) as threads:
        neighbour = threads.submit(bench.pool.call, there, act())
        call_fails(there, f"Server odd: the exchange with {server.url()} broke off", arguments={"bad": True})
        assert text(neighbour.result(10)) == "unharmed"
    assert text(bench.pool.call(there, act())) == "unharmed"
    assert server.count("initialize") == 1


@pytest.mark.parametrize("beginning", [_ANSWERS, _ANSWERS + b"application/json\r\n\r\n"])
def test_row_53_an_answer_that_trickles_meets_a_total_deadline(bench, serve, beginning, call_fails):
    there = launch(serve(on_call(trickling(beginning))), timeout=0.5, call_timeout=5)
    begins = "Tool act on server odd did not answer completely within 0.5 s (timeout)"
    error = call_fails(there, begins, DeadlineExceeded)
    assert error.action == "timeout"
    assert bench.pool.list_tools(there).tools


def test_row_53_an_event_stream_that_trickles_meets_the_deadline_of_the_call(serve, call_fails):
    trickle = trickling(_ANSWERS + b"text/event-stream\r\n\r\n", b": still here\n\n")
    begins = "Tool act on server odd did not answer within 0.5 s (call_timeout)"
    call_fails(launch(serve(on_call(trickle)), call_timeout=0.5), begins, DeadlineExceeded)


def test_row_53_a_server_that_takes_no_cancellation_holds_nobody_up(bench, serve, call_fails):
    def meant(request: Request) -> bool:
        return request.rpc == "notifications/cancelled" or b'"hang"' in request.body

    there = launch(serve(when(meant, lambda *_: asyncio.sleep(60))), call_timeout=4)
    begins = "Tool act on server odd did not answer within 4 s (call_timeout)"
    call_fails(there, begins, DeadlineExceeded, arguments={"hang": True})
    assert text(bench.pool.call(there, act())) == "done"  # it waits for its turn, not for the server


def test_row_54_a_web_page_is_taken_for_one_to_log_in(serve, connection_fails):
    page = with_status(200, b"<html>Please log in</html>", content_type="text/html; charset=utf-8")
    server = serve(on("initialize", page))
    begins = f"Server odd: {server.url()} answered with a web page (text/html), likely a login page"
    error = connection_fails(server, begins)
    assert error.details["content_type"] == "text/html"
    assert "Please log in" in error.details["body"]
    assert "browser" in error.suggestions[0]


def test_row_55_an_answer_with_a_wrong_id_counts_as_none(serve, call_fails):
    message = {"jsonrpc": "2.0", "id": 4711, "result": {"content": []}}
    mixed_up = on_call(lambda _, reply: reply.json(message))
    begins = "Tool act on server odd did not answer within 0.5 s (call_timeout); 1 replies matched no"
    call_fails(launch(serve(mixed_up), call_timeout=0.5), begins, DeadlineExceeded)
