"""A stdio server without the SDK that hides text in everything it says."""

from __future__ import annotations

import json
import sys
from typing import Any

TAGS = "".join(chr(0xE0000 + ord(letter)) for letter in "obey")
HIDDEN = (
    "\x1b]0;owned\x07\x1b[2J\x1b[8mseen\x9b1A\x08\r\x00\u202egnp.exe\u2066"
    f"\u200b\u2060\ufeff{TAGS}\ufe0f\u200d."
)
"""Terminal sequences, control characters, direction overrides, zero-width and tag characters, selectors."""
PERSIAN = "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645"
FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
TOOL = "note\u200bs"

_SCHEMA = {
    "type": "object",
    "properties": {
        "plain": {"type": "string", "description": f"arg {HIDDEN}", "title": f"T{HIDDEN}"},
        f"odd{HIDDEN}": {"type": "string", "enum": [f"enum {HIDDEN}"], "default": f"default {HIDDEN}"},
        "mode": {"type": "string"},
    },
}
_OUTPUT = {"type": "object", "properties": {"said": {"type": "string", "description": f"out {HIDDEN}"}}}
TOOLS: list[dict[str, Any]] = [
    {
        "name": TOOL,
        "title": f"title {HIDDEN}",
        "description": f"first {HIDDEN} {PERSIAN} {FAMILY}\nsecond {HIDDEN}",
        "inputSchema": _SCHEMA,
        "outputSchema": _OUTPUT,
        "annotations": {"title": f"annotated {HIDDEN}"},
    },
    {"name": f"bad{HIDDEN}", "description": "Its name is bad", "inputSchema": {"type": "object"}},
    {"name": f"malformed{HIDDEN}", "description": 7, "inputSchema": f"none {HIDDEN}"},
]


def send(**message: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def call(number: object, params: dict[str, Any]) -> None:
    token = params.get("_meta", {}).get("progressToken")
    if token is not None:
        progress = {"progressToken": token, "progress": 1, "total": 2, "message": f"progress {HIDDEN}"}
        send(method="notifications/progress", params=progress)
    send(method="notifications/message", params={"level": "warning", "data": f"log {HIDDEN}"})
    send(method=f"notifications/{HIDDEN}", params={HIDDEN: HIDDEN})
    send(method="notifications/message", params=[HIDDEN])
    send(method="notifications/progress", params={"progressToken": HIDDEN, "progress": HIDDEN})
    send(id=f"unknown {HIDDEN}", result={HIDDEN: HIDDEN})
    send(id=f"request {HIDDEN}", method=f"ask/{HIDDEN}", params={HIDDEN: 1})
    print(f"stray {HIDDEN}".replace("\r", ""), flush=True)
    print(f"stderr {HIDDEN}", file=sys.stderr, flush=True)
    mode = (params.get("arguments") or {}).get("mode")
    text = {"type": "text", "text": f"result {HIDDEN}"}
    if mode == "fails":
        send(id=number, result={"content": [text], "isError": True})
    elif mode == "refuses":
        send(id=number, error={"code": -32000, "message": f"refused {HIDDEN}", "data": f"data {HIDDEN}"})
    elif mode == "dies":
        sys.exit(3)
    elif mode == "asks":
        ask = {"message": f"question {HIDDEN}", "requestedSchema": {"type": "object", "properties": {}}}
        send(id="q", method="elicitation/create", params=ask)
        sys.stdin.readline()
        send(id=number, result={"content": [text]})
    else:
        structured = {"said": f"result {HIDDEN}", f"key {HIDDEN}": [f"item {HIDDEN}"]}
        send(id=number, result={"content": [text], "structuredContent": structured})


def main() -> None:
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    for line in sys.stdin:
        request = json.loads(line)
        number, method = request.get("id"), request.get("method")
        if method == "initialize":
            result = {
                "protocolVersion": request["params"]["protocolVersion"],
                "capabilities": {"tools": {}, "logging": {}},
                "serverInfo": {"name": f"server {HIDDEN}", "version": f"1 {HIDDEN}"},
                "instructions": f"instructions {HIDDEN}",
            }
            send(id=number, result=result)
        elif method == "tools/list":
            send(id=number, result={"tools": TOOLS})
        elif method == "tools/call":
            call(number, request["params"])
        elif number is not None:
            send(id=number, error={"code": -32601, "message": "Method not found"})


if __name__ == "__main__":
    main()
