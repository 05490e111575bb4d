"""A stdio server without the SDK whose tools and behaviour the environment sets.

`TOOLS` is a JSON list of tools; `ANSWER` is `echo` (default) or `text`: the text in `TEXT`;
`VERSION` is what it reports as its version; `LOG` is a file that gets a line for each thing that happens.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from stdio_loop import Message, send, serve


def log(line: str) -> None:
    if os.environ.get("LOG"):
        with Path(os.environ["LOG"]).open("a", encoding="utf-8") as file:
            file.write(line + "\n")


def call(request: Message) -> None:
    log("call")
    if os.environ.get("ANSWER") == "text":
        result: Message = {"content": [{"type": "text", "text": os.environ["TEXT"]}]}
    else:
        seen = {"arguments": request["params"]["arguments"], "environment": dict(os.environ)}
        result = {"content": [], "structuredContent": seen}
    send(id=request["id"], result=result)


if __name__ == "__main__":
    log(f"start TOKEN={os.environ.get('TOKEN')!r}")
    version = os.environ.get("VERSION", "1")
    serve(lambda: json.loads(os.environ["TOOLS"]), call, name="scripted", version=version)
