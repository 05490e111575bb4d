"""Tokens are refreshed once, shortly before they expire, and lost only where they were refused as such."""

from __future__ import annotations

import attrs
import pytest
from scripted_realm import ACT, refused

from pflow_mcp_plugin.client.oauth.sign_in_state import Registration
from pflow_mcp_plugin.client.oauth.sign_in_store import SignInKey
from pflow_mcp_plugin.errors import McpError


def test_after_a_restart_an_expired_token_is_refreshed_at_the_discovered_endpoint_for_its_resource(
    realm, call
):
    realm.sign_in(expires_in=-10)
    assert call() == "done"
    assert realm.paths == ["/odd/token"]
    form = {"grant_type": "refresh_token", "refresh_token": "planted-refresh-0"}
    assert realm.forms == [{**form, "client_id": "registered", "resource": realm.server.url()}]
    assert realm.stored().refresh == "planted-refresh-1"
    assert realm.stored().scopes == ("read",)
    (file,) = realm.folder.glob("*.json")
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("code", ["invalid_client", "unauthorized_client"])
def test_a_client_of_the_config_that_is_refused_at_a_refresh_has_to_be_corrected(realm, pool, code):
    sign_in = realm.sign_in(expires_in=-10)
    realm.store.write(SignInKey(realm.server.url(), "known"), sign_in)
    realm.answers.append((401, {"error": code}))
    failure = refused(pool, realm.launch({"type": "oauth", "client_id": "known"}))
    assert failure.message.endswith(f"answered {code}; the tokens are kept")
    assert failure.suggestions == ("correct auth of server web",)


@pytest.mark.parametrize("status", [400, 401, 403, 404])
def test_a_refusal_without_an_error_of_oauth_keeps_the_tokens_and_says_so(
    visitor, authorization_server, use_notes, status
):
    before = visitor.sign_in().tokens
    authorization_server.expire_access_tokens()
    authorization_server.fail("token", times=1, status=status, body="<html>Blocked")
    with pytest.raises(McpError) as caught:
        use_notes(visitor.launch())
    failure, endpoint = caught.value, authorization_server.url("token")
    assert f"the token endpoint {endpoint} answered HTTP {status}; the tokens are kept" in failure.message
    assert (failure.action, failure.exit_code) == ("auth_failed", 3)
    step = "try again later; if it is refused again, run: pflow mcp login notes"
    assert failure.suggestions == (step,)
    assert visitor.stored().tokens == before
    assert use_notes(visitor.launch()) == "the note"


@pytest.mark.parametrize(("granted", "wanted"), [(("read",), "write"), ((), "wrote")])
def test_a_scope_that_the_authorization_server_does_not_name_is_told_with_those_that_it_names(
    realm, pool, granted, wanted
):
    sign_in = realm.sign_in()
    known = attrs.evolve(sign_in.authorization_server, scopes_supported=("read", "writes"))
    tokens = attrs.evolve(sign_in.tokens, scopes=granted)
    realm.sign_in(authorization_server=known, tokens=tokens)
    failure = refused(pool, realm.launch({"type": "oauth", "scopes": ["read", wanted]}))
    note = "the scopes that its authorization server names are read, writes"
    assert failure.message == f"Server web: the scope {wanted} was not granted; {note}"
    assert failure.suggestions == (f"run: pflow mcp login web --scope {wanted}",)
    assert realm.server.requests == []


def test_a_scope_that_may_have_been_granted_is_not_missed(realm, pool):
    sign_in = realm.sign_in()
    known = attrs.evolve(sign_in.authorization_server, scopes_supported=("read", "write"))
    realm.sign_in(authorization_server=known, tokens=attrs.evolve(sign_in.tokens, scopes=()))
    launch = realm.launch({"type": "oauth", "scopes": ["write"]})
    assert pool.call(launch, ACT).content[0]["text"] == "done"


def test_a_client_keeps_its_redirect_for_the_next_login_when_a_token_is_refreshed(realm, call):
    client = Registration(client_id="known", redirect_uris=("http://127.0.0.1:8400/callback",))
    sign_in = realm.sign_in(expires_in=-10, registration=client)
    key = SignInKey(realm.server.url(), "known")
    realm.store.write(key, sign_in)
    assert call(realm.launch({"type": "oauth", "client_id": "known"})) == "done"
    assert realm.store.read(key).registration == client
