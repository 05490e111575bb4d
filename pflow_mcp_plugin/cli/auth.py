"""`pflow mcp auth`: who is signed in where, and whether the credentials of each server are there.

No server is started or contacted.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

import attrs
import click

from pflow_mcp_plugin import secret_detection, variable_references
from pflow_mcp_plugin.cli.command_arguments import servers
from pflow_mcp_plugin.client.oauth.sign_in_store import SignInKey, SignInStore, StoredSignIn
from pflow_mcp_plugin.config import auth as auth_tables
from pflow_mcp_plugin.config import display
from pflow_mcp_plugin.config.expansion import Lookup, expand
from pflow_mcp_plugin.config.locations import sign_in_folder
from pflow_mcp_plugin.contract import Host, PflowError, Report
from pflow_mcp_plugin.discovery.servers import lookup, server_store
from pflow_mcp_plugin.terminal.looks import Cell, Column, Look, Table, one_line
from pflow_mcp_plugin.types import Server
from pflow_mcp_plugin.variable_references import VariableReference

if TYPE_CHECKING:
    from pflow_mcp_plugin.client.oauth.sign_in_state import SignIn

State = Literal["ready", "needs_login", "by_itself", "lacks_variables", "has_mistakes", "none", "unused"]
_KINDS = {"bearer": "bearer token", "api_key": "API key", "basic": "user name and password"}
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


@attrs.frozen(kw_only=True)
class StoredSignIns:
    """The stored sign-ins, and the servers whose access needs one: those with `auth` of type `oauth`.

    `servers` are expanded as far as their sign-in needs it; `failures` say why others could not be.
    """

    store: SignInStore
    entries: Sequence[StoredSignIn]
    servers: Mapping[str, Server]
    failures: Mapping[str, PflowError]

    def of(self, server: Server) -> list[StoredSignIn]:
        digest = SignInKey.of(server).digest
        return [entry for entry in self.entries if entry.digest == digest]

    def current(self, server: Server) -> StoredSignIn | None:
        issuer = str(server.auth.get("issuer", ""))
        name = self.store.name_of(SignInKey.of(server), issuer)
        found = [entry for entry in self.of(server) if not issuer or entry.name == name]
        return max(found, key=lambda entry: entry.sign_in.signed_in_at if entry.sign_in else 0, default=None)

    def users(self, entry: StoredSignIn) -> list[str]:
        return [name for name, server in self.servers.items() if entry in self.of(server)]

    def of_name(self, name: str) -> list[StoredSignIn]:
        """Return the sign-ins that a server uses, and those under its name that no server uses."""
        own = self.of(self.servers[name]) if name in self.servers else []
        former = [entry for entry in self.entries if entry.sign_in and entry.sign_in.server == name]
        return list(dict.fromkeys([*own, *(entry for entry in former if not self.users(entry))]))


def stored_sign_ins(host: Host) -> StoredSignIns:
    """For `pflow mcp auth`: return the stored sign-ins, and the servers that need one; contacts no server."""
    config, variables = server_store(host), lookup(host)
    servers: dict[str, Server] = {}
    failures: dict[str, PflowError] = {}
    for name in config.names():
        try:
            server = config.get(name)
            if auth_tables.signs_in(server.auth):
                servers[name] = _expanded(server, variables)
        except PflowError as error:
            failures[name] = error
    return attrs.evolve(stored_sign_ins_alone(host), servers=servers, failures=failures)


def stored_sign_ins_alone(host: Host) -> StoredSignIns:
    """Return the stored sign-ins as for `pflow mcp auth`, without their servers: config may be unreadable."""
    store = SignInStore(sign_in_folder(host.paths))
    return StoredSignIns(store=store, entries=[*store.entries()], servers={}, failures={})


def _expanded(server: Server, variables: Lookup) -> Server:
    try:
        return expand(server, variables).server
    except PflowError:  # secrets and headers do not matter to its sign-in
        identity = ("type", "flow", "client_id", "issuer", "scopes")
        auth = {key: server.auth[key] for key in identity if key in server.auth}
        return expand(attrs.evolve(server, auth=auth, headers={}, client_cert=()), variables).server


@attrs.frozen(kw_only=True)
class Access:
    """How pflow gets access to one server, or a stored sign-in that no server uses."""

    server: str
    url: str = ""  # its secrets are masked
    type: str = ""  # of its `auth`; `headers` if its headers have credentials; empty for none
    # `by_itself`: its credentials get it a token when it is used; `none`: it has no credentials; `unused`: no
    # server uses this sign-in.
    state: State
    note: str = ""
    next_step: str = ""
    variables: Mapping[str, bool] = attrs.field(factory=dict)  # and whether each is set or has a default
    flow: str = ""
    entry: StoredSignIn | None = None

    @property
    def sign_in(self) -> SignIn | None:
        return self.entry.sign_in if self.entry else None

    def to_dict(self) -> dict[str, Any]:
        data: dict[str, Any] = {"server": self.server, "url": self.url, "type": self.type or None}
        data |= {"state": self.state, "note": self.note or None, "next": self.next_step or None}
        if self.type == "oauth":
            sign_in, tokens = self.sign_in, self.sign_in.tokens if self.sign_in else None
            data |= {
                "flow": self.flow or None,
                "issuer": sign_in.issuer if sign_in else None,
                "client_id": sign_in.registration.client_id if sign_in else None,
                "scopes": list(tokens.scopes) if tokens else [],
                "signed_in_at": _iso(sign_in.signed_in_at if sign_in else None),
                "expires_at": _iso(tokens.expires_at if tokens else None),
                "renewable": bool(self.entry and self.entry.is_refreshable),
            }
        return data | {"variables": dict(self.variables)}


def unused_sign_ins(known: StoredSignIns, name: str, configured: Sequence[str]) -> Iterator[Access]:
    """Yield access that no configured server needs: stored sign-ins, all or those under a server's name."""
    used = {entry.name for server in known.servers.values() if (entry := known.current(server))}
    for entry in known.entries:
        sign_in = entry.sign_in
        if entry.name in used or (name and (sign_in is None or sign_in.server != name)):
            continue
        note = "its sign-in is not used: no configured server has this URL, client and issuer"
        is_former = sign_in and sign_in.server not in configured
        yield Access(
            server=sign_in.server if sign_in else "",
            url=display.url(sign_in.server_url, widely=True) if sign_in else "",
            type="oauth",
            state="unused",
            note=note if sign_in else f"it cannot be read: {entry.problem}",
            # For a configured server, it would end the sign-in that is used as well.
            next_step=f"pflow mcp logout {sign_in.server}" if sign_in and is_former else "",
            entry=entry,
        )


def access_to(host: Host, known: StoredSignIns, name: str) -> Access:
    """Return the state of access to a server: its kind of credentials, and whether they are there."""
    try:
        server = server_store(host).get(name)
    except PflowError as error:
        return Access(server=name, state="has_mistakes", note=str(error))
    kind = auth_tables.kind(server.auth)
    found = Access(server=name, url=display.url(server.url, widely=True), type=kind, state="ready")
    if kind == "oauth":
        found = _by_sign_in(known, server, found)
    elif kind:
        note = f"{_KINDS[kind]} in the header {auth_tables.header_of(server.auth)}"
        found = attrs.evolve(found, note=note)
    else:
        credentials = [name for name in server.headers if secret_detection.is_secret(name)]
        if not credentials:
            over = "" if server.url else f", as it is reached over {server.transport}"
            return attrs.evolve(found, state="none", note=f"its config has no auth{over}")
        note = f"credentials in the header {', '.join(credentials)}"
        found = attrs.evolve(found, type="headers", note=note)
    beside = variable_references.within([server.url, server.headers])
    references = [*variable_references.within(server.auth), *(each for each in beside if each.default != "")]
    if "token_env" in server.auth:
        references.append(VariableReference(str(server.auth["token_env"])))
    lacking = {each.name for each in references if not _is_set(host, server, each)}
    variables = {each.name: each.name not in lacking for each in references}
    return attrs.evolve(found, variables=variables, state="lacks_variables" if lacking else found.state)


def _by_sign_in(known: StoredSignIns, server: Server, found: Access) -> Access:
    found = attrs.evolve(found, flow=str(server.auth.get("flow", "")))
    if server.name in known.failures:
        return attrs.evolve(found, state="has_mistakes", note=str(known.failures[server.name]))
    entry = known.current(known.servers[server.name])
    found = attrs.evolve(found, entry=entry)
    missing = _missing(entry, known.servers[server.name])
    if not missing:
        return attrs.evolve(found, note=_until(found))
    if auth_tables.is_machine(server.auth):
        return attrs.evolve(found, state="by_itself", note="gets a token when it is used")
    return attrs.evolve(found, state="needs_login", note=missing, next_step=f"pflow mcp login {server.name}")


def _missing(entry: StoredSignIn | None, server: Server) -> str:
    if entry is None:
        return "nobody is signed in"
    if entry.sign_in is None:
        return f"its sign-in cannot be read: {entry.problem}"
    tokens = entry.sign_in.tokens
    if tokens is None:
        return "the login has ended"
    missing = entry.sign_in.missing_scopes(server.auth)
    if missing:
        return f"the scope {' '.join(missing)} was not granted"
    if tokens.is_valid(time.time()) or entry.is_refreshable:
        return ""
    return f"the login expired at {_iso(tokens.expires_at)}"


def _until(found: Access) -> str:
    tokens = found.sign_in.tokens if found.sign_in else None
    if tokens is None or tokens.expires_at is None:
        return "signed in"
    if not tokens.is_valid(time.time()):
        return "signed in; its token is renewed when it is used"
    if found.entry and found.entry.is_refreshable:
        return f"signed in; its token is renewed at {_iso(tokens.expires_at)}"
    return f"signed in until {_iso(tokens.expires_at)}"


def _is_set(host: Host, server: Server, reference: VariableReference) -> bool:
    # Without opening a keyring or running a command.
    if reference.default:
        return True
    if reference.name in server.env:  # an http server's own variables may refer to others
        text = server.env[reference.name]
        inner = (each for each in variable_references.references(text) if each.name != reference.name)
        return bool(text) and all(each.default or _is_kept(host, each.name) for each in inner)
    return _is_kept(host, reference.name)


def _is_kept(host: Host, name: str) -> bool:
    if name in os.environ:
        return bool(os.environ[name])
    return host.settings is not None and name in host.settings.names()


def _iso(seconds: float | None) -> str | None:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds") if seconds else None
