"""Scopes in the config that a token does not have are named before anything is sent."""

import json
from base64 import urlsafe_b64encode

import pytest
from http_server import well

from pflow_mcp_plugin.client import Pool
from pflow_mcp_plugin.errors import McpError
from pflow_mcp_plugin.exchange import Launch, ToolCall
from pflow_mcp_plugin.types import Server

ACT = ToolCall(server="web", tool="act")


def token(claims, segments=("e30", "signature")):
    content = claims if isinstance(claims, bytes) else json.dumps(claims).encode()
    payload = urlsafe_b64encode(content).decode().rstrip("=")
    return ".".join((segments[0], payload, *segments[1:]))


@pytest.fixture
def server(serve):
    return serve(well)


@pytest.fixture
def call(server):
    def made(text, scopes=("read", "write"), **auth):
        auth = {"type": "bearer", "token": text, "scopes": list(scopes), **auth}
        with Pool(pytest.fail) as pool:
            web = Server(name="web", transport="http", url=server.url(), auth=auth)
            return pool.call(Launch(server=web), ACT)

    return made


GET = "get a token with the scope write for server web"


@pytest.mark.parametrize(
    ("claims", "auth", "step"),
    [
        ({"scope": "read admin"}, {}, GET),
        ({"scp": ["read", "admin"]}, {}, GET),
        ({"scp": "read admin"}, {"token_env": "WEB"}, "set the variable WEB to a token with the scope write"),
    ],
)
def test_a_token_that_lacks_a_scope_is_not_sent(server, call, claims, auth, step):
    with pytest.raises(McpError) as failure:
        call(token(claims), **auth)
    assert failure.value.message == "Server web: its token lacks the scope write; it has read admin"
    assert (failure.value.action, failure.value.exit_code) == ("auth_failed", 3)
    assert (failure.value.ran, failure.value.details["scope"]) == ("not ran", "write")
    assert failure.value.suggestions == (step,)
    assert server.requests == []


@pytest.mark.parametrize(
    "text",
    [
        token({"scope": "write read"}),
        token({"scope": "", "scp": []}),
        token({"scope": 3, "scp": {"write": 1}}),
        token([1]),
        token(b"[" * 5000),
        "a.b.c",
        token({"scope": "read"}, segments=("e30",)),
    ],
)
def test_a_token_that_has_the_scopes_or_does_not_say_is_sent(call, text):
    assert call(text).content[0]["text"] == "done"


def test_scopes_that_are_granted_without_being_named_are_not_missed(call):
    scopes = ["read", "offline_access", "https://graph.example/.default"]
    assert call(token({"scope": "read"}), scopes).content[0]["text"] == "done"
