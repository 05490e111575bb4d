"""What people and programs rely on is there: commands, options, fields, hooks, served tools, exit codes.

`data/offered.json` holds what was there once; it grows with each release, and loses nothing.
"""

import inspect
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import click

import pflow_mcp_plugin
from pflow_mcp_plugin import mcp_hookspecs
from pflow_mcp_plugin.contract import EXIT_CODES, hookspecs
from pflow_mcp_plugin.host.cli.command_line import build_cli, leaves
from pflow_mcp_plugin.host.embedded_host import open_host
from pflow_mcp_plugin.server.offer import Offer

OFFERED = Path(__file__).parent / "data" / "offered.json"
CONFIG = Path(pflow_mcp_plugin.__file__).parent / "config" / "mcp-servers.schema.json"


def commands() -> Iterator[str]:
    with open_host() as host:
        for leaf in leaves(build_cli(host)):
            path = " ".join(leaf.announced.path)
            yield path
            command = leaf.load("pflow")
            for option in command.params if isinstance(command, click.Command) else ():
                yield from (f"{path} {name}" for name in (*option.opts, *option.secondary_opts))


def fields() -> Iterator[str]:
    """Yield the tables of the config with their keys; `file` is the file itself."""
    schema = json.loads(CONFIG.read_bytes())
    for name, table in {"file": schema, **schema["properties"], **schema["$defs"]}.items():
        yield name
        for part in (table, table.get("else")) if isinstance(table, Mapping) else ():
            if isinstance(part, Mapping):
                yield from (f"{name} {key}" for key in part.get("properties", ()))


def hooks() -> Iterator[str]:
    for module in (hookspecs, mcp_hookspecs):
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if name.startswith("pflow_"):
                yield name
                yield from (f"{name} {parameter}" for parameter in inspect.signature(function).parameters)


def served_tools() -> Iterator[str]:
    with open_host() as host:
        for tool in Offer(host).tools():
            yield tool.name
            yield from (f"{tool.name} {key}" for key in tool.input_schema["properties"])


def named(part: Mapping[str, str]) -> set[str]:
    """Return the names in a part of the file, and each with each word that belongs to it."""
    return {f"{name} {word}".rstrip() for name, words in part.items() for word in ("", *words.split())}


def test_nothing_that_was_offered_is_gone():
    now = {
        "commands": commands(),
        "config": fields(),
        "hooks": hooks(),
        "tools": served_tools(),
        "exit_codes": (*EXIT_CODES, *(f"{kind} {code}" for kind, code in EXIT_CODES.items())),
    }
    once = json.loads(OFFERED.read_bytes())
    before = {part: named(names) for part, names in once.items()}
    assert sum(map(len, before.values())) > 400
    gone = {part: sorted(names - set(now[part])) for part, names in before.items()}
    assert not any(gone.values()), gone
