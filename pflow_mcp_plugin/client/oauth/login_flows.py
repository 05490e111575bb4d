"""The two flows of a login: by a code in a redirect, and by a code that a person enters on any device.

In a browser: the authorization code grant with PKCE (RFC 6749, 4.1; RFC 7636).
The redirect at its end is received on a port of this machine (RFC 8252, 7.3), or pasted.
On any device: the device authorization grant (RFC 8628).
"""

from __future__ import annotations

import asyncio
import time
from base64 import urlsafe_b64encode
from collections import Counter
from collections.abc import Callable, Mapping
from hashlib import sha256
from html import escape
from http import HTTPStatus
from secrets import compare_digest, token_urlsafe
from typing import Literal, Self
from urllib.parse import parse_qsl, urlencode, urlsplit

import attrs

from pflow_mcp_plugin.client.oauth.authorization_requests import AuthorizationRequests, place
from pflow_mcp_plugin.client.oauth.metadata import require_url
from pflow_mcp_plugin.client.oauth.sign_in_state import AuthorizationServer, SignIn, Tokens
from pflow_mcp_plugin.client.oauth.token_endpoint import (
    CLIENT_UNKNOWN,
    DEVICE_GRANT,
    TokenRefused,
    authentication,
    error_of,
    refusal,
    requested_tokens,
    seconds_of,
)
from pflow_mcp_plugin.client.request_failures import NoAccessToken
from pflow_mcp_plugin.terminal.human_units import count_text
from pflow_mcp_plugin.terminal.looks import one_line

_IF_UNKNOWN = """If the page says that it does not know the client, press Ctrl-C, and register another one:
  pflow mcp logout {name}
  pflow mcp login {name}"""
_REMEDIES: Mapping[str, Literal["login", "later", "credentials"]] = {
    "access_denied": "login",
    "invalid_scope": "credentials",
    "server_error": "later",
    "temporarily_unavailable": "later",
}
_HOST = "127.0.0.1"
_PATH = "/callback"

_MINUTES = 5
"""How long a person may take to sign in."""
_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>pflow: {title}</title>
<style>
body {{ font: 1.1rem/1.5 system-ui, sans-serif; max-width: 34rem; margin: 15vh auto; padding: 0 1rem }}
</style>
<h1>{title}</h1>
<p>{text}</p>
"""
_OTHER = "pflow is waiting for the answer to another login. Use the page that it opened last."
_HEADERS = (
    "Content-Type: text/html; charset=utf-8",
    "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    "Referrer-Policy: no-referrer",
    "X-Content-Type-Options: nosniff",
    "Cache-Control: no-store",
    "Connection: close",
)
_ASKED = """When you have signed in, your browser goes to {where}?code=...
It need not be able to open that page. Copy the whole URL from its address bar, and paste it here:"""


@attrs.frozen(kw_only=True)
class Person:
    """How a login flow reaches the person who signs in."""

    show: Callable[[str], None]  # shows them lines, such as a URL or a code to type
    open_url: Callable[[str], None] | None = None  # may fail unnoticed; None if there is no browser here
    # Shows them a text and reads the line that they paste, without showing it; empty if they paste nothing.
    read_redirect: Callable[[str], str] = lambda _: ""


async def code_tokens(
    requests: AuthorizationRequests,
    sign_in: SignIn,
    person: Person,
    redirects: LoopbackListener | PastedRedirect,
    *,
    is_stored: bool = False,
) -> Tokens:
    """Run the login flow in a browser, which ends with a code in a redirect; return the tokens."""
    verifier, state = token_urlsafe(64), token_urlsafe(32)
    url = _authorization_url(sign_in, redirects.redirect_uri, state, verifier)
    if is_stored and await _is_forgotten(requests, sign_in, url, redirects.redirect_uri):
        raise TokenRefused("invalid_client", "the authorization server does not know the client any more")
    if person.open_url is None:
        person.show(f"Open this URL in a browser:\n\n  {url}\n")
    else:
        how = "Opening a browser to sign in. If none opens, open this URL on this machine"
        person.show(f"{how}:\n\n  {url}\n")
        person.open_url(url)
    if is_stored:
        person.show(_IF_UNKNOWN.format(name=sign_in.server))
    code = code_of(await redirects.response(state), sign_in.authorization_server)
    form = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": redirects.redirect_uri,
        "code_verifier": verifier,
    }
    return await requested_tokens(requests, sign_in, form)


def _authorization_url(sign_in: SignIn, redirect_uri: str, state: str, verifier: str) -> str:
    endpoint = urlsplit(sign_in.authorization_server.authorization_endpoint)
    challenge = urlsafe_b64encode(sha256(verifier.encode()).digest()).decode().rstrip("=")
    fields = {
        "response_type": "code",
        "client_id": sign_in.registration.client_id,
        "redirect_uri": redirect_uri,
        "state": state,
        "code_challenge": challenge,
        "code_challenge_method": "S256",
        "resource": sign_in.resource,
    }
    scopes = sign_in.tokens.scopes if sign_in.tokens else ()
    if scopes:
        fields["scope"] = " ".join(scopes)
    if "offline_access" in scopes:
        fields["prompt"] = "consent"  # without it, OpenID Connect ignores that scope (Core 1.0, section 11)
    own = [pair for pair in parse_qsl(endpoint.query, keep_blank_values=True) if pair[0] not in fields]
    return endpoint._replace(query=urlencode([*own, *fields.items()])).geturl()


def code_of(fields: Mapping[str, str], found: AuthorizationServer) -> str:
    """Return the code in the redirect that ends a login in a browser; refuse one from another server."""
    issuer, wrong = fields.get("iss"), ""
    if issuer is None and found.authorization_response_iss_parameter_supported:
        wrong = "does not say which issuer it is from (iss), as its metadata promises"
    elif issuer is not None and issuer != found.issuer:  # as strings: RFC 9207, section 2.4
        wrong = f"is from another issuer (iss), {place(issuer)}"
    if wrong:
        raise NoAccessToken(f"the answer of {place(found.issuer)} to the login {wrong}; refused", "operator")
    error, said = error_of(fields)
    if error:
        text = f"{place(found.authorization_endpoint)} answered {said}"
        if error in CLIENT_UNKNOWN:
            raise TokenRefused(error, text)
        step = ""
        if error == "invalid_scope":
            step = "correct the scopes: those of --scope, and scopes in auth"
        raise NoAccessToken(f"nobody was signed in: {text}", _REMEDIES.get(error, "operator"), step=step)
    if not fields.get("code"):
        raise NoAccessToken(f"{place(found.authorization_endpoint)} answered without a code", "operator")
    return fields["code"]


async def _is_forgotten(
    requests: AuthorizationRequests, sign_in: SignIn, url: str, redirect_uri: str
) -> bool:
    # The authorization server would say so in the browser only.
    try:
        status, location = await requests.status(url)
    except NoAccessToken:  # the browser will say so
        return False
    if location.startswith(f"{redirect_uri}?"):
        return fields_of(urlsplit(location).query).get("error") in CLIENT_UNKNOWN
    if HTTPStatus.BAD_REQUEST <= status < HTTPStatus.INTERNAL_SERVER_ERROR:
        return True
    # A page may tell people with the status 200. The token endpoint tells programs, if asked with a refresh
    # token that nobody issued: its error is about the client only if that is unknown (RFC 6749, 5.2).
    form = {"grant_type": "refresh_token", "refresh_token": token_urlsafe(32)}
    try:
        await requested_tokens(requests, sign_in, form)
    except TokenRefused as refusal:
        return refusal.code in CLIENT_UNKNOWN
    except NoAccessToken:
        pass
    return False


def fields_of(query: str) -> Mapping[str, str]:
    """Return the fields of the redirect that ends a login flow; none if it is invalid or repeats a field."""
    try:
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=50)
    except ValueError:
        return {}
    return {} if max(Counter(name for name, _ in pairs).values(), default=0) > 1 else dict(pairs)


def is_answer_to(state: str, fields: Mapping[str, str]) -> bool:
    """Whether a redirect answers the login flow with this state; false while the state is empty."""
    return bool(state) and compare_digest(state.encode(), fields.get("state", "").encode(errors="replace"))


class LoopbackListener:
    """A port of this machine that receives the redirect at the end of a browser's flow; for `async with`."""

    def __init__(self, port: int = 0) -> None:
        self._port = port
        self._state = ""
        self._unanswered: set[asyncio.Task[None]] = set()
        self._arrived: set[asyncio.Task[None]] = set()

    @property
    def redirect_uri(self) -> str:
        return f"http://{_HOST}:{self._port}{_PATH}"

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._fields: asyncio.Future[Mapping[str, str]] = loop.create_future()
        self._outcome: asyncio.Future[tuple[str, str]] = loop.create_future()
        self._server = await asyncio.start_server(self._serve, _HOST, self._port, limit=1 << 16)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self.tell("Not signed in", "The login has failed. The terminal says why.")
        self._server.close()
        for task in self._unanswered - self._arrived:
            task.cancel()
        if self._arrived:
            await asyncio.wait(self._arrived, timeout=2.0)  # the browser fetches the page about the outcome
        for task in self._unanswered:
            task.cancel()

    async def response(self, state: str) -> Mapping[str, str]:
        """Return the fields of the redirect that answers the login flow; another state is refused."""
        self._state = state
        try:
            async with asyncio.timeout(_MINUTES * 60):
                return await self._fields
        except TimeoutError:
            raise NoAccessToken(f"nobody signed in within {_MINUTES} minutes", "login") from None

    def tell(self, title: str, text: str) -> None:
        """Show the outcome of the login flow in the browser; only the first call has an effect."""
        if not self._outcome.done():
            self._outcome.set_result((title, text))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - the server makes one for each connection
        self._unanswered.add(task)
        try:
            async with asyncio.timeout(10.0):
                head = await reader.readuntil(b"\r\n\r\n")
            writer.write(await self._answer(head, task))
            await writer.drain()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # no browser that follows a redirect
        except asyncio.CancelledError:
            pass  # Python 3.11 would report it as the failure of a callback
        finally:
            self._unanswered.discard(task)
            self._arrived.discard(task)
            writer.close()

    async def _answer(self, head: bytes, task: asyncio.Task[None]) -> bytes:
        method, _, rest = head.partition(b"\r\n")[0].decode("latin-1").partition(" ")
        path, _, query = rest.rpartition(" ")[0].partition("?")
        if path != _PATH:
            return _page(HTTPStatus.NOT_FOUND, "Not found", "There is nothing here.")
        if method != "GET":
            return _page(HTTPStatus.METHOD_NOT_ALLOWED, "Not allowed", "Only GET is.")
        fields = fields_of(query)
        if not is_answer_to(self._state, fields):
            return _page(HTTPStatus.BAD_REQUEST, "Another login", _OTHER)
        if not self._fields.done():
            self._fields.set_result(fields)
        self._arrived.add(task)
        return _page(HTTPStatus.OK, *await asyncio.shield(self._outcome))


def _page(status: HTTPStatus, title: str, text: str) -> bytes:
    body = _PAGE.format(title=escape(title), text=escape(text)).encode()
    head = (f"HTTP/1.1 {status.value} {status.phrase}", *_HEADERS, f"Content-Length: {len(body)}", "", "")
    return "\r\n".join(head).encode("ascii") + body


class PastedRedirect:
    """The redirect at the end of a browser's flow, pasted by the person; used as `LoopbackListener` is."""

    def __init__(self, person: Person, port: int = 0) -> None:
        self._person = person
        self._port = port

    @property
    def redirect_uri(self) -> str:
        return f"http://{_HOST}:{self._port}{_PATH}"

    async def __aenter__(self) -> Self:
        if not self._port:
            import socket

            with socket.socket() as found:
                found.bind((_HOST, 0))
                self._port = int(found.getsockname()[1])
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close nothing: waiting for a pasted redirect opens nothing."""

    async def response(self, state: str) -> Mapping[str, str]:
        asked = _ASKED.format(where=self.redirect_uri)
        while line := self._person.read_redirect(asked).strip():
            where, mark, query = line.partition("?")
            if not mark and "=" in line:  # what follows the mark
                where, query = self.redirect_uri, line
            fields = fields_of(urlsplit(f"?{query}").query)
            if where != self.redirect_uri:
                is_url = "://" in where
                wrong = f"a URL of {place(where)}, not of {self.redirect_uri}" if is_url else "not a URL"
            elif "state" not in fields:
                wrong = "not all of it: it has no state"
            elif not is_answer_to(state, fields):
                wrong = "the answer to another login: its state differs"
            else:
                return fields
            asked = f"That is {wrong}. Paste the whole URL:"
        raise NoAccessToken("no redirect was pasted", "login")

    def tell(self, title: str, text: str) -> None:
        """Show nothing of the login: the browser has no page of ours."""


_WAITING = {"authorization_pending": 0.0, "slow_down": 5.0}
"""Answers while the person has not decided yet, and the seconds that each adds to the interval."""
_EXPIRED = "its code expired before anybody entered it"
_ENDED = {"access_denied": "the login was denied", "expired_token": _EXPIRED}


async def device_tokens(
    requests: AuthorizationRequests, sign_in: SignIn, show: Callable[[str], None]
) -> Tokens:
    """Return the tokens of a login that a person has approved by a code, in a browser on any device."""
    client, found = sign_in.registration, sign_in.authorization_server
    fields, headers = authentication(client, found, requests.server.auth)
    form = {"client_id": client.client_id, "resource": sign_in.resource, **fields}
    if sign_in.tokens and sign_in.tokens.scopes:
        form["scope"] = " ".join(sign_in.tokens.scopes)
    answer = await requests.post(found.device_authorization_endpoint, headers, data=form)
    content = answer.content or {}
    if answer.status != HTTPStatus.OK or "error" in content:
        raise refusal(answer, "device authorization endpoint", form)
    where = f"the device authorization endpoint {place(answer.url)}"

    def text(name: str) -> str:
        value = content.get(name)
        if not isinstance(value, str) or not value.strip():
            raise NoAccessToken(f"{where} answered without a {name}", "operator")
        return value.strip()

    def page(name: str) -> str:
        value = text(name)
        require_url(requests.server, f"{name} of {where}", value)
        return value

    seconds, interval = seconds_of(content.get("expires_in")), seconds_of(content.get("interval"))
    # If the answer does not say, a code is good for ten minutes and polled every five seconds.
    seconds = 600.0 if seconds is None else min(seconds, 3_600.0)
    interval = 5.0 if interval is None else max(interval, 0.2)
    code, limit = text("device_code"), count_text(max(1, round(seconds / 60)), "minute")
    # What is shown can steer neither a terminal nor a browser.
    lines = [
        f"Open this URL in a browser, on any device:\n\n  {page('verification_uri')}\n",
        f"There, enter this code within {limit}:\n\n  {one_line(text('user_code')[:100])}\n",
    ]
    if content.get("verification_uri_complete"):
        complete = page("verification_uri_complete")
        lines.append(f"Or open this URL, which has the code in it:\n\n  {complete}\n")
    show("\n".join(lines))
    form = {"grant_type": DEVICE_GRANT, "device_code": code}
    return await _polled(requests, sign_in, form, time.monotonic() + seconds, interval)


async def _polled(
    requests: AuthorizationRequests, sign_in: SignIn, form: Mapping[str, str], end: float, interval: float
) -> Tokens:
    pause, trouble = interval, ""
    while True:
        await asyncio.sleep(min(pause, max(0.0, end - time.monotonic())))
        if time.monotonic() >= end:
            raise NoAccessToken(f"{_EXPIRED}{trouble}", "login")
        try:
            return await requested_tokens(requests, sign_in, form)
        except TokenRefused as refused:
            if refused.code in _ENDED:
                raise NoAccessToken(_ENDED[refused.code], "login") from refused
            if refused.code not in _WAITING:
                raise
            interval += _WAITING[refused.code]
            pause, trouble = interval, ""
        except NoAccessToken as failure:
            if failure.remedy != "later":
                raise
            # While the token endpoint cannot be reached, it is tried once a minute at least.
            pause, trouble = min(2 * pause, max(60.0, interval)), f"; {failure.reason}"
