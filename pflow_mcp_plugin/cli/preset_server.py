"""The server that `pflow mcp add PRESET` adds: inputs are asked for, its program is looked for."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import click

from pflow_mcp_plugin import naming
from pflow_mcp_plugin.cli import terminal
from pflow_mcp_plugin.cli.dependencies import lookup, server_store
from pflow_mcp_plugin.config.server_input import Fitted
from pflow_mcp_plugin.config.server_schema import server_path
from pflow_mcp_plugin.contract import Host, PflowError, Problem
from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.presets import input_values, missing_programs
from pflow_mcp_plugin.presets.collection import is_launch_of
from pflow_mcp_plugin.presets.input_values import server_table
from pflow_mcp_plugin.types import PresetInput, ServerPreset
from pflow_mcp_plugin.variable_references import references


@attrs.frozen(kw_only=True)
class PresetServer:
    """The preset server that `pflow mcp add PRESET` adds, with the secrets to keep as settings.

    Attributes:
        given: Its table, and notes about it.
        secrets: Values to keep as settings.
    """

    given: Fitted
    secrets: Mapping[str, str] = attrs.field(repr=False)

    def having(self, fields: Mapping[str, JSON]) -> PresetServer:
        """Return the preset's server with fields that the user decides, such as `trust_readonly`."""
        tables: dict[str, JSON] = {
            name: {**table, **fields} if isinstance(table, dict) else table
            for name, table in self.given.tables.items()
        }
        return attrs.evolve(self, given=attrs.evolve(self.given, tables=tables))

    def keep_secrets(self, host: Host) -> None:
        """Save the secrets that were given for the preset's server as settings.

        Raises:
            PflowError: The host saves no settings.
        """
        for name, value in self.secrets.items():
            if host.settings is None:
                step = f"export {name}=..., and repeat the command without it"
                raise PflowError(f"This pflow cannot save {name}", suggestions=(step,), kind="usage")
            host.settings.set(name, value)


def preset_server(host: Host, preset: ServerPreset, pairs: Sequence[str], name: str = "") -> PresetServer:
    """Return the server that a preset describes; nothing is stored.

    Args:
        host: Knows the settings.
        preset: The preset.
        pairs: The `--input NAME=VALUE` options.
        name: The server's name; by default that of the preset.

    Raises:
        PflowError: The name is invalid, or another server has it; an input is unknown, or a value is not
            allowed, or missing with no one to ask.
        McpError: The server of this name has mistakes.
    """
    name = name or preset.name
    if not naming.is_server_name(name):
        step = f"--name {naming.server_name(name)}"
        raise PflowError(f"Invalid server name: {name}", suggestions=(step,), kind="usage")
    _refuse_another(host, preset, name)
    values = _complete(preset, input_values.parse(preset, pairs), lookup(host))
    notes = tuple(_shadowed(each) for each in values.secrets if os.environ.get(each))
    table, note = _with_found_program(name, server_table(preset, values.texts))
    return PresetServer(given=Fitted(tables={name: table}, notes=(*notes, *note)), secrets=values.secrets)


def _complete(
    preset: ServerPreset, given: Mapping[str, str], known: input_values.Lookup
) -> input_values.InputValues:
    """Return the values of all inputs; missing ones are asked for."""
    values = input_values.resolve(preset, given, known)
    if not values.missing:
        return values
    if not terminal.is_interactive():
        raise input_values.lacking(preset, values.missing)
    answers = {each.name: _ask(each) for each in values.missing}
    return input_values.resolve(preset, {**given, **answers}, known)


def _ask(each: PresetInput) -> str:
    choices = click.Choice(each.choices) if each.choices else None
    answer: str = click.prompt(
        f"{each.description} ({each.name})", hide_input=each.secret, type=choices, err=True
    )
    return answer


def _refuse_another(host: Host, preset: ServerPreset, name: str) -> None:
    """Refuse to replace a server that did not come from this preset."""
    store = server_store(host)
    if name not in store.names():
        return
    server = store.get(name)
    if server.preset == preset.name or is_launch_of(preset, server):
        return
    raise PflowError(
        f"Server {name} is already configured, and not from the preset {preset.name}",
        suggestions=(f"pflow mcp add {preset.name} --name NAME", f"pflow mcp remove {name}"),
        kind="config",
    )


def _with_found_program(name: str, table: dict[str, Any]) -> tuple[dict[str, Any], tuple[Problem, ...]]:
    """Replace a command that is not on PATH by its full path, if it is found elsewhere."""
    command = table.get("command", "")
    if not command or references(command) or shutil.which(command):
        return table, ()
    found = missing_programs.find(command)
    if found is None:
        return table, ()
    note = f"{command} is not on PATH; the server is started by the full path that {found.source} has for it"
    env = {**found.env, **table.get("env", {})}
    return {**table, "command": found.path, **({"env": env} if env else {})}, (
        _warning(note, f"{server_path(name)}.command"),
    )


def _shadowed(name: str) -> Problem:
    return _warning(f"{name} is set in the environment too, which takes precedence over the settings")


def _warning(message: str, path: str = "") -> Problem:
    return Problem(message=message, path=path, severity="warning", kind="config", source="mcp")
