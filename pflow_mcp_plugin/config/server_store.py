"""Reads and changes `mcp-servers.toml`, the config file of the servers, and reads a project's beside it."""

from __future__ import annotations

import codecs
import copy
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import attrs

from pflow_mcp_plugin import storage
from pflow_mcp_plugin.config import server_schema
from pflow_mcp_plugin.config.field_checks import refuse_errors
from pflow_mcp_plugin.config.server_schema import mapping
from pflow_mcp_plugin.contract import Problem
from pflow_mcp_plugin.contract.problems import advice, errors_in, problem_of
from pflow_mcp_plugin.errors import McpError, Where
from pflow_mcp_plugin.storage.json_and_toml import decode_toml, encode_toml, is_same, toml_comments
from pflow_mcp_plugin.types import NetworkRules

if TYPE_CHECKING:  # few folders have a project's file
    from pflow_mcp_plugin.config.project_file import ProjectFile, ProjectReading
    from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
    from pflow_mcp_plugin.types import Server


class StoreChange(NamedTuple):
    """What a change did to `mcp-servers.toml`."""

    added: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    warnings: tuple[Problem, ...] = ()


class _Seen:
    """The last read of the store's files: a signature, their content, and the servers that were requested."""

    def __init__(self, signature: object, document: dict[str, JSON], project: ProjectReading | None) -> None:
        self.signature = signature
        self.document = document
        self.project = project
        self.servers: dict[str, Server] = {}

    @cached_property
    def network(self) -> NetworkRules:
        approved = self.of_project if self.project and self.project.state == "approved" else {}
        servers = {**approved, **self.own}
        return server_schema.network_rules({**self.document, server_schema.SERVERS: servers})

    @cached_property
    def of_project(self) -> JSONObject:
        """The tables of the servers in the store that are a project's and not the user's own."""
        tables = self.project.tables if self.project else {}
        return {name: table for name, table in tables.items() if name not in self.own}

    @property
    def defaults(self) -> JSON:
        return self.document.get(server_schema.DEFAULTS, {})

    @property
    def own(self) -> JSONObject:
        return mapping(self.document.get(server_schema.SERVERS))


class ServerStore:
    """The store of the servers in `mcp-servers.toml`, and in the file of a project if that is used.

    A server of the user's own config wins over one of the project's with the same name; `[defaults]` and
    `[network]` hold for both. Only `mcp-servers.toml` is changed.

    Reading takes no lock. A change takes a lock and replaces the text of that server's table only:
    comments, order and unknown fields are preserved. Where that is impossible, e.g. for a server
    inside an inline table, the whole file is rewritten; if comments get lost, a backup of the file is
    kept. A corrupt file is never overwritten.
    """

    def __init__(self, path: Path, project: Callable[[], ProjectFile | None] = lambda: None) -> None:
        self.path = path
        self._project = project
        self._seen: _Seen | None = None
        self.lent: dict[str, JSON] = {}
        self._lent_folder = Path()

    def lend(self, tables: dict[str, JSON], folder: Path) -> None:
        """Lend the store servers until the process ends; their tool files are in `folder`, pins beside it."""
        self.lent, self._lent_folder, self._seen = tables, folder, None

    @property
    def project(self) -> ProjectFile | None:
        return self._project()

    def names(self) -> tuple[str, ...]:
        """Return the servers' names in the order of `mcp-servers.toml`; those of a project are last."""
        return (*self._servers(), *self._read().of_project)

    def table(self, name: str) -> JSON:
        """Return a server's table as written in the store's file; raise an error if it is not configured."""
        servers, of_project = self._servers(), self._read().of_project
        if name in servers:
            return servers[name]
        if name in of_project:
            return of_project[name]
        raise self.not_configured(name)

    def file_of(self, name: str) -> Path:
        """Return the file of the store that a server comes from: the user's own or the project's."""
        seen = self._read()
        return seen.project.path if seen.project and name in seen.of_project else self.path

    def require_own(self, name: str) -> None:
        if name not in self._servers():
            raise self.not_configured(name)

    def enabling_step(self, name: str) -> str:
        if name in self._servers():
            return f"Run: pflow mcp enable {name}"
        return f"Remove `disabled` from {name} in {self.file_of(name)}"

    def project_folders(self) -> Mapping[str, Path]:
        """Return the servers that the store has from other files, each with the folder of its tool file."""
        seen = self._read()
        of_project = dict.fromkeys(seen.of_project, seen.project.tool_folder) if seen.project else {}
        return of_project | dict.fromkeys(self.lent, self._lent_folder)

    def not_configured(self, name: str) -> McpError:
        from difflib import get_close_matches

        if name in self._read().of_project:
            return McpError(
                f"Server {name} is not in {self.path}: it comes from {self.file_of(name)}",
                where=Where(server=name, phase="config"),
                next_step="Remove it there; pflow does not change the file of a project",
                kind="config",
            )
        names = sorted(self.names())
        close = get_close_matches(name.lower(), names, n=3, cutoff=0.5)
        step = f"Did you mean {' or '.join(close)}?" if close else "Add it: pflow mcp add NAME -- COMMAND"
        if names and not close:
            step = f"Configured: {', '.join(names[:10])}. {step}"
        offer = self.project.offer((name,)) if self.project else None
        return McpError(
            f"Server {name if name.strip() else repr(name)} not configured in {self.path}",
            where=Where(server=name, phase="config"),
            next_step=offer[1] if offer else step,
            nearest=close,
            kind="not_found",
        )

    def notices(self, *, duplicates: bool = False) -> list[Problem]:
        """Return the store's warnings about the project's file, which it reads beside `mcp-servers.toml`.

        With `duplicates`, also about servers that the store's own file has too.
        There are none while the store's own file cannot be read, which is an error of its own.
        """
        try:
            seen = self._read()
        except (storage.CorruptFile, storage.StoreError):
            return []
        if seen.project is None or not (seen.project.problems or seen.project.tables):
            return []
        from pflow_mcp_plugin.config.project_file import duplicate_servers, notices, server_notices

        twice = duplicate_servers(seen.project, self.path, seen.own) if duplicates else ()
        return [*notices(seen.project), *twice, *server_notices(seen.project, seen.own)]

    def raw(self) -> dict[str, Any]:
        """Return a copy of everything in `mcp-servers.toml`, `{}` if there is no file."""
        return copy.deepcopy(self._read().document)

    def get(self, name: str) -> Server:
        """Return a server of the store, checked and with the file's defaults filled in.

        Only its own table and the defaults are checked, once; the same object is returned until the
        file changes.
        """
        seen = self._read()
        if name in seen.servers:
            return seen.servers[name]
        table = self.table(name)
        problems = [
            *server_schema.check_defaults(seen.defaults),
            *server_schema.check_server(name, table, seen.defaults),
            *server_schema.check_flows(seen.document),
        ]
        is_remote = server_schema.is_remote(table)
        if is_remote:
            problems += server_schema.check_network(seen.document)
        of_project = f" of {self.file_of(name)}" if name in seen.of_project else ""
        refuse_errors(f"Server {name}{of_project}", problems, server=name)
        rules = seen.network if is_remote else NetworkRules()
        server = server_schema.build(name, mapping(table), mapping(seen.defaults), rules)
        seen.servers[name] = server
        return server

    def network(self) -> NetworkRules:
        refuse_errors(str(self.path), server_schema.check_network(self._read().document))
        return self._read().network

    def serve(self) -> JSONObject:
        refuse_errors(str(self.path), self.check_serve())
        return mapping(self._read().document.get(server_schema.SERVE))

    def check_serve(self) -> list[Problem]:
        return server_schema.check_serve(self._read().document.get(server_schema.SERVE, {}))

    def fingerprint(self, name: str) -> str:
        return server_schema.fingerprint(self.table(name), self._read().defaults)

    def check(self) -> list[Problem]:
        """Return every problem of the store's files: read errors, content, permissions."""
        project = None
        try:
            seen = self._read()
            found, project = server_schema.check_document(seen.document), seen.project
        except (storage.CorruptFile, storage.StoreError) as error:
            found = [problem_of(error)]
        if storage.is_open_to_others(self.path):
            message = f"{self.path} may contain secrets and can be read by others"
            found.append(advice("", message, f"chmod 600 {self.path}"))
        found = [attrs.evolve(problem, source=str(self.path)) for problem in found]
        if project is None or not (project.problems or project.tables):
            return found
        from pflow_mcp_plugin.config.project_file import duplicate_servers, server_notices

        found += project.problems
        for name, table in seen.of_project.items():
            problems = server_schema.check_server(name, table, seen.defaults)
            found += (attrs.evolve(problem, source=str(project.path)) for problem in problems)
        found += duplicate_servers(project, self.path, seen.own)
        return [*found, *server_notices(project, seen.own)]

    def refused(self, tables: JSONObject) -> dict[str, list[Problem]]:
        """Return the servers that the store cannot add to `mcp-servers.toml`, by name, with their errors."""
        errors: dict[str, list[Problem]] = {}
        for name, table in tables.items():
            problems = server_schema.check_server(name, server_schema.clean(table), self._read().defaults)
            if found := errors_in(problems):
                errors[name] = found
        return errors

    def add(self, tables: JSONObject) -> StoreChange:
        """Add servers to the store, or replace those of the same names; all of them or none."""
        cleaned = {name: server_schema.clean(table) for name, table in tables.items()}
        step = 'Write its value, or "" if it is to be empty'
        problems: list[Problem] = [
            advice(f"{server_schema.server_path(name)}.{field}", "It is null, so it is left out", step)
            for name, table in tables.items()
            for field in server_schema.nulls(mapping(table))
        ]
        before: dict[str, JSON] = {}

        def change(document: dict[str, Any]) -> None:
            servers = document.setdefault(server_schema.SERVERS, {})
            if not isinstance(servers, Mapping):
                found = server_schema.check_document({server_schema.SERVERS: servers})
                refuse_errors("Nothing was added", found)
            defaults = document.get(server_schema.DEFAULTS, {})
            problems.extend(errors_in(server_schema.check_defaults(defaults)))
            for name, table in cleaned.items():
                problems.extend(server_schema.check_server(name, table, defaults))
            refuse_errors("Nothing was added", problems)
            before.update(servers)
            servers.update(cleaned)

        kept = self._change(change)
        return StoreChange(
            added=tuple(name for name in cleaned if name not in before),
            replaced=tuple(it for it in cleaned if it in before and not is_same(before[it], cleaned[it])),
            warnings=(*problems, *kept),
        )

    def differing(self, tables: JSONObject) -> tuple[str, ...]:
        """Return the names of servers that the store already has, but with another table.

        Which preset a table came from makes no difference.
        """
        own = self._read().own
        pairs = {name: (own[name], server_schema.clean(tables[name])) for name in tables if name in own}
        return tuple(
            name
            for name, pair in pairs.items()
            if not is_same(*({**mapping(table), "preset": ""} for table in pair))
        )

    def switch(self, names: Iterable[str], *, disabled: bool) -> StoreChange:
        """Enable or disable servers of the store; all of them or none."""
        wanted = tuple(dict.fromkeys(names))
        changed: list[str] = []

        def change(document: dict[str, Any]) -> None:
            servers = mapping(document.get(server_schema.SERVERS))
            for name in wanted:
                table = servers.get(name)
                if not isinstance(table, dict):
                    raise self.not_configured(name)
                if bool(table.get("disabled")) != disabled:
                    changed.append(name)
                    if disabled:
                        table["disabled"] = True
                    else:
                        del table["disabled"]

        warnings = self._change(change)
        return StoreChange(replaced=tuple(changed), warnings=warnings)

    def remove(self, name: str) -> StoreChange:

        def change(document: dict[str, Any]) -> None:
            servers = mapping(document.get(server_schema.SERVERS))
            if name not in servers:
                raise self.not_configured(name)
            del document[server_schema.SERVERS][name]

        return StoreChange(warnings=self._change(change))

    def back_up(self) -> Path | None:
        """Copy `mcp-servers.toml` to a `.bak` beside it; return the copy, None if there is no file."""
        content = storage.read_own(self.path)
        return None if content is None else storage.keep_backup(self.path, content)

    def _change(self, change: Callable[[dict[str, Any]], None]) -> tuple[Problem, ...]:
        with storage.locked(self.path):
            content = storage.read_own(self.path)
            old = decode_toml(self.path, content or b"")
            new = copy.deepcopy(old)
            change(new)
            if is_same(new, old):
                return ()
            written = self._encoded(content or b"", old, new)
            warnings: tuple[Problem, ...] = ()
            if content is not None and not toml_comments(content) <= toml_comments(written):
                backup = storage.keep_backup(self.path, content)
                message = (
                    f"{self.path.name} lost comments in this change; the previous file is kept as {backup}"
                )
                warnings = (advice("", message, source=str(self.path)),)
            storage.write_atomic(self.path, written)
            return warnings

    def _encoded(self, content: bytes, old: JSONObject, new: JSONObject) -> bytes:
        from pflow_mcp_plugin.config.document_text import Layout

        try:
            layout = Layout(content.decode("utf-8-sig"))
            before, after = mapping(old.get(server_schema.SERVERS)), mapping(new[server_schema.SERVERS])
            for name in before.keys() - after.keys():
                layout.remove((server_schema.SERVERS, name))
            for name, table in after.items():
                if name not in before or not is_same(before[name], table):
                    layout.put((server_schema.SERVERS, name), mapping(table))
            mark = codecs.BOM_UTF8 if content.startswith(codecs.BOM_UTF8) else b""
            edited = mark + str(layout).encode()
            # The edited text is used only if it parses to exactly the intended document.
            with suppress(storage.CorruptFile):
                if is_same({server_schema.SERVERS: {}, **decode_toml(self.path, edited)}, new):
                    return edited
            return encode_toml(new)
        except ValueError as error:
            reason, step = f"TOML cannot represent a value: {error}", ""
            if isinstance(error, UnicodeEncodeError):
                reason = f"a value is not UTF-8: {error.object[: error.end].splitlines()[-1]!a}"
                step = "Write it in UTF-8, or rename the file or folder that it names"
            wrong = f"{self.path}: nothing was written, because {reason}"
            raise McpError(wrong, where=Where(phase="config"), kind="config", next_step=step) from error

    def _read(self) -> _Seen:
        file = self.project
        project = file.reading() if file else None
        signature = (storage.file_stamp(self.path), project)
        seen = self._seen
        if seen is None or seen.signature != signature:
            document = decode_toml(self.path, storage.read_own(self.path) or b"")
            if self.lent:
                servers = {**mapping(document.get(server_schema.SERVERS)), **self.lent}
                document = {**document, server_schema.SERVERS: servers}
            seen = self._seen = _Seen(signature, document, project)
        return seen

    def _servers(self) -> JSONObject:
        servers = self._read().document.get(server_schema.SERVERS, {})
        if not isinstance(servers, Mapping):
            refuse_errors(str(self.path), server_schema.check_document({server_schema.SERVERS: servers}))
        return mapping(servers)
