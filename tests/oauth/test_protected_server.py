"""The protected MCP server of the tests takes the tokens of the authorization server, and no others."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlsplit

import anyio
import httpx2
import pytest
from authorization_requests import REDIRECT, refresh, sign_in
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata

ERAS = ("legacy", "2026-07-28")


def call(server, tool, token="", **arguments):
    """Call a tool with a bare request of the protocol's newer revision."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "a test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": tool, "arguments": arguments, "_meta": meta}
    headers = {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": tool,
        **({"authorization": f"Bearer {token}"} if token else {}),
    }
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    with server.client() as client:
        return client.post(server.url, json=message, headers=headers)


def challenge(answer, status):
    assert answer.status_code == status, answer.text
    return answer.headers["www-authenticate"]


@pytest.fixture
def tokens(authorization_server, protected_server):
    return sign_in(authorization_server, resource=protected_server.url)


def test_without_a_token_it_says_where_its_metadata_are(authorization_server, protected_server):
    said = challenge(call(protected_server, "read_note"), 401)
    url = f"{protected_server.origin}/.well-known/oauth-protected-resource/mcp"
    assert f'resource_metadata="{url}"' in said
    with protected_server.client() as client:
        metadata = client.get(url).json()
    assert metadata["resource"] == protected_server.url
    assert metadata["authorization_servers"] == [authorization_server.issuer]
    assert metadata["scopes_supported"] == ["notes:read"]


def test_a_token_of_another_resource_is_refused(authorization_server, protected_server):
    for resource in ("https://other.example/mcp", None):
        access = sign_in(authorization_server, resource=resource)["access_token"]
        assert "invalid_token" in challenge(call(protected_server, "read_note", access), 401)
    assert "invalid_token" in challenge(call(protected_server, "read_note", "no-token"), 401)
    assert protected_server.calls() == {}


def test_a_token_ends_at_once_where_it_expires_or_is_revoked(authorization_server, protected_server, tokens):
    authorization_server.expire_access_tokens()
    challenge(call(protected_server, "read_note", tokens["access_token"]), 401)
    renewed = refresh(
        authorization_server,
        tokens["client_id"],
        tokens["refresh_token"],
        resource=protected_server.url,
    ).json()
    assert call(protected_server, "read_note", renewed["access_token"]).status_code == 200
    authorization_server.revoke_tokens()
    challenge(call(protected_server, "read_note", renewed["access_token"]), 401)


def test_a_tool_may_need_another_scope(authorization_server, protected_server, tokens):
    said = challenge(call(protected_server, "write_note", tokens["access_token"], text="x"), 403)
    assert 'error="insufficient_scope", scope="notes:write"' in said
    more = sign_in(
        authorization_server,
        tokens["client_id"],
        resource=protected_server.url,
        scope="notes:read notes:write",
    )
    answer = call(protected_server, "write_note", more["access_token"], text="x")
    assert (answer.status_code, "wrote x" in answer.text) == (200, True)
    assert protected_server.calls() == {"write_note": 1}


class Storage:
    """What the SDK's client keeps."""

    def __init__(self):
        self.tokens = self.client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client_info):
        self.client = client_info


def provider(server, storage, browse, **options):
    """Return the SDK's client; `browse` opens the login page and returns where that leads."""
    led = {}

    async def open_page(url):
        led.update(parse_qsl(urlsplit(await anyio.to_thread.run_sync(browse, url)).query))

    async def returned():
        return AuthorizationCodeResult(code=led["code"], state=led["state"], iss=led.get("iss"))

    metadata = OAuthClientMetadata(redirect_uris=[REDIRECT], token_endpoint_auth_method="none")
    return OAuthClientProvider(server.url, metadata, storage, open_page, returned, **options)


def by_hand(server):
    def browse(url):
        with server.client() as client:
            return client.get(url).headers["location"]

    return browse


async def act(server, auth, mode, *calls):
    async with (
        httpx2.AsyncClient(auth=auth, verify=server.tls, timeout=30, trust_env=False) as http,
        Client(streamable_http_client(server.url, http_client=http), mode=mode) as client,
    ):
        return [(await client.call_tool(name, arguments)).content[0].text for name, arguments in calls]


@pytest.mark.parametrize("mode", ERAS)
def test_the_sdk_signs_in_steps_up_and_refreshes(authorization_server, protected_server, mode):
    storage = Storage()
    auth = provider(protected_server, storage, by_hand(authorization_server))
    calls = [("read_note", {}), ("write_note", {"text": "x"})]
    assert anyio.run(act, protected_server, auth, mode, *calls) == ["the note", "wrote x"]
    assert protected_server.calls() == {"read_note": 1, "write_note": 1}
    assert set(storage.tokens.scope.split()) >= {"notes:read", "notes:write"}
    assert len(authorization_server.requests("authorize")) == 2
    redeemed = authorization_server.requests("token", grant_type="authorization_code")
    assert {entry.form["resource"] for entry in redeemed} == {protected_server.url}
    auth.context.token_expiry_time = 1
    assert anyio.run(act, protected_server, auth, mode, ("read_note", {})) == ["the note"]
    assert len(authorization_server.refreshes()) == 1
