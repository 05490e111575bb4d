"""A stdio server without the SDK that repeats its own `TOKEN`, whole, in parts and in every form.

With `ECHO` set, it does so in the description of itself and of its tools, too.
"""

import base64
import json
import os
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

sys.path.append(str(Path(__file__).parents[1] / "faults"))

from stdio_server import INITIALIZE, Message, Plain, send

TOKEN = os.environ["TOKEN"]
ECHO = os.environ.get("ECHO")
TAIL = 64 * 1024
NAMES = ("fail", "blocks", "forms", "rpc", "garbage", "progress", "ask", "stderr", "large", "mime")


def text(*blocks: str, failed: bool = True) -> Message:
    return {"content": [{"type": "text", "text": block} for block in blocks], "isError": failed}


def forms() -> list[str]:
    raw = TOKEN.encode()
    found = [TOKEN, quote(TOKEN), quote(TOKEN, safe=""), quote_plus(TOKEN), json.dumps(TOKEN), repr(TOKEN)]
    for before in range(3):
        found.append(base64.b64encode(b"." * before + raw).decode())
        found.append(base64.urlsafe_b64encode(b"." * before + raw).decode())
    return [*found, base64.encodebytes(b"." * 40 + raw).decode()]


def fail(request: Message, number: int) -> None:
    match request["params"]["name"]:
        case "rpc":
            data = {"token": [TOKEN[:number], TOKEN[number:]], "long": "z" * (4000 - number) + TOKEN}
            error = {"code": -32000, "message": "x" * number + TOKEN, "data": data}
            send({"id": request["id"], "error": error})
        case "garbage":
            print("{" + TOKEN * 45 + "x" * (2000 - 45 * len(TOKEN) - number) + TOKEN, flush=True)
        case "stderr":
            sys.stderr.write("-" * 1000 + TOKEN + "+" * (TAIL - number))
            sys.stderr.flush()
            os._exit(3)


def answer(request: Message, number: int, *, failed: bool) -> Message:
    match request["params"]["name"]:
        case "fail":
            return text("x" * number + TOKEN + "y" * 100)
        case "blocks":
            return text(TOKEN[:number], TOKEN[number:], failed=failed)
        case "forms":
            return text(*forms())
        case "progress":
            token = request["params"]["_meta"]["progressToken"]
            params = {"progressToken": token, "progress": 1, "message": "x" * number + TOKEN}
            send({"method": "notifications/progress", "params": params})
            send({"method": "notifications/message", "params": {"level": "error", "data": TOKEN}})
        case "ask":
            schema = {"type": "object", "properties": {"token": {"type": "string", "default": TOKEN}}}
            params = {"message": f"Is {TOKEN} still your token?", "requestedSchema": schema}
            send({"id": "question", "method": "elicitation/create", "params": params})
        case "large":
            return text(TOKEN + "x" * 600_000, failed=False)
        case "mime":
            return {"content": [{"type": "image", "data": "not base64!", "mimeType": f"image/{TOKEN}"}]}
    return text("done", failed=False)


def tool(name: str) -> Message:
    properties = {"number": {"type": "integer"}, "failed": {"type": "boolean"}}
    schema = {"type": "object", "properties": properties}
    described: Message = {"name": name, "inputSchema": schema}
    if ECHO:
        value = {"type": "string", "description": f"not {TOKEN}", "default": TOKEN, "enum": [TOKEN, "other"]}
        described |= {
            "title": f"Title {TOKEN}",
            "description": f"Runs with --token={TOKEN}, or {quote(TOKEN, safe='')}",
            "inputSchema": {"type": "object", "properties": {"value": value}},
            "outputSchema": {"type": "object", "properties": {"out": {"type": "string", "title": TOKEN}}},
            "annotations": {"title": TOKEN},
            "_meta": {"example.com/token": TOKEN},
        }
    return described


def tools() -> list[Any]:
    listed: list[Any] = [tool(name) for name in NAMES]
    if not ECHO:
        return listed
    argument = {"type": "object", "properties": {TOKEN: {"type": "string"}}}
    broken = {"name": f"bad-{TOKEN}", "inputSchema": {"type": TOKEN}}
    long = {"name": "n" * 240 + TOKEN, "inputSchema": {"type": "object"}}
    named = {"name": f"use_{TOKEN}", "inputSchema": {"type": "object"}}
    return [*listed, named, {"name": "argument", "inputSchema": argument}, broken, long, long]


class Echoing(Plain):
    def initialize(self, request: Message) -> None:
        said = f" {TOKEN}" if ECHO else ""
        info = {"name": f"echoing{said}", "version": f"1{said}"}
        self.reply(request, {**INITIALIZE, "serverInfo": info, "instructions": f"Be kind.{said}"})

    def tools(self, request: Message) -> None:
        self.reply(request, {"tools": tools()})

    def call(self, request: Message) -> None:
        given = request["params"].get("arguments", {})
        number = int(given.get("number", 0))
        if request["params"]["name"] in ("rpc", "garbage", "stderr"):
            fail(request, number)
        else:
            self.reply(request, answer(request, number, failed=bool(given.get("failed"))))


if __name__ == "__main__":
    Echoing().serve()
