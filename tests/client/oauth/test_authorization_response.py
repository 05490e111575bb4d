"""The answer to an authorization request counts only if it comes from the issuer that was asked."""

from __future__ import annotations

import pytest

from pflow_mcp_plugin.client.oauth.login_flows import code_of, fields_of, is_answer_to
from pflow_mcp_plugin.client.oauth.sign_in_state import AuthorizationServer
from pflow_mcp_plugin.client.oauth.token_endpoint import TokenRefused
from pflow_mcp_plugin.client.request_failures import NoAccessToken

ISSUER = "https://login.example"


def found(*, promised):
    return AuthorizationServer(
        issuer=ISSUER,
        token_endpoint=f"{ISSUER}/token",
        authorization_endpoint=f"{ISSUER}/authorize",
        authorization_response_iss_parameter_supported=promised,
    )


@pytest.mark.parametrize(
    ("fields", "promised"),
    [({"iss": ISSUER}, True), ({"iss": ISSUER}, False), ({}, False)],
)
def test_a_code_of_the_issuer_is_taken(fields, promised):
    assert code_of({"code": "c", **fields}, found(promised=promised)) == "c"


@pytest.mark.parametrize(
    "issuer",
    ["https://wrong.example", f"{ISSUER}/", "https://LOGIN.example", "https://login.example:443", ""],
)
@pytest.mark.parametrize("answer", [{"code": "c"}, {"error": "access_denied"}])
@pytest.mark.parametrize("promised", [True, False])
def test_an_answer_of_another_issuer_is_refused(issuer, answer, promised):
    with pytest.raises(NoAccessToken, match=r"from another issuer \(iss\), .*; refused"):
        code_of({"iss": issuer, **answer}, found(promised=promised))


def test_an_answer_without_the_issuer_that_was_promised_is_refused():
    with pytest.raises(NoAccessToken, match=r"does not say which issuer it is from \(iss\)"):
        code_of({"code": "c"}, found(promised=True))


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        ("access_denied", "login"),
        ("invalid_scope", "credentials"),
        ("temporarily_unavailable", "later"),
        ("server_error", "later"),
        ("unsupported_response_type", "operator"),
    ],
)
def test_an_error_is_told_with_what_helps(error, remedy):
    fields = {"error": error, "error_description": "a\x1b[2J\nb" + "x" * 999, "code": "c"}
    with pytest.raises(NoAccessToken) as failure:
        code_of(fields, found(promised=False))
    assert f"https://login.example/authorize answered {error} (a?[2J b" in failure.value.reason
    assert len(failure.value.reason) < 400
    assert failure.value.remedy == remedy
    assert ("scopes in auth" in failure.value.step) is (error == "invalid_scope")


@pytest.mark.parametrize("error", ["unauthorized_client", "invalid_client"])
def test_an_unknown_client_is_told_apart(error):
    with pytest.raises(TokenRefused) as refusal:
        code_of({"error": error}, found(promised=False))
    assert refusal.value.code == error


def test_an_answer_without_a_code_is_refused():
    with pytest.raises(NoAccessToken, match="answered without a code"):
        code_of({"code": ""}, found(promised=False))


@pytest.mark.parametrize("query", ["", "code=a&code=b&state=s", "&".join(f"a{i}=" for i in range(99))])
def test_a_query_that_is_ambiguous_or_too_long_has_no_fields(query):
    assert fields_of(query) == {}


def test_an_answer_has_exactly_the_state_of_the_request():
    assert is_answer_to("s", {"state": "s"})
    for fields in ({}, {"state": ""}, {"state": "S"}, {"state": "ß"}):
        assert not is_answer_to("s", fields)
    assert not is_answer_to("", {"state": ""})
