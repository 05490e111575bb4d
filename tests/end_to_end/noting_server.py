"""A stdio server without the SDK, with one tool: it notes in a file that it was started.

The first argument is the file, the second the variable whose value it notes, the third what its tool answers.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from stdio_loop import Message, send, serve

NOTES, VARIABLE, TEXT = sys.argv[1:]


def call(request: Message) -> None:
    send(id=request["id"], result={"content": [{"type": "text", "text": TEXT}]})


if __name__ == "__main__":
    with Path(NOTES).open("a", encoding="utf-8") as file:
        file.write(f"started with {VARIABLE}={os.environ.get(VARIABLE)}\n")
    serve(lambda: [{"name": "say", "inputSchema": {"type": "object", "properties": {}}}], call, name="noting")
