"""Trials of killed runs: programs that die at a point of their own, and a server that counts what it did."""

import asyncio
import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from pathlib import Path
from signal import SIGKILL
from typing import Any

from http_server import FaultServer, Reply, Request
from programs import until
from workflow_parts import edge, flow, step

from pflow_mcp_plugin.processes.reaper_process import marked_processes

KILLS = int(os.environ.get("PFLOW_KILLS", "1"))
"""How often each workflow is killed at each transition, and at random points."""
TRANSPORTS = ("stdio", "http")
SEND = {
    "name": "send",
    "inputSchema": {"type": "object", "properties": {"value": {}}, "required": ["value"]},
}

AT = """
import itertools, signal, sys, threading
from pflow_mcp_plugin.host.running.run_record import RunRecord
from pflow_mcp_plugin.__main__ import program

def struck(number, method, at, last):
    usual, times = getattr(RunRecord, method), itertools.count(1)

    def changed(self, *given, **named):
        is_last = next(times) == last
        if is_last and at == "before":
            signal.pthread_kill(threading.get_ident(), number)  # this thread must not go on meanwhile
        result = usual(self, *given, **named)
        if is_last and at == "after":
            signal.pthread_kill(threading.get_ident(), number)
        return result

    setattr(RunRecord, method, changed)

number, method, at, last = (sys.argv.pop(1) for _ in range(4))
struck(signal.Signals[number], method, at, int(last))
sys.exit(program())
"""
"""The program, sent a signal before or after the n-th time that it records something."""

ANYWHERE = """
import itertools, os, signal, sys, threading
from pflow_mcp_plugin.host.running.run_record import RunRecord
from pflow_mcp_plugin.__main__ import program

def count(*_):
    if begun and next(times) == last:
        os.kill(os.getpid(), signal.SIGKILL)

def created(*given):
    begun.append(True)
    return usual(*given)

usual, times, begun, last = RunRecord.create, itertools.count(1), [], int(sys.argv.pop(1))
RunRecord.create = created
threading.setprofile(count)
sys.setprofile(count)
sys.exit(program())
"""
"""The program, killed as it calls or leaves its n-th function, in any thread, from its first record on."""


def killed_at(method: str, at: str, number: int, signal: str = "SIGKILL") -> tuple[str, ...]:
    """Return the program that is sent a signal as it records something."""
    return (sys.executable, "-P", "-c", AT, signal, method, at, str(number))


def killed_anywhere(number: int) -> tuple[str, ...]:
    """Return the program that is killed at a call of a function."""
    return (sys.executable, "-P", "-c", ANYWHERE, str(number))


def ten_steps() -> dict[str, Any]:
    """Send 0 to 9, one after the other."""
    nodes = [step(f"n{number}", "mcp-counting-send", {"value": number}) for number in range(10)]
    return flow(*nodes, edges=[edge(f"n{it}", f"n{it + 1}") for it in range(9)])


def batch(count: int = 60, at_once: int = 16) -> dict[str, Any]:
    """Send numbers, many at a time."""
    items = {"items": list(range(count)), "parallel": True, "max_concurrent": at_once}
    return flow(step("all", "mcp-counting-send", {"value": "${item}"}, batch=items))


def inside() -> dict[str, Any]:
    """Send two values in each of six runs of another workflow."""
    inner = flow(
        step("one", "mcp-counting-send", {"value": "${item}.1"}),
        step("two", "mcp-counting-send", {"value": "${item}.2"}),
        edges=[edge("one", "two")],
        inputs={"item": {"type": "any"}},
    )
    given = {"workflow": inner, "item": "${item}"}
    items = {"items": list(range(6)), "parallel": True, "max_concurrent": 3}
    return flow(step("outer", "workflow", given, batch=items))


def loop() -> dict[str, Any]:
    """Send 0 to 9 in ten passes."""
    return flow(
        step("next", "transform", {"expression": "not_null(send.next, `0`)"}),
        step("send", "mcp-counting-send", {"value": "${next.result}"}),
        step("last", "mcp-counting-send", {"value": "last"}),
        edges=[edge("next", "send"), edge("send", "next", when="send.next < 10"), edge("send", "last")],
    )


WORKFLOWS = {
    "ten steps": (ten_steps(), [str(it) for it in range(10)]),
    "batch": (
        batch(60 if KILLS == 1 else 200),
        [str(it) for it in range(60 if KILLS == 1 else 200)],
    ),
    "inside": (inside(), [f"{it}.{part}" for it in range(6) for part in (1, 2)]),
    "loop": (loop(), [*map(str, range(10)), "last"]),
}


class CountingServer(FaultServer):
    """A server over streamable HTTP that does what `counting_server.py` does; it outlives its clients.

    Attributes:
        plan: What happens, once, to a value, and when: `kill` the client, `cut` its connection, or `die`, so
            that no connection lasts; `before` or `after` the effect, or once it is `answered`.
        client: The process id of the client.
        down: Whether it has died.
    """

    def __init__(self, effects: Path) -> None:
        super().__init__(self._counting)
        self.effects = effects
        self.plan: dict[str, tuple[str, str]] = {}
        self.client: Future[int] = Future()
        self.down = False
        self._ready_to_start = asyncio.Event()
        self._ready_to_start.set()

    async def _counting(self, request: Request, reply: Reply) -> bool:
        if self.down:
            reply.reset()
            return True
        if request.rpc == "initialize":
            await self._ready_to_start.wait()
        if request.rpc == "tools/list":
            await reply.result({"tools": [SEND]})
            return True
        if request.rpc != "tools/call":
            return False
        value = request.message["params"]["arguments"]["value"]
        what, when = self.plan.pop(str(value), ("", ""))
        if when == "before" and await self._happens(what, reply):
            return True
        with self.effects.open("a", encoding="utf-8") as file:
            file.write(f"{value}\n")
        if when == "after" and await self._happens(what, reply):
            return True
        await reply.result({"content": [], "structuredContent": returned(value)})
        if when == "answered":
            await self._happens(what, reply)
        return True

    async def _happens(self, what: str, reply: Reply) -> bool:
        """Do what is planned; return whether no answer can come any more."""
        if what == "kill":
            os.kill(await asyncio.wrap_future(self.client), SIGKILL)
            return False
        if what == "die":
            self.down = True
            for writer in self._writers:
                writer.transport.abort()
        reply.reset()
        return True

    def hold(self) -> None:
        """Leave `initialize` without an answer until `release`."""
        self._ready_to_start.clear()

    def release(self) -> None:
        """Answer what waits."""
        self._loop.call_soon_threadsafe(self._ready_to_start.set)

    def settle(self) -> None:
        """Wait until everything that came from clients who are gone has been dealt with."""
        until(lambda: not self._tasks)


def returned(value: object) -> dict[str, object]:
    """Return what the tool returns."""
    return {"value": value, "next": value + 1 if isinstance(value, int) else None}


class Trial:
    """A workflow whose run is killed and resumed, with what the server has seen of it.

    Args:
        server: The server over HTTP; None over stdio.
    """

    def __init__(
        self,
        pflow: Callable[..., Any],
        started: Callable[..., Any],
        effects: Path,
        server: CountingServer | None,
    ) -> None:
        self.pflow = pflow
        self.effects = effects
        self.server = server
        self._started = started

    def begin(self, workflow: Mapping[str, Any], program: tuple[str, ...] | None = None) -> Any:
        """Start a run."""
        self.effects.unlink(missing_ok=True)
        path = self.effects.with_name("wf.json")
        path.write_text(json.dumps(workflow))
        run = self._started("run", path, **({"program": program} if program else {}))
        if self.server is not None:
            self.server.client = Future()
            self.server.client.set_result(run.pid)
        return run

    def die(self, run: Any) -> int:
        """Wait until a run has ended and nothing of it goes on; return its exit code."""
        run.communicate(timeout=60)
        until(lambda: not marked_processes(f"{run.pid}-"))
        if self.server is not None:
            self.server.settle()
        return int(run.returncode)

    def done(self) -> list[str]:
        """Return the values that were sent, in order."""
        return self.effects.read_text().split() if self.effects.exists() else []

    def steps(self, *words: str) -> Any:
        """Return the steps that the record has."""
        return json.loads(self.pflow("resume", "--dry-run", "--json", *words).stdout)["data"]["steps"]

    def decisions(self, left: list[Any]) -> list[str]:
        """Return the options that say of each open step what the server knows."""
        words = []
        for it in left:
            value = it["params"]["value"]
            result = json.dumps(returned(value))
            happened = str(value) in self.done()
            words += (
                ["--assume-done", f"{it['step']}={result}"] if happened else ["--assume-not-done", it["step"]]
            )
        return words

    def finish(self, expected: list[str]) -> list[Any]:
        """Resume until the run has ended; each effect is there once, and each open step was named."""
        before = Counter(self.done())
        assert set(before.values()) <= {1}
        listed = self.listed()
        if not listed or "not the record of a run" in listed[0]["state"]:
            # Killed before anything had begun, maybe as it created its record, or when all was done.
            assert not (listed and before)
            for path in self.effects.parent.rglob("runs/open/*"):
                path.unlink()
            if not before:
                self.pflow("run", self.effects.with_name("wf.json"))
            assert sorted(self.done()) == sorted(expected)
            return []
        left = [it for it in self.steps() if it["then"] == "decide"]
        if left:
            refused = self.pflow("resume", "--json")
            assert refused.exit_code == 4
            named = json.loads(refused.stdout)["error"]["details"]["undecided"]
            assert [it["step"] for it in named] == [it["step"] for it in left]
            assert Counter(self.done()) == before
        ended = self.pflow("resume", *self.decisions(left))
        assert ended.exit_code == 0, ended.stderr
        assert "Traceback" not in ended.stderr
        assert sorted(self.done()) == sorted(expected)
        assert self.listed() == []
        return left

    def listed(self) -> Any:
        """Return the runs that can be resumed."""
        return json.loads(self.pflow("resume", "--list", "--json").stdout)["data"]
