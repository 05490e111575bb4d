"""What `pflow mcp export` would write for another client."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs

from pflow_mcp_plugin import storage
from pflow_mcp_plugin.config.interchange import (
    client_documents,
    document_text,
    server_format,
)
from pflow_mcp_plugin.config.interchange.clients import Client
from pflow_mcp_plugin.config.interchange.server_format import ServerWriting
from pflow_mcp_plugin.config.interchange.variable_syntax import extracted
from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.storage import toml_text

_LONGEST = 2**20
"""Characters. Of a longer JSON text without comments, an export does not keep the layout."""


@attrs.frozen(kw_only=True)
class ExportedServer:
    """A server and its form for the client.

    Attributes:
        name: Its name.
        writing: Its table there, and what the client cannot say.
        literals: The fields that hold secrets written out in our config, which are written out there too.
    """

    name: str
    writing: ServerWriting
    literals: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class ExportPlan:
    """What an export writes.

    Attributes:
        client: Whom it is for.
        servers: Every server that was asked for, those that the client cannot have included.
    """

    client: Client
    servers: tuple[ExportedServer, ...]

    def document(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the planned export makes of a client's document: its servers are put in."""
        written = [server for server in self.servers if not server.writing.reason]
        tables = {server.name: server.writing.table for server in written}
        inputs = [ref for server in written for ref in server.writing.inputs]
        return client_documents.put(document, self.client, tables, inputs)


@attrs.frozen(kw_only=True)
class ExportedFile:
    """The file that an export writes.

    Attributes:
        text: Its new content.
        before: Its content so far, None if there is no such file.
        replaced: The names of servers that it had.
        loses_comments: Whether it has comments that the new content lacks.
    """

    text: str
    before: bytes | None = None
    replaced: tuple[str, ...] = ()
    loses_comments: bool = False


def plan_export(client: Client, tables: Mapping[str, Mapping[str, Any]]) -> ExportPlan:
    """Return what an export of servers writes."""
    servers = []
    for name, table in tables.items():
        writing = server_format.write_server(table, client.format)
        if table.get("disabled") and "disabled" in writing.lost:
            writing = ServerWriting(reason="it is disabled, which this client cannot say")
        _, secrets = extracted(name, dict(table), lambda *_: False)
        fields = () if writing.reason else tuple(secret.field for secret in secrets)
        servers.append(ExportedServer(name=name, writing=writing, literals=fields))
    return ExportPlan(client=client, servers=tuple(servers))


def merged(made: ExportPlan, path: Path) -> ExportedFile:
    """Return the file that the planned export would write: the existing content with the servers put in."""
    before = document_text.load(path)
    if before is None and not path.exists():
        return ExportedFile(text=document_text.dump(made.document({}), made.client.form))
    if document_text.form_of(path) != made.client.form:
        message = f"{path} exists and is no {made.client.form.upper()} file, as {made.client.title} has"
        raise PflowError(message, kind="usage")
    there = {} if before is None else before
    if not isinstance(there, Mapping):
        raise PflowError(f"{path} does not contain a table", kind="usage")
    document = made.document(there)
    content = storage.read_bytes(path) or b""
    text = content.decode("utf-8-sig")
    names = (server.name for server in made.servers if not server.writing.reason)
    if document == there:
        return ExportedFile(text=content.decode(), before=content, replaced=tuple(names))
    edit = _edited_toml if made.client.form == "toml" else _edited_json
    edited = edit(text, made, document)
    written = edited or document_text.dump(document, made.client.form)
    before, after = (document_text.comments(each, made.client.form) for each in (text, written))
    return ExportedFile(
        text=written,
        before=content,
        replaced=tuple(name for name in names if client_documents.table_in(there, made.client, name)),
        loses_comments=after < before,
    )


def _edited_toml(text: str, made: ExportPlan, document: Mapping[str, Any]) -> str:
    """Return a TOML text with the servers' tables replaced and the rest as it was; empty if that fails."""
    from pflow_mcp_plugin.config.toml_edit import Layout

    layout = Layout(text)
    for path, table in _changes(made, document):
        layout.put(path, table)
    try:
        same = toml_text.decode(Path("edited"), str(layout).encode()) == document
    except storage.CorruptFile:
        return ""
    return str(layout) if same else ""


def _edited_json(text: str, made: ExportPlan, document: Mapping[str, Any]) -> str:
    """Return a JSON text with the servers put in and the rest as it was; empty if that fails."""
    if made.client.form != "json" or (len(text) > _LONGEST and not document_text.has_comments(text, "json")):
        return ""
    edited = document_text.JsonText(text)
    try:
        for path, table in _changes(made, document):
            edited.put(path, table)
        same = document_text.parse(Path("edited.json"), str(edited).encode()) == document
    except (LookupError, ValueError, storage.CorruptFile):
        return ""
    return str(edited) if same else ""


def _changes(made: ExportPlan, document: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the place in a client's document and the value of everything that the export puts there."""
    place = client_documents.place_in(document, made.client)
    written = [server for server in made.servers if not server.writing.reason]
    for server in written:
        yield (*place, server.name), client_documents.table_in(document, made.client, server.name)
    if any(server.writing.inputs for server in written):
        above: Any = document
        for key in place[:-1]:
            above = above[key]
        yield (*place[:-1], "inputs"), above["inputs"]
