"""The program of the authorization server of the tests: its pages, its metadata, and what a test controls.

`authorization_server.py` starts it.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from html import escape
from typing import Any

import attrs
import httpx2
from authlib.oauth2.rfc6749 import OAuth2Error
from authlib.oauth2.rfc9207 import IssuerParameter
from authorization_grants import METHODS, RESOURCE_SERVER, USER, Issuing
from authorization_messages import Answer, Inbound, InboundJson
from authorization_records import Client, Switches
from recorded_app import RecordedApp, change, listening_socket, origin_of, read_settings, serve
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

ROOM = "/login"
"""The folder of the endpoints: no client that guesses them, as `/token`, finds any."""
DOCUMENTS = "/documents/"
_WELL_KNOWN = "/.well-known"
_FETCH_SECONDS = 10
_GRANTS = [
    "authorization_code",
    "refresh_token",
    "client_credentials",
    "urn:ietf:params:oauth:grant-type:device_code",
]
_PAGE = """<!doctype html>
<meta charset="utf-8">
<title>Sign in</title>
<h1>Sign in to {name}</h1>
<p>It asks for: {scope}</p>
<form method="post">
<button id="approve" name="decision" value="approve">Approve</button>
<button id="deny" name="decision" value="deny">Deny</button>
</form>
"""


class ResponseIssuer(IssuerParameter):
    """Names the issuer in the authorization response (RFC 9207)."""

    def __init__(self, server: Issuing) -> None:
        self._server = server

    def get_issuer(self) -> str | None:
        return self._server.issuer


class Endpoints:
    """The endpoints of an authorization server.

    Args:
        origin: Where it listens.
        introspection_secret: The secret with which the protected server asks about tokens.
        ca_file: The CA of the servers that client metadata documents are read from.
    """

    def __init__(self, origin: str, introspection_secret: str, ca_file: str) -> None:
        self._switches = Switches()
        self._origin = origin
        self._server = Issuing(f"{origin}{ROOM}", origin, self._switches)
        self._issuer_parameter = ResponseIssuer(self._server)
        self._introspection_secret = introspection_secret
        self._documents: dict[str, Any] = {}
        self._tls = ssl.create_default_context(cafile=ca_file)
        self.reset()

    def app(self) -> RecordedApp:
        """Return the application."""
        routes = [Route(path, page, methods=methods) for path, (_, page, methods) in self._pages().items()]
        routes.append(Route(f"{DOCUMENTS}{{name:path}}", self._document))
        return RecordedApp(Starlette(routes=routes), self._endpoint_of, self._controls())

    def _pages(self) -> dict[str, tuple[str, Callable[..., Any], list[str]]]:
        pages = {
            f"{_WELL_KNOWN}/oauth-authorization-server": ("metadata", self._metadata, ["GET"]),
            f"{ROOM}/authorize": ("authorize", self._authorize, ["GET", "POST"]),
            f"{ROOM}/device/verify": ("verify", self._verify, ["POST"]),
            f"{ROOM}/register": ("register", self._register, ["POST"]),
            f"{ROOM}/token": ("token", self._token, ["POST"]),
        }
        for name, endpoint in (
            ("device", "device_authorization"),
            ("introspect", "introspection"),
            ("revoke", "revocation"),
        ):
            pages[f"{ROOM}/{name}"] = (name, self._endpoint(endpoint), ["POST"])
        return pages

    def _endpoint_of(self, path: str) -> str:
        if path.startswith(DOCUMENTS):
            return "documents"
        return self._pages().get(path, ("",))[0]

    def _controls(self) -> dict[str, Callable[..., Any]]:
        return {
            "reset": self.reset,
            "switch": lambda **changes: change(self._switches, changes),
            "add_client": self._add_client,
            "forget_clients": self._forget_clients,
            "client_secrets": lambda: [it.client_secret for it in self._server.clients.values()],
            "tokens": lambda: [attrs.asdict(token) for token in self._server.tokens],
            "expire_access_tokens": self._expire_access_tokens,
            "revoke": self._revoke,
            "expire_devices": self._expire_devices,
            "decide": self._decide,
            "publish": self._publish,
            "issued": lambda: self._server.issued,
        }

    def reset(self) -> None:
        """Forget everything, and switch as at the start."""
        change(self._switches, attrs.asdict(Switches()))
        self._server.clear()
        self._documents.clear()
        self._add_client(RESOURCE_SERVER, self._introspection_secret, {"grant_types": []})

    def _add_client(self, client_id: str, client_secret: str, metadata: dict[str, Any]) -> None:
        self._server.clients[client_id] = Client(
            switches=self._switches, client_id=client_id, client_secret=client_secret, metadata=metadata
        )

    def _forget_clients(self) -> None:
        for client in list(self._server.clients.values()):
            if client.registered:
                del self._server.clients[client.client_id]

    def _expire_access_tokens(self) -> None:
        for token in self._server.tokens:
            token.expires_at = 0

    def _expire_devices(self) -> None:
        for device in self._server.devices.values():
            device.expires_at = 0

    def _revoke(self) -> None:
        for token in self._server.tokens:
            token.revoked = True

    def _decide(self, user_code: str | None, approved: bool) -> None:
        for device in self._server.devices.values():
            if user_code in {None, device.user_code}:
                device.approved = approved

    def _publish(self, name: str, document: Any) -> str:
        url = f"{self._origin}{DOCUMENTS}{name}"
        said = {"client_id": url, **document}
        self._documents[name] = {field: value for field, value in said.items() if value is not None}
        return url

    async def _metadata(self, _request: Request) -> Response:
        switches, url = self._switches, self._server.url
        said = {
            "issuer": self._server.issuer,
            "authorization_endpoint": f"{url}/authorize",
            "token_endpoint": f"{url}/token",
            "registration_endpoint": f"{url}/register" if switches.registration else None,
            "device_authorization_endpoint": f"{url}/device" if switches.device else None,
            "introspection_endpoint": f"{url}/introspect",
            "revocation_endpoint": f"{url}/revoke",
            "scopes_supported": switches.scopes,
            "response_types_supported": ["code"],
            "grant_types_supported": _GRANTS if switches.device else _GRANTS[:-1],
            "token_endpoint_auth_methods_supported": METHODS,
            "token_endpoint_auth_signing_alg_values_supported": ["RS256", "ES256"],
            "code_challenge_methods_supported": ["S256"],
            "client_id_metadata_document_supported": switches.client_documents,
            "authorization_response_iss_parameter_supported": True,
            **switches.metadata,
        }
        return JSONResponse({name: value for name, value in said.items() if value is not None})

    async def _document(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in self._documents:
            return PlainTextResponse("not found", 404)
        return JSONResponse(self._documents[name])

    async def _authorize(self, request: Request) -> Response:
        inbound = await self._read(request)
        try:
            grant = self._server.get_consent_grant(inbound)
        except OAuth2Error as error:
            answer = self._server.handle_error_response(inbound, error)
        else:
            decision = inbound.form.get("decision") or self._switches.consent
            if decision == "page":
                client = grant.request.client
                name = client.metadata.get("client_name") or client.client_id
                return HTMLResponse(_PAGE.format(name=escape(name), scope=escape(grant.request.scope)))
            user = USER if decision in {"approve", "auto"} else None
            answer = self._server.create_authorization_response(inbound, user, grant)
        if isinstance(answer, Answer):
            self._issuer_parameter.add_issuer_parameter(self._server, answer)
        return answer

    async def _verify(self, request: Request) -> Response:
        """Take what a person says of a device at the page that it shows."""
        inbound = await Inbound.read(request)
        self._decide(inbound.payload.data["user_code"], inbound.form["decision"] == "approve")
        return PlainTextResponse("Go back to your device.")

    async def _register(self, request: Request) -> Response:
        if not self._switches.registration:
            return PlainTextResponse("not found", 404)
        inbound = InboundJson(request, await request.json())
        return self._server.create_endpoint_response("client_registration", inbound)

    async def _token(self, request: Request) -> Response:
        inbound = await self._read(request)
        return self._server.create_token_response(inbound)

    def _endpoint(self, name: str) -> Callable[..., Any]:
        async def answer(request: Request) -> Response:
            return self._server.create_endpoint_response(name, await self._read(request))

        return answer

    async def _read(self, request: Request) -> Inbound:
        """Read a request, and the metadata document of a client whose id is the URL of one."""
        inbound = await Inbound.read(request)
        client_id = inbound.payload.client_id or ""
        if self._switches.client_documents and client_id.startswith("https://"):
            document = await self._fetched(client_id)
            if document.get("client_id") == client_id:
                self._add_client(client_id, "", {"token_endpoint_auth_method": "none", **document})
        return inbound

    async def _fetched(self, url: str) -> dict[str, Any]:
        """Return the document at a URL; empty if there is none."""
        try:
            async with httpx2.AsyncClient(
                verify=self._tls, trust_env=False, timeout=_FETCH_SECONDS
            ) as client:
                document = (await client.get(url)).json()
        except (httpx2.HTTPError, ValueError):
            return {}
        return document if isinstance(document, dict) else {}


def main() -> None:
    """Serve as the settings on stdin say."""
    settings = read_settings()
    listening = listening_socket()
    endpoints = Endpoints(origin_of(listening), settings["introspection_secret"], settings["ca_file"])
    serve(endpoints.app(), listening, settings["certificate"])


if __name__ == "__main__":
    main()
