"""`pflow mcp login | logout`, and the offer of a login by other commands where a server needs one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import attrs
import click

from pflow_mcp_plugin.cli.command_arguments import servers
from pflow_mcp_plugin.cli.interaction import (
    has_browser,
    is_interactive,
    open_in_browser,
    read_hidden_line,
    tell,
)
from pflow_mcp_plugin.config import auth, display
from pflow_mcp_plugin.config.locations import sign_in_folder
from pflow_mcp_plugin.config.server_schema import mapping
from pflow_mcp_plugin.contract import Host, PflowError, Report
from pflow_mcp_plugin.discovery.servers import catalog, launch, lookup, server_store
from pflow_mcp_plugin.errors import McpError, Where
from pflow_mcp_plugin.exchange import Launch
from pflow_mcp_plugin.storage import CorruptFile, StoreError
from pflow_mcp_plugin.types import NetworkRules, Server

if TYPE_CHECKING:
    from pflow_mcp_plugin.cli.auth import StoredSignIns
    from pflow_mcp_plugin.client.oauth.login import SignOut
    from pflow_mcp_plugin.client.oauth.sign_in_state import SignIn
    from pflow_mcp_plugin.client.oauth.sign_in_store import StoredSignIn


_OAUTH = {"type": "oauth"}
_SCOPES = re.compile(r"[!#-\[\]-~]+( +[!#-\[\]-~]+)*")


def _checked(_context: click.Context, _option: click.Parameter, scopes: tuple[str, ...]) -> tuple[str, ...]:
    """Refuse a `--scope` that is not a scope (RFC 6749, 3.3)."""
    for scope in scopes:
        if not _SCOPES.fullmatch(scope):
            raise click.BadParameter(f"{scope!a} is not a scope", param_hint="--scope")
    return scopes


@click.command()
@click.argument("name", shell_complete=servers)
@click.option("--no-browser", is_flag=True, help="Print the URL, and take the redirect that you paste.")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    metavar="SCOPE",
    callback=_checked,
    help="Ask for this scope too; repeat it for more.",
)
@click.pass_obj
def login(host: Host, name: str, *, no_browser: bool, scopes: tuple[str, ...]) -> Report:
    """Sign in to server NAME, in a browser. The login is kept, and renewed for as long as possible."""
    return log_in(host, name, browser=not no_browser, scopes=scopes)


def log_in(host: Host, name: str, *, browser: bool = True, scopes: Sequence[str] = ()) -> Report:
    """Do what `pflow mcp login` does; report with which scopes and until when the person is signed in.

    An http server without `auth` gets one of type oauth in the config, once somebody is signed in. `scopes`
    are requested in addition to the usual ones.
    """
    from pflow_mcp_plugin.client.failures import run_sign_in

    ready = launch(name, server_store(host), catalog(host), lookup(host))
    is_new = _require_login(host, ready)
    ready = attrs.evolve(ready, sign_in_folder=sign_in_folder(host.paths))
    if is_new:
        ready = attrs.evolve(ready, server=attrs.evolve(ready.server, auth=_OAUTH))

    async def action() -> SignIn:
        from pflow_mcp_plugin.client.oauth import login as oauth_login
        from pflow_mcp_plugin.client.oauth.login_flows import Person

        person = Person(
            show=tell,
            open_url=open_in_browser if browser and has_browser() else None,
            read_redirect=lambda text: read_hidden_line(lambda: tell(text)),
        )
        return await oauth_login.login(ready, person, scopes)

    sign_in = run_sign_in(ready, action)
    _require_unchanged(host, ready)
    if is_new:
        store = server_store(host)
        store.add({name: {**mapping(store.table(name)), "auth": _OAUTH}})
        host.refresh("mcp")
    tokens = sign_in.tokens
    expires_at = tokens.expires_at if tokens else None
    data = {
        "server": sign_in.server,
        "url": sign_in.server_url,
        "issuer": sign_in.issuer,
        "scopes": list(tokens.scopes if tokens else ()),
        "expires_at": None if expires_at is None else datetime.fromtimestamp(expires_at, UTC).isoformat(),
        "renewable": bool(tokens and tokens.refresh),
        "auth_added": is_new,
        "sync_due": catalog(host).file(name) is None,
    }
    return Report(data=data, text=lambda: "\n".join(_lines(data)))


def _require_unchanged(host: Host, ready: Launch) -> None:
    """End the login again if the server was removed or changed meanwhile: another may have its name now."""
    store, name = server_store(host), ready.server.name
    if name in store.names() and store.fingerprint(name) == ready.fingerprint:
        return
    from pflow_mcp_plugin.cli.auth import stored_sign_ins
    from pflow_mcp_plugin.client.oauth.sign_in_store import SignInKey

    known, digest = stored_sign_ins(host), SignInKey.of(ready.server).digest
    sign_out_of(host, known, [it for it in known.entries if it.digest == digest and not known.users(it)])
    message = f"The config of server {name} changed during the login, which is therefore not kept"
    step = f"Run again: pflow mcp login {name}"
    raise McpError(message, where=Where(server=name, phase="config"), next_step=step, kind="config")


def _require_login(host: Host, ready: Launch) -> bool:
    """Refuse to log in to a server without sign-in; return whether its config has no `auth` yet."""
    server = ready.server
    store = server_store(host)
    kind = auth.kind(server.auth)
    step = ""
    if not server.is_remote:
        wrong = f"it is reached over {server.transport}, without a login"
    elif kind and kind != "oauth":
        wrong = f"its auth is of type {kind}"
        step = 'To sign in, set auth = { type = "oauth" }'
    elif auth.is_machine(server.auth):
        wrong = f"flow {auth.MACHINE} needs no person"
        step = f"Test it: pflow mcp test {server.name}"
    elif not kind and store.file_of(server.name) != store.path:
        wrong = f"{store.file_of(server.name)} has no auth for it"
        step = f"Add it to your own config: pflow mcp add {server.name} {display.url(server.url)}"
    else:
        return not kind
    where = Where(server=server.name, phase="config")
    message = f"Server {server.name} cannot be signed in to: {wrong}"
    raise McpError(message, where=where, next_step=step, kind="config")


def _lines(data: Mapping[str, Any]) -> Iterator[str]:
    yield f"Signed in at {data['url']}, with {data['issuer']}"
    if data["scopes"]:
        yield f"  scopes   {' '.join(data['scopes'])}"
    if not data["renewable"] and data["expires_at"]:
        yield f"  until    {data['expires_at']}: this authorization server renews no login"
    if data["auth_added"]:
        yield f'Added auth = {{ type = "oauth" }} to server {data["server"]}'
    if data["sync_due"]:
        yield f"Next: pflow mcp sync {data['server']}"


def logged_in(host: Host, error: PflowError | None) -> bool:
    """Offer `pflow mcp login` after another command failed without it; return whether it was done."""
    name = error.details.get("server") if error and error.details.get("login") else None
    if error is None or not isinstance(name, str) or not is_interactive():
        return False
    tell(f"{error.message}.")
    if not click.confirm(f"Server {name} needs a login. Log in now?", default=True, err=True):
        return False
    scope = error.details.get("scope")
    try:
        report = log_in(host, name, scopes=scope.split() if isinstance(scope, str) else ())
    except PflowError as failure:
        tell(f"{failure.message}.")
        return False
    tell(report.render())
    return True


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
    from pflow_mcp_plugin.cli.auth import stored_sign_ins, stored_sign_ins_alone

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
        if auth.is_machine(known.servers[user].auth)
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
    """Do what `pflow mcp logout` does with some sign-ins: return those ended, and the errors of others."""
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
