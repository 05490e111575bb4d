"""A person approves a device in a browser anywhere; it polls politely, and shows nothing unchecked."""

import asyncio
import time

import attrs
import pytest

from pflow_mcp_plugin.client.oauth import login_flows
from pflow_mcp_plugin.client.oauth.login import login
from pflow_mcp_plugin.client.oauth.login_flows import Person
from pflow_mcp_plugin.client.request_failures import NoAccessToken
from pflow_mcp_plugin.network.egress import HostRefused
from pflow_mcp_plugin.types import NetworkRules

GRANT = "urn:ietf:params:oauth:grant-type:device_code"
SECRET = "planted-client-secret-0123456789"


@pytest.fixture
def server(authorization_server):
    """The authorization server, which wants to be polled without a pause."""
    authorization_server.switch(interval=0)
    return authorization_server


@pytest.fixture
def sign_in(visitor):
    """Sign in by the device flow; `on_show` is called once the code is shown."""

    def made(*scopes, on_show=lambda text: None, **auth):
        def show(text):
            visitor.shown.append(text)
            on_show(text)

        return asyncio.run(
            login(visitor.launch(**{"flow": "device_code", **auth}), Person(show=show), scopes)
        )

    return made


def failure(sign_in, **auth):
    with pytest.raises(NoAccessToken) as caught:
        sign_in(**auth)
    return caught.value


def polls(server):
    return server.requests("token", grant_type=GRANT)


def issued(server, **changed):
    """Have the device endpoint answer otherwise."""
    codes = {
        "device_code": "planted-device-code",
        "user_code": "ABCD-EFGH",
        "verification_uri": "https://login.example.com/device",
        "expires_in": 1,
        "interval": 0,
    }
    body = {name: value for name, value in {**codes, **changed}.items() if value is not None}
    server.fail("device", status=200, body=body)


def test_a_device_gets_its_tokens_for_the_resource_once_it_is_approved(
    server, sign_in, visitor, protected_server
):
    made = sign_in("notes:write")
    (asked,) = server.requests("device")
    assert asked.form == {
        "client_id": made.registration.client_id,
        "resource": protected_server.url,
        "scope": "notes:read notes:write offline_access",
    }
    first, last = polls(server)
    assert (first.status, last.status) == (400, 200)
    assert last.form["resource"] == protected_server.url
    assert server.introspect(made.tokens.access)["aud"] == protected_server.url
    assert made.tokens.scopes == ("notes:read", "notes:write", "offline_access")
    assert made.tokens.refresh
    assert visitor.stored() == made


def test_the_page_and_the_code_are_shown_and_the_device_code_is_not(server, sign_in, visitor):
    server.switch(consent="page")

    def enter(text):
        page, code, complete = (line.strip() for line in text.splitlines() if line.startswith("  "))
        assert complete == f"{page}?user_code={code}"
        with server.client() as client:
            assert client.post(complete, data={"decision": "approve"}).status_code == 200

    sign_in(on_show=enter)
    (shown,) = visitor.shown
    assert "within 10 minutes" in shown
    assert polls(server)[0].form["device_code"] not in shown


@pytest.mark.parametrize(
    ("ends", "reason"),
    [
        (lambda server: server.decide(approved=False), "the login was denied"),
        (lambda server: server.expire_devices(), "its code expired before anybody entered it"),
    ],
    ids=["denied", "expired"],
)
def test_a_login_that_is_denied_or_whose_code_expires_says_so(server, sign_in, visitor, ends, reason):
    server.switch(consent="page")
    refused = failure(sign_in, on_show=lambda _: ends(server))
    assert (refused.reason, refused.remedy) == (reason, "login")
    assert visitor.stored() is None


@pytest.mark.parametrize("interval", [0, 1e9, "60"])
def test_the_login_ends_with_the_code_even_if_the_server_never_says_so(server, sign_in, interval):
    issued(server, interval=interval)
    server.fail("token", status=400, body={"error": "authorization_pending"})
    begun = time.monotonic()
    assert failure(sign_in).reason == "its code expired before anybody entered it"
    assert 1 <= time.monotonic() - begun < 10
    assert len(polls(server)) <= 5


def test_a_server_that_says_slow_down_is_asked_less_often(server, sign_in, monkeypatch):
    assert login_flows._WAITING["slow_down"] == 5  # as the RFC wants
    monkeypatch.setitem(login_flows._WAITING, "slow_down", 0.3)
    server.switch(slow_downs=2, pending_polls=2)
    begun = time.monotonic()
    sign_in()
    # After 0.2 s, 0.5 s and 0.8 s; the longest pause stays.
    assert time.monotonic() - begun >= 0.2 + 0.5 + 0.8
    assert len(polls(server)) == 3


@pytest.mark.parametrize("fault", [{"status": 503}, {"status": 429}, {"status": 0, "broken": True}])
def test_a_poll_without_an_answer_is_repeated(server, sign_in, fault):
    server.fail("token", times=2, **fault)
    assert sign_in().tokens.access


def test_trouble_until_the_end_is_told(server, sign_in):
    issued(server)
    server.fail("token", status=503)
    assert "expired before anybody entered it; https://127.0.0.1" in (reason := failure(sign_in).reason)
    assert "answered HTTP 503" in reason


def test_a_refusal_with_the_status_200_is_one(server, sign_in):
    server.fail("token", times=1, status=200, body={"error": "authorization_pending"})
    assert sign_in().tokens.access
    server.fail("token", times=1, status=200, body={"error": "access_denied"})
    assert failure(sign_in).reason == "the login was denied"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("verification_uri", "javascript:alert(1)"),
        ("verification_uri", "https://login.example.com/\x1b[2J"),
        ("verification_uri", "https://me:word@login.example.com/"),
        ("verification_uri", None),
        ("verification_uri_complete", "file:///etc/passwd"),
        ("user_code", " "),
        ("user_code", None),
        ("device_code", 7),
    ],
)
def test_an_answer_with_something_that_cannot_be_shown_or_used_is_refused_by_name(
    server, sign_in, visitor, name, value
):
    issued(server, **{name: value})
    refused = failure(sign_in)
    assert name in refused.reason
    assert refused.remedy == "operator"
    assert (visitor.shown, polls(server)) == ([], [])
    assert "\x1b" not in refused.reason


def test_a_code_with_control_characters_is_shown_escaped_and_cut(server, sign_in, visitor):
    issued(server, user_code=f"A\x1b[2J\n\u202e{'B' * 500}")
    failure(sign_in)
    assert "A\\u001b[2J\\n\\u202eBBB" in visitor.shown[0]
    assert "\x1b" not in visitor.shown[0]
    assert len(visitor.shown[0]) < 400


def test_the_page_must_be_on_a_host_that_the_rules_allow(server, visitor):
    issued(server)
    launch = visitor.launch(flow="device_code")
    denied = attrs.evolve(launch.server, network=NetworkRules(deny=("login.example.com",)))
    shown: list[str] = []
    with pytest.raises(HostRefused):
        asyncio.run(login(attrs.evolve(launch, server=denied), Person(show=shown.append)))
    assert shown == []


@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        ({"error": "invalid_scope", "error_description": "no\x1b such"}, 400, "invalid_scope (no? such)"),
        ({}, 404, "HTTP 404"),
        ({"error": "invalid_request"}, 200, "invalid_request"),
    ],
)
def test_a_refusal_by_the_device_endpoint_is_told(server, sign_in, body, status, text):
    server.fail("device", status=status, body=body)
    reason = failure(sign_in).reason
    assert reason.startswith(f"the device authorization endpoint {server.url('device')} answered {text}")


def test_the_device_code_is_not_told_if_a_refusal_repeats_it(server, sign_in):
    issued(server, expires_in=60)
    refusal = {"error": "invalid_grant", "error_description": "planted-device-code is wrong"}
    server.fail("token", status=400, body=refusal)
    assert failure(sign_in).reason.endswith("answered invalid_grant (*** is wrong)")


def test_a_server_without_the_device_flow_is_named(server, sign_in):
    server.switch(device=False)
    assert "has no device flow" in failure(sign_in).reason


def test_a_server_with_nothing_but_the_device_flow_needs_no_flow_in_the_config(server, visitor):
    server.switch(metadata={"authorization_endpoint": None})
    assert visitor.sign_in().tokens.access


def test_a_client_that_was_forgotten_is_registered_again_once(server, sign_in):
    first = sign_in()
    server.forget_clients()
    second = sign_in()
    assert first.registration.client_id != second.registration.client_id
    assert len(server.requests("register")) == 2


def test_a_client_is_used_again_for_the_same_flow_only(server, sign_in, visitor):
    first = sign_in()
    assert sign_in().registration == first.registration
    by_code = visitor.sign_in()
    assert by_code.registration.client_id != first.registration.client_id
    assert sign_in().registration.client_id != by_code.registration.client_id
    assert len(polls(server)) == 6


def test_a_client_with_a_secret_authenticates_at_both_endpoints(server, sign_in):
    server.add_client(
        "me", SECRET, grant_types=[GRANT, "refresh_token"], token_endpoint_auth_method="client_secret_basic"
    )
    sign_in(client_id="me", client_secret=SECRET)
    asked = [*server.requests("device"), *polls(server)]
    assert all(request.headers["authorization"].startswith("Basic ") for request in asked)
