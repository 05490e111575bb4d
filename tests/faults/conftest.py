"""The faulty stdio server, and what tests ask of it."""

import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest
from ended_processes import is_alive
from http_server import FaultServer

from pflow_mcp_plugin import storage
from pflow_mcp_plugin.catalog.tool_catalog import Catalog
from pflow_mcp_plugin.client import Pool, session  # noqa: F401 - see SECONDS
from pflow_mcp_plugin.config.locations import server_file, tool_folder
from pflow_mcp_plugin.config.server_store import ServerStore
from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.discovery.servers import servers
from pflow_mcp_plugin.discovery.tool_sync import Synced, sync
from pflow_mcp_plugin.errors import CallFailed, ConnectionFailed, McpError
from pflow_mcp_plugin.exchange import CallResult, Launch, ToolCall
from pflow_mcp_plugin.execution.call_hooks import CallHooks
from pflow_mcp_plugin.execution.runtime import Runtime
from pflow_mcp_plugin.types import Server

FAULTY = Path(__file__).with_name("stdio_server.py")
SECONDS = 40
"""How long a test here may take that does not say otherwise: its deadlines, and several seconds. Loading
the SDK takes some more on a busy machine; it is loaded before, so that no test's bound has to hold that."""


@attrs.define
class Bench:
    """A pool, the faulty server, and a config and tool files for what needs them."""

    pool: Pool
    log_file: Path
    warnings: list[str]

    def launch(self, scenario: str, *, era: Any = None, name: str = "odd", **options: Any) -> Launch:
        """Return a launch of the faulty server."""
        env = {"LOG": str(self.log_file), **options.pop("env", {})}
        args = (str(FAULTY), scenario)
        return Launch(
            server=Server(name=name, command=sys.executable, args=args, env=env, **options), era=era
        )

    def act(self, launch: Launch, **arguments: object) -> CallResult:
        """Call its tool."""
        return self.pool.call(launch, ToolCall(server=launch.server.name, tool="act", arguments=arguments))

    @property
    def log(self) -> list[str]:
        """What the server noted, in order."""
        return self.log_file.read_text(encoding="utf-8").splitlines() if self.log_file.exists() else []

    @property
    def hidden(self) -> list[int]:
        """The processes of its servers whose environment is empty, so that no marker gives them away."""
        return self._logged("hidden")

    def hidden_left(self) -> list[int]:
        """Return those of them that are still there."""
        return [pid for pid in self.hidden if is_alive(pid)]

    def dying_left(self) -> list[int]:
        """Return the servers that logged `dying PID` and have not ended yet, with their pipes closed."""
        return [pid for pid in self._logged("dying") if is_alive(pid)]

    def _logged(self, word: str) -> list[int]:
        return [int(line.split()[1]) for line in self.log if line.startswith(f"{word} ")]

    @property
    def store(self) -> ServerStore:
        """The server config of this test."""
        return ServerStore(server_file(storage.default_paths()))

    @property
    def catalog(self) -> Catalog:
        """The tool files of this test."""
        return Catalog(tool_folder(storage.default_paths()))

    def sync(self, scenario: str, **options: Any) -> Synced:
        """Configure the faulty server under the name `odd`, and sync it."""
        env = {"LOG": str(self.log_file), **options.pop("env", {})}
        table = {"command": sys.executable, "args": [str(FAULTY), scenario], "env": env, **options}
        self.store.add({"odd": table})
        (synced,) = sync(["odd"], servers(storage.default_paths()), self.pool.list_tools, os.environ.get)
        return synced

    def runtime(self) -> Runtime:
        """Return what the nodes of a run share."""
        return Runtime(
            store=self.store,
            catalog=self.catalog,
            lookup=os.environ.get,
            pool=self.pool,
            hooks=CallHooks(),
            warn=self.warnings.append,
            add_secrets=lambda _: None,
            progress=lambda *_: None,
        )


@pytest.fixture
def bench(no_leftovers: None, tmp_path: Path) -> Iterator[Bench]:
    """A bench whose pool is closed at the end, and leaves nothing."""
    warnings: list[str] = []
    with Pool(warnings.append) as pool:
        made = Bench(pool, tmp_path / "log", warnings)
        try:
            yield made
        finally:
            left = made.hidden_left()
            for pid in left:
                os.kill(pid, signal.SIGKILL)
    assert not left, f"processes left behind: {left}"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Bound the time of every test in this folder that has no bound of its own."""
    for item in items:
        if item.path.parent == FAULTY.parent and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(SECONDS))


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Fail what takes longer."""
    started = time.monotonic()
    yield
    took = time.monotonic() - started
    assert took < seconds, f"took {took:.1f} s"


@pytest.fixture
def fails() -> Callable[..., McpError]:
    """Run something that must fail, in time and with every field that an error has to have."""

    def check(
        act: Callable[[], object],
        kind: type[PflowError],
        begins: str,
        *,
        phase: str,
        ran: str = "not ran",
        retryable: bool = False,
        seconds: float = 20,
    ) -> McpError:
        with within(seconds), pytest.raises(kind) as caught:
            act()
        error = caught.value
        assert isinstance(error, McpError)
        assert type(error) is kind
        assert error.message.startswith(begins), error.message
        assert "Traceback" not in error.message
        found = (error.where.server, error.where.phase, error.ran, error.retryable)
        assert found == ("odd", phase, ran, retryable)
        assert error.suggestions, "it names no next step"
        return error

    return check


def launch_of(bench: Bench, there: Launch | FaultServer | str) -> Launch:
    """Return what reaches a server over HTTP, or starts the stdio server with a scenario."""
    if isinstance(there, FaultServer):
        return Launch(server=Server(name="odd", transport="http", url=there.url()))
    return bench.launch(there) if isinstance(there, str) else there


@pytest.fixture
def connection_fails(bench: Bench, fails: Callable[..., McpError]) -> Callable[..., McpError]:
    """Connect to a server, which must fail."""

    def check(there: Any, begins: str, *, phase: str = "handshake", **fields: Any) -> McpError:
        launch = launch_of(bench, there)
        return fails(lambda: bench.pool.info(launch), ConnectionFailed, begins, phase=phase, **fields)

    return check


@pytest.fixture
def call_fails(bench: Bench, fails: Callable[..., McpError]) -> Callable[..., McpError]:
    """Call the tool of a server, which must fail."""

    def check(
        there: Any,
        begins: str,
        kind: type[McpError] = CallFailed,
        *,
        arguments: Any = None,
        safe_to_repeat: bool = False,
        **fields: Any,
    ) -> McpError:
        launch = launch_of(bench, there)
        call = ToolCall(server="odd", tool="act", arguments=arguments or {})
        act = partial(bench.pool.call, launch, call, safe_to_repeat=safe_to_repeat)
        return fails(act, kind, begins, **{"phase": "call", "ran": "unknown", **fields})

    return check


@pytest.fixture(name="within")
def _within() -> Callable[[float], Any]:
    return within


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many rows of the fault matrix passed, where this folder alone is run."""
    failed = {row for key in ("failed", "error") for row in _rows_of(terminalreporter, key)}
    passed = _rows_of(terminalreporter, "passed") - failed
    if passed or failed:
        missing = f"; failed: {', '.join(sorted(failed))}" if failed else ""
        terminalreporter.write_line(
            f"fault matrix: {len(passed)} of {len(passed | failed)} rows passed{missing}"
        )


def _rows_of(terminalreporter: pytest.TerminalReporter, key: str) -> set[str]:
    found = (
        re.search(r"::test_row_(\d\d)_", report.nodeid) for report in terminalreporter.stats.get(key, ())
    )
    return {match[1] for match in found if match}
