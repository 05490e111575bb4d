"""A stdio server without the SDK that doubles numbers, and notes its process id in a file as it starts."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from stdio_loop import Message, send, serve

INTEGER = {"type": "integer"}
DOUBLE = {
    "name": "double",
    "inputSchema": {"type": "object", "properties": {"number": INTEGER}, "required": ["number"]},
    "outputSchema": {"type": "object", "properties": {"result": INTEGER}, "required": ["result"]},
}


def call(request: Message) -> None:
    number = request["params"]["arguments"]["number"]
    if number < 0:
        text = {"type": "text", "text": "Error executing tool double"}
        send(id=request["id"], result={"content": [text], "isError": True})
    else:
        send(id=request["id"], result={"content": [], "structuredContent": {"result": 2 * number}})


if __name__ == "__main__":
    with Path(sys.argv[1]).open("a", encoding="utf-8") as starts:
        starts.write(f"{os.getpid()}\n")
    serve(lambda: [DOUBLE], call, name="counting")
