"""The servers that a project brings in its `.mcp.json`, the file that other clients read too.

It is used if the user asked for it, or approved it: then these bytes only, and the servers that were shown.
Unlike an import, nothing is corrected: what pflow does not understand is reported, and the file stays.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal

import attrs

from pflow_mcp_plugin import naming, storage, variable_references
from pflow_mcp_plugin.config import display, locations, server_schema
from pflow_mcp_plugin.config.field_checks import join, kind_of
from pflow_mcp_plugin.config.server_schema import mapping
from pflow_mcp_plugin.contract import Paths, PflowError, Problem
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.contract.problems import advice, errors_in, fault, problem_of
from pflow_mcp_plugin.storage.json_and_toml import is_too_deep
from pflow_mcp_plugin.terminal.looks import one_line
from pflow_mcp_plugin.types import Server

APPROVE = "pflow mcp approve --project"
"""The command that approves the file of a project."""
LARGEST = 1 << 20
"""Bytes of the largest file that is read."""

_FOR_THE_USER = ("trust", "trust_readonly", "trust_idempotent", "idempotency_argument", "insecure")
"""Fields by which a config trusts a server; a project cannot decide this for its users."""

State = Literal["absent", "ignored", "changed", "asked", "approved"]


@attrs.frozen(kw_only=True)
class ProjectContent:
    """The content of a project's `.mcp.json`."""

    digest: str  # SHA-256 of its bytes, hexadecimal
    tables: JSONObject  # in the spelling of our config, by name; names that ours cannot have are left out
    problems: tuple[Problem, ...] = ()  # of the file, without those of single servers' fields


@attrs.frozen(kw_only=True, eq=False)
class ProjectReading:
    """What is used of a project's `.mcp.json` now.

    Its state is `absent`; `ignored`: nobody asked for it or approved it; `changed` since it was approved;
    `asked`: used without approval, as the user asked for it; or `approved`.
    """

    path: Path  # its real path
    state: State = "absent"
    tables: JSONObject = attrs.field(factory=dict)  # of the servers that are used, by name
    # What prevents the file, or some of its servers, from being used; warnings about it.
    problems: tuple[Problem, ...] = ()
    tool_folder: Path = attrs.field(factory=Path)  # for the tool files of its servers


class ProjectFile:
    """The `.mcp.json` of a project, and whether it was approved; read again only when it has changed.

    It stands in the folder that the user asked for (`paths.project`), otherwise in the current one.
    """

    def __init__(self, paths: Paths) -> None:
        self.path = locations.project_file(paths)
        self._asked = paths.project is not None
        self._data = paths.data
        self._approvals = storage.JsonStore(
            path=locations.approvals_file(paths), schema_version=1, what="approvals", rebuildable=True
        )
        absent = ProjectReading(path=self.path)
        if self._asked:
            message = f"There is no {self.path.name} in {self.path.parent}"
            problem = advice("", message, "Run pflow in the folder of the project")
            absent = attrs.evolve(absent, problems=(problem,))
        self._absent = absent
        self._seen: tuple[object, ProjectReading] = ((), absent)

    def reading(self) -> ProjectReading:
        signature = self._signature()
        if self._seen[0] != signature:
            self._seen = (signature, self._read() if signature else self._absent)
        return self._seen[1]

    def stamp(self) -> str:
        """Return a stamp that changes when the servers in a project's `.mcp.json`, or their tools, may have.

        It is empty while the file is not used; the file itself is not read.
        """
        signature = self._signature()
        try:
            approved, _ = self._approved() if signature else ("", ())
        except storage.StoreError:  # whoever reads the servers says why
            return "the approvals cannot be read"
        if not approved and not self._asked:
            return ""
        tools = locations.tool_files(self._tool_folder())
        return f"{self._root()} {signature} {approved} {self._asked} {tools}"

    def content(self) -> ProjectContent:
        """Read the project's file and check its form, whether it was approved or not."""
        content = self._bytes()
        from hashlib import sha256  # OpenSSL is slow to load

        document = storage.decode_json(self.path, content, finite=True)
        if is_too_deep(document):
            raise storage.CorruptFile(self.path, "nested too deeply")
        hidden = next((key for key in _keys(document) if not key.isprintable()), None)
        if hidden is not None:  # people could not see it when they approve the file
            raise storage.CorruptFile(self.path, f"a key has characters that are not visible: {hidden!a}")
        servers = document.get(server_schema.SERVERS)
        problems: list[Problem] = []
        if not isinstance(servers, Mapping):
            wrong = f"Must be an object of servers, not {kind_of(servers)}"
            step = 'Write {"mcpServers": {"NAME": {"command": ...}}}; other forms: pflow mcp import FILE'
            problems = [fault(server_schema.SERVERS, wrong if servers is not None else "It is missing", step)]
        problems += (
            advice(join("", key), f"{key!r} has no effect in the file of a project")
            for key in document
            if key not in (server_schema.SERVERS, "$schema")
        )
        tables: dict[str, JSON] = {}
        for name, table in mapping(servers).items():
            if naming.is_server_name(name):
                tables[name] = _without_trust(name, server_schema.clean(table), problems)
                continue
            wrong = f"The server {name!r} is left out: a server name may contain only a-z, 0-9 and hyphens"
            near = naming.server_name(name)
            problems.append(fault(server_schema.server_path(near), wrong, f"Name it {near}"))
        source = str(self._root() / self.path.name)
        return ProjectContent(
            digest=sha256(content).hexdigest(),
            tables=tables,
            problems=tuple(attrs.evolve(problem, source=source) for problem in problems),
        )

    def approve(self, content: ProjectContent, names: Collection[str]) -> None:
        """Approve the project's servers that were shown, as long as its file has exactly these bytes."""

        def change(data: dict[str, JSON]) -> None:
            approved: JSON = {"sha256": content.digest, "servers": sorted(names)}
            data["projects"] = {**mapping(data.get("projects")), str(self._root()): approved}

        self._approvals.update(change)

    def offer(self, names: Iterable[str]) -> tuple[str, str] | None:
        """Return the first of these servers that an unapproved project has, and how to approve it."""
        reading = self.reading()
        if reading.state not in ("ignored", "changed"):
            return None
        try:
            offered = self.content().tables
        except PflowError:
            return None
        changed = ", but changed since it was approved" if reading.state == "changed" else ""
        step = f"{reading.path} has it{changed}; run: {APPROVE}"
        return next(((name, step) for name in names if name in offered), None)

    def approved_folders(self) -> list[Path]:
        """Return the real paths of all projects whose file was approved, of this one or another."""
        return [Path(root) for root in mapping(self._approvals.read().get("projects"))]

    def _read(self) -> ProjectReading:
        digest, names = self._approved()
        known = ProjectReading(path=self._root() / self.path.name, tool_folder=self._tool_folder())
        if not digest and not self._asked:
            return attrs.evolve(known, state="ignored")
        try:
            content = self.content()
        except PflowError as error:
            problem = problem_of(error, kind="config", source=str(known.path))
            return attrs.evolve(known, state="changed" if digest else "asked", problems=(problem,))
        if digest and digest != content.digest:
            message = f"{known.path} changed since it was approved, so its servers are not used"
            problem = advice("", message, f"See what it starts now, and approve it again: {APPROVE}")
            return attrs.evolve(known, state="changed", problems=(problem,))
        return attrs.evolve(
            known,
            state="approved" if digest else "asked",
            tables={name: it for name, it in content.tables.items() if not digest or name in names},
            problems=content.problems,
        )

    def _bytes(self) -> bytes:
        if self.path.is_symlink():
            step = "Put the file itself there: what a link leads to can be changed elsewhere"
            raise storage.StoreError(self.path, "is a symbolic link", suggestion=step)
        content = storage.read_bytes(self.path, LARGEST)
        if content is None:
            raise PflowError(f"There is no {self.path.name} in {self._root()}", kind="not_found")
        return content

    def _approved(self) -> tuple[str, Collection[str]]:
        """Return the SHA-256 of the project's file as approved, empty if it never was, and the servers."""
        approved = mapping(mapping(self._approvals.read().get("projects")).get(str(self._root())))
        digest, names = approved.get("sha256"), approved.get("servers")
        return (digest, names) if isinstance(digest, str) and isinstance(names, list) else ("", ())

    def _signature(self) -> tuple[object, ...]:
        try:
            status = self.path.lstat()
        except OSError:
            return ()
        try:
            approvals = storage.file_stamp(self._approvals.path)
        except storage.StoreError:
            approvals = ()
        # Two writes may fall into one tick of the clock; a replaced file has a new inode.
        own = status.st_mtime_ns, status.st_size, status.st_ino, status.st_dev
        return *own, stat.S_IFMT(status.st_mode), *approvals

    def _root(self) -> Path:
        # It is approved by its real path.
        return Path(os.path.realpath(storage.absolute(self.path.parent)))

    def _tool_folder(self) -> Path:
        from hashlib import sha256

        key = sha256(os.fsencode(self._root())).hexdigest()[:16]
        return self._data / "projects" / key / "servers"


def _without_trust(name: str, table: JSON, problems: list[Problem]) -> JSON:
    if not isinstance(table, Mapping):
        return table
    for key in _FOR_THE_USER:
        if key in table:
            path = f"{server_schema.server_path(name)}.{key}"
            message = f"{key} has no effect in the file of a project: only your own config can trust a server"
            problems.append(advice(path, message, "To set it, add the server to your config: pflow mcp add"))
    return {key: value for key, value in table.items() if key not in _FOR_THE_USER}


def _keys(value: JSON) -> Iterator[str]:
    if isinstance(value, Mapping):
        yield from value
        value = [*value.values()]
    for member in value if isinstance(value, list) else ():
        yield from _keys(member)


_OTHERS = server_schema.FIELDS.keys() - {"type", "env", *server_schema.REACH}
"""The fields that say nothing about what is started or reached."""


def notices(reading: ProjectReading) -> Iterator[Problem]:
    """Yield the warnings about a project's file for any command: why it, or a server, is not used."""
    # Problems of an approved file were shown when it was approved, and `config check` shows them.
    for problem in reading.problems:
        if reading.state != "approved" and (problem.severity == "error" or reading.state != "asked"):
            named = f"{reading.path}: " if problem.path else ""  # otherwise it names the file itself
            yield attrs.evolve(problem, message=named + problem.message, severity="warning")


def duplicate_servers(reading: ProjectReading, own_file: Path, own: JSONObject) -> Iterator[Problem]:
    """Yield a warning for each server in a project's file that gives way to one of the user's own."""
    path = reading.path
    for name, table in reading.tables.items():
        if name in own and server_schema.fingerprint(table) != server_schema.fingerprint(own[name]):
            message = f"Server {name} is in {own_file} and in {path}: the one in {own_file.name} is used"
            step = f"To use the other: pflow mcp remove {name}"
            yield advice(server_schema.server_path(name), message, step)


def server_notices(reading: ProjectReading, own: JSONObject) -> Iterator[Problem]:
    """Yield a warning for each server in a project's file that is used without approval."""
    path = reading.path
    for name, table in reading.tables.items():
        place = server_schema.server_path(name)
        if name not in own and reading.state == "asked" and isinstance(table, Mapping):
            if errors_in(server_schema.check_server(name, table)):
                continue
            facts = _facts(server_schema.build(name, table, {}), table)
            shown = "; ".join(f"{label}: {one_line(text)}" for label, text in facts)
            message = f"Server {name} of {path} is not approved, and used because you asked for it ({shown})"
            yield advice(place, message, f"To approve it: {APPROVE}")


def server_lines(name: str, table: JSONObject) -> Iterator[str]:
    """Yield lines on a server in `.mcp.json`, a project's file: what it runs and gets, secrets masked."""
    server = server_schema.build(name, table, {})
    yield f"{name} ({server.transport})"
    for label, text in _facts(server, table):
        yield f"  {label:9} {one_line(text)}"


def variables(table: JSON) -> list[str]:
    """Return the names of the variables that a project's server refers to, each once."""
    names = [reference.name for reference in variable_references.within(table)]
    auth = mapping(mapping(table).get("auth"))
    if isinstance(auth.get("token_env"), str):
        names.append(str(auth["token_env"]))
    return [*dict.fromkeys(names)]


def _facts(server: Server, table: JSONObject) -> Iterator[tuple[str, str]]:
    if server.command:
        yield "runs", display.command_line(server)
    yield from ((key, value) for key in ("cwd", "path") if (value := getattr(server, key)))
    if server.url:
        yield "url", ascii(display.url(server.url))[1:-1]  # letters that only look like those of a known host
    yield from (("env", f"{name}={value}") for name, value in display.masked(server.env).items())
    yield from (
        ("header", f"{name}: {value}") for name, value in display.masked_headers(server.headers).items()
    )
    if server.auth:
        yield "auth", json.dumps(display.shown(server)["auth"])
    others = {key: value for key, value in table.items() if key in _OTHERS}
    if others:
        yield "settings", json.dumps(others)
    if names := variables(table):
        yield "receives", f"the values of {', '.join(names)}, from the environment or your settings"
