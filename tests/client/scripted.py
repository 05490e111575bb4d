"""A stdio server that speaks the handshake and then does what its script says.

Run as `python scripted.py SCRIPT`: SCRIPT is Python text; for each request it is executed with
`request`, `params`, `reply(result)`, `fail(code, message, data)`, `raw(text)` and `state` at hand, after
`initialize` and `tools/list` were looked at. What `$AT_START` says is executed first: with `modern()`, the
server is one of 2026-07-28, and leaves these two to the script.
"""

import json
import os
import signal
import subprocess
import sys
import time
from types import CodeType

_INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "scripted", "version": "1"},
}
_DISCOVER = {
    "supportedVersions": ["2026-07-28"],
    "capabilities": {"tools": {"listChanged": True}},
    "ttlMs": 0,
    "cacheScope": "private",
}
_SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
_TOOL = {"name": "act", "inputSchema": {"type": "object"}}
STATE: dict[str, object] = {"tools": [_TOOL], "initialize": _INITIALIZE}


def raw(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def notify(what: str, params: object) -> None:
    raw(json.dumps({"jsonrpc": "2.0", "method": f"notifications/{what}", "params": params}) + "\n")


def modern() -> None:
    STATE.clear()
    STATE.update({"server/discover": _DISCOVER, "modern": True})


def changed() -> None:
    notify("tools/list_changed", {"_meta": {_SUBSCRIPTION: STATE["listener"]}})


def take(request: dict[str, object], names: dict[str, object], script: CodeType) -> None:
    params = request.get("params", {})

    def reply(result: object) -> None:
        whole = {"resultType": "complete", **result} if "modern" in STATE else result
        raw(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": whole}) + "\n")

    def fail(code: int, message: str, data: object = None) -> None:
        error = {"code": code, "message": message, "data": data}
        raw(json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": error}) + "\n")

    names |= {"request": request, "params": params, "reply": reply, "fail": fail}
    match request["method"]:
        case "initialize" if "refusal" in STATE:
            fail(*STATE["refusal"])
        case "initialize" | "server/discover" as method if method in STATE:
            reply(STATE[method])
        case "subscriptions/listen" if "modern" in STATE:
            STATE["listener"] = request["id"]
            accepted = {"_meta": {_SUBSCRIPTION: request["id"]}, "notifications": params["notifications"]}
            notify("subscriptions/acknowledged", accepted)
        case "server/discover":
            if "dies on probe" in STATE:
                sys.exit(1)
            fail(-32601, "Method not found")
        case "tools/list" if "tools" in STATE:
            reply({"tools": STATE["tools"]})
        case _:
            exec(script, names)


def main() -> None:
    script = compile(sys.argv[1], "script", "exec")
    modules = {"json": json, "os": os, "signal": signal, "subprocess": subprocess, "sys": sys, "time": time}
    names = {"state": STATE, "raw": raw, "notify": notify, "modern": modern, "changed": changed, **modules}
    exec(compile(os.environ.get("AT_START", ""), "start", "exec"), names)
    for line in sys.stdin:
        request = json.loads(line)
        if "id" in request:
            take(request, names, script)


if __name__ == "__main__":
    main()
