"""pflow in a test: a host with a temporary home, and the check that a preset's server starts in it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pflow_mcp_plugin.cli.presets import collected, keep_secrets, preset_server
from pflow_mcp_plugin.config.expansion import VariableLookup
from pflow_mcp_plugin.contract import Outcome, PflowError, Problem, hookimpl
from pflow_mcp_plugin.contract.json_types import JSONObject
from pflow_mcp_plugin.discovery.servers import approve_launches, open_pool, servers
from pflow_mcp_plugin.discovery.tool_sync import sync
from pflow_mcp_plugin.exchange import CallResult, Listing, ToolCall
from pflow_mcp_plugin.host.embedded_host import EmbeddedHost, open_host
from pflow_mcp_plugin.presets.collection import OfferedPreset, manifest_difference
from pflow_mcp_plugin.testing.fake_server import FakeServer
from pflow_mcp_plugin.testing.tool_answers import ToolAnswers, ToolLike
from pflow_mcp_plugin.types import ServerInfo, ServerPreset
from pflow_mcp_plugin.variable_references import renamed


class PflowHost:
    """pflow in a test, with every installed plugin; `open_pflow_host` opens it.

    Args:
        host: The embedded host.
        home: Its `$PFLOW_HOME`.
        warnings: Where the host's warnings go.
        closing: Closes what is opened on the way, before the host.

    Attributes:
        host: The handle that plugins get.
        home: Its `$PFLOW_HOME`.
        warnings: What was reported to the user so far.
    """

    def __init__(self, host: EmbeddedHost, home: Path, warnings: list[Problem], closing: ExitStack) -> None:
        self.host = host
        self.home = home
        self.warnings = warnings
        self._closing = closing

    def register(self, plugin: object, name: str = "") -> None:
        """Register a plugin with this test's pflow alone, not installed: a module or an object with hooks.

        Its nodes and commands are not added, for which a plugin has to be installed: `pflow_addhooks` and
        the hooks that begin with `pflow_mcp_` are called.
        """
        described = getattr(plugin, "__name__", type(plugin).__name__)
        self.host.plugins.manager.register(plugin, name or f"{described} {id(plugin)}")

    def add(self, name: str, table: Mapping[str, Any]) -> None:
        """Configure a server in the test's host; nothing is started.

        Args:
            name: Its name.
            table: Its table, as in the config file: `{"command": ..., "args": [...]}`, or `FakeServer.table`.

        Raises:
            McpError: The table has mistakes.
        """
        self._store_servers({name: dict(table)})

    def add_preset(
        self, preset: str | ServerPreset, inputs: Mapping[str, str] | None = None, *, name: str = ""
    ) -> str:
        """Configure a preset's server in the temporary home, as `pflow mcp add` does; nothing is started.

        Args:
            preset: A preset, or the name of one that an installed plugin offers.
            inputs: Values for its inputs; secrets become settings of this home, under another name if the
                environment has a variable of that name.
            name: The server's name; by default that of the preset.

        Returns:
            The server's name.

        Raises:
            PflowError: No plugin, or more than one, offers the preset; an input is missing or not allowed.
        """
        found = preset if isinstance(preset, ServerPreset) else self.find_preset(preset)
        pairs = [f"{key}={value}" for key, value in (inputs or {}).items()]
        server, secrets = preset_server(self.host, found, pairs, name, {}, asks=False)
        names = {key: f"{key}_IN_TEST" if key in os.environ else key for key in secrets}
        keep_secrets(self.host, {names[key]: secrets[key] for key in secrets}, name or found.name)
        self._store_servers(renamed(server.tables, names))
        return name or found.name

    def _store_servers(self, tables: JSONObject) -> None:
        known = servers(self.host.paths)
        change = known.store.add(tables)
        approve_launches(self.host, tables, new=change.added)
        self.host.refresh("mcp")

    def sync(self, *names: str) -> tuple[str, ...]:
        """Start servers of the temporary home, and register their tools as nodes, as `pflow mcp sync` does.

        Args:
            names: The servers; all of them if none is named.

        Returns:
            The node types of all synced servers, sorted.

        Raises:
            PflowError: A server could not be started or listed.
        """
        from pflow_mcp_plugin.cli.server_sync import sync_servers

        report = sync_servers(self.host, names or None)
        if report.error is not None:
            raise report.error
        return self.nodes()

    def serve(self, name: str, tools: Iterable[ToolLike]) -> FakeServer:
        """Start a fake server, configured and synced in the temporary home; it is closed with this host."""
        server = self._closing.enter_context(FakeServer(tools, name=name))
        self.add(name, server.table)
        self.sync(name)
        return server

    def stub(self, name: str, tools: Iterable[ToolLike]) -> ToolAnswers:
        """Register tools as nodes of a server that the test's host does not have.

        Calls are answered through the hook `pflow_mcp_call_tool`; everything before and after is real: the
        check of arguments, the hooks of other plugins, the outputs and the actions of nodes.

        Args:
            name: The server's name, as in the node types of the workflow.
            tools: Its tools; `read_tools` reads them from a file.

        Returns:
            What the tools answer; `give` sets it.

        Raises:
            ValueError: It is called twice for one server.
        """
        if self.host.plugins.manager.has_plugin(f"stub-{name}"):
            raise ValueError(f"Server {name} has a stub in this test already: give all tools to one")
        answers = ToolAnswers(tools)
        known = servers(self.host.paths)
        # A command that does not exist: nothing is started, and a run in another host says why not.
        missing = f"no server {name}, only its stub, for pflow_host.run and calls"
        known.store.add({name: {"command": str(self.home / missing)}})
        listing = Listing(info=ServerInfo(name=name), tools=answers.tools)
        known.catalog.save(name, listing, known.store.fingerprint(name))

        @hookimpl
        def pflow_mcp_call_tool(call: ToolCall) -> CallResult | None:
            return answers.answer(call) if call.server == name else None

        self.register(SimpleNamespace(pflow_mcp_call_tool=pflow_mcp_call_tool), f"stub-{name}")
        self.host.refresh("mcp")
        return answers

    def nodes(self) -> tuple[str, ...]:
        """Return the node types of all tools in the test's host, sorted."""
        return tuple(entry.node for entry in self.host.registry.entries("mcp-"))

    def run(
        self, workflow: Mapping[str, Any] | str | Path, inputs: Mapping[str, object] | None = None
    ) -> Outcome:
        """Run a workflow in the test's host to its end; what it started is ended again.

        Args:
            workflow: The workflow, or the path of its file.
            inputs: Values by input name.

        Returns:
            How it ended: `success`, `outputs`, `error`.

        Raises:
            PflowError: The workflow has mistakes; nothing has run.
        """
        if not isinstance(workflow, str | Path):
            return self.host.runner.run(workflow, inputs or {})
        document = self.host.runner.read_file(Path(workflow))
        return self.host.runner.run(document, inputs or {}, name=str(workflow))

    def find_preset(self, name: str) -> ServerPreset:
        """Return a preset by name as the test's host finds it: from an installed or registered plugin.

        Raises:
            PflowError: No plugin, or more than one, offers it. Faults of plugins are in `warnings`.
        """
        return collected(self.host).get(name).preset


@contextmanager
def open_pflow_host(home: Path) -> Iterator[PflowHost]:
    """Open pflow for a test in a folder that is `$PFLOW_HOME` meanwhile; close it at the end.

    Args:
        home: The folder, which need not exist.
    """
    warnings: list[Problem] = []
    with ExitStack() as closing:
        closing.enter_context(_home(home))
        host = closing.enter_context(open_host(show=warnings.append))
        yield PflowHost(host, home, warnings, closing.enter_context(ExitStack()))


@contextmanager
def _home(home: Path) -> Iterator[None]:
    before = os.environ.get("PFLOW_HOME")
    os.environ["PFLOW_HOME"] = str(home)
    try:
        yield
    finally:
        if before is None:
            del os.environ["PFLOW_HOME"]
        else:
            os.environ["PFLOW_HOME"] = before


def assert_preset_starts(
    preset: str | ServerPreset, inputs: Mapping[str, str] | None = None, *, host: PflowHost | None = None
) -> tuple[str, ...]:
    """Assert that the server of a preset starts in a temporary home, and lists its tools.

    Args:
        preset: A preset, or the name of one that an installed plugin offers: this checks the entry point too.
        inputs: Values for its inputs.
        host: pflow for this test; by default one that is closed again.

    Returns:
        The raw names of the tools that become nodes.

    Raises:
        AssertionError: It cannot be added or started, lists no tools, or `tools`, `rename` or
            `manifest_hash` do not fit its tools. The message says what happened and what to do.
    """
    __tracebackhide__ = True  # pytest shows the line of the test
    if host is not None:
        return _tools(host, preset, inputs)
    with tempfile.TemporaryDirectory(prefix="pflow-") as folder, open_pflow_host(Path(folder)) as own:
        return _tools(own, preset, inputs)


def _tools(host: PflowHost, preset: str | ServerPreset, inputs: Mapping[str, str] | None) -> tuple[str, ...]:
    __tracebackhide__ = True
    name = preset if isinstance(preset, str) else preset.name
    try:
        found = host.find_preset(preset) if isinstance(preset, str) else preset
        host.add_preset(found, inputs)
    except PflowError as error:
        raise _failure(f"Preset {name} cannot be added", error, host.warnings) from error
    known = servers(host.host.paths)
    with open_pool(host.host) as pool:
        (synced,) = sync([name], known, pool.list_tools, VariableLookup(host.host.settings))
    if synced.error is not None:
        raise _failure(f"Preset {name} does not start", synced.error)
    server, content = known.store.get(name), known.catalog.file(name)
    listed, found_hash = (content.tools, content.manifest_hash) if content else ((), "")
    unfit = [*synced.notes, *(f"{tool} is malformed: {reason}" for tool, reason in synced.skipped)]
    offer = OfferedPreset(preset=found, plugin="of this test")
    difference = manifest_difference(offer, server, found_hash)
    unfit += [f"{difference.message}; all of it: {found_hash}"] if difference else []
    if unfit:
        raise AssertionError("\n  ".join([f"Preset {name} does not fit its server:", *unfit]))
    tools = tuple(tool.name for tool in listed if server.tools.allows(tool.name))
    if not tools:
        raise AssertionError(f"Preset {name} starts, but none of its tools becomes a node")
    return tools


def _failure(what: str, error: PflowError, warnings: Sequence[Problem] = ()) -> AssertionError:
    steps = [f"-> {step}" for step in error.suggestions]
    return AssertionError("\n  ".join([f"{what}: {error}", *map(str, warnings), *steps]))
