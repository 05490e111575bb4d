"""Files of an older pflow: its server configs, and the tools in its registry. They are only read.

Shapes: `mcpServers`, `servers` with `transport`, a single server with `name` or `server_id`, and registries
whose entries are of the module `pflow.nodes.mcp.node` or carry an `mcp_config`.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import attrs

from pflow_mcp_plugin.config import dialects, server_input, server_schema
from pflow_mcp_plugin.config.field_checks import advice
from pflow_mcp_plugin.contract import PflowError, Problem
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject

MODULE = "pflow.nodes.mcp"
"""The package of the class that ran the tools of an older registry."""

_NAMES = ("mcp-servers.json", "mcp.json", "registry.json")
_LAUNCH = {
    "transport": "type",
    "command": "command",
    "args": "args",
    "env": "env",
    "url": "url",
    "auth": "auth",
}
"""The keys of an `mcp_config` that describe the server, and their names in our config."""


@attrs.frozen(kw_only=True)
class OlderFile:
    """The content of an older file.

    Attributes:
        path: The file.
        tables: The servers' tables by name, in the fields of our config.
        notes: A warning about each thing that was adapted, or has no equivalent.
        tools: Node types of MCP tools; a sync of their server brings them back.
        others: Other entries of a registry.
    """

    path: Path
    tables: JSONObject = attrs.field(factory=dict)
    notes: tuple[Problem, ...] = ()
    tools: tuple[str, ...] = ()
    others: tuple[str, ...] = ()


def default_files(home: Path) -> list[Path]:
    """Return the files of an older pflow that exist below a home folder."""
    return files_in(home / ".pflow")


def files_in(folder: Path) -> list[Path]:
    """Return the files of an older pflow that exist in a folder."""
    return [path for name in _NAMES if (path := folder / name).is_file()]


def read_older(path: Path) -> OlderFile:
    """Read an older server config or registry.

    Raises:
        PflowError: The file does not exist, cannot be read, is not valid JSON, or has none of the shapes.
    """
    document = server_input.document(path)
    entries = dict(_entries(document))
    if entries:
        return _registry(path, entries)
    fitted = server_input.servers_in(_named(document), str(path))
    return OlderFile(path=path, tables=fitted.tables, notes=fitted.notes)


def unmigrated(paths: Iterable[Path], configured: Iterable[str]) -> Iterator[Problem]:
    """Yield a warning for each older file with servers that are not configured; unreadable files have none.

    Args:
        paths: The older files.
        configured: The names of the configured servers.
    """
    known = set(configured)
    for path in paths:
        try:
            missing = [name for name in read_older(path).tables if name not in known]
        except PflowError:
            continue
        if missing:
            command = f"pflow registry migrate-mcp --from {shlex.quote(str(path))}"
            yield Problem(
                message=f"{path} of an older pflow is not used; it has {_some(missing)}",
                suggestion=f"Configure what it has: {command}",
                severity="warning",
                kind="config",
                source=str(path),
            )


def _named(document: JSON) -> JSON:
    """Return the document with `server_id` called `name`."""
    if isinstance(document, list):
        return [_named(item) for item in document]
    if isinstance(document, Mapping) and "server_id" in document and "name" not in document:
        return {"name" if key == "server_id" else key: value for key, value in document.items()}
    return document


def _entries(document: JSON) -> Iterator[tuple[str, JSONObject]]:
    """Yield the registry entries of a document; a server config has none."""
    if not isinstance(document, Mapping):
        return
    nodes = document.get("nodes", document)
    named = nodes.items() if isinstance(nodes, Mapping) else _listed(nodes)
    for name, entry in named:
        if isinstance(entry, Mapping) and _is_entry(entry):
            yield name, entry
    if _is_entry(document):
        yield str(document.get("node_id", "")), document


def _listed(nodes: JSON) -> Iterator[tuple[str, JSON]]:
    for entry in nodes if isinstance(nodes, list) else ():
        if isinstance(entry, Mapping):
            yield str(entry.get("node_id", "")), entry


def _is_entry(entry: JSONObject) -> bool:
    return bool({"module", "class_name", "mcp_config"} & entry.keys())


def _registry(path: Path, entries: Mapping[str, JSONObject]) -> OlderFile:
    tools = tuple(name for name, entry in entries.items() if _is_tool(entry))
    tables: dict[str, JSON] = {}
    notes: list[Problem] = []
    for entry in entries.values():
        config = entry.get("mcp_config")
        if isinstance(config, Mapping) and isinstance(config.get("server_id"), str):
            _add_server(str(config["server_id"]), config, tables, notes)
    fitted = dialects.fitted(tables)
    return OlderFile(
        path=path,
        tables=fitted.tables,
        notes=(*notes, *fitted.notes),
        tools=tools,
        others=tuple(name for name in entries if name not in tools),
    )


def _is_tool(entry: JSONObject) -> bool:
    module = entry.get("module")
    of_older = isinstance(module, str) and (module == MODULE or module.startswith(f"{MODULE}."))
    return of_older or "mcp_config" in entry


def _add_server(name: str, config: JSONObject, tables: dict[str, JSON], notes: list[Problem]) -> None:
    """Add the server of an entry; every tool of a server repeats its launch."""
    table = _split({ours: config[theirs] for theirs, ours in _LAUNCH.items() if theirs in config})
    if name not in tables:
        tables[name] = table
        if "version" in config:
            message = f"The version {config['version']} of the server {name} is not kept: its command decides"
            notes.append(advice(server_schema.server_path(name), message))
    elif tables[name] != table:
        message = f"The tools of the server {name} disagree about how it is launched; the first one is used"
        notes.append(advice(server_schema.server_path(name), message))


def _split(table: dict[str, JSON]) -> dict[str, JSON]:
    """Return a table whose command, if it is a whole command line, is split into program and arguments."""
    command = table.get("command")
    if not isinstance(command, str) or " " not in command or "args" in table:
        return table
    return {**table, **command_line(command)}


def command_line(text: str) -> dict[str, JSON]:
    """Split the command line of a server in the files of an older pflow into `command` and `args`.

    Raises:
        PflowError: A quote is not closed, or nothing is in it.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise PflowError(f"The command cannot be read: {error}: {text}", kind="usage") from error
    if not words:
        raise PflowError("The command is empty", kind="usage")
    program, *args = words
    return {"command": program, **({"args": [*args]} if args else {})}


def _some(names: list[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"the server{'' if len(names) == 1 else 's'} {', '.join(names[:3])}{more}"
