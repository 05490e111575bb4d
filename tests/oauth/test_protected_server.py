"""The SDK's own client gets along with the authorization server and the protected server of the tests."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlsplit

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata

ERAS = ("legacy", "2026-07-28")
REDIRECT = "http://127.0.0.1:4999/callback"


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
