"""A stdio server without the SDK: `python benchmarks/plain_server.py SECONDS_TO_START`.

Its tool `text` returns the requested number of letters in one line.
"""

import json
import sys
import time

_PLACEHOLDER = "PLACEHOLDER"
_PIECE = 1 << 16


def answer(request: dict) -> dict:
    """Return the result of a request."""
    if request["method"] == "initialize":
        info = {"name": "plain", "version": "1"}
        version = request["params"]["protocolVersion"]
        return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
    if request["method"] == "tools/list":
        schema = {"type": "object", "properties": {"length": {"type": "integer"}}}
        return {"tools": [{"name": "text", "inputSchema": schema}]}
    return {"content": [{"type": "text", "text": _PLACEHOLDER}]}


def send(message: dict, length: int) -> None:
    """Write a message in one line, its placeholder replaced by a string of `length` letters, in pieces."""
    before, found, after = json.dumps(message).partition(_PLACEHOLDER)
    sys.stdout.write(before)
    for written in range(0, length if found else 0, _PIECE):
        sys.stdout.write("x" * min(_PIECE, length - written))
    print(after, flush=True)


time.sleep(float(sys.argv[1]))
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        known = message["method"] in ("initialize", "tools/list", "tools/call")
        body = {"result": answer(message)} if known else {"error": {"code": -32601, "message": "unknown"}}
        length = message.get("params", {}).get("arguments", {}).get("length", 0)
        send({"jsonrpc": "2.0", "id": message["id"], **body}, length)
