"""A server that never stops sending: `flooding_server.py TRANSPORT FLOOD [PLACE]`. Standard library only.

`TRANSPORT` is stdio, uds, http or sse; `FLOOD` names what it sends; `PLACE` is the method that starts it,
`tools/call` if none is given. A flood that a notification starts goes on beside the answers to requests. The
server ignores SIGTERM, the end of its stdin and every cancellation. HTTP servers print their port.
"""

from __future__ import annotations

import json
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Message = dict[str, Any]
Write = Callable[[bytes], object]

_CHUNK = 1 << 16


def _notice(method: str, params: Message) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode()


def _request(method: str, params: Message) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 77, "method": method, "params": params}).encode()


def flood(kind: str, token: object) -> bytes:
    """Return one line of a flood; `token` is the progress token of the call."""
    lines = {
        "progress": _notice(
            "notifications/progress", {"progressToken": token, "progress": 1, "message": "on"}
        ),
        "changes": _notice("notifications/tools/list_changed", {}),
        "strays": b"on and on",
        "letters": b"x",
        "blanks": b"",
        "answers": json.dumps({"jsonrpc": "2.0", "id": 4711, "result": {"content": []}}).encode(),
        "errors": json.dumps({"jsonrpc": "2.0", "id": None, "error": {"code": 1, "message": "x"}}).encode(),
        "pings": _request("ping", {}),
        "questions": _request(
            "elicitation/create",
            {"message": "What?", "requestedSchema": {"type": "object", "properties": {}}},
        ),
    }
    return lines[kind]


class Server:
    """Answers what comes before the flood."""

    def __init__(self, kind: str, place: str) -> None:
        self.kind = kind
        self.place = place

    def answer(self, message: Message) -> bytes | None:
        """Return the answer to a message, None if there is none."""
        method = message.get("method", "")
        if "id" not in message or not method:
            return None
        results: dict[str, Message] = {
            "initialize": {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {"listChanged": True}},
                "serverInfo": {"name": "flooding", "version": "1"},
            },
            "tools/list": {"tools": [{"name": "act", "inputSchema": {"type": "object"}}]},
            "tools/call": {"content": [{"type": "text", "text": "done"}]},
        }
        whole: Message = {"jsonrpc": "2.0", "id": message["id"]}
        if method in results:
            whole["result"] = results[method]
        else:
            whole["error"] = {"code": -32601, "message": "Method not found"}
        return json.dumps(whole).encode()

    def floods(self, message: Message) -> bool:
        return message.get("method") == self.place

    def pour(self, message: Message, write: Write, end: bytes = b"\n", begin: bytes = b"") -> None:
        """Write the same line until nobody takes it any more."""
        token = ((message.get("params") or {}).get("_meta") or {}).get("progressToken", 0)
        line = begin + flood(self.kind, token) + end
        chunk = line * max(1, _CHUNK // len(line))
        try:
            while True:
                write(chunk)
        except OSError:
            time.sleep(600)  # it does not end by itself


def serve_lines(server: Server, lines: Any, write: Write) -> None:
    for line in lines:
        message = json.loads(line)
        if server.floods(message) and "id" not in message:
            threading.Thread(target=server.pour, args=(message, write), daemon=True).start()
        elif server.floods(message):
            server.pour(message, write)
        elif (answer := server.answer(message)) is not None:
            write(answer + b"\n")
    time.sleep(600)


def serve_uds(server: Server, path: str) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()
        while True:
            connection, _ = listening.accept()
            stream = connection.makefile("rb")
            threading.Thread(target=serve_lines, args=(server, stream, connection.sendall)).start()


def handler_of(server: Server, transport: str) -> type[BaseHTTPRequestHandler]:  # noqa: C901 - a class in it
    streams: list[Handler] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.0"

        def do_GET(self) -> None:
            if transport != "sse":
                self.send_error(405)
                return
            self.begin(b"event: endpoint\ndata: /messages\n\n")
            streams.append(self)
            time.sleep(600)

        def do_DELETE(self) -> None:
            self.send_error(405)

        def do_POST(self) -> None:
            message = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if transport == "sse":
                self.send_response(202)
                self.end_headers()
                self.wfile.flush()
                self.connection.shutdown(socket.SHUT_WR)
                stream = streams[-1]
            elif server.floods(message):
                stream = self
                self.begin(b"")
            else:
                self.respond(server.answer(message))
                return
            if server.floods(message):
                server.pour(message, stream.wfile.write, b"\n\n", b"data: ")
            elif (answer := server.answer(message)) is not None:
                stream.wfile.write(b"data: " + answer + b"\n\n")

        def begin(self, data: bytes) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            self.wfile.write(data)

        def respond(self, answer: bytes | None) -> None:
            self.send_response(202 if answer is None else 200)
            self.send_header("content-type", "application/json")
            self.end_headers()
            self.wfile.write(answer or b"")

        def log_message(self, *args: object) -> None:
            """Nothing: nobody reads it."""

    return Handler


def main(transport: str, kind: str, place: str = "tools/call", path: str = "") -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    server = Server(kind, place)
    if transport == "stdio":
        out = sys.stdout.buffer

        writing = threading.Lock()

        def write(data: bytes) -> None:
            with writing:
                out.write(data)
                out.flush()

        serve_lines(server, sys.stdin.buffer, write)
    elif transport == "uds":
        serve_uds(server, path)
    else:
        listening = ThreadingHTTPServer(("127.0.0.1", 0), handler_of(server, transport))
        print(listening.server_port, flush=True)
        listening.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
