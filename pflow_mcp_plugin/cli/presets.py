"""`pflow mcp presets`: the ready-made servers; `pflow mcp new-preset`: a package with one, to begin with."""

from __future__ import annotations

import keyword
import os
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

import attrs
import click

from pflow_mcp_plugin import naming, storage
from pflow_mcp_plugin.cli import terminal
from pflow_mcp_plugin.cli.command_arguments import folders, words_of_presets
from pflow_mcp_plugin.cli.dependencies import lookup, server_store
from pflow_mcp_plugin.config.dialects import Fitted
from pflow_mcp_plugin.config.server_schema import server_path
from pflow_mcp_plugin.contract import Host, PflowError, Problem, Report
from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.presets import input_values, missing_programs
from pflow_mcp_plugin.presets.collection import OfferedPreset, PresetCollection, collect, is_launch_of
from pflow_mcp_plugin.presets.input_values import server_table
from pflow_mcp_plugin.presets.package_template import package_files
from pflow_mcp_plugin.terminal.tables import Column, Table
from pflow_mcp_plugin.types import PresetInput, ServerPreset
from pflow_mcp_plugin.variable_references import references

_COLUMNS = (
    Column(title="PRESET", whole=True),
    Column(title="NEEDS", whole=True, spare=True, look="dim"),
    Column(title="DESCRIPTION"),
)
_NEXT = "Add one: pflow mcp add NAME   Details: pflow mcp presets show NAME"
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


@click.command()
@click.argument("words", nargs=-1, metavar="[WORDS]... | show NAME", shell_complete=words_of_presets)
@click.pass_obj
def presets(host: Host, words: tuple[str, ...]) -> Report:
    """List the ready-made servers that contain all WORDS, or show one: what it runs and what it needs."""
    if len(words) == 2 and words[0] == "show":
        return show_preset(host, words[1])
    return list_presets(host, words)


def list_presets(host: Host, words: Sequence[str] = ()) -> Report:
    """List presets; starts nothing.

    Args:
        host: Its plugins offer them.
        words: All of them occur in name, title, description or package.
    """
    collection = collected(host)
    found = collection.search(words)
    return Report(data=[_row(offer) for offer in found], text=lambda: _table(found, words))


def show_preset(host: Host, name: str) -> Report:
    """Show one preset.

    Raises:
        PflowError: The preset does not exist, or several plugins offer it.
    """
    offer = collected(host).get(name)
    data = {**_row(offer), **_launch(offer.preset), "origin": offer.origin}
    return Report(data=data, text=lambda: "\n".join(_lines(offer)))


def collected(host: Host) -> PresetCollection:
    """Return the presets for `pflow mcp presets` to list, and report the problems of invalid ones."""
    collection = collect(host)
    for problem in collection.problems:
        host.report(problem)
    return collection


def _row(offer: OfferedPreset) -> dict[str, Any]:
    preset = offer.preset
    return {
        "name": preset.name,
        "title": preset.title,
        "description": preset.description,
        "homepage": preset.homepage,
        "transport": preset.transport,
        "packages": [*preset.packages],
        "inputs": [given.to_dict() for given in preset.inputs],
        "plugin": offer.plugin,
    }


def _launch(preset: ServerPreset) -> dict[str, Any]:
    data: dict[str, Any] = {"manifest_hash": preset.manifest_hash or None, "tools": [*preset.tools]}
    if preset.command:
        program = shutil.which(preset.command)
        missing = {} if program else {"remedy": missing_programs.remedy(preset.command)}
        return data | {
            "command": preset.command,
            "args": [*preset.args],
            "env": dict(preset.env),
            "program": program,
            **missing,
        }
    return data | {"url": preset.url, "headers": dict(preset.headers)}


def _table(found: Sequence[OfferedPreset], words: Sequence[str]) -> tuple[str | Table, ...]:
    if not found:
        nothing = f"No preset contains {' '.join(words)}. See all: pflow mcp presets"
        return (nothing if words else "No presets",)
    rows = [(offer.preset.name, _needs(offer.preset), offer.preset.description) for offer in found]
    return Table(columns=_COLUMNS, rows=rows), "", _NEXT


def _needs(preset: ServerPreset) -> str:
    """Return what a preset's server is started with: a program's name, or `http`."""
    return PurePath(preset.command).name or preset.transport


def _lines(offer: OfferedPreset) -> Iterator[str]:
    preset = offer.preset
    yield f"{preset.name}: {preset.title}"
    yield f"  {preset.description}"
    for word, value in (("homepage", preset.homepage), ("from", offer.origin)):
        if value:
            yield f"  {word:8} {value}"
    if preset.command:
        yield f"  runs     {command_line(preset)}"
        if not shutil.which(preset.command):
            remedy = missing_programs.remedy(preset.command)
            yield f"           {preset.command} is not on PATH. {remedy}".rstrip()
    else:
        yield f"  url      {preset.url}"
    yield from (f"  env      {name}={value}" for name, value in preset.env.items())
    yield from (f"  header   {name}: {value}" for name, value in preset.headers.items())
    if preset.tools:
        yield f"  tools    {', '.join(preset.tools)}"
    yield from (f"  input    {_described(given)}" for given in preset.inputs)
    yield f"Add it: {_example(preset)}"


def command_line(preset: ServerPreset) -> str:
    """Return a preset's command as `pflow mcp presets` prints it, with the references to its inputs."""
    return " ".join(
        word if "${" in word and " " not in word else shlex.quote(word)
        for word in (preset.command, *preset.args)
    )


def _described(given: PresetInput) -> str:
    facts = [] if given.required and not given.default else ["optional"]
    facts += ["secret"] if given.secret else []
    facts += [f"default {given.default}"] if given.default else []
    facts += [f"one of {', '.join(given.choices)}"] if given.choices else []
    return f"{given.name}: {given.description}" + (f" ({'; '.join(facts)})" if facts else "")


def _example(preset: ServerPreset) -> str:
    needed = (given for given in preset.inputs if given.required and not (given.default or given.secret))
    return " ".join(
        ["pflow mcp add", preset.name, *(f"--input {given.name}={given.name.upper()}" for given in needed)]
    )


@click.command("new-preset")
@click.argument("name")
@click.argument("folder", required=False, type=click.Path(path_type=Path), shell_complete=folders)
@click.pass_obj
def new_preset(host: Host, name: str, folder: Path | None) -> Report:
    """Write a Python package with a preset, a server and tests to FOLDER, by default ./NAME."""
    return write_package(host, name, folder or Path(name))


def write_package(host: Host, name: str, folder: Path) -> Report:
    """Write a package with a preset, as `pflow mcp new-preset` does.

    Args:
        host: Its plugins may offer a preset of this name already.
        name: The name of the package and of its preset.
        folder: Where to write it; it must be empty, or not exist.

    Raises:
        PflowError: The name is invalid or taken, or the folder is not empty.
        StoreError: A file cannot be written.
    """
    _check(host, name)
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise PflowError(
            f"{folder} exists and is not empty", suggestions=("Name another folder",), kind="usage"
        )
    files = package_files(name)
    for path, text in files.items():
        storage.write_output(folder / path, text.encode())
    following = f"pip install --editable {folder} pytest && pytest {folder}"
    return Report(
        data={"folder": str(folder), "files": [*files], "next": following},
        text="\n".join([f"Wrote {folder}:", *(f"  {path}" for path in files), f"Next: {following}"]),
    )


def _check(host: Host, name: str) -> None:
    if not _NAME.fullmatch(name) or keyword.iskeyword(name):
        step = "Use a-z, 0-9 and hyphens, beginning with a letter, such as acme-tickets"
        raise PflowError(f"Invalid package name {name!r}", suggestions=(step,), kind="usage")
    collection = collected(host)
    if name in collection.offered or name in collection.clashes:
        step = f"Choose another name; see: pflow mcp presets show {name}"
        raise PflowError(f"A preset named {name} already exists", suggestions=(step,), kind="usage")


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
