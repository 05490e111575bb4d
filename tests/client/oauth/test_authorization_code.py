"""Authorization requests carry PKCE, state and resource; the redirect comes back or is pasted.

It counts only if it comes from the issuer that was asked.
"""

import re
from base64 import urlsafe_b64encode
from hashlib import sha256

import pytest
from signing_in import query_of

from pflow_mcp_plugin.client.oauth.login_flows import code_of, fields_of, is_answer_to
from pflow_mcp_plugin.client.oauth.sign_in_state import AuthorizationServer
from pflow_mcp_plugin.client.oauth.token_endpoint import TokenRefused
from pflow_mcp_plugin.client.request_failures import NoAccessToken


def test_the_verifier_of_a_challenge_is_sent_to_the_token_endpoint_only(
    visitor, authorization_server, protected_server
):
    visitor.sign_in()
    fields = query_of(visitor.urls[0])
    (form,) = [entry.form for entry in authorization_server.requests("token")]
    digest = sha256(form["code_verifier"].encode()).digest()
    assert fields["code_challenge"] == urlsafe_b64encode(digest).decode().rstrip("=")
    assert fields["code_challenge_method"] == "S256"
    assert fields["response_type"] == "code"
    assert fields["resource"] == form["resource"] == protected_server.url
    assert fields["redirect_uri"] == form["redirect_uri"]
    assert 43 <= len(form["code_verifier"]) <= 128
    assert form["code_verifier"] not in "".join([*visitor.shown, *visitor.urls])


def test_no_two_logins_have_a_state_or_challenge_in_common(visitor):
    visitor.sign_in()
    visitor.sign_in()
    first, second = map(query_of, visitor.urls)
    assert first["state"] != second["state"]
    assert first["code_challenge"] != second["code_challenge"]


def test_the_query_of_the_endpoint_is_kept(visitor, authorization_server):
    endpoint = f"{authorization_server.url('authorize')}?tenant=a%20b&state=planted"
    authorization_server.switch(metadata={"authorization_endpoint": endpoint})
    visitor.sign_in()
    assert query_of(visitor.urls[0])["tenant"] == "a b"
    assert visitor.urls[0].count("state=") == 1


def test_somebody_who_denies_is_not_signed_in(visitor, authorization_server):
    authorization_server.switch(consent="deny")
    with pytest.raises(NoAccessToken, match=r"nobody was signed in: .* answered access_denied") as failure:
        visitor.sign_in()
    assert failure.value.remedy == "login"
    assert visitor.pages[0][0] == 200
    assert "Not signed in" in visitor.pages[0][1]
    assert visitor.stored() is None


def test_the_pasted_redirect_signs_in(visitor, authorization_server):
    sign_in = visitor.sign_in(browser=False)
    assert sign_in.tokens.access
    assert visitor.urls == []
    page, question = visitor.shown
    assert page.startswith("Open this URL in a browser:")
    assert sign_in.registration.redirect_uris[0] in question


@pytest.mark.parametrize("made", [lambda url: f"  {url}  ", lambda url: url.partition("?")[2]])
def test_spaces_around_it_and_the_query_alone_are_taken(visitor, made):
    visitor.pastes = lambda redirect: [made(redirect)]
    assert visitor.sign_in(browser=False).tokens.access


@pytest.mark.parametrize(
    ("made", "wrong"),
    [
        (
            lambda url: url.replace("http://127.0.0.1", "https://evil.example"),
            "a URL of https://evil.example",
        ),
        (lambda url: url.replace("/callback", "/other"), r"not of http://127\.0\.0\.1:\d+/callback"),
        (lambda url: url.replace("state=", "state=x"), "its state differs"),
        (lambda url: url.partition("&state")[0], "That is not all of it: it has no state"),
        (lambda url: url.replace("state=", "state=\udcff"), "its state differs"),
        (lambda _: "just-a-code", "That is not a URL"),
        (lambda _: "?", "That is not a URL"),
    ],
)
def test_anything_else_is_refused_and_asked_for_again(visitor, authorization_server, made, wrong):
    visitor.pastes = lambda redirect: [made(redirect), redirect]
    assert visitor.sign_in(browser=False).tokens.access
    (told,) = visitor.shown[2:]
    assert re.search(wrong, told)
    assert told.endswith("Paste the whole URL:")
    for secret in authorization_server.secrets():
        assert secret not in "".join(visitor.shown)


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


def test_somebody_who_pastes_nothing_is_not_signed_in(visitor):
    visitor.pastes = lambda _: []
    with pytest.raises(NoAccessToken, match="no redirect was pasted") as failure:
        visitor.sign_in(browser=False)
    assert failure.value.remedy == "login"
