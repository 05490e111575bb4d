"""A stdio server without the SDK whose tools and behaviour the environment sets.

`TOOLS` is a JSON list of tools; `ANSWER` is `echo` (default), `limited` (two calls are refused, then
it is `echo`), `garbage`, `hang`, `not-found` or `text`: the text in `TEXT`, which the tool `declared`
gives as the one property of a structured result too;
`VERSION` is what it reports as its version; `LOG` is a file that gets a line for each thing that happens.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import sys
import threading
from pathlib import Path


def log(line: str) -> None:
    if os.environ.get("LOG"):
        with Path(os.environ["LOG"]).open("a", encoding="utf-8") as file:
            file.write(line + "\n")


def send(request: dict[str, object], **body: object) -> None:
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **body}), flush=True)


calls = itertools.count(1)


def call(request: dict[str, object]) -> None:
    log("call")
    number = next(calls)
    match os.environ.get("ANSWER", "echo"):
        case "garbage":
            print("{this is not JSON", flush=True)
        case "limited" if number <= 2:
            text = "429 Too Many Requests"
            send(request, result={"content": [{"type": "text", "text": text}], "isError": True})
        case "hang":
            threading.Event().wait()
        case "not-found":
            send(request, error={"code": -32601, "message": "tools/call"})
        case "text":
            text = os.environ["TEXT"]
            declared = request["params"]["name"] == "declared"
            structured = {"structuredContent": {"result": text}} if declared else {}
            send(request, result={"content": [{"type": "text", "text": text}], **structured})
        case _:
            seen = {"arguments": request["params"]["arguments"], "environment": dict(os.environ)}
            send(request, result={"content": [], "structuredContent": seen})


def on_sigterm(*_: object) -> None:
    log("SIGTERM")
    os._exit(0)


def main() -> None:
    signal.signal(signal.SIGTERM, on_sigterm)
    log(f"start TOKEN={os.environ.get('TOKEN')!r}")
    for line in sys.stdin:
        request = json.loads(line)
        match request.get("method"):
            case "initialize":
                info = {"name": "scripted", "version": os.environ.get("VERSION", "1")}
                version = request["params"]["protocolVersion"]
                send(
                    request,
                    result={"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info},
                )
            case "tools/list":
                send(request, result={"tools": json.loads(os.environ["TOOLS"])})
            case "tools/call":
                call(request)
            case _ if "id" in request:
                send(request, error={"code": -32601, "message": "Method not found"})


if __name__ == "__main__":
    main()
