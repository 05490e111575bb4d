"""What `pflow mcp import` would do with the servers of other clients."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

import attrs

from pflow_mcp_plugin.config import server_schema
from pflow_mcp_plugin.config.interchange.client_documents import FileContent, ForeignServer
from pflow_mcp_plugin.config.interchange.server_format import Table
from pflow_mcp_plugin.config.interchange.variable_syntax import IsTaken, LiteralSecret, extracted
from pflow_mcp_plugin.contract import Problem
from pflow_mcp_plugin.variable_references import references

Action = Literal["add", "replace", "same", "skip", "refuse"]
"""`same`: the server is there already; `skip`: left out on purpose; `refuse`: it has mistakes."""

Check = Callable[[str, Table], Sequence[Problem]]
"""Returns the errors of a server's table."""


@attrs.frozen(kw_only=True)
class PlannedServer:
    """A server of a file and what becomes of it.

    Attributes:
        file: Where it comes from.
        server: What was read.
        action: What would be done.
        reason: Why it is left out, if it is.
        table: Its table with literal secrets as they are.
        table_with_references: Its table with references in their place.
        secrets: The literal secrets.
        problems: Its mistakes, if it is refused; otherwise warnings.
    """

    file: FileContent
    server: ForeignServer
    action: Action
    reason: str = ""
    table: Table = attrs.field(factory=dict, repr=False)
    table_with_references: Table = attrs.field(factory=dict)
    secrets: tuple[LiteralSecret, ...] = ()
    problems: tuple[Problem, ...] = ()

    @property
    def is_stored(self) -> bool:
        """Whether it is written to the config."""
        return self.action in ("add", "replace")


@attrs.frozen(kw_only=True)
class ImportPlan:
    """What an import would do.

    Attributes:
        files: The files that were read, or could not be.
        servers: Every server in them.
    """

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
        """Return the tables to store, by name."""
        return {
            each.server.name: each.table_with_references if with_references else each.table
            for each in self.servers
            if each.is_stored
        }

    def variables(self) -> Iterator[str]:
        """Yield the variables without a default that the stored servers need; secrets are left out."""
        moved = {secret.variable for secret in self.secrets}
        for each in self.servers:
            if each.is_stored:
                yield from (name for name in _needed(each.table_with_references) if name not in moved)


def plan_import(
    files: Sequence[FileContent],
    configured: Mapping[str, Any],
    *,
    force: bool,
    check: Check,
    is_taken: IsTaken,
) -> ImportPlan:
    """Return what an import of files would do; of several servers with one name, the first counts."""
    planned: dict[str, PlannedServer] = {}
    given: dict[str, str] = {}
    servers = []
    for file in files:
        for server in file.servers:
            one = _planned(
                file,
                server,
                check,
                lambda name, value: is_taken(name, value) or given.get(name, value) != value,
            )
            if one.is_stored:
                one = _against(one, planned.get(server.name), configured.get(server.name), force=force)
            if one.is_stored:
                planned[server.name] = one
                given.update({secret.variable: secret.value for secret in one.secrets})
            servers.append(one)
    return ImportPlan(files=tuple(files), servers=tuple(servers))


def _planned(file: FileContent, server: ForeignServer, check: Check, is_taken: IsTaken) -> PlannedServer:
    reading = server.reading
    if reading.reason:
        return PlannedServer(file=file, server=server, action="skip", reason=reading.reason)
    errors = [problem for problem in reading.problems if problem.severity == "error"]
    errors = errors or list(check(server.name, reading.table))
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
    """Return a server with the action that other servers of its name leave."""
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


def _needed(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield from (ref.name for ref in references(value) if ref.default is None)
    elif isinstance(value, Mapping | list):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _needed(item)
