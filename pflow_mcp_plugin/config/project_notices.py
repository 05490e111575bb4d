"""What people are told about a project's servers: each in full before it is approved, and warnings later."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs

from pflow_mcp_plugin import variable_references
from pflow_mcp_plugin.config import display, server_schema
from pflow_mcp_plugin.config.field_checks import advice
from pflow_mcp_plugin.config.project_file import APPROVE, ProjectReading
from pflow_mcp_plugin.contract import Problem
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.contract.printable_text import one_line
from pflow_mcp_plugin.types import Server

_OTHERS = server_schema.FIELDS.keys() - {"type", "env", *server_schema.REACH}
"""The fields that say nothing about what is started or reached."""


def notices(reading: ProjectReading) -> Iterator[Problem]:
    """Yield the warnings about a project's file for any command: why it, or a server, is not used.

    What is wrong with an approved file was said when it was approved, and `config check` says it.
    """
    for problem in reading.problems:
        if reading.state != "approved" and (problem.severity == "error" or reading.state != "asked"):
            named = f"{reading.path}: " if problem.path else ""  # otherwise it names the file itself
            yield attrs.evolve(problem, message=named + problem.message, severity="warning")


def server_notices(reading: ProjectReading, own_file: Path, own: JSONObject) -> Iterator[Problem]:
    """Yield the warnings about a project's servers: those that are not used, or used without approval.

    Args:
        reading: What is used of the file.
        own_file: The user's own config.
        own: The tables of the servers there, which win over those of the project.
    """
    for name, table in reading.tables.items():
        if name in own:
            yield from _shadowed(name, table, own[name], reading.path, own_file)
        elif reading.state == "asked":
            yield from _unapproved(name, table, reading.path)


def server_lines(name: str, table: JSONObject) -> Iterator[str]:
    """Yield lines that show people a server of a project in full, before it is approved.

    Secrets are masked, and characters that are not visible are escaped.

    Args:
        name: The server's name.
        table: Its table, without errors.
    """
    server = server_schema.build(name, table, {})
    yield f"{name} ({server.transport})"
    for label, text in _facts(server, table):
        yield f"  {label:9} {one_line(text)}"


def variables(value: JSON) -> list[str]:
    """Return the names of the variables that the table of a project's server refers to, each once."""
    if isinstance(value, str):
        return [*dict.fromkeys(reference.name for reference in variable_references.references(value))]
    parts: list[JSON] = []
    if isinstance(value, Mapping):
        named = value.get("token_env")
        parts = [*value.values(), f"${{{named}}}" if isinstance(named, str) else None]
    elif isinstance(value, list):
        parts = [*value]
    return [*dict.fromkeys(name for part in parts for name in variables(part))]


def _facts(server: Server, table: JSONObject) -> Iterator[tuple[str, str]]:
    if server.command:
        yield "runs", display.command_line(server)
    yield from ((key, value) for key in ("cwd", "path") if (value := getattr(server, key)))
    if server.url:
        yield "url", ascii(display.url(server.url))[1:-1]  # letters that only look like those of a known host
    yield from (("env", f"{name}={value}") for name, value in display.masked(server.env).items())
    yield from (("header", f"{name}: {value}") for name, value in display.masked(server.headers).items())
    if server.auth:
        yield "auth", json.dumps(display.shown(server)["auth"])
    others = {key: value for key, value in table.items() if key in _OTHERS}
    if others:
        yield "settings", json.dumps(others)
    if names := variables(table):
        yield "receives", f"the values of {', '.join(names)}, from the environment or your settings"


def _shadowed(name: str, table: JSON, own: JSON, path: Path, own_file: Path) -> Iterator[Problem]:
    if server_schema.fingerprint(table) != server_schema.fingerprint(own):
        message = f"Server {name} is in {own_file} and in {path}: the one in {own_file.name} is used"
        yield advice(server_schema.server_path(name), message, f"To use the other: pflow mcp remove {name}")


def _unapproved(name: str, table: JSON, path: Path) -> Iterator[Problem]:
    found = server_schema.check_server(name, table)
    if isinstance(table, Mapping) and not any(problem.severity == "error" for problem in found):
        facts = _facts(server_schema.build(name, table, {}), table)
        shown = "; ".join(f"{label}: {one_line(text)}" for label, text in facts)
        message = f"Server {name} of {path} is not approved, and used because you asked for it ({shown})"
        yield advice(server_schema.server_path(name), message, f"To approve it: {APPROVE}")
