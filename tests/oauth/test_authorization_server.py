"""The authorization server of the tests is as strict as the specifications: a client cannot get by it.

What a test switches is asked by the tests of the client, which see the difference.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jwt
import pytest
from authorization_requests import (
    REDIRECT,
    RESOURCE,
    VERIFIER,
    ask_token,
    authorize,
    introspect,
    redeem,
    redirected,
    refresh,
    register,
    registered,
    sign_in,
)
from cryptography.hazmat.primitives.asymmetric import ec
from programs import importing, until

DEVICE = "urn:ietf:params:oauth:grant-type:device_code"
ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


@pytest.fixture
def server(authorization_server):
    return authorization_server


def error(answer, status=400):
    assert answer.status_code == status, answer.text
    return answer.json()["error"]


def test_an_endpoint_that_a_client_guesses_is_not_there(server):
    with server.client() as client:
        assert client.post("/token").status_code == 404
        assert client.get("/authorize").status_code == 404
    assert [(entry.endpoint, entry.path) for entry in server.requests()] == [
        ("", "/token"),
        ("", "/authorize"),
    ]


def test_a_code_is_redeemed_for_tokens(server):
    tokens = sign_in(server, scope="notes:read notes:write")
    assert tokens["token_type"] == "Bearer"
    assert tokens["expires_in"] == 3600
    assert tokens["scope"] == "notes:read notes:write"
    said = introspect(server, tokens["access_token"])
    assert said["active"] is True
    assert (said["aud"], said["client_id"], said["sub"]) == (RESOURCE, tokens["client_id"], "alice")


@pytest.mark.parametrize(
    ("fields", "refused"),
    [
        ({"code_verifier": "x" * 50}, "invalid_grant"),
        ({"code_verifier": None}, "invalid_request"),
        ({"redirect_uri": "http://127.0.0.1:4998/callback"}, "invalid_grant"),
        ({"code": "another"}, "invalid_grant"),
        ({"resource": "https://other.example/mcp"}, "invalid_target"),
    ],
)
def test_a_code_needs_what_it_was_asked_for_with(server, fields, refused):
    client_id = registered(server)
    code = redirected(authorize(server, client_id))["code"]
    assert error(redeem(server, client_id, **{"code": code, **fields})) == refused
    assert server.tokens() == []


def test_a_code_that_is_redeemed_twice_ends_what_it_gave(server):
    client_id = registered(server)
    code = redirected(authorize(server, client_id))["code"]
    access = redeem(server, client_id, code).json()["access_token"]
    assert error(redeem(server, client_id, code)) == "invalid_grant"
    assert introspect(server, access) == {"active": False}


@pytest.mark.parametrize(
    "fields",
    [
        {"code_challenge": None, "code_challenge_method": None},
        {"code_challenge_method": "plain"},
        {"code_challenge_method": None},
    ],
)
def test_nobody_gets_a_code_without_s256(server, fields):
    said = redirected(authorize(server, registered(server), **fields))
    assert said["error"] == "invalid_request"
    assert said["state"] == "state-of-the-tests"


def test_a_redirect_to_where_nobody_registered_is_not_followed(server):
    answer = authorize(server, registered(server), redirect_uri="https://evil.example/callback")
    assert error(answer) == "invalid_request"
    assert "location" not in answer.headers


def test_a_resource_may_be_required(server):
    server.switch(require_resource=True)
    client_id = registered(server)
    answer = authorize(server, client_id, resource=None)
    assert error(answer) == "invalid_target"
    code = redirected(authorize(server, client_id))["code"]
    assert error(redeem(server, client_id, code, resource=None)) == "invalid_target"
    tokens = redeem(server, client_id, code).json()
    assert error(refresh(server, client_id, tokens["refresh_token"], resource=None)) == "invalid_target"
    assert refresh(server, client_id, tokens["refresh_token"]).status_code == 200


def test_a_refresh_token_gives_a_new_one_and_is_spent(server):
    tokens = sign_in(server)
    renewed = refresh(server, tokens["client_id"], tokens["refresh_token"]).json()
    assert renewed["refresh_token"] != tokens["refresh_token"]
    assert introspect(server, renewed["access_token"])["aud"] == RESOURCE
    assert [token["spent"] for token in server.tokens()] == [True, False]


def test_a_refresh_token_that_comes_twice_ends_the_whole_family(server):
    other = sign_in(server)
    tokens = sign_in(server)
    renewed = refresh(server, tokens["client_id"], tokens["refresh_token"]).json()
    assert error(refresh(server, tokens["client_id"], tokens["refresh_token"])) == "invalid_grant"
    assert error(refresh(server, tokens["client_id"], renewed["refresh_token"])) == "invalid_grant"
    assert introspect(server, renewed["access_token"]) == {"active": False}
    assert introspect(server, other["access_token"])["active"] is True


def test_of_many_that_redeem_a_refresh_token_one_wins(server):
    tokens = sign_in(server)
    with ThreadPoolExecutor(8) as threads:
        tries = [
            threads.submit(refresh, server, tokens["client_id"], tokens["refresh_token"]) for _ in range(8)
        ]
    assert sorted(it.result().status_code for it in tries) == [200] + [400] * 7
    assert (len(server.refreshes()), len(server.refreshes(400))) == (1, 7)


def test_a_refresh_token_belongs_to_its_client(server):
    tokens = sign_in(server)
    assert error(refresh(server, registered(server), tokens["refresh_token"])) == "invalid_grant"


def test_tokens_are_revoked_by_their_client_or_by_the_test(server):
    tokens, other = sign_in(server), sign_in(server)
    with server.client() as client:
        form = {"token": tokens["refresh_token"], "client_id": tokens["client_id"]}
        assert client.post(server.url("revoke"), data=form).status_code == 200
    assert introspect(server, tokens["access_token"]) == {"active": False}
    assert introspect(server, other["access_token"])["active"] is True
    server.revoke_tokens()
    assert error(refresh(server, other["client_id"], other["refresh_token"])) == "invalid_grant"


def test_a_document_that_names_another_client_or_is_not_there_is_refused(server):
    url = server.publish("pflow.json", client_id="https://other.example/pflow.json", redirect_uris=[REDIRECT])
    nowhere = f"{server.origin}/documents/none.json"
    for client_id in (url, nowhere, "https://127.0.0.1:1/none.json"):
        assert error(authorize(server, client_id)) == "invalid_client"


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
def test_a_machine_shows_its_secret(server, method):
    server.add_client(
        "machine", "its-secret", token_endpoint_auth_method=method, grant_types=["client_credentials"]
    )
    form = {"grant_type": "client_credentials", "resource": RESOURCE, "scope": "notes:write"}

    def ask(secret):
        if method == "client_secret_basic":
            return ask_token(server, auth=("machine", secret), **form)
        return ask_token(server, client_id="machine", client_secret=secret, **form)

    tokens = ask("its-secret").json()
    assert "refresh_token" not in tokens
    said = introspect(server, tokens["access_token"])
    assert (said["sub"], said["scope"], said["aud"]) == ("machine", "notes:write", RESOURCE)
    assert error(ask("another"), 401) == "invalid_client"


def test_a_machine_signs_with_its_private_key(server):
    key, other = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    public = jwt.get_algorithm_by_name("ES256").to_jwk(key.public_key(), as_dict=True)
    server.add_client(
        "machine",
        token_endpoint_auth_method="private_key_jwt",
        grant_types=["client_credentials"],
        jwks={"keys": [public]},
    )

    def signed(signer=key, **claims):
        now = int(time.time())
        usual = {"iss": "machine", "sub": "machine", "aud": server.issuer, "iat": now, "exp": now + 60}
        return jwt.encode({**usual, "jti": os.urandom(8).hex(), **claims}, signer, "ES256")

    def ask(assertion):
        return ask_token(
            server,
            grant_type="client_credentials",
            client_assertion_type=ASSERTION,
            client_assertion=assertion,
            resource=RESOURCE,
        )

    right = signed()
    assert introspect(server, ask(right).json()["access_token"])["sub"] == "machine"
    assert ask(signed(aud=server.url("token"))).status_code == 200
    for wrong in (right, signed(other), signed(aud="https://other.example"), signed(exp=1), "no token"):
        assert error(ask(wrong)) == "invalid_client"


@pytest.fixture
def device(server):
    """Ask for the codes of a device, and return them with what polls."""
    client_id = registered(server, grant_types=[DEVICE, "refresh_token"])

    def begin():
        with server.client() as client:
            form = {"client_id": client_id, "scope": "notes:read", "resource": RESOURCE}
            codes = client.post(server.url("device"), data=form).json()
        code = codes["device_code"]
        return codes, lambda: ask_token(server, grant_type=DEVICE, client_id=client_id, device_code=code)

    return begin


def test_a_device_waits_until_a_person_approves(server, device):
    server.switch(consent="page", slow_downs=1)
    codes, poll = device()
    assert (codes["interval"], codes["expires_in"]) == (1, 600)
    assert [error(poll()) for _ in range(3)] == [
        "slow_down",
        "authorization_pending",
        "authorization_pending",
    ]
    with server.client() as client:
        page = codes["verification_uri_complete"]
        assert codes["user_code"] in client.get(page).text
        assert client.post(page, data={"decision": "approve"}).status_code == 200
    tokens = poll().json()
    assert introspect(server, tokens["access_token"])["aud"] == RESOURCE
    assert tokens["refresh_token"]
    assert error(poll()) == "invalid_request"


def test_the_log_has_every_request_with_its_secrets(server):
    tokens = sign_in(server)
    (asked,) = server.requests("token", grant_type="authorization_code")
    assert (asked.form["code_verifier"], asked.form["resource"]) == (VERIFIER, RESOURCE)
    assert (asked.method, asked.status, asked.headers["host"]) == (
        "POST",
        200,
        server.origin.removeprefix("https://"),
    )
    (page,) = server.requests("authorize")
    assert page.query["state"] == "state-of-the-tests"
    (registration,) = server.requests("register")
    assert registration.json["redirect_uris"] == [REDIRECT]
    server.add_client("machine", "its-secret")
    secret = register(server, token_endpoint_auth_method="client_secret_basic").json()["client_secret"]
    server.forget_clients()
    issued = {tokens["access_token"], tokens["refresh_token"], asked.form["code"], secret}
    assert {*issued, VERIFIER, "its-secret"} <= set(server.secrets())


def test_a_reset_leaves_nothing(server):
    sign_in(server)
    server.switch(rotate=False, metadata={"issuer": "x"})
    server.fail("token")
    server.reset()
    assert (server.requests(), server.tokens(), server.clients(), server.secrets()) == ([], [], [], [])
    assert sign_in(server)["refresh_token"]


def test_the_program_ends_when_the_test_is_killed(certificate_authority):
    data = Path(__file__).parents[1] / "data"
    script = (
        "import sys, time; from certificates import Authority; from pathlib import Path\n"
        "from authorization_server import authorization_server\n"
        "with authorization_server(Authority(Path(sys.argv[1]))) as server:\n"
        "    print(server.process.pid, flush=True); time.sleep(60)\n"
    )
    folder = certificate_authority.file.parent / "of-the-killed"
    folder.mkdir()
    path = os.pathsep.join([str(data), str(data.with_name("faults"))])
    with subprocess.Popen(
        [sys.executable, "-c", script, str(folder)],
        env={**os.environ, **importing(path)},
        stdout=subprocess.PIPE,
        text=True,
    ) as killed:
        pid = int(killed.stdout.readline())
        assert Path(f"/proc/{pid}").exists()
        killed.send_signal(signal.SIGKILL)
    until(lambda: not _runs(pid), 20)


def _runs(pid):
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return False
