"""A stdio server without the SDK whose tools and behaviour the environment sets.

`TOOLS` is a JSON list of tools; `ANSWER` is `echo` (default), `limited` (two calls are refused, then
it is `echo`) or `text`: the text in `TEXT`;
`VERSION` is what it reports as its version; `LOG` is a file that gets a line for each thing that happens.
"""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path

from stdio_loop import Message, send, serve


def log(line: str) -> None:
    if os.environ.get("LOG"):
        with Path(os.environ["LOG"]).open("a", encoding="utf-8") as file:
            file.write(line + "\n")


calls = itertools.count(1)


def call(request: Message) -> None:
    log("call")
    number = next(calls)
    match os.environ.get("ANSWER", "echo"):
        case "limited" if number <= 2:
            text = "429 Too Many Requests"
            send(id=request["id"], result={"content": [{"type": "text", "text": text}], "isError": True})
        case "text":
            send(id=request["id"], result={"content": [{"type": "text", "text": os.environ["TEXT"]}]})
        case _:
            seen = {"arguments": request["params"]["arguments"], "environment": dict(os.environ)}
            send(id=request["id"], result={"content": [], "structuredContent": seen})


if __name__ == "__main__":
    log(f"start TOKEN={os.environ.get('TOKEN')!r}")
    version = os.environ.get("VERSION", "1")
    serve(lambda: json.loads(os.environ["TOOLS"]), call, name="scripted", version=version)
