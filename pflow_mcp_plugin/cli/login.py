"""`pflow mcp login`: signs a person in to a server."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import attrs
import click

from pflow_mcp_plugin.cli.dependencies import catalog, lookup, server_store
from pflow_mcp_plugin.cli.known_names import servers
from pflow_mcp_plugin.cli.terminal import tell
from pflow_mcp_plugin.config import auth, display
from pflow_mcp_plugin.config.locations import sign_in_folder
from pflow_mcp_plugin.contract import Host, Report
from pflow_mcp_plugin.discovery.server_launch import launch
from pflow_mcp_plugin.errors import McpError, Where
from pflow_mcp_plugin.exchange import Launch

if TYPE_CHECKING:
    from pflow_mcp_plugin.client.oauth.sign_in_state import SignIn

_OAUTH = {"type": "oauth"}
_SCOPES = re.compile(r"[!#-\[\]-~]+( +[!#-\[\]-~]+)*")


@click.command()
@click.argument("name", shell_complete=servers)
@click.option("--no-browser", is_flag=True, help="Print the URL, and take the redirect that you paste.")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    metavar="SCOPE",
    callback=lambda _context, _option, values: _checked(values),
    help="Ask for this scope too; repeat it for more.",
)
@click.pass_obj
def login(host: Host, name: str, *, no_browser: bool, scopes: tuple[str, ...]) -> Report:
    """Sign in to server NAME, in a browser. The login is kept, and renewed for as long as possible."""
    return log_in(host, name, browser=not no_browser, scopes=scopes)


def log_in(host: Host, name: str, *, browser: bool = True, scopes: Sequence[str] = ()) -> Report:
    """Sign a person in to a server, as `pflow mcp login` does.

    An http server without `auth` gets one of type oauth in the config, once somebody is signed in.

    Args:
        host: The host.
        name: The server.
        browser: Whether a browser may be opened.
        scopes: What to ask for beside what is asked for usually.

    Returns:
        Where somebody is signed in, with which scopes, and until when; never a token.

    Raises:
        McpError: The server is not configured, or nobody can sign in to it.
        McpError: Nobody signed in.
        StoreError: The sign-in cannot be stored.
    """
    from pflow_mcp_plugin.client.failures import run_sign_in

    ready = launch(name, server_store(host), catalog(host), lookup(host))
    is_new = _require_login(host, ready)
    ready = attrs.evolve(ready, sign_in_folder=sign_in_folder(host.paths))
    if is_new:
        ready = attrs.evolve(ready, server=attrs.evolve(ready.server, auth=_OAUTH))

    async def action() -> SignIn:
        from pflow_mcp_plugin.client.oauth.login import login as logged_in

        return await logged_in(ready, _person(browser=browser), scopes)

    sign_in = run_sign_in(ready, action)
    _require_unchanged(host, ready)
    if is_new:
        table = server_store(host).table(name)
        server_store(host).add({name: {**(table if isinstance(table, Mapping) else {}), "auth": _OAUTH}})
        host.refresh("mcp")
    data = _data(sign_in, is_new=is_new, is_synced=catalog(host).file(name) is not None)
    return Report(data=data, text=lambda: "\n".join(_lines(data)))


def _require_unchanged(host: Host, ready: Launch) -> None:
    """Sign out again from a server that was removed or changed while somebody signed in to it.

    Raises:
        McpError: It was; another server may have its name now.
    """
    store, name = server_store(host), ready.server.name
    if name in store.names() and store.fingerprint(name) == ready.fingerprint:
        return
    from pflow_mcp_plugin.cli.logout import sign_out_of
    from pflow_mcp_plugin.cli.stored_sign_ins import stored_sign_ins
    from pflow_mcp_plugin.client.oauth.sign_in_store import SignInKey

    known, digest = stored_sign_ins(host), SignInKey.of(ready.server).digest
    sign_out_of(host, known, [it for it in known.entries if it.digest == digest and not known.users(it)])
    message = f"The config of server {name} changed during the login, which is therefore not kept"
    step = f"Run again: pflow mcp login {name}"
    raise McpError(message, where=Where(server=name, phase="config"), next_step=step, kind="config")


def _checked(scopes: tuple[str, ...]) -> tuple[str, ...]:
    """Refuse what is no scope (RFC 6749, 3.3)."""
    for scope in scopes:
        if not _SCOPES.fullmatch(scope):
            raise click.BadParameter(f"{scope!a} is not a scope", param_hint="--scope")
    return scopes


def _require_login(host: Host, ready: Launch) -> bool:
    """Refuse a server that nobody can sign in to; return whether its config has no `auth` yet."""
    server = ready.server
    store = server_store(host)
    kind = auth.kind(server.auth)
    step = ""
    if server.transport not in ("http", "sse"):
        wrong = f"it is reached over {server.transport}, without a login"
    elif kind and kind != "oauth":
        wrong = f"its auth is of type {kind}"
        step = 'To sign in, set auth = { type = "oauth" }'
    elif auth.is_machine(server.auth):
        wrong = f"flow {auth.MACHINE} needs no person"
        step = f"Test it: pflow mcp test {server.name}"
    elif not kind and store.file_of(server.name) != store.path:
        wrong = f"{store.file_of(server.name)} has no auth for it"
        step = "Add it to your own config: " + f"pflow mcp add {server.name} {display.url(server.url)}"
    else:
        return not kind
    where = Where(server=server.name, phase="config")
    message = f"Server {server.name} cannot be signed in to: {wrong}"
    raise McpError(message, where=where, next_step=step, kind="config")


def _person(*, browser: bool) -> Any:
    """Return the person at the terminal."""
    from pflow_mcp_plugin.cli.browser import has_browser, open_in_browser
    from pflow_mcp_plugin.cli.hidden_line import read_hidden_line
    from pflow_mcp_plugin.client.oauth.authorization_code import Person

    opens = browser and has_browser()
    return Person(
        show=tell,
        open_url=open_in_browser if opens else None,
        read_redirect=lambda text: read_hidden_line(lambda: tell(text)),
    )


def _data(sign_in: SignIn, *, is_new: bool, is_synced: bool) -> dict[str, Any]:
    tokens = sign_in.tokens
    expires_at = tokens.expires_at if tokens else None
    return {
        "server": sign_in.server,
        "url": sign_in.server_url,
        "issuer": sign_in.issuer,
        "scopes": list(tokens.scopes if tokens else ()),
        "expires_at": None if expires_at is None else datetime.fromtimestamp(expires_at, UTC).isoformat(),
        "renewable": bool(tokens and tokens.refresh),
        "auth_added": is_new,
        "sync_due": not is_synced,
    }


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
