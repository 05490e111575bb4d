"""`pflow mcp login`: signs a person in to a server, in a browser or by a redirect that is pasted here.

Other commands offer it where a server needs a login.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import attrs
import click

from pflow_mcp_plugin.cli.dependencies import catalog, lookup, server_store
from pflow_mcp_plugin.cli.known_names import servers
from pflow_mcp_plugin.cli.terminal import is_interactive, tell
from pflow_mcp_plugin.config import auth, display
from pflow_mcp_plugin.config.locations import sign_in_folder
from pflow_mcp_plugin.contract import Host, PflowError, Report
from pflow_mcp_plugin.discovery.servers import launch
from pflow_mcp_plugin.errors import McpError, Where
from pflow_mcp_plugin.exchange import Launch

if TYPE_CHECKING:
    from pflow_mcp_plugin.client.oauth.sign_in_state import SignIn


_OAUTH = {"type": "oauth"}
_SCOPES = re.compile(r"[!#-\[\]-~]+( +[!#-\[\]-~]+)*")
_DISPLAYS = ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME")
_BROWSER_PROGRAM = "import sys, webbrowser; sys.exit(not webbrowser.open(sys.argv[1]))"
_LONGEST_LINE = 1 << 16
_LINE_ENDS = b"\r\n"
_END_OF_INPUT = 4
_ERASERS = (8, 127)


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
        from pflow_mcp_plugin.client.oauth import login as oauth_login

        return await oauth_login.login(ready, _person(browser=browser), scopes)

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
    from pflow_mcp_plugin.cli.server_access import stored_sign_ins
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


def logged_in(host: Host, error: PflowError | None) -> bool:
    """Ask, on a terminal, whether to log in at a server that needs it; return whether that was done.

    Args:
        host: The host.
        error: The failure of the server, None if it did not fail.
    """
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


def has_browser() -> bool:
    """Whether a browser can be expected to open: one that takes over the terminal does not count."""
    return sys.platform in ("darwin", "win32") or any(map(os.environ.get, _DISPLAYS))


def open_in_browser(url: str) -> None:
    """Open a URL in the user's browser, as `$BROWSER` or the desktop says, and do not wait for it.

    No shell is involved. What the browser prints is discarded, and Ctrl-C does not reach it.
    """
    if not url.startswith(("https://", "http://")):
        raise ValueError("only web pages are opened")
    # The module `webbrowser` would let it write to our standard output, and wait for some browsers.
    threading.Thread(target=_open, args=(url,), daemon=True).start()


def _open(url: str) -> None:
    import subprocess

    command = [sys.executable, "-I", "-c", _BROWSER_PROGRAM, url]
    with suppress(OSError):  # the URL is too long for an argument, or there are too many processes
        subprocess.run(  # noqa: S603 - no shell; the URL is checked
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            check=False,
        )


def read_hidden_line(ask: Callable[[], object]) -> str:
    """Return a line from standard input, which a terminal does not show; empty at the end of input.

    A terminal passes on lines of up to 1,024 bytes on some systems if it edits them; here, it does not.

    Args:
        ask: Prompts for the line. A line that is pasted as soon as it does is not shown either.
    """
    if sys.stdin is None or not sys.stdin.isatty():
        ask()
        return "" if sys.stdin is None else sys.stdin.readline(_LONGEST_LINE).strip()
    try:
        import termios
    except ImportError:  # Windows
        from getpass import getpass

        ask()
        return getpass("")
    descriptor = sys.stdin.fileno()
    with _hiding_input(termios, descriptor):
        ask()
        line = _typed_line(descriptor)
    sys.stderr.write("\n")
    return line


def _typed_line(descriptor: int) -> str:
    found = bytearray()
    while len(found) < _LONGEST_LINE:
        try:
            typed = os.read(descriptor, 4096)
        except OSError:  # the terminal is gone; not every system calls that an error
            typed = b""
        if not typed:
            return ""
        for byte in typed:
            if byte in _LINE_ENDS or byte == _END_OF_INPUT:
                return found.decode(errors="replace").strip()
            if byte in _ERASERS:
                del found[-1:]
            else:
                found.append(byte)
    return ""


@contextmanager
def _hiding_input(termios: Any, descriptor: int) -> Iterator[None]:
    """Let a terminal pass on what is typed at once and not show it; Ctrl-C still interrupts."""
    before = termios.tcgetattr(descriptor)
    changed = termios.tcgetattr(descriptor)
    changed[3] &= ~(termios.ECHO | termios.ICANON)
    changed[6][termios.VMIN], changed[6][termios.VTIME] = 1, 0
    termios.tcsetattr(descriptor, termios.TCSADRAIN, changed)
    try:
        yield
    finally:
        with suppress(termios.error):  # the terminal is gone
            termios.tcsetattr(descriptor, termios.TCSAFLUSH, before)
