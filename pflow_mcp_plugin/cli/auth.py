"""`pflow mcp auth | logout`: shows who is signed in where, and signs out; starts no server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs
import click

from pflow_mcp_plugin.cli.command_arguments import servers
from pflow_mcp_plugin.cli.dependencies import server_store
from pflow_mcp_plugin.config import display
from pflow_mcp_plugin.config.auth import is_machine
from pflow_mcp_plugin.contract import Host, PflowError, Report
from pflow_mcp_plugin.storage import CorruptFile, StoreError
from pflow_mcp_plugin.terminal.looks import Look
from pflow_mcp_plugin.terminal.printable_text import one_line
from pflow_mcp_plugin.terminal.tables import Cell, Column, Table
from pflow_mcp_plugin.types import NetworkRules, Server

if TYPE_CHECKING:
    from pflow_mcp_plugin.cli.server_access import Access, State, StoredSignIns
    from pflow_mcp_plugin.client.oauth.login import SignOut
    from pflow_mcp_plugin.client.oauth.sign_in_store import StoredSignIn


_COLUMNS = (
    Column(title="SERVER", whole=True),
    Column(title="TYPE", whole=True, spare=True, look="dim"),
    Column(title="STATE", whole=True),
    Column(title="NOTE"),
)
_LOOKS: Mapping[State, Look] = {
    "ready": "good",
    "needs_login": "warn",
    "lacks_variables": "bad",
    "has_mistakes": "bad",
    "unused": "dim",
}
_NOTHING = "No server has auth, and nobody is signed in. Sign in: pflow mcp login NAME"


@click.command()
@click.argument("name", required=False, shell_complete=servers)
@click.pass_obj
def auth(host: Host, name: str | None) -> Report:
    """Show who is signed in where: with which scopes, and until when. Never shows a token.

    For servers with other credentials, it shows their kind, and whether their variables are set.
    """
    from pflow_mcp_plugin.cli.server_access import access_to, stored_sign_ins, unused_sign_ins

    known, store = stored_sign_ins(host), server_store(host)
    unused = [*unused_sign_ins(known, name or "", store.names())]
    if name and name not in store.names() and not unused:
        raise store.not_configured(name)
    rows = [*(access_to(host, known, each) for each in store.names() if name in (None, each)), *unused]
    shown = [row for row in rows if name or row.state != "none"]
    return Report(data=[row.to_dict() for row in shown], text=lambda: (_table(shown) if shown else _NOTHING,))


def _table(rows: Sequence[Access]) -> Table:
    cells: list[tuple[Cell, ...]] = [
        (
            row.server or "(unreadable)",
            row.type,
            (row.state.replace("_", " "), _LOOKS.get(row.state, "")),
            "" if row.state == "has_mistakes" else row.note,
        )
        for row in rows
    ]
    below = {number: [*_below(row)] for number, row in enumerate(rows)}
    return Table(columns=_COLUMNS, rows=cells, below=below)


def _below(row: Access) -> Iterator[str]:
    if row.next_step:
        yield f"    run: {row.next_step}"
    if row.state == "has_mistakes":
        yield from (f"    {line}" for line in row.note.splitlines())
    if row.url:
        yield f"    url      {row.url}"
    if row.sign_in:
        yield f"    issuer   {row.sign_in.issuer}"
        yield f"    client   {one_line(row.sign_in.registration.client_id)}"
    if row.flow:
        yield f"    flow     {row.flow}"
    if row.sign_in and row.sign_in.tokens and row.sign_in.tokens.scopes:
        yield f"    scopes   {one_line(' '.join(row.sign_in.tokens.scopes))}"
    yield from (f"    ! variable {name} is not set" for name, is_set in row.variables.items() if not is_set)


@click.command()
@click.argument("name", required=False, shell_complete=servers)
@click.option("--all", "everywhere", is_flag=True, help="Sign out everywhere, at former servers too.")
@click.pass_obj
def logout(host: Host, name: str | None, *, everywhere: bool) -> Report:
    """Sign out of server NAME: remove its sign-in from this machine, and revoke its tokens.

    The sign-in is removed even if the authorization server cannot be reached.
    """
    if everywhere == bool(name):
        raise click.UsageError("Give a NAME or --all, not both" if name else "Give a NAME, or --all")
    from pflow_mcp_plugin.cli.server_access import stored_sign_ins, stored_sign_ins_alone

    try:
        known = stored_sign_ins(host)
    except (CorruptFile, StoreError):  # a config that cannot be read must not keep anyone signed in
        known = stored_sign_ins_alone(host)
    chosen = known.of_name(name) if name else known.entries
    if name and not chosen:
        if name in known.failures:
            raise known.failures[name]
        server_store(host).table(name)  # raises the error about an unknown server, with similar names
    ended, failures = sign_out_of(host, known, chosen)
    lines = [line for each in ended for line in each.lines()]
    lines += [
        f"  ! server {user} signs in again by itself when it is used"
        for user in dict.fromkeys(user for each in ended for user in each.users)
        if is_machine(known.servers[user].auth)
    ]
    nothing = f"Nobody is signed in {f'at server {name}' if name else 'anywhere'}"
    return Report(
        data={"removed": [each.to_dict() for each in ended]},
        text="\n".join(lines) or ("" if failures else nothing),
        error=failures[0] if failures else None,
    )


@attrs.frozen(kw_only=True)
class EndedSignIn:
    """What `pflow mcp logout` reports: a sign-in that it ended, and the configured servers that used it."""

    outcome: SignOut
    users: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        entry = self.outcome.entry
        found: dict[str, Any] = {"file": entry.name}
        if entry.sign_in:
            url, issuer = display.url(entry.sign_in.server_url, widely=True), entry.sign_in.issuer
            found = {"server": entry.sign_in.server, "url": url, "issuer": issuer}
        found |= {"used_by": [*self.users], "revoked": self.outcome.revoked}
        return {**found, "reason": self.outcome.reason or None}

    def lines(self) -> Iterator[str]:
        found = self.outcome.entry.sign_in
        if found is None:
            yield f"Removed {self.outcome.entry.name}, a sign-in that could not be read"
        else:
            name = ", ".join(self.users) or found.server
            url = display.url(found.server_url, widely=True)
            yield f"Signed out of server {name}: {url}, with {found.issuer}"
        if self.outcome.reason:
            yield f"  ! its tokens were not revoked: {self.outcome.reason}; they stay valid until they expire"


def sign_out_of(
    host: Host, known: StoredSignIns, chosen: Sequence[StoredSignIn]
) -> tuple[list[EndedSignIn], list[PflowError]]:
    """End some sign-ins that `pflow mcp auth` lists; return those ended, and the errors of others."""
    if not chosen:
        return [], []
    import asyncio

    from pflow_mcp_plugin.client.oauth.login import sign_out

    try:
        network = server_store(host).network()
    except PflowError:
        network = None  # the config cannot be read

    async def all_of_them() -> list[SignOut | BaseException]:
        each = (sign_out(known.store, entry, _server_of(known, entry, network)) for entry in chosen)
        return await asyncio.gather(*each, return_exceptions=True)

    ended: list[EndedSignIn] = []
    failures: list[PflowError] = []
    for outcome in asyncio.run(all_of_them()):
        if isinstance(outcome, PflowError):
            failures.append(outcome)
        elif isinstance(outcome, BaseException):
            raise outcome
        else:
            ended.append(EndedSignIn(outcome=outcome, users=tuple(known.users(outcome.entry))))
    return ended, failures


def _server_of(known: StoredSignIns, entry: StoredSignIn, network: NetworkRules | None) -> Server | None:
    users = known.users(entry)
    if users:
        return known.servers[users[0]]
    if network is None:
        return None
    found = entry.sign_in
    name, url = (found.server, found.server_url) if found else ("", "")
    return Server(name=name, transport="http", url=url, network=network)
