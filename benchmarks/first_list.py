"""Starts a stdio server, asks for its tools and prints the seconds from its start to the answer.

`python benchmarks/first_list.py PROGRAM WORD...`. The client is a few lines without the SDK, so that the
figure is the server's.
"""

import json
import subprocess
import sys
import time
from typing import IO, Any

_PROTOCOL = "2025-11-25"
_TOOLS = 13


def main() -> None:
    """Start the server, shake hands, list the tools, and end it."""
    begin = time.perf_counter()
    with subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        info = {"name": "benchmark", "version": "1"}
        params = {"protocolVersion": _PROTOCOL, "capabilities": {}, "clientInfo": info}
        _send(server.stdin, {"id": 1, "method": "initialize", "params": params})
        _answer(server.stdout, 1)
        _send(server.stdin, {"method": "notifications/initialized"})
        _send(server.stdin, {"id": 2, "method": "tools/list", "params": {}})
        tools = _answer(server.stdout, 2)["tools"]
        seconds = time.perf_counter() - begin
        server.stdin.close()
        server.kill()
    assert len(tools) == _TOOLS, [tool["name"] for tool in tools]
    print(seconds)


def _send(stdin: IO[bytes], message: dict[str, Any]) -> None:
    stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    stdin.flush()


def _answer(stdout: IO[bytes], number: int) -> Any:
    for line in stdout:
        message = json.loads(line)
        if message.get("id") == number:
            return message["result"]
    raise SystemExit("the server ended without an answer")


main()
