"""Load on pflow that is served over HTTP: `python tests/server/test_load.py [--clients 32]`.

The first part keeps clients calling, and compares the server's memory, descriptors and threads. The
second writes through three processes behind one address, one of which is killed again and again, and
looks for every write that was acknowledged.
"""

import argparse
import json
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from itertools import count, cycle
from pathlib import Path
from typing import Any

import anyio
import attrs
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from served_program import HEADERS, TOKEN, ServedProgram, call, envelope, median

WORKFLOW = {
    "inputs": {"text": {"type": "string", "required": True}},
    "nodes": [{"id": "say", "type": "echo", "params": {"message": "${text}"}}],
    "outputs": {"said": "${say}"},
}
CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("settings_get", {"key": "LOAD_SETTING"}),
    ("registry_run", {"node_type": "echo", "parameters": {"message": "hello"}}),
    ("workflow_execute", {"workflow": WORKFLOW, "parameters": {"text": "hello"}}),
)
_IDLE_SECONDS = 45
_BEARER = {"authorization": f"Bearer {TOKEN}"}


@attrs.define
class Load:
    """What was seen under load.

    Attributes:
        calls: How many calls of each tool were answered.
        errors: What failed.
        memory: The server's memory in bytes, by seconds since the clients began.
    """

    calls: Counter[str] = attrs.field(factory=Counter)
    errors: list[str] = attrs.field(factory=list)
    memory: list[tuple[float, int]] = attrs.field(factory=list)

    def between(self, begin: float, end: float) -> float:
        """Return the median of the memory between two moments."""
        return median([size for moment, size in self.memory if begin <= moment < end])


async def one_client(url: str, seen: Load, until: float, mode: str) -> None:
    """Call tools in turn until the time is over."""
    async with (
        httpx2.AsyncClient(headers=_BEARER, timeout=60, trust_env=False, verify=False) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode, read_timeout_seconds=60) as client,
    ):
        for tool, arguments in cycle(CALLS):
            if time.monotonic() > until:
                return
            result = await client.call_tool(tool, arguments)
            seen.calls[tool] += 1
            if result.is_error:
                seen.errors.append(f"{tool}: {result.content[0]}"[:500])


async def clients(program: ServedProgram, seen: Load, number: int, seconds: float) -> None:
    """Let clients of both eras call for some seconds, and watch the server's memory."""
    began = time.monotonic()

    async def client(mode: str) -> None:
        try:
            await one_client(program.url, seen, began + seconds, mode)
        except* Exception as failed:  # noqa: BLE001 - counted
            seen.errors.append(repr(failed.exceptions[:3])[:500])

    async with anyio.create_task_group() as group:
        for index in range(number):
            group.start_soon(client, ("auto", "legacy")[index % 2])
        while time.monotonic() < began + seconds:
            seen.memory.append((time.monotonic() - began, program.memory))
            await anyio.sleep(0.25)


def settled(look: Callable[[], Any], wanted: Any) -> Any:
    """Return what `look` finds once it is as wanted, or after some time."""
    deadline = time.monotonic() + _IDLE_SECONDS
    while (found := look()) != wanted and time.monotonic() < deadline:
        time.sleep(0.2)
    return found


def steady(home: Path, seconds: float, number: int) -> list[str]:
    """Return what is wrong with a server under load, and print its figures."""
    with ServedProgram(home) as program:
        program.call("settings_set", key="LOAD_SETTING", value="a value")
        # What is loaded and set up once; a minute leaves time for that.
        anyio.run(clients, program, Load(), *((2, 1.0) if seconds >= 40 else (number, 4.0)))
        before = program.threads, len(program.descriptors)
        seen = Load()
        anyio.run(clients, program, seen, number, seconds)
        grown = settled(
            lambda: program.threads > before[0] or len(program.descriptors) > before[1], wanted=False
        )
        code, said = program.end(signal.SIGTERM)
    begin = width = min(10, seconds / 4)
    first, last = seen.between(begin, begin + width), seen.between(seconds - width, seconds)
    print(f"{dict(seen.calls)}, {seen.calls.total() / seconds:.0f} calls a second; exit code {code}")
    print(f"memory: {first / 2**20:.1f} MiB at first, {last / 2**20:.1f} MiB at last: {last / first:.3f}")
    wrong = [*seen.errors[:5], *([said] if said else [])]
    if last > first * 1.05:
        wrong.append("the memory grows")
    if grown:
        wrong.append(f"threads or descriptors are more than {before}, as they were before")
    return wrong if code == 0 else [*wrong, f"exit code {code}"]


class Writer:
    """Writes through whichever process answers, and remembers what was acknowledged."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._numbers = count()
        self.settings: set[str] = set()
        self.workflows: set[str] = set()
        self.unanswered = 0
        self.refused: list[str] = []

    async def write(self, until: float) -> None:
        """Write settings and workflows in turn, each on a connection of its own."""
        while time.monotonic() < until:
            number = next(self._numbers)
            setting, workflow = f"KEY_{number}", f"saved-{number}"
            if await self._send("settings_set", key=setting, value=f"value-{number}"):
                self.settings.add(setting)
            given = {"workflow_file": json.dumps(WORKFLOW), "name": workflow, "description": "Says it"}
            if await self._send("workflow_save", **given):
                self.workflows.add(workflow)

    async def _send(self, tool: str, **arguments: str) -> bool:
        """Call a tool; return whether it acknowledged that."""
        try:
            async with httpx2.AsyncClient(timeout=60, trust_env=False, verify=False) as http:
                body, headers = call(tool, arguments), {**HEADERS, **_BEARER}
                answer = await http.post(self._url, json=body, headers=headers)
                found = envelope(answer.text) if answer.status_code == 200 else {"success": False}
        except (httpx2.HTTPError, KeyError, ValueError):
            self.unanswered += 1  # its process was killed
            return False
        if not found["success"]:
            self.refused.append(answer.text[:300])
        return bool(found["success"])


def surviving(home: Path, seconds: float, writers: int) -> list[str]:
    """Return which acknowledged writes were lost while one of three processes was killed again and again."""
    with ExitStack() as stack:
        first = stack.enter_context(ServedProgram(home, ["--reuse-port"]))
        address = first.url.removeprefix("http://").removesuffix("/mcp")
        stack.enter_context(ServedProgram(home, ["--reuse-port"], address=address))
        writer, until = Writer(first.url), time.monotonic() + seconds

        def kill_again_and_again() -> None:
            killed = 0
            while time.monotonic() < until:
                with ServedProgram(home, ["--reuse-port"], address=address) as third:
                    time.sleep(0.3 + killed % 7 * 0.05)
                    third.process.kill()
                killed += 1

        async def play() -> None:
            async with anyio.create_task_group() as group:
                for _ in range(writers):
                    group.start_soon(writer.write, until)
                await anyio.to_thread.run_sync(kill_again_and_again)

        anyio.run(play)
        listed = first.call("workflow_list")["data"]["workflows"]
        lost = writer.workflows - {workflow["name"] for workflow in listed}
        lost |= {key for key in writer.settings if not first.call("settings_get", key=key)["success"]}
        first.end(signal.SIGTERM)
    written = len(writer.settings), len(writer.workflows)
    print(f"{written} settings and workflows acknowledged, {len(lost)} lost; {writer.unanswered} unanswered")
    return [*([f"lost: {sorted(lost)[:10]}"] if lost else []), *writer.refused[:5]]


@pytest.mark.slow
def test_a_server_under_load_answers_everything_and_grows_no_more(tmp_path):
    assert steady(tmp_path, 8, 8) == []


@pytest.mark.slow
def test_no_acknowledged_write_is_lost_when_a_process_is_killed(tmp_path):
    assert surviving(tmp_path, 4, 8) == []


def main() -> int:
    """Run both parts; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--clients", type=int, default=32)
    given = parser.parse_args()
    wrong = []
    for part in (steady, surviving):
        with tempfile.TemporaryDirectory() as home:
            wrong += part(Path(home), given.seconds if part is steady else given.seconds / 2, given.clients)
    for line in wrong:
        print(f"WRONG: {line}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
