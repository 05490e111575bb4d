"""A login is made by the client in the config, by that of a document, or by one that registers itself."""

from __future__ import annotations

import pytest
from signing_in import query_of

from pflow_mcp_plugin.client.request_failures import NoAccessToken

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
