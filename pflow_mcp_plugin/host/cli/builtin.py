"""The host's own commands as a plugin: they come through the same hook as everybody's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pflow_mcp_plugin.contract import Command, Problem, hookimpl

if TYPE_CHECKING:
    from pflow_mcp_plugin.host.app import EmbeddedHost

_ROOM = __name__.rpartition(".")[0]


@hookimpl
def pflow_register_commands() -> Iterable[Command]:
    """Announce the host's commands."""
    return [
        Command(path=("run",), help="Run a workflow.", load=f"{_ROOM}.run:run"),
        Command(path=("validate",), help="Check a workflow; nothing runs.", load=f"{_ROOM}.run:validate"),
        Command(path=("registry", "list"), help="List node types.", load=f"{_ROOM}.registry:list_nodes"),
        Command(
            path=("registry", "search"), help="Search node types by words.", load=f"{_ROOM}.registry:search"
        ),
        Command(
            path=("registry", "discover"),
            help="Find the node types that a task needs.",
            load=f"{_ROOM}.registry:discover",
        ),
        Command(path=("registry", "describe"), help="Show a node type.", load=f"{_ROOM}.registry:describe"),
        Command(path=("registry", "validate"), help="Check node types.", load=f"{_ROOM}.registry:validate"),
        Command(
            path=("registry", "run"),
            help="Run one node and show what comes back.",
            load=f"{_ROOM}.registry:run",
        ),
        Command(
            path=("registry", "export"), help="Print the registry as JSON.", load=f"{_ROOM}.registry:export"
        ),
        *_workflow_commands(),
        Command(
            path=("plugins",), help="List plugins and what each brings.", load=f"{_ROOM}.plugins:plugins"
        ),
        Command(path=("trace", "list"), help="List runs.", load=f"{_ROOM}.trace:list_traces"),
        Command(path=("trace", "show"), help="Show what a run did.", load=f"{_ROOM}.trace:show"),
        Command(path=("trace", "view"), help="Write a run as an HTML page.", load=f"{_ROOM}.trace:view"),
        Command(
            path=("settings", "set"),
            help="Keep a value, such as a token.",
            load=f"{_ROOM}.settings:set_value",
        ),
        Command(path=("settings", "get"), help="Show a value, masked.", load=f"{_ROOM}.settings:get"),
        Command(path=("settings", "list"), help="List what is kept.", load=f"{_ROOM}.settings:list_keys"),
        Command(path=("settings", "unset"), help="Forget a value.", load=f"{_ROOM}.settings:unset"),
        Command(path=("config", "check"), help="Check every config file.", load=f"{_ROOM}.config:check"),
        Command(path=("config", "path"), help="List the files that pflow uses.", load=f"{_ROOM}.config:path"),
    ]


def _workflow_commands() -> Iterable[Command]:
    room = f"{_ROOM}.workflow"
    yield Command(path=("workflow", "save"), help="Save a workflow under a name.", load=f"{room}:save")
    yield Command(path=("workflow", "list"), help="List saved workflows.", load=f"{room}:list_saved")
    yield Command(path=("workflow", "show"), help="Show a saved workflow.", load=f"{room}:show")
    yield Command(path=("workflow", "delete"), help="Delete a saved workflow.", load=f"{room}:delete")
    yield Command(path=("workflow", "graph"), help="Draw a workflow.", load=f"{room}:graph")
    yield Command(
        path=("workflow", "export-python"),
        help="Write a workflow as a Python program.",
        load=f"{room}:export_python",
    )


@hookimpl
def pflow_validate_config(host: EmbeddedHost) -> Iterable[Problem]:
    """Check the settings and the scripts that start this program."""
    from pflow_mcp_plugin.host.checks import check_own_config

    return check_own_config(host)
