"""A login chooses its flow, its client, which may register itself, its port and its scopes, and is stored."""

import socket
from urllib.parse import urlsplit

import attrs
import pytest
from signing_in import query_of

from pflow_mcp_plugin.client.oauth.sign_in_store import SignInKey, store_of
from pflow_mcp_plugin.client.request_failures import NoAccessToken
from pflow_mcp_plugin.network.egress import HostRefused


@pytest.fixture
def known(authorization_server):
    """What the config says of a client that the authorization server knows."""
    redirects = ["http://127.0.0.1:1/callback"]
    authorization_server.add_client(
        "known", "planted-secret", redirect_uris=redirects, grant_types=["authorization_code"]
    )
    return {"client_id": "known", "client_secret": "planted-secret"}


def test_a_login_is_stored_with_all_that_a_refresh_needs(visitor, authorization_server, protected_server):
    sign_in = visitor.sign_in()
    stored = visitor.stored()
    assert stored == sign_in
    assert all((stored.tokens.access, stored.tokens.refresh))
    assert stored.tokens.scopes == ("notes:read", "offline_access")
    assert stored.resource == protected_server.url
    assert stored.authorization_server.token_endpoint == authorization_server.url("token")
    assert stored.registration.redirect_uris == (query_of(visitor.urls[0])["redirect_uri"],)


def test_the_next_login_uses_client_and_port_again(visitor, authorization_server):
    """The former tokens are not revoked, as the new ones might end with them."""
    first, second = visitor.sign_in(), visitor.sign_in()
    assert first.registration == second.registration
    assert len(authorization_server.requests("register")) == 1
    assert first.tokens.access != second.tokens.access
    assert authorization_server.requests("revoke") == []


def test_a_port_that_is_in_use_leads_to_another_client_where_one_can_be_registered(
    visitor, authorization_server
):
    authorization_server.switch(loopback_ports=False)
    first = visitor.sign_in()
    taken = urlsplit(first.registration.redirect_uris[0])
    with socket.create_server((taken.hostname, taken.port)):
        second = visitor.sign_in()
    assert first.registration.client_id != second.registration.client_id
    assert first.registration.redirect_uris != second.registration.redirect_uris


@pytest.mark.parametrize("fails", [False, True])
def test_the_tokens_of_a_client_that_another_takes_the_place_of_are_revoked_if_they_can_be(
    visitor, authorization_server, fails
):
    visitor.sign_in()
    visitor.change_stored(redirect_uris=("http://127.0.0.1:1/other",))  # the next login needs another client
    if fails:
        authorization_server.fail("revoke", status=503)
    second = visitor.sign_in()
    assert second == visitor.stored()
    assert len(authorization_server.requests("revoke")) == (1 if fails else 2)
    revoked = {token["access"]: token["revoked"] for token in authorization_server.tokens()}
    assert sorted(revoked.values()) == [False, not fails]
    assert not revoked[second.tokens.access]


def test_the_port_in_the_config_is_kept(visitor):
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
        words = f"port {port} of this machine cannot be listened on: [^(]*; .* change redirect_port"
        with pytest.raises(NoAccessToken, match=words) as failure:
            visitor.sign_in(redirect_port=port)
        assert failure.value.remedy == "credentials"
    sign_in = visitor.sign_in(redirect_port=port)
    assert sign_in.registration.redirect_uris == (f"http://127.0.0.1:{port}/callback",)


def test_a_client_is_registered_again_though_the_page_says_to_people_only_that_it_is_unknown(
    visitor, authorization_server
):
    first = visitor.sign_in()
    authorization_server.forget_clients()
    authorization_server.fail("authorize", times=1, status=200, body="<h1>Unknown client</h1>")
    second = visitor.sign_in()
    assert first.registration.client_id != second.registration.client_id
    assert len(visitor.urls) == 2


@pytest.mark.parametrize("fails", [False, True], ids=["", "although the token endpoint is out of order"])
def test_a_client_that_is_still_known_is_kept_with_a_hint_for_pages_that_say_otherwise(
    visitor, authorization_server, fails
):
    visitor.sign_in()
    assert "does not know the client" not in "".join(visitor.shown)
    authorization_server.fail("authorize", times=1, status=200, body="<h1>Sign in</h1>")
    if fails:
        authorization_server.fail("token", times=1, status=503)
    visitor.sign_in()
    assert len(authorization_server.requests("register")) == 1
    assert visitor.shown[-1].endswith("  pflow mcp logout notes\n  pflow mcp login notes")


def test_a_client_that_only_the_token_endpoint_has_forgotten_is_registered_again(
    visitor, authorization_server
):
    visitor.sign_in()
    authorization_server.fail("token", times=1, status=401, body={"error": "invalid_client"})
    visitor.sign_in()
    assert len(authorization_server.requests("register")) == 2


LOOPBACK = "http://127.0.0.1:1/callback"


def published(server):
    return server.publish(
        "pflow.json",
        client_name="pflow",
        redirect_uris=[LOOPBACK],
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
        token_endpoint_auth_method="none",
    )


def test_a_client_that_registers_itself_is_a_native_one_without_a_secret(visitor, authorization_server):
    sign_in = visitor.sign_in()
    (asked,) = authorization_server.requests("register")
    assert asked.json == {
        "client_name": "pflow",
        "application_type": "native",
        "grant_types": ["authorization_code", "refresh_token"],
        "token_endpoint_auth_method": "none",
        "redirect_uris": [query_of(visitor.urls[0])["redirect_uri"]],
        "response_types": ["code"],
    }
    assert "authorization" not in asked.headers
    assert sign_in.registration.method == "none"
    assert sign_in.registration.client_secret == ""


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
def test_the_secret_that_a_client_is_given_is_used_as_the_answer_says(visitor, authorization_server, method):
    authorization_server.switch(registered_method=method)
    stored = visitor.sign_in().registration
    assert stored.method == method
    assert stored.client_secret
    (asked,) = authorization_server.requests("token")
    assert ("authorization" in asked.headers) is (method == "client_secret_basic")


def test_a_secret_is_asked_for_where_clients_need_one(visitor, authorization_server):
    known = {"token_endpoint_auth_methods_supported": ["private_key_jwt", "client_secret_post"]}
    authorization_server.switch(metadata=known)
    assert visitor.sign_in().registration.method == "client_secret_post"


def test_a_secret_that_has_expired_is_replaced_by_another_registration(visitor, authorization_server):
    authorization_server.switch(registered_method="client_secret_basic", secret_seconds=3600)
    first = visitor.sign_in().registration
    assert first.expires_at
    assert visitor.sign_in().registration == first
    visitor.change_stored(expires_at=1.0)
    assert visitor.sign_in().registration.client_id != first.client_id


@pytest.mark.parametrize("number", ["NaN", "0", "null", '"soon"', "9" * 400])
def test_a_secret_without_a_plausible_end_does_not_expire(visitor, authorization_server, number):
    authorization_server.add_client(
        "known", redirect_uris=["http://127.0.0.1/callback"], token_endpoint_auth_method="none"
    )
    body = f'{{"client_id": "known", "client_secret_expires_at": {number}}}'
    authorization_server.fail("register", status=201, body=body)
    assert visitor.sign_in().registration.expires_at is None
    assert visitor.stored().registration.client_id == "known"


def test_the_document_of_a_client_comes_before_registration_and_a_client_of_the_config_first(
    visitor, authorization_server
):
    document = published(authorization_server)
    sign_in = visitor.sign_in(client_metadata_url=document)
    assert sign_in.registration.client_id == query_of(visitor.urls[0])["client_id"] == document
    assert authorization_server.requests("register") == []
    # Once the config no longer names it, it is not used any more.
    assert visitor.sign_in().registration.client_id != document
    public = {"redirect_uris": [LOOPBACK], "grant_types": ["authorization_code"]}
    authorization_server.add_client("known", **public, token_endpoint_auth_method="none")
    known = visitor.sign_in(client_id="known", client_metadata_url=document)
    assert known.registration.client_id == "known"


def test_the_document_of_a_client_is_used_only_where_that_is_supported(visitor, authorization_server):
    authorization_server.switch(client_documents=False)
    document = published(authorization_server)
    assert visitor.sign_in(client_metadata_url=document).registration.client_id != document


def test_where_no_client_can_be_had_the_config_has_to_name_one(visitor, authorization_server):
    authorization_server.switch(registration=False)
    with pytest.raises(NoAccessToken, match="registers no clients: set client_id in auth") as failure:
        visitor.sign_in()
    assert failure.value.remedy == "credentials"
    assert visitor.shown == []


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        (400, {"error": "bad_uri", "error_description": "no\x1bport"}, r"bad_uri \(no\?port\)"),
        (403, "", "HTTP 403"),
        (201, {"client_name": "pflow"}, "HTTP 201"),
        (201, {"client_id": 5}, "HTTP 201"),
    ],
)
def test_a_registration_that_is_refused_is_told(visitor, authorization_server, status, body, told):
    authorization_server.fail("register", status=status, body=body)
    with pytest.raises(NoAccessToken, match=f"registered no client: it answered {told}; set client_id"):
        visitor.sign_in()


@pytest.mark.parametrize("method", ["private_key_jwt", "tls_client_auth", 1])
def test_a_registration_that_cannot_be_used_is_refused(visitor, authorization_server, method):
    body = {"client_id": "a", "token_endpoint_auth_method": method}
    authorization_server.fail("register", status=201, body=body)
    with pytest.raises(NoAccessToken, match="must authenticate otherwise"):
        visitor.sign_in()


def test_a_client_of_the_config_that_is_refused_has_to_be_corrected(visitor, known):
    with pytest.raises(NoAccessToken, match="invalid_client") as failure:
        visitor.sign_in(**{**known, "client_secret": "planted-wrong"})
    assert failure.value.remedy == "credentials"
    assert "planted" not in str(failure.value)


def test_the_secret_of_a_client_in_the_config_is_not_stored(visitor, known):
    assert visitor.sign_in(**known).registration.client_secret == "planted-secret"
    assert visitor.stored(**known).registration.client_secret == ""
    assert visitor.stored() is None


def test_a_secret_in_the_config_is_for_the_issuer_of_the_last_login_unless_the_config_names_another(
    visitor, known, authorization_server
):
    first = visitor.sign_in(**known)
    other = attrs.evolve(first.authorization_server, issuer="https://former.example")
    last = attrs.evolve(first, authorization_server=other, signed_in_at=first.signed_in_at + 1)
    launch = visitor.launch(**known)
    store_of(launch).write(SignInKey.of(launch.server), last)
    with pytest.raises(NoAccessToken, match=r"not https://former.example, with which the last") as failure:
        visitor.sign_in(**known)
    assert "add issuer to auth, or run: pflow mcp logout notes" in failure.value.step
    assert (len(visitor.urls), len(authorization_server.requests("token"))) == (1, 1)
    assert visitor.sign_in(**known, issuer=authorization_server.issuer).tokens


@pytest.mark.parametrize(
    ("more", "auth", "asked"),
    [
        ((), {}, "notes:read offline_access"),
        ((), {"scopes": ["notes:write", "notes:delete"]}, "notes:write notes:delete offline_access"),
        (
            ("notes:write notes:delete", "notes:write"),
            {},
            "notes:read notes:write notes:delete offline_access",
        ),
    ],
)
def test_scopes_are_those_of_the_config_or_the_server_and_those_asked_for(visitor, more, auth, asked):
    visitor.sign_in(*more, **auth)
    assert query_of(visitor.urls[0])["scope"] == asked


def test_scopes_are_added_to_those_of_the_last_login(visitor):
    visitor.sign_in("notes:write")
    visitor.sign_in("notes:delete")
    assert query_of(visitor.urls[1])["scope"] == "notes:read notes:write offline_access notes:delete"
    visitor.sign_in()
    assert query_of(visitor.urls[2])["scope"] == "notes:read offline_access"


def test_offline_access_is_asked_for_only_where_it_is_offered(visitor, authorization_server):
    authorization_server.switch(scopes=["notes:read"])
    visitor.sign_in()
    assert query_of(visitor.urls[0])["scope"] == "notes:read"
    assert "prompt" not in query_of(visitor.urls[0])


@pytest.mark.parametrize(
    ("metadata", "wrong"),
    [
        ({"authorization_endpoint": "javascript:alert(1)"}, "authorization_endpoint in .*javascript:alert"),
        ({"issuer": "https://wrong.example"}, "is that of another issuer, https://wrong.example; refused"),
        (
            {"authorization_endpoint": None, "device_authorization_endpoint": None},
            "no authorization_endpoint",
        ),
    ],
)
@pytest.mark.parametrize("browser", [True, False])
def test_metadata_that_do_not_fit_are_refused_before_anybody_is_sent_anywhere(
    visitor, authorization_server, metadata, wrong, browser
):
    authorization_server.switch(metadata=metadata)
    with pytest.raises((NoAccessToken, HostRefused), match=wrong):
        visitor.sign_in(browser=browser)
    assert visitor.urls == visitor.shown == []
    assert authorization_server.requests("register") == []
