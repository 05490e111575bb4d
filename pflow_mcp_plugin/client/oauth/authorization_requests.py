"""HTTP requests for metadata and tokens: checked like those to the server.

None of the server's headers, credentials and client certificate goes to an authorization server. What is
asked of the server itself, on its own origin, has its configured headers. Redirects stay on the origin.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, suppress
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import attrs
import httpx2

from pflow_mcp_plugin.client.request_failures import MessageTooLarge, NoAccessToken
from pflow_mcp_plugin.client.transport.http_requests import NETWORK_ERRORS, read_whole
from pflow_mcp_plugin.client.transport.messages import read_json
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.network import egress
from pflow_mcp_plugin.network.certificates import tls_context
from pflow_mcp_plugin.network.checked_connections import CheckedTransport
from pflow_mcp_plugin.network.egress import HostRefused, is_same_origin
from pflow_mcp_plugin.types import Server

_JSON = "application/json"
_LIMIT = 1 << 20
"""Bytes of the largest answer."""
_BUSY = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)
_SHOWN = 300


@attrs.frozen(kw_only=True)
class Answer:
    """The answer to a request for OAuth metadata or tokens: the JSON object in it, None if there is none.

    Its status is neither a redirect nor one that asks to try again later. `date` is the time there, in
    seconds since the epoch.
    """

    url: str
    status: int
    date: float | None = None
    content: JSONObject | None = attrs.field(default=None, repr=False)


class AuthorizationRequests(AbstractAsyncContextManager["AuthorizationRequests"]):
    """Makes the HTTP requests for the OAuth metadata and tokens of one server; an async context manager."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._seconds = min(30.0, server.timeout)
        self._client = httpx2.AsyncClient(
            timeout=self._seconds, transport=CheckedTransport(server, tls_context(server))
        )

    async def __aexit__(self, *_: object) -> None:
        await self._client.aclose()

    async def get(self, url: str, *, own: bool = False) -> Answer:
        """Send a checked GET, whose redirects stay on the origin; `own` adds the configured headers."""
        headers = self._own_headers(url, _JSON) if own else {"accept": _JSON}
        for _ in range(4):  # the request and three redirects
            response, content = await self._sent("GET", url, headers=headers)
            if not response.is_redirect:
                return _judged(response, content)
            target = str(response.next_request.url) if response.next_request else ""
            try:
                stays = bool(target) and is_same_origin(url, target)
            except ValueError:
                stays = False
            if not stays:
                where = place(target or response.headers.get("location", ""))
                raise NoAccessToken(f"{place(url)} redirects to another host, {where}; refused", "operator")
            url = target
        raise NoAccessToken(f"{place(url)} redirects too often", "operator")

    async def challenge(self) -> str:
        """Request without a token, by a ping with the configured headers; return the `WWW-Authenticate`."""
        ping: dict[str, Any] = {"jsonrpc": "2.0", "id": 0, "method": "ping"}
        method, body = ("GET", {}) if self.server.transport == "sse" else ("POST", {"json": ping})
        headers = self._own_headers(self.server.url, f"{_JSON}, text/event-stream")
        response, _ = await self._sent(method, self.server.url, whole=False, headers=headers, **body)
        refused = response.status_code in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
        return response.headers.get("www-authenticate", "") if refused else ""

    def _own_headers(self, url: str, accept: str) -> httpx2.Headers:
        """Return an authorization request's headers: the server's own only on its origin, for a gateway.

        Its credentials are left out: an access token will take their place.
        """
        headers = httpx2.Headers(self.server.headers if is_same_origin(self.server.url, url) else {})
        headers.pop("authorization", None)
        headers["accept"] = accept
        return headers

    async def status(self, url: str) -> tuple[int, str]:
        """Send a request for an authorization page; return its status and redirect, which is not followed."""
        response, _ = await self._sent("GET", url, whole=False)
        return response.status_code, response.headers.get("location", "")

    async def post(self, url: str, headers: Mapping[str, str], **body: Any) -> Answer:
        """Post an authorization request to an endpoint: a form as `data`, or a JSON object as `json`."""
        response, content = await self._sent("POST", url, headers={"accept": _JSON, **headers}, **body)
        if response.is_redirect:  # another place must not get the credentials in the form
            where = place(response.headers.get("location", ""))
            raise NoAccessToken(f"the endpoint {place(url)} redirects to {where}; refused", "operator")
        return _judged(response, content)

    async def _sent(
        self, method: str, url: str, *, whole: bool = True, **options: Any
    ) -> tuple[httpx2.Response, bytes]:
        try:
            request = self._client.build_request(method, url, **options)
        except httpx2.InvalidURL as error:
            raise NoAccessToken(f"{place(url)} is not a valid URL", "operator") from error
        require_allowed(self.server, str(request.url))
        try:
            async with asyncio.timeout(self._seconds):
                response = await self._client.send(request, stream=True, follow_redirects=False)
                try:
                    return response, await read_whole(response, _LIMIT) if whole else b""
                finally:
                    await response.aclose()
                    self._client.cookies.clear()
        except (*NETWORK_ERRORS, MessageTooLarge, TimeoutError) as error:
            if isinstance(error, TimeoutError | httpx2.TimeoutException):
                why = f"it did not answer within {self._seconds:g} s"
            elif isinstance(error, MessageTooLarge):
                why = f"its answer is larger than {_LIMIT >> 20} MiB"
            else:
                why = " ".join(str(error).split())[:_SHOWN] or type(error).__name__
            raise NoAccessToken(f"{place(url)} could not be asked: {why}", "later") from error


def require_allowed(server: Server, url: str) -> None:
    """Refuse an authorization request whose URL the server's rules forbid, before any connection is made."""
    refusal = egress.refusal_of_url(server, url)
    if refusal is not None:
        raise HostRefused(refusal)


def place(url: str) -> str:
    """Return the URL of an authorization request for messages: without user info and query, and shortened."""
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
    except ValueError:
        return "an invalid address"
    shown = f"{parts.scheme}://{host}{parts.path}" if host else f"{parts.scheme}:{parts.path}"
    return ascii(shown[:_SHOWN])[1:-1]


def _judged(response: httpx2.Response, content: bytes) -> Answer:
    url, status = str(response.request.url), response.status_code
    if status in _BUSY or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        raise NoAccessToken(f"{place(url)} answered HTTP {status}", "later")
    date: float | None = None
    with suppress(ValueError, OverflowError):
        date = parsedate_to_datetime(response.headers.get("date", "")).timestamp()
    value: JSON = None
    with suppress(ValueError, RecursionError):
        value = read_json(content)
    return Answer(url=url, status=status, date=date, content=value if isinstance(value, dict) else None)
