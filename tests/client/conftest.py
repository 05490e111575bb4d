"""Servers for the client's tests."""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from http_server import FaultServer

from pflow_mcp_plugin.client import Pool
from pflow_mcp_plugin.exchange import Launch
from pflow_mcp_plugin.types import Server

SCRIPTED = Path(__file__).with_name("scripted.py")


@pytest.fixture
def socket_path() -> Iterator[Path]:
    """A place for a socket, short enough for the 107 bytes that its path may have."""
    with TemporaryDirectory(prefix="pf", dir="/tmp") as folder:
        yield Path(folder) / "s"


@pytest.fixture
def warnings_seen() -> list[str]:
    """What the pool warned of."""
    return []


@pytest.fixture
def serve() -> Iterator[Callable[..., FaultServer]]:
    """Start HTTP servers that play a script."""
    with ExitStack() as stack:
        yield lambda script, **options: stack.enter_context(FaultServer(script, **options))


@pytest.fixture
def pool(serve: object, warnings_seen: list[str]) -> Iterator[Pool]:
    """A pool that is closed at the end, while the servers are still there."""
    with Pool(warnings_seen.append) as opened:
        yield opened


@pytest.fixture(scope="session")
def demo() -> Launch:
    """The bundled server."""
    return Launch(
        server=Server(name="demo", command=sys.executable, args=("-m", "pflow_mcp_plugin.server.demo_server"))
    )


@pytest.fixture
def scripted() -> Callable[..., Launch]:
    """Return a launch of the scripted server."""

    def make(script: str = "reply({'content': []})", *, start: str = "", **options: Any) -> Launch:
        env = {"AT_START": start, **options.pop("env", {})}
        secrets = options.pop("secrets", ())
        server = Server(name="odd", command=sys.executable, args=(str(SCRIPTED), script), env=env, **options)
        return Launch(server=server, secrets=secrets)

    return make
