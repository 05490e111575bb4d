"""The host's own commands as a plugin: they come through the same hook as everybody's."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pflow_mcp_plugin.contract import Command, Problem, hookimpl

if TYPE_CHECKING:
    from pflow_mcp_plugin.host.app import EmbeddedHost

_ROOM = __name__.rpartition(".")[0]

_GROUPS = {
    "config": "Check the config files, and find out where they are.",
    "registry": "Find and describe node types, and try them out.",
    "settings": "Save values such as tokens.",
    "trace": "Look at past runs.",
    "workflow": "Save, show, draw and export workflows.",
}

_COMMANDS = {
    "run": ("Run a workflow.", "run:run"),
    "validate": ("Check a workflow without running it.", "run:validate"),
    "plugins": ("List plugins and what each one provides.", "plugins:plugins"),
    "registry list": ("List node types.", "registry:list_nodes"),
    "registry search": ("Search node types by keywords.", "registry:search"),
    "registry discover": ("Find the node types for a task.", "registry:discover"),
    "registry describe": ("Show the parameters and outputs of a node type.", "registry:describe"),
    "registry validate": ("Check that node types can be loaded.", "registry:validate"),
    "registry run": ("Run a single node and show its result.", "registry:run"),
    "registry export": ("Print the whole registry as JSON.", "registry:export"),
    "workflow save": ("Save a workflow under a name.", "workflow:save"),
    "workflow list": ("List saved workflows.", "workflow:list_saved"),
    "workflow show": ("Show a saved workflow.", "workflow:show"),
    "workflow delete": ("Delete a saved workflow.", "workflow:delete"),
    "workflow graph": ("Draw a workflow.", "workflow:graph"),
    "workflow export-python": ("Write a workflow as a Python program.", "workflow:export_python"),
    "trace list": ("List past runs.", "trace:list_traces"),
    "trace show": ("Show what a run did.", "trace:show"),
    "trace view": ("Write the trace of a run as an HTML page.", "trace:view"),
    "settings set": ("Save a value, such as a token.", "settings:set_value"),
    "settings get": ("Show a saved value; secrets are masked.", "settings:get"),
    "settings list": ("List saved values; secrets are masked.", "settings:list_keys"),
    "settings unset": ("Delete a saved value.", "settings:unset"),
    "config check": ("Check all config files.", "config:check"),
    "config path": ("List the files that pflow uses.", "config:path"),
}


@hookimpl
def pflow_register_commands() -> Iterable[Command]:
    """Announce the host's commands."""
    return [
        Command(
            path=words.split(),
            help=text,
            load=f"{_ROOM}.{place}",
            group=_GROUPS.get(words.partition(" ")[0], ""),
        )
        for words, (text, place) in _COMMANDS.items()
    ]


@hookimpl
def pflow_validate_config(host: EmbeddedHost) -> Iterable[Problem]:
    """Check the settings and the scripts that start this program."""
    from pflow_mcp_plugin.host.checks import check_own_config

    return check_own_config(host)
