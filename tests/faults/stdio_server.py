"""A stdio server that plays one fault: `python stdio_server.py SCENARIO`. Standard library only.

A scenario is a class; what it does not say, `Plain` does well. With `$LOG` set, each thing that
happens is a line in that file: `start`, the method of each message, `call VALUE`, `cancelled`.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

Message = dict[str, Any]

INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {"listChanged": True}},
    "serverInfo": {"name": "faulty", "version": "1"},
}


def tool(name: Any, schema: Any = None) -> Message:
    return {"name": name, "inputSchema": schema or {"type": "object", "properties": {"value": {}}}}


def text(value: object) -> Message:
    return {"content": [{"type": "text", "text": str(value)}]}


def write(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def send(message: Message) -> None:
    write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def log(line: str) -> None:
    if "LOG" in os.environ:
        with Path(os.environ["LOG"]).open("a", encoding="utf-8") as file:
            file.write(line + "\n")


class Plain:
    """A server that does everything right."""

    def start(self) -> None:
        """Before anything is read."""

    def probe(self, request: Message) -> None:
        self.fail(request, -32601, "Method not found")

    def initialize(self, request: Message) -> None:
        self.reply(request, INITIALIZE)

    def tools(self, request: Message) -> None:
        self.reply(request, {"tools": [tool("act")]})

    def call(self, request: Message) -> None:
        self.reply(request, text("done"))

    def heard(self, message: Message) -> None:
        """A notification, or the answer to a request of ours."""
        if message.get("method") == "notifications/cancelled":
            log("cancelled")

    def reply(self, request: Message, result: object) -> None:
        send({"id": request["id"], "result": result})

    def fail(self, request: Message, code: int, message: str) -> None:
        send({"id": request["id"], "error": {"code": code, "message": message}})

    def serve(self) -> None:
        log("start")
        self.start()
        for line in sys.stdin.buffer:
            self.take(json.loads(line))

    def take(self, message: Message) -> None:
        method = message.get("method", "answer")
        log(method)
        if "id" not in message or "method" not in message:
            self.heard(message)
        elif method == "server/discover":
            self.probe(message)
        elif method == "initialize":
            self.initialize(message)
        elif method == "tools/list":
            self.tools(message)
        else:
            log(f"call {message['params'].get('arguments', {}).get('value')}")
            self.call(message)


class ExitsAtOnce(Plain):
    def start(self) -> None:
        print("no database", file=sys.stderr, flush=True)
        sys.exit(3)


class LogsOnStdout(Plain):
    def start(self) -> None:
        write(b"starting with secret-7\nlistening\n")

    def call(self, request: Message) -> None:
        write(b'called\n{"level": "info"}\n')
        super().call(request)


class BreaksJson(Plain):
    def call(self, request: Message) -> None:
        write(b"{oops \xff\n")


class BreaksOff(Plain):
    def call(self, request: Message) -> None:
        write(b'{"jsonrpc": "2.0", "id": %d, "resu' % request["id"])
        os._exit(0)


class WritesBadBytes(Plain):
    def call(self, request: Message) -> None:
        write(b"\xff\xfe log\n")
        body = b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"a\xffb"}]}}\n'
        write(body % request["id"])


class WritesWithoutEnd(Plain):
    """Sends a line of 256 MB, which is not the end of it."""

    def call(self, request: Message) -> None:
        with contextlib.suppress(BrokenPipeError):
            for _ in range(256):
                write(b"x" * 1_000_000)
            threading.Event().wait()
        os._exit(0)


class SendsMuch(Plain):
    def call(self, request: Message) -> None:
        self.reply(request, text("x" * 20_000_000))


class IsSilent(Plain):
    def take(self, message: Message) -> None:
        """Read on, and say nothing."""


class AnswersAnotherId(Plain):
    def call(self, request: Message) -> None:
        send({"id": 9999, "result": text("for whom?")})


class AnswersThreeTimes(Plain):
    """Answers three times, or not at all where the value is `hang`."""

    def call(self, request: Message) -> None:
        value = request["params"]["arguments"]["value"]
        for _ in range(0 if value == "hang" else 3):
            self.reply(request, text(value))


class SpeaksAnOldVersion(Plain):
    def initialize(self, request: Message) -> None:
        self.reply(request, {**INITIALIZE, "protocolVersion": "1999-01-01"})


class StopsReading(Plain):
    def heard(self, message: Message) -> None:
        if message.get("method") == "notifications/initialized":
            threading.Event().wait()


class WillNotEnd(Plain):
    """Ignores the end of its input and SIGTERM, and so does a child of it."""

    def start(self) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        start_hidden()

    def serve(self) -> None:
        super().serve()
        threading.Event().wait()


def start_hidden() -> None:
    """Start a child in the group that carries no environment; nobody but the group knows of it."""
    child = subprocess.Popen(["sleep", "600"], env={})
    log(f"hidden {child.pid}")


class StartsChildren(Plain):
    """Has a child, a grandchild, and a child without an environment."""

    def start(self) -> None:
        inner = "import subprocess, time; subprocess.Popen(['sleep', '600']); time.sleep(600)"
        subprocess.Popen([sys.executable, "-c", inner])
        start_hidden()


class StartsADaemon(Plain):
    def start(self) -> None:
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                for descriptor in (0, 1, 2):
                    os.close(descriptor)
                os.execvp("sleep", ["sleep", "600"])
            os._exit(0)
        os.wait()


class FloodsStderr(Plain):
    def call(self, request: Message) -> None:
        for _ in range(20):
            sys.stderr.write("x" * 1_000_000)
        sys.stderr.flush()
        if request["params"]["arguments"].get("value") == "die":
            os._exit(4)
        super().call(request)


class Crashes(Plain):
    def call(self, request: Message) -> None:
        print("going down", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGSEGV)


class Hangs(Plain):
    """Answers no call, but reads on; says when it is told to end."""

    def start(self) -> None:
        signal.signal(signal.SIGTERM, lambda *_: (log("SIGTERM"), os._exit(0)))

    def call(self, request: Message) -> None:
        """Say nothing."""


class HangsWithAFamily(StartsChildren):
    """Has children and a daemon, answers no call, and ignores the end of input and SIGTERM."""

    def start(self) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        super().start()
        StartsADaemon().start()

    def call(self, request: Message) -> None:
        """Say nothing."""

    def serve(self) -> None:
        super().serve()
        threading.Event().wait()


class ReportsAFailure(Plain):
    def call(self, request: Message) -> None:
        content = text("no such issue")["content"]
        self.reply(request, {"content": content, "isError": True, "structuredContent": {"issue": None}})


class AnswersWithAnError(Plain):
    def call(self, request: Message) -> None:
        self.fail(request, -32050, "quota used up")


class NeverEndsItsList(Plain):
    def tools(self, request: Message) -> None:
        page = int((request.get("params") or {}).get("cursor") or 0)
        self.reply(request, {"tools": [tool(f"tool-{page}")], "nextCursor": str(page + 1)})


class RepeatsItsList(Plain):
    def tools(self, request: Message) -> None:
        self.reply(request, {"tools": [tool("act")], "nextCursor": "again"})


class ListsSlowly(Plain):
    """Lists its tool `$TOOL`, or ends with `$FAILS`, once there is a file `go` in `$FOLDER`."""

    def tools(self, request: Message) -> None:
        folder = Path(os.environ["FOLDER"])
        (folder / f"asked-{os.getpid()}").touch()
        while not (folder / "go").exists():
            time.sleep(0.01)
        if os.environ.get("FAILS"):
            sys.stderr.write("a line of stderr\n" * 1000)
            sys.exit(1)
        self.reply(request, {"tools": [tool(os.environ["TOOL"])]})


class HasDoubles(Plain):
    def tools(self, request: Message) -> None:
        self.reply(request, {"tools": [tool("good"), tool("two"), tool("two", {"type": "object", "x": 1})]})


class HasAMalformedTool(Plain):
    def tools(self, request: Message) -> None:
        self.reply(request, {"tools": [tool("good"), {"name": "bad", "inputSchema": 7}, tool("fine")]})


class HasTheSchema(Plain):
    """Its tool takes what `$SCHEMA` says."""

    def tools(self, request: Message) -> None:
        self.reply(request, {"tools": [tool("act", json.loads(os.environ["SCHEMA"]))]})


class ChangesItsTools(Plain):
    """Says so with the first call; says so after each start, too, when nothing is different."""

    names = ("act",)

    def heard(self, message: Message) -> None:
        if message.get("method") == "notifications/initialized":
            send({"method": "notifications/tools/list_changed"})

    def tools(self, request: Message) -> None:
        self.reply(request, {"tools": [tool(name) for name in self.names]})

    def call(self, request: Message) -> None:
        if (request["params"]["arguments"]).get("value") == "change":
            self.names = ("act", "another")
            send({"method": "notifications/tools/list_changed"})
        super().call(request)


class ReportsProgress(Plain):
    """No fault: says how far it is before it answers."""

    def call(self, request: Message) -> None:
        token = request["params"]["_meta"]["progressToken"]
        for done in (1, 2):
            params = {"progressToken": token, "progress": done, "total": 2, "message": f"part {done}"}
            send({"method": "notifications/progress", "params": params})
            time.sleep(0.1)
        super().call(request)


class LosesItsTool(Plain):
    def call(self, request: Message) -> None:
        self.fail(request, -32602, "Unknown tool: act")


class Asks(Plain):
    """Asks a question during a call, and returns the answer."""

    asked: Message

    def call(self, request: Message) -> None:
        self.asked = request
        method = request["params"]["arguments"]["value"]
        message = {"role": "user", "content": {"type": "text", "text": "?"}}
        params = {
            "sampling/createMessage": {"messages": [message], "maxTokens": 5},
            "elicitation/create": {
                "message": "Name?",
                "requestedSchema": {"type": "object", "properties": {}},
            },
        }[method]
        send({"id": "question", "method": method, "params": params})

    def heard(self, message: Message) -> None:
        if message.get("id") == "question":
            self.reply(self.asked, text(json.dumps(message)))


class DiesIdle(Plain):
    """Ends a moment after each answer."""

    def call(self, request: Message) -> None:
        log(f"dying {os.getpid()}")
        super().call(request)
        os._exit(0)


class StopsListeningIdle(Plain):
    """Closes its stdin after the first answer, and lives on."""

    def call(self, request: Message) -> None:
        os.close(0)
        super().call(request)
        threading.Event().wait()


class DiesOnTheProbe(Plain):
    def probe(self, request: Message) -> None:
        sys.exit(1)

    def call(self, request: Message) -> None:
        if request["params"]["arguments"].get("value") == "die":
            os._exit(1)
        super().call(request)


class SilentOnTheProbe(Plain):
    def probe(self, request: Message) -> None:
        """Say nothing."""


class StartsSlowly(Plain):
    """Is modern, and takes so long to start that the first probe has been given up."""

    late: Message | None = None

    def probe(self, request: Message) -> None:
        if self.late is None:
            self.late = request
        else:
            self.discover(request)

    def discover(self, request: Message) -> None:
        result = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        result |= {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
        self.reply(request, result)

    def initialize(self, request: Message) -> None:
        assert self.late is not None
        self.discover(self.late)
        data = {"supported": ["2026-07-28"], "requested": request["params"]["protocolVersion"]}
        error = {"code": -32022, "message": "Unsupported protocol version", "data": data}
        send({"id": request["id"], "error": error})


class CrashesOnce(Plain):
    """Answers each call in a thread of its own; the first start goes down at the value `$CRASH_AT`."""

    def call(self, request: Message) -> None:
        value = request["params"]["arguments"]["value"]
        marker = Path(os.environ["LOG"]).with_suffix(".crashed")
        if value == os.environ["CRASH_AT"] and not marker.exists():
            marker.touch()
            time.sleep(0.02)  # calls that were sent meanwhile go down with it
            os.kill(os.getpid(), signal.SIGKILL)
        self.reply(request, text(value))


class Changes(Plain):
    """Says what the file `$SCRIPT` contains at each start: `{"tools": [...], "instructions": "..."}`.

    Its other members: `initialize` and `results`, by method, add to what is answered.
    """

    def start(self) -> None:
        self.script = json.loads(Path(os.environ["SCRIPT"]).read_text(encoding="utf-8"))

    def initialize(self, request: Message) -> None:
        said = {"instructions": self.script.get("instructions", ""), **self.script.get("initialize", {})}
        self.reply(request, {**INITIALIZE, **said})

    def tools(self, request: Message) -> None:
        self.reply(request, {"tools": self.script["tools"]})

    def call(self, request: Message) -> None:
        results = self.script.get("results", {})
        self.reply(request, results.get(request["method"], text("done")))


class Notes(Plain):
    """No fault: notes each start in the file of its first argument, with the variable that the second names.

    Its tool answers with the third.
    """

    def start(self) -> None:
        file, variable, _ = sys.argv[2:]
        with Path(file).open("a", encoding="utf-8") as notes:
            notes.write(f"started with {variable}={os.environ.get(variable)}\n")

    def call(self, request: Message) -> None:
        self.reply(request, text(sys.argv[4]))


class Reads(Plain):
    """No fault: has the tools of the file `$TOOLS`; `token` says `$TOKEN`, others what they were given."""

    def tools(self, request: Message) -> None:
        self.reply(request, {"tools": json.loads(Path(os.environ["TOOLS"]).read_text(encoding="utf-8"))})

    def call(self, request: Message) -> None:
        params = request["params"]
        if params["name"] == "token":
            self.reply(request, text(f"token: {os.environ['TOKEN']}"))
        else:
            said = {"value": params.get("arguments", {}), "pid": os.getpid()}
            self.reply(request, {"content": [], "structuredContent": said})


class Doubles(Plain):
    """No fault: doubles a number that is not negative."""

    def tools(self, request: Message) -> None:
        number = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}
        result = {"type": "object", "properties": {"result": {"type": "integer"}}, "required": ["result"]}
        self.reply(request, {"tools": [{**tool("double", number), "outputSchema": result}]})

    def call(self, request: Message) -> None:
        number = request["params"]["arguments"]["number"]
        if number < 0:
            self.reply(request, {**text("Error executing tool double"), "isError": True})
        else:
            self.reply(request, {"content": [], "structuredContent": {"result": 2 * number}})


if __name__ == "__main__":
    globals()[sys.argv[1]]().serve()
