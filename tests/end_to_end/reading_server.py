"""A stdio server without the SDK whose tools only read; it notes its starts and calls in a file.

    reading_server.py TOOLS LOG

`TOOLS` is a file with the list of tools. `image` answers with a picture, `token` with the variable `TOKEN`,
`large` with a text of `size` characters, and any other tool with what it was given and how often this
process was called.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

TOOLS, LOG = map(Path, sys.argv[1:])
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="


def log(line: str) -> None:
    with LOG.open("a", encoding="utf-8") as file:
        file.write(line + "\n")


def answer(name: str, given: dict[str, Any]) -> dict[str, Any]:
    match name:
        case "image":
            return {"content": [{"type": "image", "data": PIXEL, "mimeType": "image/png"}]}
        case "token":
            return {"content": [{"type": "text", "text": f"token: {os.environ['TOKEN']}"}]}
        case "large":
            return {"content": [{"type": "text", "text": "x" * given["size"]}]}
        case _:
            return {"content": [], "structuredContent": {"value": given, "pid": os.getpid()}}


def reply(method: str, params: dict[str, Any]) -> dict[str, Any]:
    match method:
        case "initialize":
            info = {"name": "reading", "version": "1"}
            version = params["protocolVersion"]
            return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
        case "tools/list":
            return {"tools": json.loads(TOOLS.read_text(encoding="utf-8"))}
        case _:
            log(f"call {params['name']}")
            return answer(params["name"], params.get("arguments", {}))


def main() -> None:
    log("start")
    for line in sys.stdin:
        request = json.loads(line)
        if "id" in request:
            result = reply(request["method"], request.get("params", {}))
            print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)


if __name__ == "__main__":
    main()
