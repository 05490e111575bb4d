"""The application that is served over HTTP: that of the SDK, behind gates and limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import attrs
from mcp.server.auth.routes import build_resource_metadata_url, create_protected_resource_routes
from mcp.server.auth.settings import AuthSettings
from mcp.server.lowlevel import Server
from mcp.server.transport_security import TransportSecuritySettings
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from pflow_mcp_plugin.server.http.request_tokens import AccessTokens
from pflow_mcp_plugin.server.http.listening_address import ENDPOINT, ListeningAddress, spelled
from pflow_mcp_plugin.server.http.request_gate import OriginGate, RequestLimits, TokenGate, answer
from pflow_mcp_plugin.server.http.request_tokens import TokenCheck

_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


@attrs.frozen(kw_only=True)
class AppOptions:
    """Which requests the application accepts.

    Attributes:
        address: Where it is served.
        check: Checks tokens.
        allowed_hosts: What the header Host may name besides the address; without a port, on any port.
        allowed_origins: Origins of web pages that may send requests: `https://app.example.com`.
        max_request_size: Bytes of the largest request body.
        max_requests: Requests that are handled at once.
        request_timeout: Seconds that one request may take.
        tls: Whether it is served over https.
    """

    address: ListeningAddress
    check: TokenCheck
    allowed_hosts: Sequence[str] = ()
    allowed_origins: Sequence[str] = ()
    max_request_size: int = 4 << 20
    max_requests: int = 128
    request_timeout: float = 3600
    tls: bool = False

    @property
    def url(self) -> str:
        """The URL of the endpoint."""
        return self.address.url("https" if self.tls else "http")


def build_app(server: Server[Any], options: AppOptions) -> tuple[ASGIApp, RequestLimits]:
    """Return the ASGI application of a server, and its limits, which also shut it down."""
    allowed = allowed_requests(options)
    metadata = _resource_metadata(options)
    routes = metadata[1] if metadata else []
    sdk = server.streamable_http_app(
        streamable_http_path=ENDPOINT,
        # JSON, or a stream as soon as there is progress to tell; a stream that is closed cancels its request.
        json_response=False,
        stateless_http=True,
        max_request_body_size=options.max_request_size,
        transport_security=allowed,
        custom_starlette_routes=routes,
    )
    limits = RequestLimits(
        app=_post_only(sdk),
        max_request_size=options.max_request_size,
        max_requests=options.max_requests,
        request_timeout=options.request_timeout,
    )
    gate = TokenGate(
        app=limits,
        check=options.check,
        open_paths=frozenset(route.path for route in routes),
        metadata_url=metadata[0] if metadata else "",
    )
    return OriginGate(app=_for_web_pages(gate, options.allowed_origins), allowed=allowed), limits


def allowed_requests(options: AppOptions) -> TransportSecuritySettings:
    """Return which headers Host and Origin are allowed.

    A web page that rebinds its name to this machine's address still sends its own name as Host. The origin
    of the server itself is allowed: no page is served there.
    """
    local = options.address.is_loopback or options.address.is_wildcard
    own = _LOOPBACK if local else (spelled(options.address.host),)
    hosts = [*own, *options.allowed_hosts]
    scheme = "https" if options.tls else "http"
    own_origins = [f"{scheme}://{host}:{options.address.port}" for host in own]
    return TransportSecuritySettings(
        allowed_hosts=[spelling for host in hosts for spelling in (host, f"{host}:*")],
        allowed_origins=[*own_origins, *options.allowed_origins],
    )


def _resource_metadata(options: AppOptions) -> tuple[str, list[Route]] | None:
    """Return where clients find the authorization server, and the routes that tell them (RFC 9728)."""
    check = options.check
    if not isinstance(check, AccessTokens):
        return None
    audience = urlsplit(check.audience)
    is_url = audience.scheme in {"http", "https"} and audience.netloc
    settings = AuthSettings.model_validate(
        {
            "issuer_url": check.server.issuer,
            "resource_server_url": check.audience if is_url else options.url,
            "required_scopes": list(check.scopes) or None,
            "validate_token_resource": False,  # `AccessTokens` does
        }
    )
    resource: Any = settings.resource_server_url
    routes = create_protected_resource_routes(
        resource_url=resource,
        authorization_servers=[settings.issuer_url],
        scopes_supported=settings.required_scopes,
    )
    return str(build_resource_metadata_url(resource)), routes


def _for_web_pages(app: ASGIApp, origins: Sequence[str]) -> ASGIApp:
    """Answer the preflight requests of the web pages that are allowed."""
    if not origins:
        return app
    return CORSMiddleware(
        app,
        allow_origins=list(origins),
        allow_methods=["POST"],
        allow_headers=["*"],
        expose_headers=["WWW-Authenticate"],
    )


def _post_only(app: ASGIApp) -> ASGIApp:
    """Refuse GET and DELETE: they serve sessions, which are not kept here."""

    async def handle(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == ENDPOINT and scope["method"] != "POST":
            body = {"error": "method_not_allowed", "error_description": "Requests to this server are POST"}
            await answer(send, 405, body, {"allow": "POST"})
        else:
            await app(scope, receive, send)

    return handle
