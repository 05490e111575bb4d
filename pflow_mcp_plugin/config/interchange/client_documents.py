"""The config document of a client: its servers, and the document with servers put in."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from pflow_mcp_plugin import variable_references
from pflow_mcp_plugin.config import document_text, server_input, server_schema
from pflow_mcp_plugin.config.field_checks import kind_of
from pflow_mcp_plugin.config.interchange import server_translation
from pflow_mcp_plugin.config.interchange.clients import (
    CLIENTS,
    Client,
    FoundFile,
    Machine,
    owner,
    project_of,
)
from pflow_mcp_plugin.config.interchange.install_manifests import (
    bundle_references,
    bundle_server,
    is_bundle,
    is_registry_manifest,
    registry_server,
    unwrapped,
)
from pflow_mcp_plugin.config.interchange.server_translation import NoEquivalent, ServerReading, Table
from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.contract.problems import advice


@attrs.frozen(kw_only=True)
class ForeignServer:
    """A server in the config document of another client."""

    given: str  # its name there
    name: str  # a valid name for it here
    project: str = ""  # the folder of the project that it is listed under, if any
    inputs: frozenset[str] = frozenset()  # the variables for what its client asks the user for
    reading: ServerReading


@attrs.frozen(kw_only=True)
class FileContent:
    """A client's config document, as read: the servers in it, or why it could not be read."""

    title: str
    client: str
    path: Path
    is_project: bool = False
    servers: tuple[ForeignServer, ...] = ()
    error: PflowError | None = None


def read(file: FoundFile, machine: Machine) -> FileContent:
    """Return the servers in a client's own config document; there may be none."""
    about = FileContent(
        title=file.client.title, client=file.client.name, path=file.path, is_project=file.is_project
    )
    try:
        document = document_text.load(file.path)
        folder = str(machine.folder) if file.is_project else ""
        servers = tuple(_servers(document, file.client, file.path, machine, folder))
    except PflowError as error:
        return attrs.evolve(about, error=error)
    return attrs.evolve(about, servers=servers)


def read_any(path: Path, machine: Machine, client: Client | None = None) -> FileContent:
    """Return the servers, at least one, in a client's config document or another that the user named.

    Its format is that of `client`, or else what its path or content says: that of a client, a `server.json`,
    a bundle's `manifest.json`, or JSON with `mcpServers`.
    """
    document = document_text.load(path, (client.form,) if client else ("json", "toml", "yaml"))
    if document is None and not path.exists():
        raise PflowError(f"File not found: {path}", kind="usage")
    document = unwrapped(document)
    is_table = isinstance(document, Mapping) and client is None
    if is_table and (is_registry_manifest(document) or is_bundle(document)):
        return _manifest(document, path, machine)
    chosen = client or owner(path, machine) or _recognised(document)
    servers = tuple(_servers(document, chosen, path, machine, project_of(path, machine)))
    if not servers:
        step = f"Servers of {chosen.title} are expected under {' or '.join(map('.'.join, chosen.places))}"
        raise PflowError(f"{path} contains no server", suggestions=(step,), kind="usage")
    return FileContent(title=chosen.title, client=chosen.name, path=path, servers=servers)


def put(
    document: Mapping[str, Any],
    client: Client,
    tables: Mapping[str, Table],
    inputs: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """Return a client's config document with servers added or replaced; all that we do not write stays."""
    place = place_in(document, client)
    written = dict(document)
    above = written
    for key in place[:-1]:
        above[key] = dict(_mapping(above.get(key), key))
        above = above[key]
    servers = dict(_mapping(above.get(place[-1]), place[-1]))
    for name, table in tables.items():
        others = server_schema.mapping(servers.get(name))
        kept = {key: value for key, value in others.items() if not client.format.owns(key)}
        named = {"name": name} if client.format.names_itself else {}
        servers[name] = {**named, **table, **kept}
    if inputs:
        declared = above.get("inputs")
        known = list(declared) if isinstance(declared, list) else []
        ids = inputs_in(document, client)
        above["inputs"] = [*known, *(each for each in inputs if each["id"] not in ids)]
    above[place[-1]] = servers
    return written


def place_in(document: Mapping[str, Any], client: Client) -> tuple[str, ...]:
    """Return the keys under which a client's document has its servers, or would have them."""
    fixed = [place for place in client.places if "*" not in place]
    there = [place for place in fixed if isinstance(below(document, place), Mapping)]
    return max(there, key=len) if there else fixed[0]


def table_in(document: Mapping[str, Any], client: Client, name: str) -> Any:
    """Return a server's table in a client's document, None if there is none."""
    return below(document, (*place_in(document, client), name))


def inputs_in(document: Mapping[str, Any], client: Client) -> dict[str, Any]:
    """Return the inputs that a client's document defines beside its servers, by id."""
    declared = below(document, (*place_in(document, client)[:-1], "inputs"))
    items = declared if isinstance(declared, list) else []
    return {str(item["id"]): item for item in items if isinstance(item, Mapping) and "id" in item}


def _servers(
    document: Any, client: Client, path: Path, machine: Machine, folder: str = ""
) -> Iterator[ForeignServer]:
    if client.name == "mcp-json":
        given = [("", str(name), it) for name, it in server_input.tables_in(document, str(path)).items()]
    elif document is None or document == "":
        return
    elif not isinstance(document, Mapping):
        message = f"{path} must contain a table, not {kind_of(document)}"
        raise PflowError(message, kind="config", details={"path": str(path)})
    else:
        given = list(_tables(document, client, path))
    known = _known(document, client, path, machine)
    asked = (text for key, text in known.items() if key.startswith("input:"))
    inputs = frozenset(ref.name for text in asked for ref in variable_references.references(text))
    names = server_input.fitted_names(dict.fromkeys(name for _, name, _ in given))
    for project, name, table in given:
        fitted = names[name]
        reading = server_translation.read_server(
            server_schema.server_path(fitted), table, client.format, known
        )
        args = reading.table.get("args")
        words = [reading.table.get("command"), *(args if isinstance(args, list) else ())]
        is_relative = any(isinstance(word, str) and word.startswith(("./", "../", ".\\")) for word in words)
        start = project or folder
        if start and is_relative and "cwd" not in reading.table:
            # The client starts it in the folder of its project.
            message = f"Its paths are relative, so cwd is set to {start}"
            note = advice(f"{server_schema.server_path(fitted)}.cwd", message)
            placed = {**reading.table, "cwd": start.replace("${", "$${")}
            reading = attrs.evolve(reading, table=placed, problems=(*reading.problems, note))
        yield ForeignServer(given=name, name=fitted, project=project, inputs=inputs, reading=reading)


def _tables(document: Mapping[str, Any], client: Client, path: Path) -> Iterator[tuple[str, str, Any]]:
    """Yield project, name and table of each server in a document, in the places of its client."""
    for place in client.places:
        deeper = [other for other in client.places if other != place and other[: len(place)] == place]
        if any(isinstance(below(document, other), Mapping) for other in deeper):
            continue
        found = [("", below(document, place))]
        if "*" in place:
            at = place.index("*")
            outer = server_schema.mapping(below(document, place[:at]))
            found = [(str(key), below(inner, place[at + 1 :])) for key, inner in outer.items()]
        for project, servers in found:
            if not isinstance(servers, Mapping | list | None):
                wrong = f"{path}: {'.'.join(place)} must be a table of servers, not {kind_of(servers)}"
                raise PflowError(wrong, kind="config", details={"path": str(path)})
            items = server_input.tables_in(servers, str(path)) if isinstance(servers, list) else servers
            yield from ((project, str(name), table) for name, table in (items or {}).items())


def below(document: Any, place: tuple[str, ...]) -> Any:
    """Return what a client's document has under these keys, None if nothing."""
    for key in place:
        document = document.get(key) if isinstance(document, Mapping) else None
    return document


def _known(document: Any, client: Client, path: Path, machine: Machine) -> dict[str, str]:
    separator = "\\" if machine.system == "windows" else "/"
    # What those references in the document stand for that are not environment variables.
    known = {
        "userHome": "${USERPROFILE}" if machine.system == "windows" else "${HOME}",
        "pathSeparator": separator,
        "/": separator,
    }
    if path.parent.name.startswith(".") and path.parent.parent != machine.home:
        folder = path.absolute().parent.parent
        known |= {"workspaceFolder": str(folder).replace("${", "$${"), "workspaceFolderBasename": folder.name}
    ids: dict[str, str] = {}
    if client.format.variables.inputs:
        for declared in (below(document, ("inputs",)), below(document, ("mcp", "inputs"))):
            for item in declared if isinstance(declared, list) else ():
                if isinstance(item, Mapping) and item.get("type") in ("promptString", "pickString"):
                    given = str(item.get("id"))
                    name = server_translation.variable_name(given)
                    # Of `api-key` and `api_key`, two inputs, the second is `API_KEY_2`.
                    names = itertools.chain([name], (f"{name}_{number}" for number in itertools.count(2)))
                    own = next(it for it in names if ids.setdefault(it, given) == given)
                    known[f"input:{given}"] = server_translation.reference_to(own, item.get("default"))
    return known


def _manifest(document: Mapping[str, Any], path: Path, machine: Machine) -> FileContent:
    is_registry = is_registry_manifest(document)
    given = str(document.get("name"))
    try:
        if is_registry:
            given, table, lost = registry_server(document)
            reading = ServerReading(table=table, lost=lost)
        else:
            given, table = bundle_server(document, machine.system)
            known = bundle_references(document, path.absolute().parent)
            place = server_schema.server_path(server_input.fitted_names([given])[given])
            reading = server_translation.read_server(place, table, CLIENTS["mcp-json"].format, known)
    except NoEquivalent as error:
        reading = ServerReading(reason=str(error))
    server = ForeignServer(given=given, name=server_input.fitted_names([given])[given], reading=reading)
    title, client = ("MCP Registry", "server.json") if is_registry else ("MCP bundle", "manifest.json")
    return FileContent(title=title, client=client, path=path, servers=(server,))


def _recognised(document: Any) -> Client:
    if not isinstance(document, Mapping):
        return CLIENTS["mcp-json"]
    marks = {
        "context_servers": "zed",
        "mcp_servers": "codex",
        "extensions": "goose",
        "projects": "claude-code",
    }
    marked = next((name for key, name in marks.items() if key in document), "")
    if isinstance(document.get("mcp"), Mapping):
        servers = below(document, ("mcp", "servers"))
        is_vscode = isinstance(servers, Mapping) and not any(
            below(server, ("type",)) in ("local", "remote")  # of OpenCode
            for server in servers.values()
        )
        marked = "vscode" if is_vscode else "opencode"
    elif isinstance(document.get("servers"), Mapping) and "inputs" in document:
        marked = "vscode"
    elif isinstance(document.get("mcpServers"), Mapping) and not marked:
        servers = document["mcpServers"].values()
        used = {key for server in servers for key in server_schema.mapping(server)}
        if used & {"httpUrl", "includeTools", "excludeTools"}:
            marked = "gemini-cli"
        elif "serverUrl" in used:
            marked = "windsurf"
    return CLIENTS[marked or "mcp-json"]


def _mapping(value: Any, key: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise PflowError(f"{key} in the file must be a table, not {kind_of(value)}", kind="config")
    return value
