"""A stdio server that appends each value it is sent to the file `EFFECTS`, and may kill its client.

`KILL` names when: `before`, `after` (the effect, without an answer) or `answered`, and the value. `END` names
likewise when the server itself ends without an answer. While there is a file `EFFECTS` with the
suffix `.slow`, its start takes for ever. The tool `look` says that it only reads. Results are `SIZE` bytes
larger. `REFUSE` is a value that is refused without an effect, and `VERSION` what the server says that it is.
"""

import os
import signal
import sys
import threading
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "faults"))

from stdio_server import INITIALIZE, Message, Plain, text

EFFECTS = Path(os.environ["EFFECTS"])
MARK = EFFECTS.with_suffix(".killed")
"""It happens once: what is resumed is not killed again."""
SEND = {
    "name": "send",
    "inputSchema": {"type": "object", "properties": {"value": {}}, "required": ["value"]},
}
LOOK = {**SEND, "name": "look", "annotations": {"readOnlyHint": True}}


def kill_client(when: str, value: object) -> None:
    """Kill the client if it is time."""
    if os.environ.get("KILL") == f"{when} {value}" and not MARK.exists():
        MARK.touch()
        os.kill(os.getppid(), signal.SIGKILL)


def end(when: str, value: object) -> None:
    """End if it is time."""
    if os.environ.get("END") == f"{when} {value}" and not MARK.exists():
        MARK.touch()
        os._exit(1)


class Counting(Plain):
    def start(self) -> None:
        if EFFECTS.with_suffix(".slow").exists():
            threading.Event().wait()

    def initialize(self, request: Message) -> None:
        info = {"name": "counting", "version": os.environ.get("VERSION", "1")}
        self.reply(request, {**INITIALIZE, "serverInfo": info})

    def tools(self, request: Message) -> None:
        self.reply(request, {"tools": [SEND, LOOK]})

    def call(self, request: Message) -> None:
        value = request["params"]["arguments"]["value"]
        if os.environ.get("REFUSE") == str(value):
            self.reply(request, {**text("not today"), "isError": True})
            return
        kill_client("before", value)
        end("before", value)
        with EFFECTS.open("a", encoding="utf-8") as file:
            file.write(f"{value}\n")
        kill_client("after", value)
        end("after", value)
        result = {"value": value, "next": value + 1 if isinstance(value, int) else None}
        if size := int(os.environ.get("SIZE", "0")):
            result["text"] = "x" * size
        self.reply(request, {"content": [], "structuredContent": result})
        kill_client("answered", value)


if __name__ == "__main__":
    Counting().serve()
