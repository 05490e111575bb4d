"""A stdio server without the SDK whose tools only read; it notes its starts and calls in a file.

    reading_server.py TOOLS LOG

`TOOLS` is a file with the list of tools. `token` answers with the variable `TOKEN`, and any other tool with
what it was given and the id of this process.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from stdio_loop import Message, send, serve

TOOLS, LOG = map(Path, sys.argv[1:])


def log(line: str) -> None:
    with LOG.open("a", encoding="utf-8") as file:
        file.write(line + "\n")


def answer(name: str, given: dict[str, Any]) -> dict[str, Any]:
    if name == "token":
        return {"content": [{"type": "text", "text": f"token: {os.environ['TOKEN']}"}]}
    return {"content": [], "structuredContent": {"value": given, "pid": os.getpid()}}


def call(request: Message) -> None:
    params = request["params"]
    log(f"call {params['name']}")
    send(id=request["id"], result=answer(params["name"], params.get("arguments", {})))


if __name__ == "__main__":
    log("start")
    serve(lambda: json.loads(TOOLS.read_text(encoding="utf-8")), call, name="reading")
