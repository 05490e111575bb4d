"""Starts `pflow mcp serve` as a program of its own, over stdio or HTTP, and opens clients on it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import attrs
import prepared_starts
from loopback_ports import free_port, wait_for

TOKEN = "token-of-the-tests-0123456789abcdef"
TOOLS = {
    "registry_describe",
    "registry_discover",
    "registry_list",
    "registry_run",
    "registry_search",
    "settings_get",
    "settings_set",
    "trace_read",
    "workflow_discover",
    "workflow_execute",
    "workflow_list",
    "workflow_save",
    "workflow_validate",
}
_START_SECONDS = 40
_END_SECONDS = 20
_CALL_SECONDS = 60


@attrs.frozen(kw_only=True)
class Served:
    """A pflow that is served.

    Attributes:
        command: The program that serves it over stdio; empty over HTTP.
        env: The environment variables of that program.
        folder: Its working folder.
        url: The endpoint over HTTP; empty over stdio.
        process: The id of the process over HTTP.
        log: What it has written to stdout and stderr over HTTP.
    """

    command: tuple[str, ...] = ()
    env: dict[str, str] = attrs.field(factory=dict, repr=False)
    folder: Path = Path()
    url: str = ""
    process: int = 0
    log: Path = Path(os.devnull)

    @asynccontextmanager
    async def client(self, mode: str = "auto", *, token: str = TOKEN, **options: Any) -> AsyncIterator[Any]:
        """Open the SDK's client on it."""
        import httpx2
        from mcp import Client, StdioServerParameters
        from mcp.client.streamable_http import streamable_http_client

        options = {"read_timeout_seconds": _CALL_SECONDS, **options}
        if self.url:
            headers = {"Authorization": f"Bearer {token}"}
            async with httpx2.AsyncClient(headers=headers, timeout=_CALL_SECONDS) as http:
                transport = streamable_http_client(self.url, http_client=http)
                async with Client(transport, mode=mode, **options) as client:
                    yield client
        else:
            program, *words = self.command
            server = StdioServerParameters(command=program, args=words, env=self.env, cwd=self.folder)
            async with Client(server, mode=mode, **options) as client:
                yield client


@contextmanager
def serving(
    transport: str,
    home: Path,
    folder: Path,
    *options: str,
    env: dict[str, str] | None = None,
    token_file: Path | None = None,
) -> Iterator[Served]:
    """Serve what is in `home` over `stdio` or `http`, with `folder` as the working folder."""
    env = {**os.environ, "PFLOW_HOME": str(home), **(env or {})}
    if transport == "stdio":  # the client starts it
        command = (*prepared_starts.words(env), "mcp", "serve", *options)
        yield Served(command=command, env=env, folder=folder)
        return
    token = token_file or _own_token(home)
    port = free_port()
    words = ["mcp", "serve", *options, "--http", f"127.0.0.1:{port}", "--token-file", str(token)]
    said = home.parent / f"served-{port}.log"
    with said.open("wb") as log:
        process = prepared_starts.start(
            words, env=env, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
        )
    try:
        _wait_for(port, process, said)
        yield Served(
            env=env, folder=folder, url=f"http://127.0.0.1:{port}/mcp", process=process.pid, log=said
        )
    finally:
        process.terminate()
        try:
            process.wait(_END_SECONDS)
        finally:
            process.kill()
            process.wait()


def _own_token(home: Path) -> Path:
    token = home.parent / "token-of-the-tests"
    token.write_text(TOKEN, encoding="utf-8")
    token.chmod(0o600)
    return token


def _wait_for(port: int, process: subprocess.Popen[bytes], said: Path) -> None:
    try:
        wait_for(port, process, _START_SECONDS)
    except TimeoutError as error:
        raise AssertionError(f"{error}: {said.read_text()}") from None
