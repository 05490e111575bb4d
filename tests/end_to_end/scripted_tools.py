"""A stdio server without the SDK whose tools and behaviour the environment sets.

`TOOLS` is a JSON list of tools; `ANSWER` is `echo` (default) or `text`: the text in `TEXT`;
`VERSION` is what it reports as its version; `LOG` is a file that gets a line for each thing that happens.
"""

import json
import os
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "faults"))

from stdio_server import INITIALIZE, Message, Plain, text


class Scripted(Plain):
    def initialize(self, request: Message) -> None:
        info = {"name": "scripted", "version": os.environ.get("VERSION", "1")}
        self.reply(request, {**INITIALIZE, "serverInfo": info})

    def tools(self, request: Message) -> None:
        self.reply(request, {"tools": json.loads(os.environ["TOOLS"])})

    def call(self, request: Message) -> None:
        if os.environ.get("ANSWER") == "text":
            self.reply(request, text(os.environ["TEXT"]))
        else:
            seen = {"arguments": request["params"]["arguments"], "environment": dict(os.environ)}
            self.reply(request, {"content": [], "structuredContent": seen})


if __name__ == "__main__":
    Scripted().serve()
