"""What `pflow mcp import` and `pflow mcp export` would do, as values that they print and apply."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import attrs

from pflow_mcp_plugin import secret_detection, storage, variable_references
from pflow_mcp_plugin.config import auth, display, document_text, field_checks, server_schema
from pflow_mcp_plugin.config.interchange import client_documents, server_translation
from pflow_mcp_plugin.config.interchange.client_documents import FileContent, ForeignServer
from pflow_mcp_plugin.config.interchange.clients import Client
from pflow_mcp_plugin.config.interchange.server_translation import ServerWriting, Table, variable_name
from pflow_mcp_plugin.contract import PflowError, Problem
from pflow_mcp_plugin.contract.problems import advice, errors_in
from pflow_mcp_plugin.variable_references import VariableReference

_SHORTEST = 4

IsTaken = Callable[[str, str], bool]
"""Tells whether a variable has a value other than the one given."""


@attrs.frozen(kw_only=True)
class LiteralSecret:
    """A secret that an imported server's table has written out."""

    field: str  # such as `env.API_KEY`
    variable: str  # that could hold it
    value: str = attrs.field(repr=False)


@attrs.frozen
class _Span:
    """A literal secret that an import would replace: its field's path, a word for it, its start and end."""

    field: str
    word: str
    start: int
    end: int


def extracted(
    server: str, table: dict[str, Any], is_taken: IsTaken
) -> tuple[dict[str, Any], tuple[LiteralSecret, ...]]:
    """Return the table that an import would write, with references in place of literal secrets, and those.

    A variable of the server's `env` is called the same outside; anything else, and a name that is taken,
    begins with the server's name.
    """
    secrets: list[LiteralSecret] = []
    given: dict[str, str] = {}

    def replaced(spans: Iterable[_Span], text: str) -> str:
        # From the end, so that the earlier positions stay valid.
        for span in sorted(spans, key=lambda span: -span.start):
            value = text[span.start : span.end].replace("$${", "${")
            own = variable_name(f"{server}_{span.word}")
            names = [own] if span.word.startswith("_") else [variable_name(span.word), own]
            names += [f"{own}_{number}" for number in range(2, 100)]
            free = (it for it in names if not (is_taken(it, value) or given.get(it, value) != value))
            name = next(free, own)
            given[name] = value
            secrets.append(LiteralSecret(field=span.field, variable=name, value=value))
            text = f"{text[: span.start]}${{{name}}}{text[span.end :]}"
        return text

    changed = dict(table)
    for key in ("env", "headers", "auth"):
        if isinstance(changed.get(key), Mapping):
            changed[key] = {
                name: replaced(_spans(key, name, value), value) if isinstance(value, str) else value
                for name, value in changed[key].items()
            }
    args = changed.get("args")
    if isinstance(args, list) and all(isinstance(item, str) for item in args):
        spans = _in_args(str(changed.get("command", "")), args)
        changed["args"] = [
            replaced(spans.get(index) or _in_url(f"args[{index}]", text), text)
            for index, text in enumerate(args)
        ]
    if isinstance(changed.get("url"), str):
        changed["url"] = replaced(_in_url("url", changed["url"]), changed["url"])
    return changed, tuple(secrets)


def _spans(key: str, name: str, value: str) -> Iterator[_Span]:
    if variable_references.references(value):
        return
    field = field_checks.join(key, name)
    is_whole = (
        name in auth.SECRET and name != "username" if key == "auth" else secret_detection.is_secret(name)
    )
    if not is_whole:
        yield from _in_url(field, value)
        return
    start = value.rstrip().rfind(" ") + 1 if key == "headers" else 0  # after `Bearer`
    if len(value) - start >= _SHORTEST:
        yield _Span(field, name if key == "env" else f"_{name}", start, len(value))


def _in_args(command: str, args: list[str]) -> dict[int, list[_Span]]:
    """Return what an import would move from arguments to the settings: secrets by index, but no code."""
    spans: dict[int, list[_Span]] = {}
    started = display.startable([command, *args])
    for index, start in secret_detection.in_arguments(args):
        text = args[index]
        is_word = len(text[start:].split()) == 1 or display.is_secret_only(text[start:])
        if not is_word or (start == 0 and index in started):
            continue
        option = text[:start].strip("-=: ") or args[index - 1].strip("-")
        is_reference = "$${" in text or variable_references.references(text)  # ours, or the program's own
        if len(text) - start >= _SHORTEST and not is_reference:
            at = start + text[start:].rstrip().rfind(" ") + 1
            spans[index] = [_Span(f"args[{index}]", f"_{option}", at, len(text))]
    return spans


def _in_url(field: str, text: str) -> Iterator[_Span]:
    """Plan what an import moves from a URL to the settings: yield passwords, and values of the query."""
    end = 0
    for value in sorted(set(secret_detection.in_urls(text)), key=text.index):
        start = text.find(value, end)
        if start >= 0 and len(value) >= _SHORTEST and not variable_references.references(value):
            before = text[:start].rstrip("=")
            in_query = text[start - 1 : start] == "="
            word = before[max(before.rfind("?"), before.rfind("&")) + 1 :] if in_query else "password"
            end = start + len(value)
            yield _Span(field, f"_{word}", start, end)


Action = Literal["add", "replace", "same", "skip", "refuse"]
"""`same`: the server is there already; `skip`: left out on purpose; `refuse`: it has mistakes."""

Check = Callable[[str, Table], Sequence[Problem]]
"""Returns the errors of a server's table."""


@attrs.frozen(kw_only=True)
class PlannedServer:
    """A server in a file to import, and what becomes of it."""

    file: FileContent
    server: ForeignServer
    action: Action
    reason: str = ""  # why it is left out, if it is
    table: Table = attrs.field(factory=dict, repr=False)  # with literal secrets as they are
    table_with_references: Table = attrs.field(factory=dict)
    secrets: tuple[LiteralSecret, ...] = ()
    problems: tuple[Problem, ...] = ()  # its mistakes, if it is refused; otherwise warnings

    @property
    def is_stored(self) -> bool:
        return self.action in ("add", "replace")


@attrs.frozen(kw_only=True)
class ImportPlan:
    """The plan of an import: what it would do with each server of the files."""

    files: tuple[FileContent, ...]
    servers: tuple[PlannedServer, ...]

    @property
    def secrets(self) -> tuple[LiteralSecret, ...]:
        """The secrets in the servers that the planned import would store, each variable once."""
        found = {
            secret.variable: secret
            for server in self.servers
            if server.is_stored
            for secret in server.secrets
        }
        return tuple(found.values())

    def tables(self, *, with_references: bool) -> dict[str, Table]:
        return {
            each.server.name: each.table_with_references if with_references else each.table
            for each in self.servers
            if each.is_stored
        }

    def variables(self) -> Iterator[str]:
        """Yield the variables without a default that the servers of the planned import refer to."""
        for each in self.servers:
            if each.is_stored:
                found = variable_references.within(each.table)
                yield from (ref.name for ref in found if ref.default is None)


def plan_import(
    files: Sequence[FileContent],
    configured: Mapping[str, Any],
    *,
    force: bool,
    check: Check,
    is_taken: IsTaken,
    origin: Callable[[str], Literal["environment", "settings", ""]],
) -> ImportPlan:
    """Return the plan of an import; of several servers with one name, the first counts.

    `check` returns the errors of a table; `force` allows servers of the config to be replaced; `origin` tells
    where a variable has its value, if it has one. No server gets a secret of another: the secret gets no
    name that another server refers to, and a reference gets another name if the settings have a value
    that is another server's.
    """
    used = {
        name: {ref.name for ref in variable_references.within(table)} for name, table in configured.items()
    }
    wanted = {
        ref.name
        for file in files
        for each in file.servers
        for ref in variable_references.within(each.reading.table)
    }

    def cannot_hold(server: str, name: str, value: str) -> bool:
        if name in given:
            return given[name] != value
        others = (names for other, names in used.items() if other != server)
        is_used = name in wanted or any(name in names for names in others)
        return is_taken(name, value) or (is_used and not origin(name))

    planned: dict[str, PlannedServer] = {}
    given: dict[str, str] = {}
    servers = []
    for file in files:
        for server in file.servers:
            own = used.get(server.name, set())
            others = set().union(*used.values()) - own
            one = _planned(
                file,
                _with_own_names(server, {name for name in others if origin(name) == "settings"}),
                check,
                partial(cannot_hold, server.name),
            )
            if one.is_stored:
                one = _against(one, planned.get(server.name), configured.get(server.name), force=force)
            if one.is_stored:
                planned[server.name] = one
                given.update({secret.variable: secret.value for secret in one.secrets})
            servers.append(one)
    return ImportPlan(files=tuple(files), servers=tuple(servers))


def _with_own_names(server: ForeignServer, others: set[str]) -> ForeignServer:
    """Return an imported server with other names for what its client asks for and other servers hold."""
    found = {ref.name for ref in variable_references.within(server.reading.table)} & others & server.inputs
    if not found:
        return server
    names = {name: variable_name(f"{server.name}_{name}") for name in sorted(found)}
    notes = (
        advice(
            server_schema.server_path(server.name),
            f"The value of {name} in the settings is another server's, so {name} is called {own} here",
        )
        for name, own in names.items()
    )
    reading = attrs.evolve(
        server.reading,
        table=variable_references.renamed(server.reading.table, names),
        problems=(*server.reading.problems, *notes),
    )
    return attrs.evolve(server, reading=reading)


def _planned(file: FileContent, server: ForeignServer, check: Check, is_taken: IsTaken) -> PlannedServer:
    reading = server.reading
    if reading.reason:
        return PlannedServer(file=file, server=server, action="skip", reason=reading.reason)
    errors = errors_in(reading.problems) or check(server.name, reading.table)
    if errors:
        return PlannedServer(file=file, server=server, action="refuse", problems=tuple(errors))
    table, secrets = extracted(server.name, reading.table, is_taken)
    return PlannedServer(
        file=file,
        server=server,
        action="add",
        table=reading.table,
        table_with_references=table,
        secrets=secrets,
        problems=reading.problems,
    )


def _against(one: PlannedServer, earlier: PlannedServer | None, there: Any, *, force: bool) -> PlannedServer:
    """Return an imported server with the action that follows from other servers of its name."""
    if earlier:
        if earlier.table == one.table:
            return attrs.evolve(one, action="same", reason=f"the same as in {earlier.file.path}")
        reason = f"a different server of this name comes from {earlier.file.path}"
        return attrs.evolve(one, action="skip", reason=reason)
    if there is None:
        return one
    known = server_schema.clean(there)
    has_plain_secrets = one.secrets and known == server_schema.clean(one.table)
    is_there = has_plain_secrets or known == server_schema.clean(one.table_with_references)
    if is_there and not (has_plain_secrets and force):
        return attrs.evolve(one, action="same", reason="configured already")
    if force:
        return attrs.evolve(one, action="replace")
    reason = "a different server of this name is configured; --force replaces it"
    return attrs.evolve(one, action="skip", reason=reason)


@attrs.frozen(kw_only=True)
class ExportPlan:
    """The plan of an export: what it writes of each server."""

    client: Client
    servers: tuple[ServerWriting, ...]
    tables: Mapping[str, Mapping[str, Any]] = attrs.field(repr=False)  # ours, of which they are made

    @property
    def written(self) -> dict[str, ServerWriting]:
        return {each.name: each for each in self.servers if not each.reason}

    def document(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Return the client's config document as this export would write it, with the servers put in.

        No server gets an input that stands for something else: one that has another definition, unless it is
        the only server there that refers to it, or one that this export uses for another reference.
        """
        there = client_documents.below(document, client_documents.place_in(document, self.client))
        earlier = {name: str(table) for name, table in server_schema.mapping(there).items()}
        known = client_documents.inputs_in(document, self.client)
        used: dict[str, VariableReference] = {}
        tables: dict[str, Table] = {}
        for name in self.written:

            def input_of(ref: VariableReference, name: str = name) -> str:
                plain = server_translation.input_id(ref)
                own = f"{name}-{plain}"
                same = [each for each, other in used.items() if other == ref]
                numbered = (f"{own}-{it}" for it in itertools.count(2))
                for each in itertools.chain([plain, *same, own], numbered):
                    made = server_translation.input_definition(each, ref)
                    users = [other for other, text in earlier.items() if f"${{input:{each}}}" in text]
                    fits = known.get(each, made) == made or users == [name]
                    if fits and used.setdefault(each, ref) == ref:
                        return each
                raise AssertionError

            tables[name] = server_translation.write_server(
                self.tables[name], self.client.format, input_of
            ).table
        inputs = [server_translation.input_definition(*each) for each in used.items()]
        return client_documents.put(document, self.client, tables, inputs)


@attrs.frozen(kw_only=True)
class ExportedFile:
    """The file that an export writes."""

    text: str
    before: bytes | None = None  # its content so far, None if there is no such file
    replaced: tuple[str, ...] = ()  # names of servers that it had
    loses_comments: bool = False  # it has comments that the new content lacks


def plan_export(client: Client, tables: Mapping[str, Mapping[str, Any]]) -> ExportPlan:
    """Return the plan of an export; the tables are valid, with the config's defaults filled in."""
    servers = []
    for name, table in tables.items():
        writing = server_translation.write_server(table, client.format)
        if table.get("disabled") and "disabled" in writing.lost:
            writing = ServerWriting(reason="it is disabled, which this client's format cannot express")
        _, secrets = extracted(name, dict(table), lambda *_: False)
        fields = () if writing.reason else tuple(secret.field for secret in secrets)
        servers.append(attrs.evolve(writing, name=name, literals=fields))
    return ExportPlan(client=client, servers=tuple(servers), tables=tables)


def merged(made: ExportPlan, path: Path) -> ExportedFile:
    """Return the file that the planned export would write: the existing content with the servers put in."""
    content = storage.read_bytes(path, document_text.LARGEST)
    if content is None:
        return ExportedFile(text=document_text.dump(made.document({}), made.client.form))
    if document_text.form_of(path) != made.client.form:
        message = f"{path} exists and is no {made.client.form.upper()} file, as {made.client.title} has"
        raise PflowError(message, kind="usage")
    there = document_text.parse(path, content)
    there = {} if there is None else there
    if not isinstance(there, Mapping):
        raise PflowError(f"{path} does not contain a table", kind="usage")
    document = made.document(there)
    text = content.decode("utf-8-sig")
    if document == there:
        return ExportedFile(text=content.decode(), before=content, replaced=tuple(made.written))
    written = _edited(text, made, document) or document_text.dump(document, made.client.form)
    before, after = (document_text.comments(each, made.client.form) for each in (text, written))
    return ExportedFile(
        text=written,
        before=content,
        replaced=tuple(it for it in made.written if client_documents.table_in(there, made.client, it)),
        loses_comments=after < before,
    )


def _edited(text: str, made: ExportPlan, document: Mapping[str, Any]) -> str:
    form = made.client.form
    # Of a long JSON text without comments, the layout is not kept.
    is_long = form == "json" and len(text) > 2**20 and not document_text.comments(text, form)
    if form == "yaml" or is_long:
        return ""
    edited = document_text.Layout(text) if form == "toml" else document_text.JsonText(text)
    place = client_documents.place_in(document, made.client)
    changed = [(*place, name) for name in made.written]
    if any(writing.inputs for writing in made.written.values()):
        changed.append((*place[:-1], "inputs"))
    try:
        for path in changed:
            edited.put(path, client_documents.below(document, path))
        same = document_text.parse(Path(f"edited.{form}"), str(edited).encode()) == document
    except (LookupError, ValueError, storage.CorruptFile):
        return ""
    return str(edited) if same else ""
