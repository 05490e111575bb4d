"""Which requests may enter: those that name this server, come from no web page, and have a valid token."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

import attrs
from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from starlette.authentication import AuthCredentials
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from pflow_mcp_plugin.server.http.token_verdict import Refusal, TokenCheck

_HOST = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[^\s:/?#@\[\]\\]+)(?::[0-9]{1,5})?")
"""A host and perhaps a port: the SDK compares the beginning of `127.0.0.1:80.evil.example` only."""
_NO_TOKEN = Refusal(error="", reason="This server needs a token: Authorization: Bearer TOKEN")


async def answer(
    send: Send, status: int, body: Mapping[str, str], headers: Mapping[str, str] | None = None
) -> None:
    """Answer a request with a short JSON object."""
    content = json.dumps(body).encode()
    lines = {"content-type": "application/json", "cache-control": "no-store", **(headers or {})}
    lines["content-length"] = str(len(content))
    fields = [(name.encode(), value.encode("latin-1")) for name, value in lines.items()]
    await send({"type": "http.response.start", "status": status, "headers": fields})
    await send({"type": "http.response.body", "body": content})


@attrs.frozen(kw_only=True)
class OriginGate:
    """Passes on requests whose Host and Origin are allowed, for every path.

    Attributes:
        app: The application that receives them.
        allowed: The hosts and origins that are allowed.
    """

    app: ASGIApp
    allowed: TransportSecuritySettings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle an ASGI event."""
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)
        headers = Headers(scope=scope)
        once = all(len(headers.getlist(name)) <= 1 for name in ("host", "origin"))
        is_host = _HOST.fullmatch(headers.get("host", "")) is not None
        refused = await TransportSecurityMiddleware(self.allowed).validate_request(Request(scope))
        if refused is None and once and is_host:
            return await self.app(scope, receive, send)
        bad_host = not is_host or (refused is not None and refused.status_code == 421)
        name = "Host" if bad_host else "Origin"
        body = {"error": "forbidden", "error_description": f"The {name} of this request is not allowed"}
        return await answer(send, 421 if bad_host else 403, body)


@attrs.frozen(kw_only=True)
class TokenGate:
    """Passes on requests with a valid token, for every path but those that are open.

    Attributes:
        app: The application that receives them.
        check: Checks tokens.
        open_paths: The paths that need no token.
        metadata_url: Where the metadata of the protected resource is; empty if there is none.
    """

    app: ASGIApp = attrs.field(converter=AuthContextMiddleware)
    check: TokenCheck
    open_paths: frozenset[str] = frozenset()
    metadata_url: str = ""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle an ASGI event."""
        if scope["type"] == "lifespan" or scope["path"] in self.open_paths:
            return await self.app(scope, receive, send)
        verdict = await self._verdict(Headers(scope=scope))
        if isinstance(verdict, Refusal):
            return await self._refuse(verdict, send)
        scope = {**scope, "user": AuthenticatedUser(verdict), "auth": AuthCredentials(verdict.scopes)}
        return await self.app(scope, receive, send)

    async def _verdict(self, headers: Headers) -> AccessToken | Refusal:
        given = headers.getlist("authorization")
        if not given:
            return _NO_TOKEN
        scheme, _, token = given[0].partition(" ")
        if len(given) > 1 or scheme.lower() != "bearer" or not token.strip():
            return Refusal(reason="The request needs exactly one header Authorization: Bearer TOKEN")
        return await self.check.check(token.strip())

    async def _refuse(self, refusal: Refusal, send: Send) -> None:
        parts = {"realm": "pflow"}
        if refusal.error:
            parts |= {"error": refusal.error, "error_description": refusal.reason}
        if refusal.scope:
            parts["scope"] = refusal.scope
        if self.metadata_url:
            parts["resource_metadata"] = self.metadata_url
        headers = {"www-authenticate": "Bearer " + ", ".join(f'{name}="{it}"' for name, it in parts.items())}
        if refusal.error == "temporarily_unavailable":
            headers = {"retry-after": "5"}
        body = {"error": refusal.error or "invalid_token", "error_description": refusal.reason}
        await answer(send, refusal.status, body, headers)
