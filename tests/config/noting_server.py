"""A stdio server without the SDK, with one tool: it notes in a file that it was started.

The first argument is the file, the second the variable whose value it notes, the third what its tool answers.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any


def answer(method: str, text: str) -> dict[str, Any]:
    match method:
        case "initialize":
            information = {"name": "noting", "version": "1"}
            return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": information}
        case "tools/list":
            return {"tools": [{"name": "say", "inputSchema": {"type": "object", "properties": {}}}]}
        case "tools/call":
            return {"content": [{"type": "text", "text": text}]}
    return {}


def main() -> None:
    notes, variable, text = sys.argv[1:]
    with Path(notes).open("a", encoding="utf-8") as file:
        file.write(f"started with {variable}={os.environ.get(variable)}\n")
    for line in sys.stdin:
        request = json.loads(line)
        method = request.get("method", "")
        if "id" not in request:
            continue
        body: dict[str, Any] = {"result": answer(method, text)}
        if method == "server/discover":
            body = {"error": {"code": -32601, "message": "Method not found"}}
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **body}), flush=True)


if __name__ == "__main__":
    main()
