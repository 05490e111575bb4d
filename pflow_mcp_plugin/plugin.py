"""The plugin that hosts load from its entry point: thin hook implementations with lazy imports."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING

import pluggy

from pflow_mcp_plugin.contract import Command, PflowError, hookimpl
from pflow_mcp_plugin.contract.problems import errors_in, problem_of

if TYPE_CHECKING:  # few commands run anything
    from pflow_mcp_plugin.contract import (
        Host,
        LockCheck,
        NetworkRules,
        NodeRef,
        NodeSource,
        Paths,
        Problem,
        Run,
    )

SOURCE = "mcp"
"""The name of the plugin's node source, and the key of its `Runtime` in `run.resources`."""

_GROUP = "Configure MCP servers and use their tools as nodes."

_COMMANDS = {
    "add": "Add servers: a preset, a command, a URL, a file or JSON.",
    "presets": "List the ready-made servers, or show one.",
    "new-preset": "Write a package with a preset to start from.",
    "list": "List the configured servers.",
    "edit": "Edit the server config in an editor, and check it.",
    "enable": "Enable servers that were disabled.",
    "disable": "Disable servers without removing them.",
    "remove": "Remove servers and their tools.",
    "login": "Sign in to a server, in a browser.",
    "logout": "Sign out of a server.",
    "auth": "Show who is signed in where.",
    "sync": "Fetch the tools of servers and register them as nodes.",
    "diff": "Show what changed in tools since they were approved.",
    "lock": "Write the lock file of a team, or check it.",
    "approve": "Approve what changed in a server, or the servers of a project.",
    "tools": "List the tools that are available as nodes.",
    "audit": "Check the tools of servers for hidden text, look-alike names and more.",
    "info": "Show the parameters and outputs of a tool's node.",
    "stubs": "Write type stubs of all tools for editors.",
    "test": "Connect to a server and time each phase.",
    "logs": "Show what a server wrote to stderr when it last failed.",
    "call": "Run a tool: pflow mcp call SERVER.TOOL NAME=VALUE.",
    "import": "Add the servers of other clients, or of a file.",
    "export": "Print servers for another client, or write them to a file.",
    "demo": "Add the bundled server and run a workflow on it.",
    "serve": "Serve pflow itself to MCP clients.",
}

_REGISTRY_SPELLINGS = {
    "add-mcp": "Add a server; see pflow mcp add.",
    "refresh": "Fetch the tools of servers again; see pflow mcp sync.",
    "migrate-mcp": "Configure the servers of an older pflow here.",
    "test-mcp-connections": "Connect to every server; see pflow mcp test.",
}
"""The commands of an older pflow, hidden from the help."""
_FALLBACK = "call"
"""The command that `pflow mcp SERVER TOOL` stands for."""
_PLACES = {
    "import": "import_servers:import_servers",
    "export": "client_setup:export_servers",
    "new-preset": "presets:new_preset",
    "logout": "login:logout",
    "list": "list:list_servers",
    "diff": "approve:diff",
    **{name: f"tools:{name}" for name in ("info", "stubs")},
    "test": "server_health:test",
    "logs": "server_health:logs",
    **{name: f"configured_servers:{name}" for name in ("enable", "disable", "remove", "edit")},
}
"""The modules and functions of commands for which these are not both the command's name."""


@hookimpl
def pflow_addhooks(manager: pluggy.PluginManager) -> None:
    """Add the plugin's own hooks: for presets and around a call."""
    from pflow_mcp_plugin import mcp_hookspecs

    manager.add_hookspecs(mcp_hookspecs)


@hookimpl
def pflow_configure(host: Host) -> None:
    """Implement the hook that a host calls when the plugin is loaded: keep the host for use outside runs."""
    from pflow_mcp_plugin.mcp_hookspecs import HOSTS

    HOSTS.append(host)


@hookimpl
def pflow_unconfigure(host: Host) -> None:
    """Implement the hook that a host calls as it ends: forget the host."""
    from pflow_mcp_plugin.mcp_hookspecs import HOSTS

    HOSTS[:] = [kept for kept in HOSTS if kept is not host]


@hookimpl
def pflow_register_nodes(host: Host) -> Iterable[NodeSource]:
    """Contribute the plugin's node source: the tools of all synced servers."""
    from pflow_mcp_plugin.registration.lazy_source import LazyToolSource

    def may_be_answered() -> bool:
        from pflow_mcp_plugin.execution.call_hooks import CallHooks

        return CallHooks(host.hook).may_replace_servers

    return [LazyToolSource(host.paths, host.report, host.settings, may_be_answered)]


@hookimpl
def pflow_inject_params(node: NodeRef) -> Mapping[str, object] | None:
    """Implement the hook for params: contribute the plugin's, which name the server and tool of a node."""
    from pflow_mcp_plugin.injection import inject

    return inject(node, _configured(node.host.paths))


@hookimpl
def pflow_register_commands(host: Host) -> Iterable[Command]:
    """Contribute the plugin's commands: `pflow mcp ...`, and older spellings below `pflow registry`."""
    for name, text in _COMMANDS.items():
        own = name.replace("-", "_")
        load = f"pflow_mcp_plugin.cli.{_PLACES.get(name, f'{own}:{own}')}"
        yield Command(path=("mcp", name), help=text, load=load, group=_GROUP, fallback=name == _FALLBACK)
    yield Command(
        path=("serve", "mcp"),
        help=_COMMANDS["serve"],
        load="pflow_mcp_plugin.cli.serve:serve",
        group="Run pflow as a server.",
    )
    for name, text in _REGISTRY_SPELLINGS.items():
        attribute = name.replace("-", "_")
        load = f"pflow_mcp_plugin.cli.registry_spellings:{attribute}"
        yield Command(path=("registry", name), help=text, load=load, hidden=True)


@hookimpl
def pflow_validate_config(host: Host) -> Iterable[Problem]:
    """Check the config of the plugin: that of all servers."""
    from pathlib import Path

    from pflow_mcp_plugin.config import locations
    from pflow_mcp_plugin.config.expansion import VariableLookup, starts_at_once
    from pflow_mcp_plugin.config.server_egress import advise
    from pflow_mcp_plugin.config.server_input import unmigrated
    from pflow_mcp_plugin.config.server_schema import advise as advise_on_program
    from pflow_mcp_plugin.discovery.servers import servers

    store = servers(host.paths).store
    found = store.check()
    yield from found
    if not errors_in(found):
        configured = [store.get(name) for name in store.names()]
        yield from filter(None, map(advise, configured))
        started = (server for server in configured if not server.disabled)
        yield from filter(None, map(advise_on_program, started))
    yield from locations.check_stored(host.paths)
    try:
        starts_at_once(VariableLookup(host.settings))
    except PflowError as error:
        yield problem_of(error)
    try:
        names = store.names()
    except PflowError:  # reported by the check of the store
        return
    yield from unmigrated(Path.home(), names)


@hookimpl
def pflow_check_lock(check: LockCheck) -> Iterable[Problem]:
    """Implement the hook by which a host checks the tools of the plugin's nodes against `mcp-lock.toml`."""
    from pflow_mcp_plugin.discovery import lock_check
    from pflow_mcp_plugin.discovery.servers import servers
    from pflow_mcp_plugin.injection import used_tools

    used = used_tools(check.nodes, _configured(check.host.paths))
    return lock_check.compare_workflow(servers(check.host.paths), used, check.folder) if used else ()


@hookimpl
def pflow_run_context(run: Run) -> AbstractContextManager[object] | None:
    """Contribute the plugin's context of a run: its span, and connections if it uses tools.

    Nodes of the host that connect to anything find the rules of `[network]` in the run.
    """
    from pflow_mcp_plugin.network.egress import RESOURCE
    from pflow_mcp_plugin.telemetry.provider import tracer

    run.resources[RESOURCE] = partial(_network_rules, run.host.paths)
    uses_tools = any(map(_server, run.workflow.nodes))
    return _traced(run, uses_tools=uses_tools) if uses_tools or tracer() is not None else None


@contextmanager
def _traced(run: Run, *, uses_tools: bool) -> Iterator[None]:
    from pflow_mcp_plugin.telemetry.spans import run_span

    with run_span(run), _connections(run) if uses_tools else nullcontext():
        yield


@contextmanager
def _connections(run: Run) -> Iterator[None]:
    from pflow_mcp_plugin.execution.call_hooks import note_progress
    from pflow_mcp_plugin.execution.runtime import open_runtime

    def starting(server: str) -> Callable[[str], object]:
        nodes = [node.id for node in run.workflow.nodes if _server(node) == server]
        return run.begin_preparation(f"server {server}", nodes)

    with open_runtime(run, progress=partial(note_progress, run), starting=starting) as runtime:
        for server in dict.fromkeys(
            _server(node)
            for node in run.workflow.nodes
            if node.id in run.workflow.certain and not node.entry.withheld
        ):
            if server:
                runtime.prepare(server)
        for node in run.workflow.nodes:
            if node.id not in run.workflow.certain and (server := _server(node)):
                run.distinguish(node.id, partial(runtime.launch_key, server))
        run.resources[SOURCE] = runtime
        try:
            yield
        finally:
            runtime.warn_of_changed_lists()


def _server(node: NodeRef) -> str:
    return str(node.injected.get("__mcp_server__", ""))


def _network_rules(paths: Paths) -> NetworkRules:
    from pflow_mcp_plugin.discovery.servers import servers

    return servers(paths).store.network()


def _configured(paths: Paths) -> Iterator[str]:
    """Yield the configured servers for the plugin's hooks; the config is read at the first name."""
    from pflow_mcp_plugin.discovery.servers import servers

    yield from servers(paths).store.names()
