"""`pflow settings set | get | list | unset`."""

from __future__ import annotations

import click

from pflow_mcp_plugin.contract import PflowError, Report
from pflow_mcp_plugin.host.cli.command_parameters import setting_names
from pflow_mcp_plugin.host.embedded_host import EmbeddedHost
from pflow_mcp_plugin.host.standard_streams import input_text
from pflow_mcp_plugin.redaction import mask
from pflow_mcp_plugin.terminal.tables import Column, Table

_COLUMNS = (Column(title="KEY", whole=True), Column(title="VALUE"), Column(title="PLACE"))


@click.command()
@click.argument("key", shell_complete=setting_names)
@click.argument("value", required=False)
@click.option("--keyring", is_flag=True, help="Store the value in the keyring of the operating system.")
@click.option(
    "--from-command",
    metavar="COMMAND",
    help="Save the command that prints the value, as in --from-command 'op read op://Private/GitHub/token'. "
    "No shell runs it. It runs once, when the value is first needed, and has 30 seconds.",
)
@click.pass_obj
def set_value(
    host: EmbeddedHost, key: str, value: str | None, *, keyring: bool, from_command: str | None
) -> Report:
    """Save VALUE as the setting KEY; `-` reads it from standard input, which keeps it out of shell history.

    A VALUE that begins with a hyphen is given after `--`.
    """
    if from_command is not None:
        return _save_command(host, key, from_command, has_more=keyring or value is not None)
    if value is None:
        if "=" in key:
            name = key.partition("=")[0]
            raise click.UsageError(f"Write the value as a word of its own: pflow settings set {name} VALUE")
        raise click.UsageError("Give a VALUE, - to read it from standard input, or --from-command")
    host.settings.set(key, _piped() if value == "-" else value, keyring=keyring)
    place = "keyring" if keyring else "file"
    return Report(data={"key": key, "place": place}, text=f"{key} is stored in the {_named(place)}")


@click.command()
@click.argument("key", shell_complete=setting_names)
@click.option("--show", is_flag=True, help="Show a secret in full.")
@click.pass_obj
def get(host: EmbeddedHost, key: str, *, show: bool) -> Report:
    """Show the value of the setting KEY; secrets are masked unless `--show` is given."""
    value = host.settings.get(key)
    if value is None:
        raise _not_set(host, key, f"Set it: pflow settings set {key} VALUE")
    shown = value if show else mask(value)
    return Report(data={"key": key, "value": shown, "masked": shown != value}, text=shown, is_data=True)


@click.command()
@click.pass_obj
def list_keys(host: EmbeddedHost) -> Report:
    """List the saved settings and where each value is stored; values are masked."""
    values, programs = host.settings.values(), host.settings.programs()
    rows = [(key, mask(values.get(key, "****")), place) for key, place in host.settings.names().items()]
    cells = [
        (key, value, f"{place} ({programs[key]})" if key in programs else place) for key, value, place in rows
    ]
    return Report(
        data=[
            {"key": key, "value": value, "place": place}
            | ({"program": programs[key]} if key in programs else {})
            for key, value, place in rows
        ],
        text=lambda: (Table(columns=_COLUMNS, rows=cells),) if rows else "Nothing is set",
    )


@click.command()
@click.argument("key", shell_complete=setting_names)
@click.pass_obj
def unset(host: EmbeddedHost, key: str) -> Report:
    """Delete the setting KEY."""
    if not host.settings.unset(key):
        raise _not_set(host, key, "See: pflow settings list")
    return Report(data={"key": key}, text=f"{key} is deleted")


def _save_command(host: EmbeddedHost, key: str, command: str, *, has_more: bool) -> Report:
    from pflow_mcp_plugin.host import secret_commands

    if has_more:
        raise click.UsageError("--from-command cannot be used with a VALUE or --keyring")
    words = secret_commands.words(command)
    host.settings.set_command(key, words)
    text = f"{key} comes from the command {words[0]}, which runs when the value is first needed"
    return Report(data={"key": key, "place": "command", "program": words[0]}, text=text)


def _piped() -> str:
    value = input_text().removesuffix("\n").removesuffix("\r")
    if not value:
        message = "Standard input is empty"
        raise PflowError(message, suggestions=("Pipe it in: ... | pflow settings set KEY -",), kind="usage")
    return value


def _named(place: str) -> str:
    return "keyring" if place == "keyring" else "settings file"


def _not_set(host: EmbeddedHost, key: str, otherwise: str) -> PflowError:
    from difflib import get_close_matches

    close = get_close_matches(key, host.settings.names(), 1)
    hint = f"Did you mean {close[0]}?" if close else otherwise
    return PflowError(f"{key} is not set", suggestions=(hint,), kind="not_found")
