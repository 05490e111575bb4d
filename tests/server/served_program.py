"""`pflow mcp serve --http` in a process of its own, and what the system says of it."""

import os
import re
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import httpx2
import prepared_starts

TOKEN = "a-token-only-for-tests"
HEADERS = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-11-25"}
_PAGE = os.sysconf("SC_PAGE_SIZE")


class ServedProgram:
    """A program that serves pflow over HTTP; `with` it, it runs.

    Args:
        home: Its $PFLOW_HOME.
        options: Further options; `--http 127.0.0.1:0` and a token are given.
        address: Where it listens.
        env: Further variables of its environment.
    """

    def __init__(
        self,
        home: Path,
        options: Sequence[str] = (),
        *,
        address: str = "127.0.0.1:0",
        env: Mapping[str, str] | None = None,
    ) -> None:
        token = {} if "--issuer" in options or "--token-file" in options else {"PFLOW_SERVE_TOKEN": TOKEN}
        self.process = prepared_starts.start(
            ["mcp", "serve", "--http", address, *options],
            env={**os.environ, "PFLOW_HOME": str(home), **token, **(env or {})},
            encoding=None,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.before: list[str] = []
        self.url = ""

    def __enter__(self) -> Self:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.before.append(line.decode().rstrip())
            if match := re.match(r"Serving pflow on (\S+) ", self.before[-1]):
                self.url = match[1]
                return self
        self.process.wait()
        raise AssertionError("\n".join(self.before))

    def __exit__(self, *_exception: object) -> None:
        self.process.kill()
        self.process.communicate()

    def end(self, number: int, seconds: float = 60) -> tuple[int, str]:
        """Send a signal; return the exit code, and what the program said on stderr since it served."""
        self.process.send_signal(number)
        out, said = self.process.communicate(timeout=seconds)
        assert out == b""
        return self.process.returncode, said.decode()

    def post(self, tool: str, token: str = TOKEN, **arguments: Any) -> httpx2.Response:
        """Call a tool on a connection of its own; return the answer."""
        headers = {**HEADERS, "authorization": f"Bearer {token}"}
        body = call(tool, arguments)
        return httpx2.post(self.url, json=body, headers=headers, timeout=60, trust_env=False, verify=False)

    def call(self, tool: str, token: str = TOKEN, **arguments: Any) -> Any:
        """Call a tool on a connection of its own; return the envelope."""
        answer = self.post(tool, token, **arguments)
        assert answer.status_code == 200, answer.text
        return envelope(answer.text)

    @property
    def memory(self) -> int:
        """Its resident memory in bytes."""
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * _PAGE

    @property
    def threads(self) -> int:
        """The number of its threads."""
        return len(list(Path(f"/proc/{self.process.pid}/task").iterdir()))

    @property
    def descriptors(self) -> list[str]:
        """What its file descriptors stand for."""
        found = []
        for link in Path(f"/proc/{self.process.pid}/fd").iterdir():
            with suppress(FileNotFoundError):  # closed meanwhile
                found.append(str(link.readlink()).split(":")[0])
        return sorted(found)


def call(tool: str, arguments: Mapping[str, Any], number: int = 1) -> dict[str, Any]:
    """Return the request of a call."""
    params = {"name": tool, "arguments": dict(arguments)}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def envelope(text: str) -> Any:
    """Return the envelope in the answer to a call, a stream of events."""
    import json

    lines = [line.removeprefix("data:") for line in text.splitlines() if line.startswith("data:")]
    message = json.loads(lines[-1] if lines else text)
    return message["result"]["structuredContent"]


def median(values: Sequence[float]) -> float:
    """Return the median, 0 of none."""
    return statistics.median(values) if values else 0.0
