"""Tokens of an authorization server, made with real keys and checked over real connections."""

import base64
import hmac
import json
import re
import time
import warnings
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler

import anyio
import httpx2
import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from issuer import AUDIENCE, KINDS, Issuer
from mcp.server.auth.provider import AccessToken
from served import post, request, serving

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.server.http.request_tokens import (
    AccessTokens,
    AuthorizationServer,
    Refusal,
    read_token,
    valid_issuer,
)
from pflow_mcp_plugin.types import NetworkRules

OWNER = request("tools/call", {"name": "owner", "arguments": {}})
EAGER = {"pause": 0}
TOMORROW = time.time() + 86_400
"""Cases are made when tests are collected, which may be minutes before they run."""


@pytest.fixture(scope="module")
def standing() -> Iterator[Issuer]:
    with Issuer() as running:
        yield running


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    """An issuer that a test may change."""
    with Issuer() as running:
        yield running


def tokens(issuer: Issuer, limits: dict = EAGER, scopes: tuple[str, ...] = ()) -> AccessTokens:
    server = AuthorizationServer(issuer=issuer.url, **limits)
    return AccessTokens(server=server, audience=AUDIENCE, scopes=scopes)


def verdict(check: AccessTokens, token: str) -> AccessToken | Refusal:
    return anyio.run(check.check, token)


def refusal(check: AccessTokens, token: str, *statuses: int) -> Refusal:
    refused = verdict(check, token)
    assert isinstance(refused, Refusal), refused
    assert refused.status in statuses
    return refused


def reason(check: AccessTokens, token: str) -> str:
    return refusal(check, token, 401).reason


def unsigned(claims: dict, header: dict) -> str:
    parts = [json.dumps(part).encode() for part in (header, claims)]
    return ".".join([*(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts), ""])


@pytest.mark.parametrize("algorithm", KINDS)
def test_a_token_of_each_asymmetric_kind_is_accepted(standing, algorithm):
    standing.add_key(algorithm, algorithm)
    accepted = verdict(tokens(standing), standing.token(algorithm, algorithm))
    assert isinstance(accepted, AccessToken)
    assert (accepted.subject, accepted.claims) == ("alice", {"iss": standing.url})


@pytest.mark.parametrize(
    "given",
    [
        {"aud": ["a", AUDIENCE]},
        {"headers": {"jku": "http://127.0.0.1:1/x"}},
        {"headers": {"typ": None}},
        {"headers": {"typ": "application/AT+JWT"}},
    ],
)
def test_what_a_token_has_beside_changes_nothing(standing, given):
    just_expired = int(time.time()) - 10  # by a clock that is a little off
    assert isinstance(verdict(tokens(standing), standing.token(exp=just_expired, **given)), AccessToken)


@pytest.mark.parametrize(
    ("claims", "said"),
    [
        ({"exp": time.time() - 40}, "has expired"),
        ({"nbf": TOMORROW}, "not valid yet"),
        ({"iss": "https://evil.example"}, "another issuer"),
        ({"aud": ["https://other.example/mcp", AUDIENCE + "/"]}, "another audience"),
        ({"sub": None}, "lacks one of the claims"),
        ({"exp": None}, "lacks one of the claims"),
        ({"aud": None}, "audience|lacks"),
        ({"sub": ""}, "names no subject"),
        ({"exp": 1e400}, "invalid"),
        ({"padding": "x" * 20_000}, "too long"),
    ],
)
def test_a_token_is_refused_with_the_reason(standing, claims, said):
    assert re.search(said, reason(tokens(standing), standing.token(**claims)))


def test_a_token_that_is_not_signed_is_refused(standing):
    claims = jwt.decode(standing.token(), options={"verify_signature": False})
    for spelling in ("none", "None", "NONE", ""):
        assert "algorithm" in reason(tokens(standing), unsigned(claims, {"alg": spelling, "kid": "one"}))


def test_a_public_key_is_no_shared_secret(standing):
    standing.add_key("confused", "RS256")
    public = standing.keys["confused"].public_key()
    secret = public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    claims = jwt.decode(standing.token(), options={"verify_signature": False})
    head = unsigned(claims, {"alg": "HS256", "kid": "confused", "typ": "at+jwt"}).rstrip(".")
    sealed = hmac.new(secret, head.encode(), "sha256").digest()
    forged = f"{head}.{base64.urlsafe_b64encode(sealed).rstrip(b'=').decode()}"
    assert "algorithm" in reason(tokens(standing), forged)


@pytest.mark.parametrize(
    ("token", "said"),
    [
        *((token, "The token is not a JWT") for token in ("", "x", "a.b.c", "....", "é.é.é")),
        ("e30.e30.e30", "The algorithm of the token's signature is not accepted"),
        ("eyJhbGciOiJFUzI1NiJ9.e30.AAAA", "The signature of the token is wrong"),
        ("x" * 20_000, "The token is too long"),
    ],
)
def test_what_is_no_token_is_refused(standing, token, said):
    assert reason(tokens(standing), token) == said


def test_a_token_of_another_key_is_refused(standing):
    with Issuer() as other:
        forged = other.token(iss=standing.url)
    assert "signature" in reason(tokens(standing), forged)


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ({"typ": "logout+jwt"}, "The token is not an access token"),
        ({"crit": ["exp"]}, "The token is not a JWT|The token needs an extension"),
        ({"b64": False}, "The token needs an extension that is not supported"),
        ({"kid": "unknown"}, "The token is signed by an unknown key"),
    ],
)
def test_a_token_is_refused_for_its_header(standing, headers, said):
    assert re.match(said, reason(tokens(standing), standing.token(headers=headers)))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "holds no token"),
        (b"\n", "holds no token"),
        (b"x" * 15, "holds a token of fewer than 16 characters"),
        (b"\xff" * 20, "cannot be read: it is not text"),
        (b"two words of a token", "holds a token with characters that cannot be sent"),
        (None, "cannot be read: No such file or directory"),
    ],
)
def test_a_file_without_a_token_that_can_be_used_is_refused(tmp_path, content, said):
    path = tmp_path / "token"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(PflowError) as caught:
        read_token(path)
    assert caught.value.message.startswith(f"The token file {path} {said}")
    assert caught.value.kind == "usage"
    assert any("token_urlsafe" in step for step in caught.value.suggestions) == ("cannot be read" not in said)


@pytest.mark.parametrize(("mode", "loose"), [(0o600, False), (0o400, False), (0o640, True), (0o604, True)])
def test_the_token_of_a_file_is_read_with_a_warning_if_others_may_read_it(tmp_path, mode, loose):
    path = tmp_path / "token"
    path.write_text("a-token.of_16~+/==\n")
    path.chmod(mode)
    token, warning = read_token(path)
    assert token == "a-token.of_16~+/=="
    expected = f"Others may read the token file {path} (mode {mode:04o}): run chmod 600 on it"
    assert warning == (expected if loose else "")


def test_a_short_key_is_refused(standing):
    standing.add_key("short", "RS256", rsa.generate_private_key(65537, 1024))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer versions of PyJWT warn of such a key
        forged = standing.token("short", "RS256")
    assert "too short" in reason(tokens(standing), forged)


def test_a_scope_that_is_missing_is_forbidden(standing):
    check = tokens(standing, scopes=("run", "read"))
    assert isinstance(verdict(check, standing.token(scope="read run more")), AccessToken)
    assert isinstance(verdict(check, standing.token(scp=["read", "run"])), AccessToken)
    for claims in ({}, {"scope": "read"}, {"scope": 7}, {"scope": "reading running"}):
        refused = refusal(check, standing.token(**claims), 403)
        assert (refused.error, refused.scope) == ("insufficient_scope", "run read")


def test_a_key_that_is_new_is_found_and_one_that_is_gone_is_not(issuer):
    check = tokens(issuer, {"pause": 0, "fresh": 0})
    assert isinstance(verdict(check, issuer.token()), AccessToken)
    before = issuer.token()
    issuer.forget_keys()
    issuer.add_key("two")
    assert isinstance(verdict(check, issuer.token("two")), AccessToken)
    assert "unknown key" in reason(check, before)


def test_unknown_keys_do_not_make_it_fetch_again_and_again(issuer):
    check = tokens(issuer, {})
    for number in range(20):
        reason(check, issuer.token(headers={"kid": f"made-up-{number}"}))
    assert issuer.asked.count("/keys") == 1


def test_requests_that_wait_for_keys_share_one_fetch(issuer):
    check = tokens(issuer, {})

    async def play() -> None:
        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(check.check, issuer.token())

    anyio.run(play)
    assert issuer.asked.count("/keys") == 1


def huge(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    try:
        for _ in range(2000):
            handler.wfile.write(b" " * 65536)
    except OSError:
        return


def hanging(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    handler.rfile.read(1)  # until the other side hangs up


@pytest.mark.parametrize("path", ["/.well-known/oauth-authorization-server", "/keys"])
@pytest.mark.parametrize("page", [huge, hanging, b"no JSON", b"[]", b"[" * 100_000, b'{"keys": 7}'])
def test_answers_of_an_authorization_server_are_bounded(issuer, page: Callable | bytes, path):
    issuer.pages[path] = page
    check = tokens(issuer, {"wait": 1 if page is hanging else 10})
    began = time.monotonic()
    for _ in range(3):  # the failure is remembered
        refusal(check, issuer.token(), 401, 503)
    assert time.monotonic() - began < 20
    assert issuer.asked.count(path) == 1


def test_known_keys_are_used_while_the_authorization_server_is_away(issuer):
    check = tokens(issuer, {"pause": 0, "fresh": 0})
    assert isinstance(verdict(check, issuer.token()), AccessToken)
    issuer.pages.clear()
    assert isinstance(verdict(check, issuer.token()), AccessToken)


def test_metadata_of_openid_connect_is_found_below_a_path():
    with Issuer(path="/tenant") as issuer:
        page = issuer.pages.pop("/.well-known/oauth-authorization-server/tenant")
        issuer.pages["/.well-known/oauth-authorization-server/tenant"] = b"<html>"
        issuer.pages["/tenant/.well-known/openid-configuration"] = page
        assert isinstance(verdict(tokens(issuer), issuer.token()), AccessToken)


@pytest.mark.parametrize(
    ("rules", "jwks_uri", "said"),
    [
        (NetworkRules(deny=("127.0.0.1",)), None, 'host 127.0.0.1 is denied by deny = ["127.0.0.1"]'),
        (NetworkRules(), "https://10.0.0.7/keys", "host 10.0.0.7 has the private address 10.0.0.7"),
        (
            NetworkRules(policy="registered"),
            "https://keys.example/",
            'add "keys.example" to allow in [network]',
        ),
        (NetworkRules(policy="registered"), None, ""),
    ],
)
def test_metadata_and_keys_come_from_hosts_that_the_rules_allow(issuer, rules, jwks_uri, said):
    if jwks_uri:
        issuer.pages["/.well-known/oauth-authorization-server"] = issuer.metadata(jwks_uri=jwks_uri)
    told: list[str] = []
    server = AuthorizationServer(issuer=issuer.url, network=rules, warn=told.append, **EAGER)
    check = AccessTokens(server=server, audience=AUDIENCE)
    for _ in range(2):  # the same failure is told once
        found = verdict(check, issuer.token())
    assert isinstance(found, Refusal if said else AccessToken)
    assert len(told) == bool(said)
    assert all(
        said in text and text.startswith(f"The keys of {issuer.url} cannot be fetched: ") for text in told
    )


def test_keys_come_over_tls_whose_certificate_is_checked(authority, monkeypatch):
    with Issuer(tls=authority.server_context("127.0.0.1")) as issuer:
        refusal(tokens(issuer), issuer.token(), 503)
        monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
        assert isinstance(verdict(tokens(issuer), issuer.token()), AccessToken)


@pytest.mark.parametrize(
    "issuer",
    ["http://as.example", "as.example", "https://", "https://as.example/?x", "https://as.example#x"],
)
def test_an_issuer_must_be_reached_safely(issuer):
    with pytest.raises(PflowError, match="--issuer must be an https URL"):
        valid_issuer(issuer)


def test_a_client_without_a_token_finds_the_authorization_server(standing):
    with serving(check=tokens(standing, scopes=("run",))) as served:
        refused = post(served, OWNER, {})
        assert refused.status_code == 401
        where = re.search(r'resource_metadata="([^"]+)"', refused.headers["www-authenticate"])
        assert where
        assert where[1] == "https://pflow.example/.well-known/oauth-protected-resource/mcp"
        local = served.url.replace("/mcp", "/.well-known/oauth-protected-resource/mcp")
        metadata = httpx2.get(local, trust_env=False).json()
        assert metadata["resource"] == AUDIENCE
        assert metadata["authorization_servers"] == [standing.url]
        assert metadata["scopes_supported"] == ["run"]
        assert httpx2.get(local, headers={"host": "evil.example"}, trust_env=False).status_code == 421
