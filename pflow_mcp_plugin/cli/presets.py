"""`pflow mcp presets | new-preset`: the ready-made servers, and what `pflow mcp add PRESET` makes of one."""

from __future__ import annotations

import keyword
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.machinery import PathFinder
from pathlib import Path, PurePath
from typing import Any

import click

from pflow_mcp_plugin import naming, storage
from pflow_mcp_plugin.cli.command_arguments import folders, words_of_presets
from pflow_mcp_plugin.cli.interaction import is_interactive
from pflow_mcp_plugin.config.interchange.server_translation import variable_name
from pflow_mcp_plugin.config.project_file import variables
from pflow_mcp_plugin.config.server_input import Fitted
from pflow_mcp_plugin.config.server_schema import server_path
from pflow_mcp_plugin.contract import Host, PflowError, Report
from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.contract.problems import advice
from pflow_mcp_plugin.discovery.servers import lookup, server_store, servers
from pflow_mcp_plugin.exchange import setting
from pflow_mcp_plugin.presets.collection import (
    OfferedPreset,
    PresetCollection,
    collect,
    is_launch_of,
    lacking_inputs,
    origin,
    parse_inputs,
    resolve_inputs,
    server_table,
)
from pflow_mcp_plugin.presets.package_template import package_files
from pflow_mcp_plugin.processes import missing_programs
from pflow_mcp_plugin.terminal.looks import Column, Table
from pflow_mcp_plugin.types import ServerPreset
from pflow_mcp_plugin.variable_references import references

_COLUMNS = (
    Column(title="PRESET", whole=True),
    Column(title="NEEDS", whole=True, spare=True, look="dim"),
    Column(title="DESCRIPTION", prose=True),
)
_NEXT = "Add one: pflow mcp add NAME   Details: pflow mcp presets show NAME"
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


@click.command()
@click.argument("words", nargs=-1, metavar="[WORDS]... | show NAME", shell_complete=words_of_presets)
@click.pass_obj
def presets(host: Host, words: tuple[str, ...]) -> Report:
    """List the ready-made servers that contain all WORDS, or show one: what it runs and what it needs."""
    if len(words) == 2 and words[0] == "show":
        return _shown(collected(host).get(words[1]))
    found = collected(host).search(words)
    data = [_row(offer) for offer in found]
    if not found:
        nothing = f"No preset contains {' '.join(words)}. See all: pflow mcp presets"
        return Report(data=data, text=nothing if words else "No presets")
    # The name of a server's program tells what must be installed.
    cells = [
        (it.preset.name, PurePath(it.preset.command).name or it.preset.transport, it.preset.description)
        for it in found
    ]
    return Report(data=data, text=lambda: (Table(columns=_COLUMNS, rows=cells), "", _NEXT))


def _shown(offer: OfferedPreset) -> Report:
    preset = offer.preset
    data = {**_row(offer), "manifest_hash": preset.manifest_hash or None, "tools": [*preset.tools]}
    if preset.command:
        program = shutil.which(preset.command)
        data |= {"command": preset.command, "args": [*preset.args], "env": dict(preset.env)}
        data["program"] = program
        if program is None:
            data["remedy"] = missing_programs.remedy(preset.command)
    else:
        data |= {"url": preset.url, "headers": dict(preset.headers)}
    data["origin"] = origin(offer.plugin)
    return Report(data=data, text=lambda: "\n".join(_lines(offer, data.get("remedy"))))


def collected(host: Host) -> PresetCollection:
    """For `pflow mcp presets` and `add`: return the ready-made servers, and tell the user of invalid ones."""
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


def _lines(offer: OfferedPreset, remedy: str | None) -> Iterator[str]:
    preset = offer.preset
    yield f"{preset.name}: {preset.title}"
    yield f"  {preset.description}"
    for word, value in (("homepage", preset.homepage), ("from", origin(offer.plugin))):
        if value:
            yield f"  {word:8} {value}"
    if preset.command:
        # The references to its inputs are not quoted.
        words = [preset.command, *preset.args]
        shown = (it if "${" in it and " " not in it else shlex.quote(it) for it in words)
        yield f"  runs     {' '.join(shown)}"
    else:
        yield f"  url      {preset.url}"
    if remedy is not None:
        yield f"           {preset.command} is not on PATH. {remedy}".rstrip()
    yield from (f"  env      {name}={value}" for name, value in preset.env.items())
    yield from (f"  header   {name}: {value}" for name, value in preset.headers.items())
    if preset.tools:
        yield f"  tools    {', '.join(preset.tools)}"
    needed = []
    for given in preset.inputs:
        facts = [] if given.required and not given.default else ["optional"]
        facts += ["secret"] if given.secret else []
        facts += [f"default {given.default}"] if given.default else []
        facts += [f"one of {', '.join(given.choices)}"] if given.choices else []
        yield f"  input    {given.name}: {given.description}" + (f" ({'; '.join(facts)})" if facts else "")
        if given.required and not (given.default or given.secret):
            needed.append(f" --input {given.name}={given.name.upper()}")
    yield f"Add it: pflow mcp add {preset.name}{''.join(needed)}"


def keep_secrets(host: Host, secrets: Mapping[str, str], server: str) -> None:
    """Save, as settings, the secrets of a server from a preset; refuse to change what other servers use."""
    settings, store = host.settings, servers(host.paths).store
    for name, value in secrets.items():
        if settings is None:
            step = f"export {name}=..., and repeat the command without it"
            raise PflowError(f"This pflow cannot save {name}", suggestions=(step,), kind="usage")
        users = [it for it in store.names() if it != server and name in variables(store.table(it))]
        if users and settings.get(name) not in (None, value):
            own = variable_name(f"{server}_{name}")
            step = f"Keep it in another variable: {setting(own)}; then use --input '{name}=${{{own}}}'"
            message = f"Nothing was added: it would change {name} for {', '.join(users)}"
            raise PflowError(message, suggestions=(step,), kind="usage")
    for name, value in secrets.items():
        if settings:
            settings.set(name, value)


def preset_server(
    host: Host,
    preset: ServerPreset,
    pairs: Sequence[str],
    name: str,
    fields: Mapping[str, JSON],
    *,
    asks: bool = True,
) -> tuple[Fitted, Mapping[str, str]]:
    """Return what `pflow mcp add PRESET` makes of a ready-made server, and secrets to keep; store nothing.

    `pairs` are the `--input NAME=VALUE` options; with `asks`, a terminal is asked for what they lack. By
    default, the server gets the name of the preset. `fields` are what the user decides, such as
    `trust_readonly`.
    """
    name = name or preset.name
    if not naming.is_server_name(name):
        step = f"--name {naming.server_name(name)}"
        raise PflowError(f"Invalid server name: {name}", suggestions=(step,), kind="usage")
    store, known = server_store(host), lookup(host)
    if name in store.names():
        server = store.get(name)
        if server.preset != preset.name and not is_launch_of(preset, server):
            raise PflowError(
                f"Server {name} is already configured, and not from the preset {preset.name}",
                suggestions=(f"pflow mcp add {preset.name} --name NAME", f"pflow mcp remove {name}"),
                kind="config",
            )
    given = parse_inputs(preset, pairs)
    values = resolve_inputs(preset, given, known)
    if values.missing:
        if not (asks and is_interactive()):
            raise lacking_inputs(preset, values.missing)
        answers = {
            each.name: click.prompt(
                f"{each.description} ({each.name})",
                hide_input=each.secret,
                type=click.Choice(each.choices) if each.choices else None,
                err=True,
            )
            for each in values.missing
        }
        values = resolve_inputs(preset, {**given, **answers}, known)
    overriding = "is set in the environment too, which takes precedence over the settings"
    notes = [advice("", f"{it} {overriding}", source="mcp") for it in values.secrets if os.environ.get(it)]
    table = server_table(preset, values.texts)
    command = table.get("command", "")
    if command and not references(command) and not shutil.which(command):
        found = missing_programs.find(command)
        if found:
            env = {**found.env, **table.get("env", {})}
            table = {**table, "command": found.path, **({"env": env} if env else {})}
            message = (
                f"{command} is not on PATH; the server is started by the full path that {found.source} has "
                "for it"
            )
            notes.append(advice(f"{server_path(name)}.command", message, source="mcp"))
    return Fitted(tables={name: {**table, **fields}}, notes=tuple(notes)), values.secrets


@click.command("new-preset")
@click.argument("name")
@click.argument("folder", required=False, type=click.Path(path_type=Path), shell_complete=folders)
@click.pass_obj
def new_preset(host: Host, name: str, folder: Path | None) -> Report:
    """Write a Python package with a preset, a server and tests to FOLDER, by default ./NAME."""
    folder = folder or Path(name)
    if not _NAME.fullmatch(name) or keyword.iskeyword(name):
        step = "Use a-z, 0-9 and hyphens, beginning with a letter, such as acme-tickets"
        raise PflowError(f"Invalid package name {name!r}", suggestions=(step,), kind="usage")
    collection = collected(host)
    if name in collection.offered or name in collection.clashes:
        step = f"Choose another name; see: pflow mcp presets show {name}"
        raise PflowError(f"A preset named {name} already exists", suggestions=(step,), kind="usage")
    if _is_installed(name):
        step = f"Choose another name, such as {name}-server"
        raise PflowError(
            f"There is another package or module named {name}", suggestions=(step,), kind="usage"
        )
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


def _is_installed(name: str) -> bool:
    """For `new-preset`: whether a package of this name would replace another, or one that it needs itself."""
    from importlib.metadata import distributions

    module = name.replace("-", "_")
    if module in sys.stdlib_module_names or name in ("pflow", "pytest", "hatchling"):
        return True
    found = PathFinder.find_spec(module)
    return bool(found and found.origin) or any(distributions(name=name))
