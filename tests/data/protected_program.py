"""The program of the protected MCP server of the tests: the SDK's resource server, with its tools.

`protected_server.py` starts it.
"""

import json
import ssl
from collections import Counter
from collections.abc import Callable
from typing import Any

import attrs
import httpx2
from mcp.server.auth.provider import AccessToken, TokenVerifier
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import MCPServer
from recorded_app import RecordedApp, change, listening_socket, origin_of, read_settings, serve, with_body
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

PATH = "/mcp"
_REQUIRED = ["notes:read"]
_TOOL_SCOPES = {"write_note": "notes:write", "delete_note": "notes:delete"}
"""The scopes that tools need; without them, a call is answered with 403."""
_WELL_KNOWN = "/.well-known/oauth-protected-resource"
_ENDPOINTS = {PATH: "mcp", f"{_WELL_KNOWN}{PATH}": "resource_metadata", _WELL_KNOWN: "resource_metadata"}


@attrs.define(kw_only=True)
class Switches:
    """What is switched with `ProtectedServer.switch`, and what it is at the start.

    Attributes:
        challenge_scope: The `scope` that a 401 names; empty for none, which is how the SDK answers.
        metadata: What the metadata of the resource say instead; a field that is None is left out.
    """

    challenge_scope: str = ""
    metadata: dict[str, Any] = attrs.field(factory=dict)


class Introspecting(TokenVerifier):
    """Asks the authorization server about each token (RFC 7662): it ends the moment that it does there."""

    def __init__(self, url: str, secret: str, ca_file: str) -> None:
        self._url = url
        self._client = httpx2.AsyncClient(
            auth=("resource-server", secret),
            verify=ssl.create_default_context(cafile=ca_file),
            trust_env=False,
            timeout=20,
        )

    async def verify_token(self, token: str) -> AccessToken | None:
        answer = await self._client.post(self._url, data={"token": token})
        said = answer.json() if answer.status_code == 200 else {"active": False}
        if not said["active"]:
            return None
        return AccessToken(
            token=token,
            client_id=said["client_id"],
            scopes=said["scope"].split(),
            expires_at=said["exp"],
            resource=said["aud"],
            subject=said["sub"],
            claims={"iss": said["iss"]},
        )


class Tools:
    """What can be called, and how often it was."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()

    def read_note(self) -> str:
        """Read the note."""
        self.calls["read_note"] += 1
        return "the note"

    def write_note(self, text: str) -> str:
        """Write the note."""
        self.calls["write_note"] += 1
        return f"wrote {text}"

    def delete_note(self) -> str:
        """Delete the note."""
        self.calls["delete_note"] += 1
        return "deleted"


class Gate:
    """What the SDK's resource server leaves to others: scopes of single tools, and odd metadata."""

    def __init__(
        self, app: ASGIApp, verifier: TokenVerifier, switches: Switches, metadata: dict[str, Any]
    ) -> None:
        self._app = app
        self._verifier = verifier
        self._switches = switches
        self._metadata = metadata

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif scope["path"].startswith(_WELL_KNOWN):
            await self._resource_metadata(scope["path"])(scope, receive, send)
        else:
            body = await Request(scope, receive).body()
            receive = with_body(body, receive)
            refusal = await self._refusal(Headers(scope=scope), body)
            await (refusal or self._app)(scope, receive, self._challenging(send))

    def _resource_metadata(self, path: str) -> ASGIApp:
        if not path.endswith(PATH):
            return PlainTextResponse("not found", 404)
        if not self._switches.metadata:
            return self._app
        said = {**self._metadata, **self._switches.metadata}
        return JSONResponse({name: value for name, value in said.items() if value is not None})

    async def _refusal(self, headers: Headers, body: bytes) -> Response | None:
        """Return the answer to a call of a tool whose scope the token lacks."""
        needed = _TOOL_SCOPES.get(_called_tool(body))
        _, _, token = headers.get("authorization", "").partition(" ")
        if needed is None or not token:
            return None
        access = await self._verifier.verify_token(token)
        if access is None or needed in access.scopes:
            return None
        challenge = f'Bearer error="insufficient_scope", scope="{needed}", {self._where}'
        return JSONResponse({"error": "insufficient_scope"}, 403, {"www-authenticate": challenge})

    @property
    def _where(self) -> str:
        origin = self._metadata["resource"].removesuffix(PATH)
        return f'resource_metadata="{origin}{_WELL_KNOWN}{PATH}"'

    def _challenging(self, send: Send) -> Send:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == 401:
                self._rewrite_challenge(MutableHeaders(raw=message["headers"]))
            await send(message)

        return sending

    def _rewrite_challenge(self, headers: MutableHeaders) -> None:
        challenge = 'Bearer error="invalid_token"'
        if self._switches.challenge_scope:
            challenge += f', scope="{self._switches.challenge_scope}"'
        headers["www-authenticate"] = f"{challenge}, {self._where}"


def _called_tool(body: bytes) -> str:
    try:
        message = json.loads(body)
    except ValueError:
        return ""
    called = isinstance(message, dict) and message.get("method") == "tools/call"
    return message["params"]["name"] if called else ""


def build(settings: dict[str, Any], origin: str) -> RecordedApp:
    """Return the application.

    Args:
        settings: What the test wants.
        origin: Where it listens.
    """
    switches, tools = Switches(), Tools()
    verifier = Introspecting(settings["introspection_url"], settings["secret"], settings["ca_file"])
    resource = f"{origin}{PATH}"
    auth = AuthSettings(
        issuer_url=settings["issuer"],
        resource_server_url=resource,
        required_scopes=_REQUIRED,
        validate_token_resource=True,
    )
    server = MCPServer("protected", token_verifier=verifier, auth=auth)
    for tool in (tools.read_note, tools.write_note, tools.delete_note):
        server.add_tool(tool)
    metadata = {
        "resource": resource,
        "authorization_servers": [settings["issuer"]],
        "scopes_supported": _REQUIRED,
        "bearer_methods_supported": ["header"],
    }
    gate = Gate(server.streamable_http_app(), verifier, switches, metadata)
    return RecordedApp(gate, lambda path: _ENDPOINTS.get(path, ""), _controls(switches, tools))


def _controls(switches: Switches, tools: Tools) -> dict[str, Callable[..., Any]]:
    def reset() -> None:
        change(switches, attrs.asdict(Switches()))
        tools.calls.clear()

    return {
        "reset": reset,
        "switch": lambda **changes: change(switches, changes),
        "calls": lambda: dict(tools.calls),
    }


def main() -> None:
    """Serve as the settings on stdin say."""
    settings = read_settings()
    listening = listening_socket()
    app = build(settings, origin_of(listening))
    serve(app, listening, settings["certificate"])


if __name__ == "__main__":
    main()
