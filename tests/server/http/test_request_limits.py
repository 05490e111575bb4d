"""Limits of size, number and time, with clients that are slow, greedy, or gone."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest
from served import (
    ACCEPT,
    ERA_2025,
    TOKEN,
    Served,
    post,
    request,
    serving,
)

from pflow_mcp_plugin.server.http import http_server

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
