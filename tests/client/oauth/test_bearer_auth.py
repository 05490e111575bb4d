"""What is sent with an access token, and what is told when it does not suffice; never the token itself."""

import attrs
import pytest
from http_server import Fault, Reply, Request, with_status
from scripted_realm import ACT, Realm, refused
from signing_in import query_of

from pflow_mcp_plugin.client.failures import Evidence
from pflow_mcp_plugin.client.failures.http_failures import from_sign_in
from pflow_mcp_plugin.client.oauth.sign_in_state import Tokens
from pflow_mcp_plugin.client.request_failures import NoAccessToken
from pflow_mcp_plugin.errors import McpError
from pflow_mcp_plugin.types import Server


def answer_calls(realm: Realm, fault: Fault) -> None:
    """Let calls of tools meet the fault, whatever their token."""

    async def script(request: Request, reply: Reply) -> None:
        await (fault if request.rpc == "tools/call" else realm.server._answer)(request, reply)

    realm.scripts["/mcp"] = script


@pytest.mark.parametrize(
    ("challenge", "offered"), [({}, False), ({"www_authenticate": "Bearer scope=a"}, True)]
)
def test_a_login_is_offered_for_a_refusal_only_if_a_scope_is_missing(realm, pool, challenge, offered):
    realm.sign_in()
    answer_calls(realm, with_status(403, **challenge))
    failure = refused(pool, realm.launch())
    assert "access denied" in failure.message
    assert failure.details.get("login", False) is offered


@pytest.mark.parametrize("is_machine", [True, False])
def test_a_scope_that_the_token_has_already_leads_to_no_further_login(realm, pool, is_machine):
    granted = Tokens(access="planted-access-0", scopes=("read", "write", "more"))
    realm.sign_in(tokens=granted)
    realm.answers.append((200, {**realm.issue(), "scope": "read write"}))
    challenge = 'Bearer error="insufficient_scope", scope="read write"'
    answer_calls(realm, with_status(403, www_authenticate=challenge))
    failure = refused(pool, realm.machine() if is_machine else realm.launch())
    assert "needs the scope read write, which the token has already" in failure.message
    assert (failure.action, failure.exit_code) == ("auth_failed", 3)
    assert failure.details["scope"] == "read write"
    assert failure.suggestions == ("report it to the server's operator",)
    assert realm.count("tools/call") == 1


def test_a_step_up_gets_the_scope_that_was_missing_and_keeps_the_others(visitor, use_notes):
    visitor.sign_in()
    with pytest.raises(McpError) as failure:
        use_notes(visitor.launch(), "write_note", text="x")
    assert failure.value.suggestions == ("run: pflow mcp login notes --scope notes:write",)
    visitor.sign_in("notes:write")
    assert use_notes(visitor.launch(), "write_note", text="x")
    assert use_notes(visitor.launch())
    first, second = (query_of(url)["scope"] for url in visitor.urls)
    assert second == f"{first} notes:write" == "notes:read offline_access notes:write"


def test_what_a_server_declares_is_not_compared_where_nobody_knows_what_was_granted(realm, pool):
    realm.sign_in(required_scopes=("write",), tokens=Tokens(access="planted-access-0"))
    assert pool.call(realm.launch(), ACT).content


def test_a_login_keeps_what_the_server_declares_to_need(
    visitor, protected_server, authorization_server, use_notes
):
    protected_server.switch(challenge_scope="notes:read notes:write")
    authorization_server.switch(granted=["notes:read"])
    visitor.sign_in()
    assert visitor.stored().required_scopes == ("notes:read", "notes:write")
    with pytest.raises(McpError, match="the scope notes:write was not granted") as failure:
        use_notes(visitor.launch())
    assert (failure.value.action, failure.value.ran) == ("auth_failed", "not ran")
    assert failure.value.suggestions == ("run: pflow mcp login notes --scope notes:write",)
    # The config decides, where it names scopes.
    assert use_notes(visitor.launch(scopes=["notes:read"])) == "the note"


def test_a_login_with_more_scopes_is_used_by_those_who_run_already(realm, pool):
    async def wider(request, reply):
        if request.headers["authorization"] == "Bearer planted-access-1":
            return await reply.text("done")
        return await reply.status(403, www_authenticate='Bearer error="insufficient_scope"')

    sign_in = realm.sign_in()
    answer_calls(realm, wider)
    assert "its scope is not sufficient" in refused(pool, realm.launch()).message
    realm.store.write(realm.key, attrs.evolve(sign_in, tokens=Tokens(access="planted-access-1")))
    assert pool.call(realm.launch(), ACT).content[0]["text"] == "done"
    assert realm.count("tools/call") == 3
    assert realm.forms == []


def test_no_token_is_told_even_if_the_server_repeats_it(realm, pool, warnings_seen, caplog):
    def repeat(request, reply):
        return reply.status(500, f"{request.headers} planted-refresh-0 planted-access-1".encode())

    learned = []
    realm.sign_in(expires_in=-10)
    answer_calls(realm, repeat)
    failure = refused(pool, attrs.evolve(realm.launch(), report=learned.extend))
    told = [failure.message, repr(failure), failure.to_dict(), warnings_seen, caplog.text]
    assert "planted" not in str(told)
    assert {"planted-access-0", "planted-refresh-0", "planted-access-1", "planted-refresh-1"} <= set(learned)


def test_the_token_takes_the_place_of_a_configured_header(realm, call):
    realm.sign_in()
    assert call(realm.launch(headers={"authorization": "Bearer other"})) == "done"


def test_a_refusal_with_an_endless_body_is_not_read(realm, call):
    async def endless(request, reply):
        if request.headers.get("authorization") == "Bearer planted-access-0":
            return await reply.raw(b"HTTP/1.1 401 No\r\ncontent-length: 99999999999\r\n\r\n" + b"x" * 70_000)
        return await realm.server._answer(request, reply)

    realm.sign_in()
    realm.scripts["/mcp"] = endless
    assert call() == "done"


@pytest.mark.parametrize(
    ("auth", "headers", "step"),
    [
        ({}, {}, "run: pflow mcp login web"),
        ({}, {"Authorization": "Bearer x"}, "the credentials in headers of server web were refused"),
        ({"type": "bearer", "token": "x", "token_env": "T"}, {}, "set the variable T to a valid one"),
    ],
)
def test_a_server_that_names_its_metadata_is_signed_in_to_unless_there_are_credentials(
    realm, pool, auth, headers, step
):
    launch = realm.launch()
    server = attrs.evolve(launch.server, auth=auth, headers=headers)
    failure = refused(pool, attrs.evolve(launch, server=server))
    assert "not logged in" in failure.message
    assert step in failure.suggestions[0]
    assert failure.details.get("login", False) is (not auth and not headers)
    assert realm.paths == []


@pytest.mark.parametrize(
    "auth",
    [
        {"type": "oauth"},
        {"type": "oauth", "flow": "device_code"},
        {"type": "oauth", "flow": "client_credentials", "client_id": "me", "client_secret": "planted"},
        {"type": "bearer", "token": "planted"},
    ],
    ids=lambda auth: auth.get("flow", auth["type"]),
)
@pytest.mark.parametrize(
    ("remedy", "step", "action"),
    [
        ("login", "", "auth_failed"),
        ("later", "try again later", "error"),
        ("credentials", "correct auth of server web", "auth_failed"),
        ("storage", "make room for it, or correct its permissions", "auth_failed"),
        ("keyring", "unlock the keyring", "auth_failed"),
        ("operator", "report it to the server's operator", "error"),
    ],
)
def test_only_a_person_whose_sign_in_is_over_is_offered_a_login(auth, remedy, step, action):
    server = Server(name="web", transport="http", url="https://web.example", auth=auth)
    error = from_sign_in(NoAccessToken("it ended", remedy), Evidence(server=server, phase="call", tool="act"))
    is_person = auth.get("flow") != "client_credentials" and auth["type"] == "oauth"
    assert error.details.get("login", False) is (remedy == "login" and is_person)
    assert error.retryable is (remedy == "later")
    assert (error.kind, error.ran, error.action) == ("connection", "not ran", action)
    assert step in error.suggestions[0]
    error = from_sign_in(NoAccessToken("", remedy, "s", step="go"), Evidence(server=server, phase="list"))
    assert (error.suggestions, error.action, error.details["scope"]) == (("go",), "auth_failed", "s")
