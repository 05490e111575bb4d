"""The host's own commands as a plugin, registered through the same hook as any other plugin's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pflow_mcp_plugin.contract import Command, hookimpl

if TYPE_CHECKING:
    from pflow_mcp_plugin.contract import Problem, Report, Suggestion
    from pflow_mcp_plugin.host.embedded_host import EmbeddedHost


_ROOM = __name__.rpartition(".")[0]

_GROUPS = {
    "cache": "Show or remove the results kept for later runs.",
    "config": "Check the config files, and list where they are.",
    "registry": "Find and describe node types, and try them out.",
    "settings": "Save values such as tokens.",
    "trace": "Look at past runs.",
    "workflow": "Save, find, show, draw and export workflows.",
}

_COMMANDS = {
    "run": ("Run a workflow.", "run_commands:run"),
    "run-node": ("Run nodes with flags, without a workflow.", "builtin_commands:run_node"),
    "resume": ("Go on with a run that failed or was killed.", "resume_command:resume"),
    "validate": ("Check a workflow without running it.", "run_commands:validate"),
    "plan": ("Make a workflow for a task described in words.", "plan_command:plan"),
    "completion": ("Complete command lines in bash, zsh or fish.", "completion:completion"),
    "plugins": ("List plugins and what each one provides.", "config_commands:plugins"),
    "registry list": ("List node types.", "registry_commands:list_nodes"),
    "registry search": ("Search node types by keywords.", "registry_commands:search"),
    "registry discover": ("Find the node types for a task.", "registry_commands:discover_nodes"),
    "registry describe": ("Show the parameters and outputs of a node type.", "registry_commands:describe"),
    "registry validate": ("Check that node types can be loaded.", "registry_commands:validate"),
    "registry run": ("Run a single node and show its result.", "registry_commands:run"),
    "registry export": ("Print the whole registry as JSON.", "registry_commands:export"),
    "workflow init": ("Write a small workflow to start from.", "workflow_commands:init"),
    "workflow save": ("Save a workflow under a name.", "workflow_commands:save"),
    "workflow import": ("Convert a workflow in Markdown.", "workflow_commands:import_markdown"),
    "workflow list": ("List saved workflows.", "workflow_commands:list_saved"),
    "workflow discover": ("Find the saved workflow for a task.", "registry_commands:discover_workflows"),
    "workflow show": ("Show a saved workflow.", "workflow_commands:show"),
    "workflow delete": ("Delete a saved workflow.", "workflow_commands:delete"),
    "workflow graph": ("Draw a workflow.", "workflow_commands:graph"),
    "workflow export-python": ("Write a workflow as a Python program.", "workflow_commands:export_python"),
    "trace list": ("List past runs.", "trace_commands:list_traces"),
    "trace show": ("Show what a run did.", "trace_commands:show"),
    "trace view": ("Write the trace of a run as an HTML page.", "trace_commands:view"),
    "trace prune": ("Remove traces of past runs.", "trace_commands:prune"),
    "cache info": ("Show how many results are kept, and where.", "config_commands:info"),
    "cache clear": ("Remove kept results.", "config_commands:clear"),
    "settings set": ("Save a value, such as a token.", "config_commands:set_value"),
    "settings get": ("Show a saved value; secrets are masked.", "config_commands:get"),
    "settings list": ("List saved values; secrets are masked.", "config_commands:list_keys"),
    "settings unset": ("Delete a saved value.", "config_commands:unset"),
    "config check": ("Check all config files.", "config_commands:check"),
    "config path": ("List the files that pflow uses.", "config_commands:path"),
}

_FALLBACK = "run-node"
"""The command that also receives the names of node types: `pflow NODE` is `pflow run-node NODE`."""


@hookimpl
def pflow_register_commands() -> Iterable[Command]:
    """Announce the built-in commands of the host."""
    return [
        Command(
            path=words.split(),
            help=text,
            load=f"{_ROOM}.{place}",
            group=_GROUPS.get(words.partition(" ")[0], ""),
            fallback=words == _FALLBACK,
        )
        for words, (text, place) in _COMMANDS.items()
    ]


@hookimpl
def pflow_validate_config(host: EmbeddedHost) -> Iterable[Problem]:
    """As the plugin of the built-in commands, check the host's own config for `config check`."""
    from pflow_mcp_plugin.host.cli.config_commands import check_own_config

    return check_own_config(host)


class _RunNode:
    """The only one of the host's commands that is not click's: it runs nodes; only they know its flags."""

    def main(
        self, args: Sequence[str], prog_name: str, *, standalone_mode: bool, obj: EmbeddedHost, **extra: Any
    ) -> Report:
        return obj.run_chain(args, prog_name)

    def complete_words(
        self, words: Sequence[str], incomplete: str, *, obj: EmbeddedHost
    ) -> Sequence[Suggestion]:
        return obj.complete_chain(words, incomplete)


run_node = _RunNode()
