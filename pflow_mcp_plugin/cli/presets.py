"""`pflow mcp presets`: the ready-made servers; starts none."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Any

import click

from pflow_mcp_plugin.cli.known_names import words_of_presets
from pflow_mcp_plugin.contract import Host, Report
from pflow_mcp_plugin.contract.tables import Column, Table
from pflow_mcp_plugin.presets import missing_programs
from pflow_mcp_plugin.presets.collection import OfferedPreset, PresetCollection, collect
from pflow_mcp_plugin.types import PresetInput, ServerPreset

_COLUMNS = (
    Column(title="PRESET", whole=True),
    Column(title="NEEDS", whole=True, spare=True, look="dim"),
    Column(title="DESCRIPTION"),
)
_NEXT = "Add one: pflow mcp add NAME   Details: pflow mcp presets show NAME"


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
