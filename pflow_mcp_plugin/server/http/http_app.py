"""The ASGI application that serves pflow over HTTP: that of the SDK, behind gates and limits."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, MutableMapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import anyio
import attrs
from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser, authorization_context
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.routes import build_resource_metadata_url, create_protected_resource_routes
from mcp.server.auth.settings import AuthSettings
from mcp.server.lowlevel import Server
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from mcp.shared.jsonrpc_dispatcher import progress_token_from_params
from mcp_types import INTERNAL_ERROR
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.authentication import AuthCredentials
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pflow_mcp_plugin.contract import RunControl
from pflow_mcp_plugin.server.http.listening_address import ENDPOINT, ListeningAddress, spelled
from pflow_mcp_plugin.server.http.request_tokens import AccessTokens, Refusal, TokenCheck
from pflow_mcp_plugin.server.received_message import parsed, refusal

_HOST = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[^\s:/?#@\[\]\\]+)(?::[0-9]{1,5})?")
"""A host and perhaps a port; of `127.0.0.1:80.evil.example`, the SDK compares only the beginning."""
_NO_TOKEN = Refusal(error="", reason="This server needs a token: Authorization: Bearer TOKEN")


_controls: ContextVar[list[RunControl]] = ContextVar("pflow_controls_of_request")


def note_call(control: RunControl) -> None:
    """Note the control of a call that this HTTP request makes, so that a reply can name its run."""
    _controls.get().append(control)


async def refuse(
    send: Send, status: int, error: str, reason: str, headers: Mapping[str, str] | None = None
) -> None:
    """Refuse an HTTP request with a status and a short JSON object that says why."""
    content = {"error": error, "error_description": reason}
    response = JSONResponse(content, status, {"cache-control": "no-store", **(headers or {})})
    await send({"type": "http.response.start", "status": status, "headers": response.raw_headers})
    await send({"type": "http.response.body", "body": response.body})


@attrs.frozen(kw_only=True)
class OriginGate:
    """Lets HTTP requests in whose Host and Origin headers are allowed, whatever their path."""

    app: ASGIApp
    allowed: TransportSecuritySettings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
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
        reason = f"The {name} of this request is not allowed"
        return await refuse(send, 421 if bad_host else 403, "forbidden", reason)


@attrs.frozen(kw_only=True)
class TokenGate:
    """The token gate of the ASGI application: only requests with a valid token pass; some paths need none."""

    app: ASGIApp = attrs.field(converter=AuthContextMiddleware)
    check: TokenCheck
    open_paths: frozenset[str] = frozenset()
    metadata_url: str = ""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or scope["path"] in self.open_paths:
            return await self.app(scope, receive, send)
        given = Headers(scope=scope).getlist("authorization")
        scheme, _, token = given[0].partition(" ") if given else ("", "", "")
        if not given:
            verdict: AccessToken | Refusal = _NO_TOKEN
        elif len(given) > 1 or scheme.lower() != "bearer" or not token.strip():
            verdict = Refusal(reason="The request needs exactly one header Authorization: Bearer TOKEN")
        else:
            verdict = await self.check.check(token.strip())
        if not isinstance(verdict, Refusal):
            scope = {**scope, "user": AuthenticatedUser(verdict), "auth": AuthCredentials(verdict.scopes)}
            return await self.app(scope, receive, send)
        parts = {"realm": "pflow"}
        if verdict.error:
            parts |= {"error": verdict.error, "error_description": verdict.reason}
        if verdict.scope:
            parts["scope"] = verdict.scope
        if self.metadata_url:
            parts["resource_metadata"] = self.metadata_url
        headers = {"www-authenticate": "Bearer " + ", ".join(f'{name}="{it}"' for name, it in parts.items())}
        if verdict.error == "temporarily_unavailable":
            headers = {"retry-after": "5"}
        return await refuse(send, verdict.status, verdict.error or "invalid_token", verdict.reason, headers)


_Call = tuple[tuple[object, ...], str, int | str]
"""A call that its client may cancel by a message: its token, session and request id."""
_CLOSING_SECONDS = 2.0
"""How long a client that cancelled a call may take to close its connection, before it gets a reply."""
_BODY = "pflow.body"
"""The key in the scope of an HTTP request that has its body."""
_SUBSCRIPTION = "subscriptions/listen"
_EVENTS = "text/event-stream"


@attrs.define(kw_only=True, eq=False)
class RequestLimits:
    """Limits the size, number and duration of HTTP requests; refuses new ones while the server shuts down.

    Streams that clients listen on are counted apart from other requests.
    """

    app: ASGIApp
    options: AppOptions
    _answering: set[anyio.CancelScope] = attrs.field(factory=set)
    _listening: set[anyio.CancelScope] = attrs.field(factory=set)
    _calls: dict[_Call, anyio.CancelScope] = attrs.field(factory=dict)
    _draining: bool = False

    def drain(self) -> None:
        self._draining = True
        for scope in self._listening:
            scope.cancel()

    def cancel(self) -> None:
        for scope in self._answering | self._listening:
            scope.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)
        headers = Headers(scope=scope)
        version = headers.get("mcp-protocol-version")
        is_modern = version is not None and version not in HANDSHAKE_PROTOCOL_VERSIONS
        # The SDK refuses a request whose body says otherwise.
        listens = is_modern and headers.get("mcp-method") == _SUBSCRIPTION
        group = self._listening if listens else self._answering
        if self._draining or len(group) >= self.options.max_requests:
            why = "is shutting down" if self._draining else "handles too many requests at once"
            return await refuse(send, 503, "unavailable", f"This server {why}", {"retry-after": "1"})
        limit = anyio.CancelScope()
        group.add(limit)
        try:
            seconds = None if listens else self.options.request_timeout
            return await self._handle(scope, receive, send, limit, seconds)
        finally:
            group.discard(limit)

    async def _handle(
        self, scope: Scope, receive: Receive, send: Send, limit: anyio.CancelScope, seconds: float | None
    ) -> None:
        reply, call = _Reply(send, listens=seconds is None), None
        controls: list[RunControl] = []
        _controls.set(controls)
        if seconds is not None:
            limit.deadline = anyio.current_time() + seconds
        try:
            with limit:
                body = await self._body(scope, receive, reply)
                if body is not None:
                    # The application gets the body that was read, and then whatever follows.
                    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

                    async def replay() -> Message:
                        return messages.pop() if messages else await receive()

                    call = self._begin(scope, reply.read(body), limit)
                    await self.app({**scope, _BODY: body}, replay, reply)
        finally:
            cancelled = call is not None and self._calls.pop(call, None) is None
        if not limit.cancelled_caught:
            return
        if cancelled:
            # The SDK's client fails on JSON that arrives while it closes, and many close then.
            with anyio.move_on_after(_CLOSING_SECONDS):
                while (await receive())["type"] != "http.disconnect":
                    pass
            await reply.break_off(400, "The client has cancelled this request")
            return
        named = [it.run_id for it in controls if it.run_id]
        run = f"; run {named[0]} was cancelled: its trace shows what it did" if named else ""
        if anyio.current_time() >= limit.deadline:
            await reply.break_off(504, f"The request took more than {seconds:g} seconds{run}")
        else:
            await reply.break_off(503, f"This server is shutting down{run}")

    def _begin(self, scope: Scope, message: dict[str, Any], limit: anyio.CancelScope) -> _Call | None:
        """Note a call that its client may cancel later; if the message cancels one, do that.

        Up to revision 2025-11-25 clients cancel by a message. Each counts its requests from 1, so the session
        says whose is meant: an id that is given out and not kept.
        """
        session, user = Headers(scope=scope).get(MCP_SESSION_ID_HEADER, ""), scope.get("user")
        owner = tuple(authorization_context(user).values()) if isinstance(user, AuthenticatedUser) else ()
        match message if session else {}:
            case {"method": "notifications/cancelled", "params": {"requestId": int() | str() as number}}:
                if found := self._calls.pop((owner, session, number), None):
                    found.cancel()
            case {"id": int() | str() as number} if (owner, session, number) not in self._calls:
                self._calls[owner, session, number] = limit
                return owner, session, number
        return None

    async def _body(self, scope: Scope, receive: Receive, send: Send) -> bytes | None:
        """Return the body of an HTTP request; None if the client has gone, or was told it is too large."""
        declared = Headers(scope=scope).get("content-length", "0")
        is_small = declared.isdecimal() and int(declared) <= self.options.max_request_size
        body, more = bytearray(), is_small
        while more:
            message = await receive()
            if message["type"] != "http.request":
                return None
            body += message.get("body", b"")
            is_small = len(body) <= self.options.max_request_size
            more = is_small and message.get("more_body", False)
        if is_small:
            return bytes(body)
        reason = f"The request has more than {self.options.max_request_size} bytes"
        await refuse(send, 413, "too_large", reason)
        return None


class _Reply:
    """The reply to a request: JSON unless the client asked for progress, or listens.

    The SDK's client takes no event above 1 MiB, but JSON of any size. The SDK's server streams what takes
    long, and up to revision 2025-11-25 all: the pings of such a stream become white space before the JSON.
    """

    def __init__(self, send: Send, *, listens: bool) -> None:
        self._send = send
        self._listens = listens
        self._request: dict[str, Any] = {}
        self._status = 0
        self._is_stream = False
        self._complete = False

    def read(self, body: bytes) -> dict[str, Any]:
        """Return the message in the body of a request to the HTTP app; {} if there is none."""
        with suppress(ValueError, RecursionError):  # the application refuses such a body
            message = json.loads(body)
            self._request = message if isinstance(message, dict) else {}
        return self._request

    @property
    def _is_json(self) -> bool:
        return not self._listens and progress_token_from_params(self._request.get("params")) is None

    async def __call__(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            headers = MutableHeaders(raw=list(message["headers"]))
            self._is_stream = headers.get("content-type", "").startswith(_EVENTS)
            if self._is_stream and self._is_json:
                headers["content-type"] = "application/json"
            if self._request.get("method") == "initialize":
                headers[MCP_SESSION_ID_HEADER] = uuid4().hex
            message["headers"] = headers.raw
        else:
            self._complete = not message.get("more_body", False)
            if self._is_stream and self._is_json and (chunk := message.get("body")):
                message["body"] = chunk.partition(b"data: ")[2] if chunk.startswith(b"event: ") else b" "
        await self._send(message)

    async def break_off(self, status: int, reason: str) -> None:
        """Tell an HTTP client why its request was ended, in the event stream if that has begun."""
        if not self._status:
            headers = {"retry-after": "1"} if status == HTTPStatus.SERVICE_UNAVAILABLE else None
            await refuse(self._send, status, "cancelled", reason, headers)
        elif not self._complete:
            event = b""
            if self._is_stream and self._request:
                error = {"code": INTERNAL_ERROR, "message": reason}
                failure = {"jsonrpc": "2.0", "id": self._request.get("id"), "error": error}
                event = f"event: message\r\ndata: {json.dumps(failure)}\r\n\r\n".encode()
            await self({"type": "http.response.body", "body": event})


_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


@attrs.frozen(kw_only=True)
class AppOptions:
    """The options of the ASGI application: which requests pass its gates, and its limits."""

    address: ListeningAddress
    check: TokenCheck
    allowed_hosts: Sequence[str] = ()  # for the header Host, besides the address; without a port, any port
    allowed_origins: Sequence[str] = ()  # of web pages: `https://app.example.com`
    max_request_size: int = 4 << 20  # bytes of the body
    max_requests: int = 128  # handled at once; the same number of streams that clients listen on
    request_timeout: float = 3600  # seconds that one request may take
    tls: bool = False

    @property
    def url(self) -> str:
        return self.address.url("https" if self.tls else "http")


def build_app(server: Server[Any], options: AppOptions) -> tuple[ASGIApp, RequestLimits]:
    """Return the ASGI application of a pflow server, and its request limits, which also shut it down."""
    allowed = allowed_requests(options)
    metadata_url, routes = _resource_metadata(options)
    sdk = server.streamable_http_app(
        streamable_http_path=ENDPOINT,
        # A stream that is closed cancels its request; `_Reply` makes JSON of it.
        json_response=False,
        stateless_http=True,
        max_request_body_size=options.max_request_size,
        transport_security=allowed,
        custom_starlette_routes=routes,
    )

    # GET and DELETE serve sessions, which are not kept here.
    async def messages_only(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != ENDPOINT:
            return await sdk(scope, receive, send)
        if scope["method"] != "POST":
            reason = "Requests to this server are POST"
            return await refuse(send, 405, "method_not_allowed", reason, {"allow": "POST"})
        try:
            parsed(scope[_BODY])
        except ValueError:
            # Not `JSONResponse`, which fails on an id with a lone surrogate.
            answer = Response(json.dumps(refusal(scope[_BODY])), 400, media_type="application/json")
            return await answer(scope, receive, send)
        return await sdk(scope, receive, send)

    limits = RequestLimits(app=messages_only, options=options)
    gate = TokenGate(
        app=limits,
        check=options.check,
        open_paths=frozenset(route.path for route in routes),
        metadata_url=metadata_url,
    )
    app: ASGIApp = gate
    if options.allowed_origins:  # answers the preflight requests of web pages
        app = CORSMiddleware(
            gate,
            allow_origins=list(options.allowed_origins),
            allow_methods=["POST"],
            allow_headers=["*"],
            expose_headers=["WWW-Authenticate", MCP_SESSION_ID_HEADER],
        )
    return OriginGate(app=app, allowed=allowed), limits


def allowed_requests(options: AppOptions) -> TransportSecuritySettings:
    """Return which requests pass the first gate of the ASGI application, by their Host and Origin headers.

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


def _resource_metadata(options: AppOptions) -> tuple[str, list[Route]]:
    # RFC 9728.
    check = options.check
    if not isinstance(check, AccessTokens):
        return "", []
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
