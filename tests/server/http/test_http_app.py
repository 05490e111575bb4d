"""The address to listen on, and the application there: who is let in, what is refused, and slow clients.

What clients of both eras do with it is played in `test_serving.py` and in `test_served_tools.py`; what
its gates answer is in `test_gates.py`.
"""

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from served import (
    ACCEPT,
    ERA_2025,
    TOKEN,
    Served,
    bearer,
    modern_call,
    modern_headers,
    post,
    request,
    serving,
)

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.server.http import http_server
from pflow_mcp_plugin.server.http.listening_address import ListeningAddress, parse_address

EVERYWHERE = [
    *((method, "/mcp") for method in ("GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD")),
    *(("POST", path) for path in ("/", "/mcp/", "/other", "/.well-known/oauth-protected-resource/mcp")),
]


@pytest.mark.parametrize(("method", "path"), EVERYWHERE)
def test_no_path_and_no_method_answers_without_the_token(served, client, method, path):
    url = served.url.removesuffix("/mcp") + path
    for token in ("", "Bearer wrong-but-long-enough", "Basic dTpw"):
        client.headers = {"authorization": token} if token else {}
        answer = client.request(method, url)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith('Bearer realm="pflow"')
        if method != "HEAD":
            assert set(answer.json()) == {"error", "error_description"}
        assert TOKEN not in answer.text


def test_two_tokens_in_a_request_are_refused(served):
    raw = served.raw(
        b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n"
        + f"Authorization: Bearer {TOKEN}\r\nAuthorization: Bearer x\r\n\r\n".encode()
    )
    assert raw.startswith(b"HTTP/1.1 401 ")


OTHER_HOSTS = """
evil.example evil.example:80 127.0.0.1.evil.example localhost.evil:1 127.0.0.1:80.evil.example
localhost:evil.example [::1]:80.evil.example [::1].evil.example 127.0.0.1:80@evil.example
localhost:80/evil.example localhost: localhost:80:80 localhost. 127.0.0.1:123456 localhost:-1
localhost:\u0664 [::1 ::1 127.0.0.1. 2130706433
"""


@pytest.mark.parametrize("host", OTHER_HOSTS.split())
def test_a_name_that_is_not_the_servers_is_refused(served, client, host):
    answer = client.post(served.url, json=request("tools/list"), headers={"host": host.encode()})
    assert answer.status_code == 421
    assert answer.json()["error_description"] == "The Host of this request is not allowed"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "localhost:65535", "[::1]:80"])
def test_the_servers_own_names_are_allowed_with_any_port_and_its_origin(served, client, host):
    headers = {"host": host, "origin": served.url.removesuffix("/mcp")}
    assert client.post(served.url, json=request("tools/list"), headers=headers).status_code == 200


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://localhost:3000", "http://127.0.0.1.evil.example"]
)
def test_a_web_page_is_refused_on_every_path_although_it_has_the_token(served, client, origin):
    for path in ("/mcp", "/other"):
        answer = client.post(
            served.url.removesuffix("/mcp") + path, json=request("tools/list"), headers={"origin": origin}
        )
        assert answer.status_code == 403
    assert "access-control-allow-origin" not in answer.headers


def test_hosts_and_origins_may_be_allowed():
    origin = "https://app.example"
    with serving(allowed_hosts=["pflow.example"], allowed_origins=[origin]) as served:
        for host in ("pflow.example", "pflow.example:8443"):
            headers = {**bearer(), "host": host, "origin": origin}
            answer = post(served, request("tools/list"), headers)
            assert answer.status_code == 200
        assert answer.headers["access-control-allow-origin"] == origin
        ask = {"origin": origin, "access-control-request-method": "POST"}
        preflight = httpx2.options(served.url, headers=ask, trust_env=False, verify=False)
        assert preflight.status_code == 200
        ask["origin"] = "https://evil.example"
        assert httpx2.options(served.url, headers=ask, trust_env=False, verify=False).status_code == 403


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
def test_no_session_is_kept(served, client, method):
    answer = client.request(method, served.url)
    assert answer.status_code == 405
    assert answer.headers["allow"] == "POST"
    assert client.request(method, served.url.removesuffix("/mcp") + "/other").status_code == 404


@pytest.mark.parametrize("era", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("depth", [500, 100_000])
def test_a_body_nested_without_end_is_refused_and_the_server_goes_on(served, client, era, depth):
    body = '{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo", "arguments": '
    body += '{"a":' * depth + "1" + "}" * depth + "}}"
    answer = client.post(served.url, content=body, headers={"mcp-protocol-version": era})
    assert answer.status_code in {200, 400}
    assert client.post(served.url, json=request("tools/list")).status_code == 200


@pytest.mark.parametrize("body", [b"", b"nonsense", b"\xff\xfe", b"[]", b"1" * 5000, b'{"a": NaN}'])
@pytest.mark.parametrize("era", ["2025-11-25", "2026-07-28", "soon"])
def test_a_body_that_is_no_request_is_refused(served, client, era, body):
    answer = client.post(served.url, content=body, headers={"mcp-protocol-version": era})
    assert 400 <= answer.status_code < 500


CALL = request("tools/call", {"name": "planted-secret"})
UNREADABLE = [
    *((b'{"id": 1, "params": {"a": %s}}' % it, 1) for it in (b"[1e400]", b"NaN", b"9" * 5_000, b'"\\ud800"')),
    (b'{"id": 1, "params": {"a": "\xff"}}', None),
    (b'{"id": "\\ud800"}', "\ud800"),
]


@pytest.mark.parametrize(("body", "number"), UNREADABLE)
def test_what_cannot_be_read_as_json_is_refused_under_its_id(served, client, body, number):
    answer = client.post(served.url, content=body)
    assert answer.status_code == 400
    assert answer.json()["id"] == number
    assert answer.json()["error"]["code"] == -32700
    assert "cannot be read as JSON" in answer.json()["error"]["message"]


NO_MESSAGES = [
    *(({**CALL, "id": number}, None, "The id of a request") for number in (None, 1.5, 1.0, True, [1])),
    ([CALL], None, "batches are not supported"),
    ({**CALL, "method": 5}, 1, "Not a request"),
    ({**CALL, "params": ["planted-secret"]}, 1, "The params must be an object"),
    ({**CALL, "jsonrpc": "1.0"}, 1, 'jsonrpc must be "2.0"'),
    ({"jsonrpc": "2.0", "id": 1, "error": "planted-secret"}, 1, "Not a request"),
]


@pytest.mark.parametrize("era", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize(("body", "number", "reason"), NO_MESSAGES)
def test_what_is_no_message_is_refused_with_the_reason_and_not_repeated(
    served, client, era, body, number, reason
):
    answer = client.post(served.url, json=body, headers={"mcp-protocol-version": era})
    assert answer.status_code == 400
    assert answer.json()["id"] == number
    assert answer.json()["error"]["code"] == -32600
    assert reason in answer.json()["error"]["message"]
    assert "planted-secret" not in answer.text


def test_a_crash_is_a_line_on_stderr_without_its_message_and_requests_leave_none(served, client, capfd):
    client.post(served.url, json=request("tools/list"), headers={"host": "evil.example"})
    served.raw(b"nonsense\r\n\r\n")
    assert capfd.readouterr() == ("", "")
    answer = client.post(served.url, json=request("tools/call", {"name": "crash", "arguments": {}}))
    assert "Traceback" not in answer.text
    captured = capfd.readouterr()
    assert captured.out == ""
    assert "RuntimeError in served.py" in captured.err
    assert TOKEN not in captured.err


def test_the_answer_is_json_unless_there_is_progress(served, client):
    unasked = request("tools/call", {"name": "steps", "arguments": {}})
    for body, headers, kind in (
        (modern_call("echo"), modern_headers("echo"), "application/json"),
        (modern_call("steps"), modern_headers("steps"), "text/event-stream"),
        (modern_call("steps"), ERA_2025, "text/event-stream"),
        (unasked, ERA_2025, "application/json"),
    ):
        answer = client.post(served.url, json=body, headers=headers)
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"].startswith(kind)
        assert kind != "application/json" or "result" in answer.json()


WAIT = request("tools/call", {"name": "wait", "arguments": {}})
HEAD = f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n".encode()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """A server that waits for a request half a second."""
    monkeypatch.setattr(http_server, "RECEIVE_SECONDS", 0.5)
    with serving() as running:
        yield running


def until_closed(connection: socket.socket) -> bytes:
    """Return what comes until the server closes the connection, in less time than the default."""
    connection.settimeout(15)
    received = b""
    try:
        while data := connection.recv(65536):
            received += data
    except ConnectionResetError:
        pass
    return received


@pytest.mark.parametrize(
    "beginning",
    [
        b"",
        HEAD + b"X-Slow: ",
        HEAD + b"Content-Length: 100\r\nContent-Type: application/json\r\n\r\n{",
        b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{",
    ],
    ids=["nothing", "half a header", "half a body", "half a body without a token"],
)
def test_a_slow_request_does_not_hold_its_connection(impatient, beginning):
    refused = b"Content-Length" in beginning and TOKEN.encode() not in beginning
    with closing(impatient.connect()) as connection:
        connection.sendall(beginning)
        assert until_closed(connection).startswith(b"HTTP/1.1 401 " if refused else b"")
    assert post(impatient, request("tools/list")).is_success


def test_headers_without_end_are_refused(served):
    with suppress(ConnectionError):  # it may be closed while the rest is on its way
        assert served.raw(HEAD + b"X-Long: " + b"x" * (1 << 20)).startswith(b"HTTP/1.1 4")


def test_a_half_closed_connection_leaves_nothing_behind(served, client):
    with closing(served.connect()) as connection:
        connection.sendall(HEAD + b"Content-Length: 100\r\n\r\n{")
        connection.shutdown(socket.SHUT_WR)
        until_closed(connection)
    assert client.post(served.url, json=request("tools/list")).status_code == 200


def test_a_request_too_many_is_refused_until_another_has_ended():
    with serving(max_requests=1) as served:
        answers: list[int] = []
        first = threading.Thread(target=lambda: answers.append(post(served, WAIT).status_code))
        first.start()
        assert served.work.began.wait(10)
        refused = post(served, request("tools/list"))
        assert refused.status_code == 503
        assert refused.headers["retry-after"] == "1"
        served.work.go_on.set()
        first.join(10)
        assert answers == [200]
        assert post(served, request("tools/list")).status_code == 200


def test_a_client_that_does_not_read_its_answer_gives_way_to_others(monkeypatch):
    monkeypatch.setattr(http_server, "UNREAD_SECONDS", 0.5)
    body = json.dumps(
        request("tools/call", {"name": "echo", "arguments": {"text": "x" * (3 << 20)}})
    ).encode()
    head = HEAD + "".join(f"{name}: {value}\r\n" for name, value in {**ACCEPT, **ERA_2025}.items()).encode()
    with serving(max_requests=1) as served, closing(socket.socket()) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", served.port))
        connection.sendall(head + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        connection.recv(1)  # the answer has begun
        deadline = time.monotonic() + 20
        while post(served, request("tools/list")).status_code == 503:
            assert time.monotonic() < deadline
            time.sleep(0.05)


@pytest.mark.parametrize(
    ("text", "url", "loopback"),
    [
        (":8000", "http://127.0.0.1:8000/mcp", True),
        ("localhost:8000", "http://localhost:8000/mcp", True),
        ("[::1]:8000", "http://[::1]:8000/mcp", True),
        ("0.0.0.0:1", "http://0.0.0.0:1/mcp", False),
        ("[::]:1", "http://[::]:1/mcp", False),
        ("pflow.example:443", "http://pflow.example:443/mcp", False),
    ],
)
def test_an_address_has_a_url(text, url, loopback):
    address = parse_address(text)
    assert address.url() == url
    assert address.is_loopback == loopback
    assert address.is_wildcard == (address.host in {"0.0.0.0", "::"})


@pytest.mark.parametrize(
    "text", ["", "8000", "localhost", "::1:8000", "a:b", "a:-1", "a:65536", "http://a:1", "a b:1"]
)
def test_what_is_no_address_is_refused(text):
    with pytest.raises(PflowError, match="is not an address to listen on") as refused:
        parse_address(text)
    assert refused.value.kind == "usage"


@given(st.text())
def test_any_text_is_an_address_or_refused(text):
    try:
        address = parse_address(text)
    except PflowError:
        return
    assert isinstance(address, ListeningAddress)
    assert 0 <= address.port <= 65535
