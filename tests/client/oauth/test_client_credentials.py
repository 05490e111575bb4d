"""Machines sign in by a secret or a private key, at the issuer that their config names."""

import json
import re
import time
from base64 import b64decode
from types import SimpleNamespace

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from scripted_realm import ACT, refused

from pflow_mcp_plugin.client import Pool
from pflow_mcp_plugin.client.oauth.sign_in_state import AuthorizationServer, Registration
from pflow_mcp_plugin.client.oauth.token_endpoint import authentication
from pflow_mcp_plugin.errors import McpError
from pflow_mcp_plugin.exchange import ToolCall

UNUSUAL = ec.generate_private_key(ec.SECP256K1()).private_bytes(
    serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
)


def written(key, path):
    form = serialization.PrivateFormat.PKCS8
    path.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
    return str(path)


def as_jwk(key, algorithm, **fields):
    return {**jwt.get_algorithm_by_name(algorithm).to_jwk(key, as_dict=True), **fields}


def token_request(realm):
    return next(request for request in realm.server.requests if request.target == "/odd/token")


@pytest.fixture
def nightly(visitor, authorization_server):
    """Return a launch of a machine that the authorization server knows, by its secret or by public keys."""

    def known(secret="", jwks=(), **auth):
        by_key = {"token_endpoint_auth_method": "private_key_jwt", "jwks": {"keys": [*jwks]}} if jwks else {}
        authorization_server.add_client("nightly", secret, grant_types=["client_credentials"], **by_key)
        shown = {"client_secret": secret} if secret else {}
        issuer = authorization_server.issuer
        return visitor.launch(flow="client_credentials", issuer=issuer, client_id="nightly", **shown, **auth)

    return known


@pytest.mark.parametrize("known", [None, ["client_secret_basic", "client_secret_post"], []])
def test_a_secret_goes_in_a_header(realm, call, known):
    realm.metadata = {} if known is None else {"token_endpoint_auth_methods_supported": known}
    assert call(realm.machine(client_secret="a b+ü", scopes=["read", "write"])) == "done"
    header = token_request(realm).headers["authorization"]
    assert b64decode(header.removeprefix("Basic ")) == b"me:a%20b%2B%C3%BC"
    form = {"grant_type": "client_credentials", "scope": "read write"}
    assert realm.forms == [{**form, "resource": realm.server.url()}]


def test_a_secret_goes_in_the_form_where_only_that_is_known(realm, call):
    realm.metadata = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    assert call(realm.machine()) == "done"
    assert (realm.forms[0]["client_id"], realm.forms[0]["client_secret"]) == ("me", "planted-secret")
    assert "authorization" not in token_request(realm).headers


KEYS = {
    "RS256": rsa.generate_private_key(65537, 2048),
    "ES256": ec.generate_private_key(ec.SECP256R1()),
    "ES384": ec.generate_private_key(ec.SECP384R1()),
    "ES512": ec.generate_private_key(ec.SECP521R1()),
    "EdDSA": ed25519.Ed25519PrivateKey.generate(),
}


@pytest.mark.parametrize("algorithm", KEYS)
@pytest.mark.parametrize(("form", "name"), [("PEM", None), ("JWK", None), ("JWK", "of-jwk")])
def test_a_private_key_signs_an_assertion_for_this_issuer_only(realm, call, tmp_path, algorithm, form, name):
    file = written(KEYS[algorithm], tmp_path / "key")
    if form == "JWK":
        named = {"kid": name} if name else {}
        (tmp_path / "key").write_text(json.dumps(as_jwk(KEYS[algorithm], algorithm, **named)))
    launch = realm.machine(private_key=file)
    del launch.server.auth["client_secret"]
    assert call(launch) == "done"
    (form,) = realm.forms
    assert form["client_assertion_type"] == "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
    assertion, public = form["client_assertion"], KEYS[algorithm].public_key()
    claims = jwt.decode(assertion, public, algorithms=[algorithm], audience=realm.issuer)
    assert (claims["iss"], claims["sub"], claims["exp"] - claims["iat"]) == ("me", "me", 120)
    assert len(claims["jti"]) == 32
    assert jwt.get_unverified_header(assertion).get("kid") == name


@pytest.mark.parametrize("form", ["PEM", "JWK"])
def test_the_authorization_server_finds_one_of_several_keys_by_its_id(nightly, use_notes, tmp_path, form):
    keys = {name: ec.generate_private_key(ec.SECP256R1()) for name in ("first", "second")}
    public = [as_jwk(key.public_key(), "ES256", kid=name) for name, key in keys.items()]
    file = written(keys["second"], tmp_path / "key")
    if form == "JWK":
        (tmp_path / "key").write_text(json.dumps(as_jwk(keys["second"], "ES256", kid="first")))
    launch = nightly(jwks=public, private_key=file, private_key_id="second", scopes=["notes:read"])
    assert use_notes(launch) == "the note"


@pytest.mark.parametrize(
    ("off", "note"), [(-600, "10 minutes behind that of"), (600, "10 minutes ahead of that of")]
)
def test_an_assertion_that_is_refused_as_the_clock_is_wrong_is_told_as_such(
    nightly, use_notes, authorization_server, tmp_path, monkeypatch, off, note
):
    key = ec.generate_private_key(ec.SECP256R1())
    launch = nightly(jwks=[as_jwk(key.public_key(), "ES256")], private_key=written(key, tmp_path / "key.pem"))
    clock = SimpleNamespace(time=lambda: time.time() + off)
    monkeypatch.setattr("pflow_mcp_plugin.client.oauth.token_endpoint.time", clock)
    if off == 600:  # by this library, too early is as good as in time
        authorization_server.fail("token", status=401, body={"error": "invalid_client"})
    with pytest.raises(McpError) as failure:
        use_notes(launch)
    assert "answered invalid_client" in failure.value.message
    assert failure.value.message.endswith(f"; this machine's clock is {note} the authorization server")


def test_rsa_keys_sign_with_pss_where_only_that_is_known(realm, call, tmp_path):
    realm.metadata = {"token_endpoint_auth_signing_alg_values_supported": ["PS256", "ES256"]}
    key = written(KEYS["RS256"], tmp_path / "key.pem")
    assert call(realm.machine(private_key=key)) == "done"
    assert jwt.get_unverified_header(realm.forms[0]["client_assertion"])["alg"] == "PS256"


@pytest.mark.parametrize("content", [None, b"not a key", b"{}", b'{"kty": "oct", "k": "AA"}', UNUSUAL])
def test_a_private_key_that_cannot_be_read_is_told(realm, pool, tmp_path, content):
    file = tmp_path / "key.pem"
    if content is not None:
        file.write_bytes(content)
    failure = refused(pool, realm.machine(private_key=str(file)))
    assert re.search(r"the private key .*key\.pem cannot be (read|used): ", failure.message)
    assert failure.suggestions == ("correct auth of server web",)
    assert realm.forms == []


def test_the_token_is_kept_for_the_next_run_of_these_credentials_and_the_secret_is_not(realm, call):
    assert call(realm.machine()) == "done"
    with Pool(pytest.fail, sign_in_folder=realm.folder) as pool:
        pool.call(realm.machine(), ACT)
    assert len(realm.forms) == 1
    (file,) = realm.folder.glob("*.json")
    assert "planted-access-1" in file.read_text(encoding="utf-8")
    assert "planted-secret" not in file.read_text(encoding="utf-8")
    assert call(realm.machine(client_id="another")) == "done"
    assert len(realm.forms) == 2


def test_a_token_that_was_refused_is_replaced_once(realm, call):
    assert call(realm.machine()) == "done"
    realm.valid.clear()
    realm.refresh = "gone"
    assert call(realm.machine()) == "done"
    grants = [form["grant_type"] for form in realm.forms]
    assert grants == ["client_credentials", "refresh_token", "client_credentials"]


def test_credentials_that_are_refused_are_told_without_them(realm, pool):
    text = "me: planted-secret is wrong\x1b[2J"
    realm.answers.append((401, {"error": "invalid_client", "error_description": text}))
    failure = refused(pool, realm.machine())
    assert "invalid_client (me: *** is wrong?[2J)" in failure.message
    assert (failure.action, failure.exit_code) == ("auth_failed", 3)
    assert failure.suggestions == ("correct auth of server web",)
    assert "planted" not in repr(failure) + repr(failure.to_dict())


def test_a_scope_that_is_added_to_the_config_is_requested(realm, call):
    assert call(realm.machine(scopes=["read"])) == "done"
    assert call(realm.machine(scopes=["read"])) == "done"
    assert call(realm.machine(scopes=["read", "write"])) == "done"
    assert [form["scope"] for form in realm.forms] == ["read", "read write"]


def test_a_scope_that_the_authorization_server_refuses_is_named(nightly, authorization_server, use_notes):
    with pytest.raises(McpError) as failure:
        use_notes(nightly("planted-secret", scopes=["notes:read", "notes:admin"]))
    endpoint = authorization_server.url("token")
    said = f"the scope notes:admin was not granted: the token endpoint {endpoint} answered invalid_scope"
    assert said in failure.value.message
    assert (failure.value.action, failure.value.details["scope"]) == ("auth_failed", "notes:admin")
    assert failure.value.suggestions == ("correct scopes in auth of server notes",)


def test_a_scope_that_was_just_not_granted_is_not_asked_for_by_the_next_runs(
    nightly, authorization_server, use_notes, tmp_path, monkeypatch
):
    authorization_server.switch(granted=["notes:read"])
    launch = nightly("planted-secret", scopes=["notes:read", "notes:write"])
    for _ in range(3):
        with Pool(pytest.fail, sign_in_folder=tmp_path / "oauth") as pool:
            for _ in range(2):
                failure = refused(pool, launch, ToolCall(server="notes", tool="read_note"))
                assert "the scope notes:write was not granted" in failure.message
                assert (failure.action, failure.exit_code) == ("auth_failed", 3)
                assert failure.details["scope"] == "notes:write"
                assert failure.suggestions[0].startswith("have the client nightly granted it, or remove it")
    assert len(authorization_server.requests("token")) == 1
    authorization_server.switch(granted=None)
    monkeypatch.setattr("pflow_mcp_plugin.client.oauth.bearer_auth._ASKED_AGAIN_SECONDS", 0.0)
    assert use_notes(launch) == "the note"
    assert len(authorization_server.requests("token")) == 2


def test_an_assertion_that_is_repeated_in_a_refusal_is_not_told(realm, pool, tmp_path):
    def repeat(request, reply):
        return reply.json({"error": "invalid_client", "error_description": request.body.decode()}, 400)

    realm.scripts["/odd/token"] = repeat
    failure = refused(pool, realm.machine(private_key=written(KEYS["ES256"], tmp_path / "key.pem")))
    assert "client_assertion=***" in failure.message


@pytest.mark.parametrize("state", ["corrupt", "in a keyring that is gone", "a file in place of the folder"])
def test_a_machine_signs_in_where_nothing_can_be_read_or_stored(realm, pool, warnings_seen, state):
    is_stored = state != "a file in place of the folder"
    if is_stored:
        pool.call(realm.machine(), ACT)
        (file,) = realm.folder.glob("*.json")
        kept = json.loads(file.read_text())
        file.write_text("{" if state == "corrupt" else json.dumps({**kept, "secrets": "keyring"}))
    else:
        realm.folder.write_text("")
    with Pool(warnings_seen.append, sign_in_folder=realm.folder) as next_run:
        assert next_run.call(realm.machine(), ACT).content[0]["text"] == "done"
        next_run.call(realm.machine(), ACT)
    assert (len(realm.forms), len(warnings_seen)) == ((2, 0) if is_stored else (1, 1))


@pytest.mark.parametrize("method", ["private_key_jwt", "none"])
def test_a_client_without_its_key_says_only_who_it_is(method):
    found = AuthorizationServer(issuer="https://a.example", token_endpoint="https://a.example/token")
    assert authentication(Registration(client_id="me", method=method), found, {}) == ({"client_id": "me"}, {})
