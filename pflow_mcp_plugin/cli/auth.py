"""`pflow mcp auth`: who is signed in where, and which credentials servers get; starts and asks no server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from pflow_mcp_plugin.cli.dependencies import server_store
from pflow_mcp_plugin.cli.known_names import servers
from pflow_mcp_plugin.contract import Host, Report
from pflow_mcp_plugin.terminal.looks import Look
from pflow_mcp_plugin.terminal.printable_text import one_line
from pflow_mcp_plugin.terminal.tables import Cell, Column, Table

if TYPE_CHECKING:  # not needed to complete a line
    from pflow_mcp_plugin.cli.server_access import Access, State

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

    For servers with other credentials, it shows of which kind they are, and whether their variables are set.
    """
    return access(host, name or "")


def access(host: Host, name: str = "") -> Report:
    """Return the report of `pflow mcp auth`: how pflow gets access to one server, or to all that need it.

    Raises:
        McpError: The named server is not configured, and there is no sign-in of that name.
        storage.CorruptFile: The config is not valid TOML.
    """
    from pflow_mcp_plugin.cli.server_access import access_to, stored_sign_ins, unused_sign_ins

    known, store = stored_sign_ins(host), server_store(host)
    unused = [*unused_sign_ins(known, name, store.names())]
    if name and name not in store.names() and not unused:
        raise store.not_configured(name)
    wanted = [each for each in store.names() if name in ("", each)]
    rows = [*(access_to(host, known, each) for each in wanted), *unused]
    shown = [row for row in rows if name or row.state != "none"]
    return Report(data=[row.to_dict() for row in shown], text=lambda: (_table(shown) if shown else _NOTHING,))


def _table(rows: Sequence[Access]) -> Table:
    below = {number: [*_below(row)] for number, row in enumerate(rows)}
    return Table(columns=_COLUMNS, rows=[_cells(row) for row in rows], below=below)


def _cells(row: Access) -> tuple[Cell, ...]:
    state = row.state.replace("_", " ")
    note = "" if row.state == "has_mistakes" else row.note
    return row.server or "(unreadable)", row.type, (state, _LOOKS.get(row.state, "")), note


def _below(row: Access) -> Iterator[str]:
    """Yield what stands below its row: the command to run next, its mistakes and its sign-in."""
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
