"""A server that wants access tokens, with an authorization server of its own beside it; both are scripted.

It does what no library for authorization servers would.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import attrs
import pytest
from http_server import FaultServer, Reply, Request

from pflow_mcp_plugin.client import Pool
from pflow_mcp_plugin.client.oauth.sign_in_state import AuthorizationServer, Registration, SignIn, Tokens
from pflow_mcp_plugin.client.oauth.sign_in_store import SignInKey, SignInStore
from pflow_mcp_plugin.errors import McpError
from pflow_mcp_plugin.exchange import Launch, ToolCall
from pflow_mcp_plugin.types import Server

ACT = ToolCall(server="web", tool="act")
MACHINE = {
    "type": "oauth",
    "flow": "client_credentials",
    "client_id": "me",
    "client_secret": "planted-secret",
}


class Realm:
    """An MCP server and an authorization server; refresh tokens are good for one use.

    Attributes:
        valid: The access tokens that the server accepts.
        refresh: The refresh token that is good now.
        forms: What came to the token endpoint.
        answers: Answers of the token endpoint to be given before any other: status and JSON.
        resource: Fields of the server's metadata that differ.
        metadata: Fields of the authorization server's metadata that differ.
        scripts: What answers a path instead.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.valid: set[str] = set()
        self.refresh = "planted-refresh-0"
        self.forms: list[dict[str, str]] = []
        self.answers: list[tuple[int, Any]] = []
        self.resource: dict[str, Any] = {}
        self.metadata: dict[str, Any] = {}
        self.scripts: dict[str, Callable[[Request, Reply], Any]] = {}
        self.server = FaultServer(self._script)
        self.issued = 0
        self.on_token: Callable[[], None] = lambda: None

    @property
    def issuer(self) -> str:
        """The authorization server."""
        return self.server.url(path="")

    def launch(self, auth: dict[str, Any] | None = None, **options: Any) -> Launch:
        """Return the server, for a person unless `auth` says otherwise."""
        server = Server(
            name="web", transport="http", url=self.server.url(), auth=auth or {"type": "oauth"}, **options
        )
        return Launch(server=server, sign_in_folder=self.folder)

    def machine(self, **changed: Any) -> Launch:
        """Return the server, for a machine."""
        return self.launch({**MACHINE, "issuer": self.issuer, **changed})

    @property
    def key(self) -> SignInKey:
        """What the sign-in of a person is found by."""
        return SignInKey(self.server.url())

    @property
    def store(self) -> SignInStore:
        """The store."""
        return SignInStore(self.folder)

    def sign_in(self, expires_in: float = 3600, lifetime: float = 3600, **changed: Any) -> SignIn:
        """Store a sign-in whose token expires in some seconds, and return it."""
        now = time.time()
        tokens = Tokens(
            access="planted-access-0",
            refresh=self.refresh,
            expires_at=now + expires_in,
            issued_at=now + expires_in - lifetime,
            scopes=("read",),
        )
        sign_in = SignIn(
            server="web",
            server_url=self.server.url(),
            resource=self.server.url(),
            authorization_server=AuthorizationServer(
                issuer=self.issuer, token_endpoint=self.server.url(path="/odd/token")
            ),
            registration=Registration(client_id="registered"),
            tokens=tokens,
            signed_in_at=now,
        )
        sign_in = attrs.evolve(sign_in, **changed)
        self.store.write(self.key, sign_in)
        self.valid.add(tokens.access)
        return sign_in

    def stored(self) -> Tokens | None:
        """Return the tokens that are stored now."""
        found = self.store.read(self.key)
        return found.tokens if found else None

    def count(self, rpc: str) -> int:
        """Return how often the server was asked for a JSON-RPC method."""
        return sum(request.target == "/mcp" and request.rpc == rpc for request in self.server.requests)

    @property
    def paths(self) -> list[str]:
        """The paths that were requested, without those of MCP."""
        return [request.target for request in self.server.requests if request.target != "/mcp"]

    async def _script(self, request: Request, reply: Reply) -> bool:
        if request.target in self.scripts:
            await self.scripts[request.target](request, reply)
        elif request.target.startswith("/.well-known/oauth-protected-resource"):
            servers = {"resource": self.server.url(), "authorization_servers": [self.issuer]}
            await reply.json({**servers, **self.resource})
        elif request.target.startswith("/.well-known/"):
            known = {"issuer": self.issuer, "token_endpoint": self.server.url(path="/odd/token")}
            await reply.json({**known, **self.metadata})
        elif request.target == "/odd/token":
            await self.token(request, reply)
        elif request.headers.get("authorization", "").removeprefix("Bearer ") not in self.valid:
            url = self.server.url(path="/.well-known/oauth-protected-resource/mcp")
            await reply.status(401, www_authenticate=f'Bearer resource_metadata="{url}"')
        else:
            return False
        return True

    async def token(self, request: Request, reply: Reply) -> None:
        """Answer a request to the token endpoint."""
        form = {name: values[0] for name, values in parse_qs(request.body.decode()).items()}
        self.forms.append(form)
        self.on_token()
        if self.answers:
            status, content = self.answers.pop(0)
            await reply.json(content, status)
        elif form["grant_type"] == "refresh_token" and form["refresh_token"] != self.refresh:
            await reply.json({"error": "invalid_grant"}, 400)
        else:
            await reply.json(self.issue())

    def issue(self) -> dict[str, Any]:
        """Return the answer with new tokens."""
        self.issued += 1
        self.refresh = f"planted-refresh-{self.issued}"
        self.valid.add(access := f"planted-access-{self.issued}")
        return {
            "access_token": access,
            "refresh_token": self.refresh,
            "token_type": "bearer",
            "expires_in": 3600,
        }


def refused(pool: Pool, launch: Launch, call: ToolCall = ACT) -> McpError:
    """Call a tool, by default that of a realm, and return the failure."""
    with pytest.raises(McpError) as failure:
        pool.call(launch, call)
    return failure.value
