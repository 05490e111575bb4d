"""Attacks on tokens: metadata that leads elsewhere, and a token that would reach another server than its own.

`tests/data/threat_rows.py` says which tests play which row.
"""

import json
import socket
from contextlib import ExitStack
from pathlib import Path

import anyio
import pytest
from http_server import FaultServer, Reply, Request, well
from issuer import AUDIENCE, Issuer
from mcp.server.auth.provider import AccessToken
from programs import script_server
from served_pflow import TOKEN, serving

from pflow_mcp_plugin.server.http.request_tokens import AccessTokens, AuthorizationServer, Refusal

pytestmark = pytest.mark.usefixtures("no_leftovers")
FIRST, SECOND = "first-token-Zq7xK2mP9wL4vB8n", "second-token-T3cR6yH1jF5dG0sA"
SCRIPTED = Path(__file__).with_name("scripted_tools.py")


@pytest.fixture
def start():
    """Start servers that answer until the test ends."""
    with ExitStack() as stack:
        yield stack.enter_context


def heard(server):
    """Return all that a server received."""
    return "\n".join(
        f"{request.target} {dict(request.headers)} {request.body.decode()}" for request in server.requests
    )


def verdict(issuer, token, warn=lambda _: None):
    server = AuthorizationServer(issuer=issuer.url, warn=warn)
    check = AccessTokens(server=server, audience=AUDIENCE, scopes=())
    return anyio.run(check.check, token)


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_row_18_a_401_that_names_metadata_elsewhere_leads_nowhere(pflow, workflow, start, scheme):
    """Metadata of the resource, and of the authorization server, on hosts of the attacker's."""
    trap = start(FaultServer(well, host="127.0.0.3"))

    async def demand(request: Request, reply: Reply) -> bool:
        if request.rpc != "tools/call":
            return False
        there = f"{scheme}://127.0.0.3:{trap.port}/.well-known"
        challenge = (
            f'Bearer resource_metadata="{there}/oauth-protected-resource", authorization_uri="{there}/as"'
        )
        await reply.status(401, www_authenticate=challenge)
        return True

    server = start(FaultServer(demand))
    table = {"type": "http", "url": server.url(), "auth": {"type": "bearer", "token_env": "FIRST"}}
    assert pflow("mcp", "add", json.dumps({"web": table})).exit_code == 0
    assert pflow("mcp", "sync", "web", env={"FIRST": FIRST}).exit_code == 0
    ran = pflow("run", workflow(("a", "mcp-web-act", {})), env={"FIRST": FIRST})
    assert ran.exit_code == 3
    assert "FIRST" in ran.stderr  # the next step: the variable that holds the refused token
    assert FIRST not in ran.stderr
    assert server.count("tools/call") == 1
    assert trap.connections == 0


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"issuer": "https://evil.example"}, "another issuer"),
        ({"jwks_uri": "http://keys.example:{port}/keys"}, "no key set at an https URL"),
        ({"jwks_uri": "file:///etc/passwd"}, "no key set at an https URL"),
    ],
)
def test_row_18_metadata_of_another_issuer_or_with_keys_on_another_scheme_is_refused(
    start, changes, reason, monkeypatch
):
    """Mix-up: what `pflow mcp serve --issuer` accepts is the issuer's own."""
    issuer, trap = start(Issuer()), start(FaultServer(well, host="127.0.0.3"))
    look_up = socket.getaddrinfo

    def found(host, *given, **named):
        return look_up("127.0.0.3" if host in ("keys.example", b"keys.example") else host, *given, **named)

    monkeypatch.setattr(socket, "getaddrinfo", found)
    changed = {name: value.format(port=trap.port) for name, value in changes.items()}
    issuer.pages["/.well-known/oauth-authorization-server"] = issuer.metadata(**changed)
    warnings: list[str] = []
    refused = verdict(issuer, issuer.token(), warnings.append)
    assert isinstance(refused, Refusal)
    assert refused.status == 503
    assert [reason in it for it in warnings] == [True]
    assert "/keys" not in issuer.asked
    assert trap.connections == 0


def test_row_18_metadata_that_redirects_is_not_followed(start):
    issuer, trap = start(Issuer()), start(Issuer())

    def lead(handler):
        handler.send_response(302)
        handler.send_header("Location", f"{trap.url}/.well-known/oauth-authorization-server")
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    issuer.pages["/.well-known/oauth-authorization-server"] = lead
    assert isinstance(verdict(issuer, issuer.token()), Refusal)
    assert trap.asked == []


@pytest.mark.parametrize("audience", ["https://other.example/mcp", [f"{AUDIENCE}/"], "https://pflow.example"])
def test_row_21_a_token_for_another_server_is_not_accepted_here(start, audience):
    issuer = start(Issuer())
    assert isinstance(verdict(issuer, issuer.token()), AccessToken)
    refused = verdict(issuer, issuer.token(aud=audience))
    assert isinstance(refused, Refusal)
    assert "another audience" in refused.reason


@pytest.fixture
def two(pflow, start):
    """Two servers over HTTP with a token each, and one that is a process; all of them synced."""
    first, second = start(FaultServer(well)), start(FaultServer(well))
    auth = {"type": "bearer", "token_env": "FIRST"}
    tools = json.dumps([{"name": "see", "inputSchema": {"type": "object"}}])
    tables = {
        "first": {"type": "http", "url": first.url(), "auth": auth},
        "second": {"type": "http", "url": second.url(), "headers": {"X-Key": "${SECOND}"}},
        "local": script_server(SCRIPTED, env={"TOOLS": tools}),
    }
    assert pflow("mcp", "add", json.dumps(tables)).exit_code == 0
    synced = pflow("mcp", "sync", env={"FIRST": FIRST, "SECOND": SECOND})
    assert synced.exit_code == 0, synced.stderr
    return first, second


def test_row_21_no_server_receives_the_token_of_another(pflow, workflow, two):
    """In one run, and in a batch, with both tokens at hand; nor in the environment of a process."""
    first, second = two
    nodes = [("a", "mcp-first-act", {}), ("b", "mcp-second-act", {}), ("c", "mcp-local-see", {})]
    path = workflow(*nodes, outputs={"seen": "${c.result.environment}"})
    document = json.loads(path.read_text())
    batch = {"items": [1, 2, 3], "parallel": True}
    document["nodes"].append({"id": "d", "type": "mcp-second-act", "batch": batch})
    path.write_text(json.dumps(document))
    ran = pflow("run", path, "--json", env={"FIRST": FIRST, "SECOND": SECOND})
    assert ran.exit_code == 0, ran.stderr
    assert (FIRST in heard(first), SECOND in heard(second)) == (True, True)
    assert SECOND not in heard(first)
    assert FIRST not in heard(second)
    seen = json.dumps(ran.envelope["data"]["outputs"]["seen"])
    assert FIRST not in seen
    assert SECOND not in seen


def test_row_21_a_server_that_takes_the_name_of_another_gets_no_token_of_it(pflow, workflow, two):
    """Removed, and added again under the same name with another URL: the token went with the table."""
    first, second = two
    requests = len(first.requests)
    assert pflow("mcp", "remove", "first").exit_code == 0
    table = {"first": {"type": "http", "url": second.url("127.0.0.1", "/mcp")}}
    assert pflow("mcp", "add", json.dumps(table)).exit_code == 0
    assert pflow("mcp", "sync", "first", env={"FIRST": FIRST}).exit_code == 0
    ran = pflow("run", workflow(("a", "mcp-first-act", {})), env={"FIRST": FIRST})
    assert ran.exit_code == 0, ran.stderr
    assert FIRST not in heard(second)
    assert len(first.requests) == requests


def test_row_21_the_token_of_a_client_of_pflow_is_not_passed_on(pflow_home, tmp_path, two):
    first, second = two

    answers = []

    async def play():
        with serving("http", pflow_home, tmp_path, env={"FIRST": FIRST, "SECOND": SECOND}) as served:
            async with served.client() as client:
                for node_type in ("mcp-first-act", "mcp-second-act", "mcp-local-see"):
                    answer = await client.call_tool("registry_run", {"node_type": node_type})
                    assert answer.structured_content["success"]
                    answers.append(json.dumps(answer.structured_content))

    anyio.run(play)
    assert first.count("tools/call") == second.count("tools/call") == 1
    for told in (heard(first), heard(second), *answers):
        assert TOKEN not in told
