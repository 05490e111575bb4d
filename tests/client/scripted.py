"""A stdio server that speaks the handshake and then does what its script says.

Run as `python scripted.py SCRIPT`: SCRIPT is Python text; for each request it is executed with
`request`, `reply(result)`, `fail(code, message, data)`, `raw(text)` and `state` at hand, after
`initialize` and `tools/list` were looked at.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

_INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "scripted", "version": "1"},
}
_TOOL = {"name": "act", "inputSchema": {"type": "object"}}


def raw(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def notify(what: str, params: object) -> None:
    raw(json.dumps({"jsonrpc": "2.0", "method": f"notifications/{what}", "params": params}) + "\n")


def main() -> None:
    script = compile(sys.argv[1], "script", "exec")
    state: dict[str, object] = {"tools": [_TOOL], "initialize": _INITIALIZE}
    modules = {"json": json, "os": os, "signal": signal, "subprocess": subprocess, "sys": sys, "time": time}
    names = {"state": state, "raw": raw, "notify": notify, **modules}
    exec(compile(os.environ.get("AT_START", ""), "start", "exec"), names)
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue

        def reply(result: object, request: dict[str, object] = request) -> None:
            raw(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}) + "\n")

        def fail(code: int, message: str, data: object = None, request: dict[str, object] = request) -> None:
            error = {"code": code, "message": message, "data": data}
            raw(json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": error}) + "\n")

        names |= {"request": request, "reply": reply, "fail": fail}
        match request["method"]:
            case "initialize" if "refusal" in state:
                fail(*state["refusal"])
            case "initialize" | "server/discover" as method if method in state:
                reply(state[method])
            case "server/discover":
                if "dies on probe" in state:
                    sys.exit(1)
                fail(-32601, "Method not found")
            case "tools/list":
                reply({"tools": state["tools"]})
            case _:
                exec(script, names)


if __name__ == "__main__":
    main()
