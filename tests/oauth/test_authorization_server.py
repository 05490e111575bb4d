"""The authorization server of the tests does what the specifications say, and what a test switches."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx2
import jwt
import pytest
from authorization_requests import (
    REDIRECT,
    RESOURCE,
    VERIFIER,
    ask_token,
    authorization_fields,
    authorize,
    introspect,
    redeem,
    redirected,
    refresh,
    register,
    registered,
    sign_in,
)
from authorization_server import authorization_server as starting
from cryptography.hazmat.primitives.asymmetric import ec

DEVICE = "urn:ietf:params:oauth:grant-type:device_code"
ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


@pytest.fixture
def server(authorization_server):
    return authorization_server


def error(answer, status=400):
    assert answer.status_code == status, answer.text
    return answer.json()["error"]


def test_the_metadata_are_in_each_place_that_the_specification_names(server):
    with server.client() as client:
        plain = client.get("/.well-known/oauth-authorization-server").json()
        openid = client.get("/.well-known/openid-configuration").json()
    assert plain["issuer"] == openid["issuer"] == server.issuer
    assert plain["token_endpoint"] == server.url("token")
    assert plain["code_challenge_methods_supported"] == ["S256"]
    assert plain["client_id_metadata_document_supported"] is True
    assert openid["subject_types_supported"] == ["public"]


def test_an_issuer_with_a_path_has_its_metadata_at_three_places(certificate_authority):
    with starting(certificate_authority, path="/tenant") as server, server.client() as client:
        found = {
            path: client.get(path)
            for path in (
                "/.well-known/oauth-authorization-server/tenant",
                "/.well-known/openid-configuration/tenant",
                "/tenant/.well-known/openid-configuration",
                "/.well-known/oauth-authorization-server",
            )
        }
        assert [answer.status_code for answer in found.values()] == [200, 200, 200, 404]
        issuers = {answer.json()["issuer"] for answer in list(found.values())[:3]}
        assert issuers == {f"{server.origin}/tenant"}
        assert sign_in(server)["scope"] == "notes:read"


def test_it_may_be_reached_by_http(certificate_authority):
    with starting(certificate_authority, tls=False) as server:
        assert server.issuer.startswith("http://127.0.0.1:")
        assert sign_in(server)["access_token"]


def test_one_form_of_the_metadata_alone_can_be_left(server):
    server.switch(metadata_forms=["openid"])
    with server.client() as client:
        assert client.get("/.well-known/oauth-authorization-server").status_code == 404
        assert client.get("/.well-known/openid-configuration").status_code == 200


@pytest.mark.parametrize(
    "said",
    [
        {"issuer": "https://wrong.example"},
        {"code_challenge_methods_supported": None},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"authorization_endpoint": "http://login.example/authorize"},
        {"token_endpoint": "https://other.example/token"},
        {"registration_endpoint": None},
    ],
)
def test_the_metadata_say_anything_that_a_test_wants(server, said):
    server.switch(metadata=said)
    with server.client() as client:
        metadata = client.get("/.well-known/oauth-authorization-server").json()
    assert {name: metadata.get(name) for name in said} == said


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


def test_a_code_ends(server):
    client_id = registered(server)
    code = redirected(authorize(server, client_id))["code"]
    server.expire_codes()
    assert error(redeem(server, client_id, code)) == "invalid_grant"


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


def test_a_redirect_to_another_port_of_loopback_is_followed_unless_a_test_forbids_it(server):
    client_id = registered(server)
    other = "http://127.0.0.1:4998/callback"
    assert authorize(server, client_id, redirect_uri=other).headers["location"].startswith(other)
    server.switch(loopback_ports=False)
    assert error(authorize(server, client_id, redirect_uri=other)) == "invalid_request"


@pytest.mark.parametrize("consent", ["auto", "deny"])
@pytest.mark.parametrize("iss", ["right", "wrong", "missing"])
def test_the_response_names_an_issuer_as_switched(server, consent, iss):
    server.switch(consent=consent, iss=iss)
    said = redirected(authorize(server, registered(server)))
    right = {"right": server.issuer, "wrong": "https://wrong.example", "missing": None}
    assert said.get("iss") == right[iss]
    assert said.get("error") == (None if consent == "auto" else "access_denied")


def test_the_person_may_grant_less(server):
    server.switch(granted=["notes:read"])
    assert sign_in(server, scope="notes:read notes:write")["scope"] == "notes:read"


def test_more_scopes_come_with_another_login(server):
    first = sign_in(server)
    second = sign_in(server, first["client_id"], scope="notes:read notes:write")
    assert (first["scope"], second["scope"]) == ("notes:read", "notes:read notes:write")


def test_a_scope_that_is_not_there_is_refused(server):
    said = redirected(authorize(server, registered(server), scope="notes:burn"))
    assert said["error"] == "invalid_scope"


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


def test_the_page_waits_for_a_click(server):
    server.switch(consent="page")
    fields = authorization_fields(registered(server, client_name="<b>a test</b>"))
    with server.client() as client:
        page = client.get(server.url("authorize"), params=fields)
        assert page.status_code == 200
        assert "Sign in to &lt;b&gt;a test&lt;/b&gt;" in page.text
        denied = client.post(server.url("authorize"), params=fields, data={"decision": "deny"})
        approved = client.post(server.url("authorize"), params=fields, data={"decision": "approve"})
    assert redirected(denied)["error"] == "access_denied"
    assert redirected(approved)["code"]


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


def test_refresh_tokens_may_stay_or_not_exist_or_need_a_scope(server):
    server.switch(rotate=False)
    tokens = sign_in(server)
    for _ in range(2):
        renewed = refresh(server, tokens["client_id"], tokens["refresh_token"])
        assert "refresh_token" not in renewed.json()
    server.switch(refresh_tokens=False)
    assert "refresh_token" not in sign_in(server)
    server.switch(refresh_tokens=True, offline_access=True)
    assert "refresh_token" not in sign_in(server)
    assert "refresh_token" in sign_in(server, scope="notes:read offline_access")


def test_a_refresh_token_belongs_to_its_client(server):
    tokens = sign_in(server)
    assert error(refresh(server, registered(server), tokens["refresh_token"])) == "invalid_grant"


def test_access_tokens_expire_on_demand(server):
    server.switch(access_seconds=600)
    tokens = sign_in(server)
    assert tokens["expires_in"] == 600
    server.expire_access_tokens()
    assert introspect(server, tokens["access_token"]) == {"active": False}
    assert refresh(server, tokens["client_id"], tokens["refresh_token"]).status_code == 200


@pytest.mark.parametrize(("told", "said"), [(1, 1), (0, None)])
def test_a_client_may_be_told_another_expiry_or_none(server, told, said):
    server.switch(told_seconds=told)
    tokens = sign_in(server)
    assert tokens.get("expires_in") == said
    assert introspect(server, tokens["access_token"])["active"] is True


def test_tokens_are_revoked_by_their_client_or_by_the_test(server):
    tokens, other = sign_in(server), sign_in(server)
    with server.client() as client:
        form = {"token": tokens["refresh_token"], "client_id": tokens["client_id"]}
        assert client.post(server.url("revoke"), data=form).status_code == 200
    assert introspect(server, tokens["access_token"]) == {"active": False}
    assert introspect(server, other["access_token"])["active"] is True
    server.revoke_tokens()
    assert error(refresh(server, other["client_id"], other["refresh_token"])) == "invalid_grant"


def test_a_registered_client_gets_a_secret_where_it_needs_one(server):
    public = register(server).json()
    assert "client_secret" not in public
    secret = register(server, token_endpoint_auth_method="client_secret_basic").json()
    assert secret["client_secret"]
    assert secret["client_secret_expires_at"] == 0
    server.switch(secret_seconds=60, registered_method="client_secret_post")
    assigned = register(server).json()
    assert assigned["token_endpoint_auth_method"] == "client_secret_post"
    assert assigned["client_secret_expires_at"] > time.time()


def test_registration_may_be_closed(server):
    server.switch(registration=False)
    assert register(server).status_code == 404


def test_a_client_that_is_forgotten_is_unknown_at_both_endpoints(server):
    server.add_client("known", redirect_uris=[REDIRECT], token_endpoint_auth_method="none")
    tokens = sign_in(server)
    server.forget_clients()
    assert error(authorize(server, tokens["client_id"])) == "invalid_client"
    assert error(refresh(server, tokens["client_id"], tokens["refresh_token"])) == "invalid_client"
    assert [client["client_id"] for client in server.clients()] == ["known"]
    assert sign_in(server, "known")["access_token"]


def test_a_client_is_who_its_metadata_document_says(server):
    url = server.publish("pflow.json", client_name="pflow", redirect_uris=[REDIRECT])
    tokens = sign_in(server, url)
    assert introspect(server, tokens["access_token"])["client_id"] == url
    assert server.requests("documents")
    server.reset()
    server.switch(client_documents=False)
    assert error(authorize(server, url)) == "invalid_client"


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


def test_a_device_may_be_denied_or_too_late(server, device):
    server.switch(consent="page")
    _, poll = device()
    server.decide(approved=False)
    assert error(poll()) == "access_denied"
    _, poll = device()
    server.expire_devices()
    assert error(poll()) == "expired_token"


@pytest.mark.parametrize(("consent", "ends"), [("auto", 200), ("deny", 400)])
def test_a_device_needs_no_person_where_consent_is_automatic(server, device, consent, ends):
    server.switch(consent=consent, pending_polls=2)
    _, poll = device()
    assert [error(poll()) for _ in range(2)] == ["authorization_pending"] * 2
    assert poll().status_code == ends


@pytest.mark.parametrize(
    ("endpoint", "method", "path"),
    [
        ("metadata", "GET", "/.well-known/oauth-authorization-server"),
        ("authorize", "GET", "/login/authorize"),
        ("token", "POST", "/login/token"),
        ("register", "POST", "/login/register"),
        ("device", "POST", "/login/device"),
        ("introspect", "POST", "/login/introspect"),
        ("revoke", "POST", "/login/revoke"),
        ("verify", "GET", "/login/device/verify"),
    ],
)
def test_each_endpoint_fails_on_demand(server, endpoint, method, path):
    server.fail(endpoint, times=1, status=429, headers={"Retry-After": "7"}, body={"error": "slow"})
    server.fail(endpoint, times=1, status=302, headers={"Location": "https://other.example/"})
    server.fail(endpoint, hang=True)
    with server.client() as client:
        limited, elsewhere = client.request(method, path), client.request(method, path)
        with pytest.raises(httpx2.ReadTimeout):
            client.request(method, path, timeout=0.3)
        server.mend()
        assert client.request(method, path).status_code != 503
    assert (limited.status_code, limited.headers["retry-after"]) == (429, "7")
    assert limited.json() == {"error": "slow"}
    assert elsewhere.headers["location"] == "https://other.example/"
    assert [entry.status for entry in server.requests(endpoint)][:3] == [429, 302, None]


def test_a_fault_may_be_for_some_requests_only_and_come_after_the_work(server):
    tokens = sign_in(server)
    server.fail("token", when={"grant_type": "refresh_token"}, times=1, processed=True)
    assert sign_in(server, tokens["client_id"])
    assert refresh(server, tokens["client_id"], tokens["refresh_token"]).status_code == 503
    assert error(refresh(server, tokens["client_id"], tokens["refresh_token"])) == "invalid_grant"


def test_an_answer_may_break_off(server):
    server.fail("metadata", broken=True)
    with server.client() as client, pytest.raises(httpx2.RemoteProtocolError):
        client.get("/.well-known/oauth-authorization-server")


def test_a_slow_answer_is_the_right_one(server):
    server.fail("metadata", delay=0.3, status=0)
    started = time.monotonic()
    with server.client() as client:
        assert client.get("/.well-known/oauth-authorization-server").json()["issuer"] == server.issuer
    assert time.monotonic() - started > 0.3


def test_a_test_can_wait_for_a_request(server):
    server.fail("token", hang=True)
    with ThreadPoolExecutor(1) as threads:
        hanging = threads.submit(ask_token, server, grant_type="refresh_token")
        server.wait_for("token")
        assert not hanging.done()
        with server.client() as client:
            assert client.get("/.well-known/oauth-authorization-server").status_code == 200
        server.mend()
        assert hanging.result(20).status_code == 503


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


def test_a_switch_that_does_not_exist_is_a_mistake(server):
    with pytest.raises(AssertionError):
        server.switch(rotates=False)


def test_any_number_run_at_the_same_time_and_know_nothing_of_each_other(certificate_authority):
    with ExitStack() as stack:
        three = [stack.enter_context(starting(certificate_authority)) for _ in range(3)]
        assert len({server.issuer for server in three}) == 3
        tokens = sign_in(three[0])
        assert introspect(three[1], tokens["access_token"]) == {"active": False}
        processes = [server.process for server in three]
    assert all(process.poll() is not None for process in processes)


def test_a_server_that_tests_share_is_not_left_behind_by_one_of_them(
    pflow_home, no_leftovers, certificate_authority, server
):
    with starting(certificate_authority) as own:
        assert sign_in(own)
    assert sign_in(server)


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
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        text=True,
    ) as killed:
        pid = int(killed.stdout.readline())
        assert Path(f"/proc/{pid}").exists()
        killed.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 20
    while _runs(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not _runs(pid)


def _runs(pid):
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return False
