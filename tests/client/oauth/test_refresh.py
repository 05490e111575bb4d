"""Tokens are refreshed once, shortly before they expire; what answers, and others meanwhile, do to them."""

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import attrs
import pytest
from http_server import with_status
from scripted_realm import ACT, refused

from pflow_mcp_plugin.client import Pool
from pflow_mcp_plugin.client.oauth.sign_in_state import Registration, Tokens
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


@pytest.mark.parametrize(
    ("issued_at", "expires_at", "stale_at"), [(0, 1000, 940), (960, 1000, 990), (2000, 1000, 1000)]
)
def test_a_token_is_refreshed_a_minute_or_a_quarter_of_its_life_before_its_end(
    issued_at, expires_at, stale_at
):
    tokens = Tokens(access="a", issued_at=issued_at, expires_at=expires_at)
    assert (tokens.is_fresh(stale_at - 1), tokens.is_fresh(stale_at)) == (True, False)
    assert (tokens.is_valid(999), tokens.is_valid(1000)) == (True, False)
    assert Tokens(access="a").is_fresh(10**9)
    assert Tokens(access="a").is_valid(10**9)


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


def test_a_refresh_that_fails_early_does_no_harm(realm, call):
    realm.sign_in(expires_in=50)
    realm.answers += [(503, {})] * 10
    assert call() == "done"
    assert len(realm.forms) == 1
    assert realm.stored().refresh == "planted-refresh-0"


def test_a_server_that_refuses_every_token_is_told_as_such_without_a_loop(realm, pool):
    realm.sign_in()
    realm.scripts["/mcp"] = with_status(401)
    failure = refused(pool, realm.launch(protocol="handshake"))
    assert "not logged in" in failure.message
    assert (failure.action, failure.exit_code) == ("auth_failed", 3)
    assert failure.suggestions == ("run: pflow mcp login web",)
    assert len(realm.forms) == 1


def test_calls_at_once_refresh_a_refused_token_once_and_are_sent_again(realm, pool):
    realm.sign_in()
    pool.call(realm.launch(), ACT)
    assert realm.paths == []
    realm.valid.clear()
    with ThreadPoolExecutor(12) as threads:
        done = list(threads.map(lambda _: pool.call(realm.launch(), ACT), range(12)))
    assert len(done) == 12
    assert len(realm.forms) == 1


def test_a_refresh_that_has_begun_ends_even_if_its_run_is_over(realm):
    realm.sign_in(expires_in=-10)
    begun, over = threading.Event(), threading.Event()

    async def slow(request, reply):
        begun.set()
        await asyncio.to_thread(over.wait, 20)
        await reply.json(realm.issue())

    realm.scripts["/odd/token"] = slow
    with Pool(pytest.fail, sign_in_folder=realm.folder) as pool:
        pool.prepare(realm.launch())
        assert begun.wait(20)
        pool.cancel()
        threading.Timer(0.1, over.set).start()
    assert realm.stored().refresh == "planted-refresh-1"


def test_without_a_login_nothing_is_sent(realm, pool):
    failure = refused(pool, realm.launch())
    assert failure.message == f"Server web: nobody is signed in at {realm.server.url()}"
    assert (failure.action, failure.exit_code) == ("auth_failed", 3)
    assert realm.server.requests == []


@pytest.mark.parametrize("meanwhile", ["a login", "a logout"])
def test_what_could_not_be_stored_is_not_stored_after_a_login_or_logout_of_others(
    realm, disk, warnings_seen, meanwhile
):
    sign_in = realm.sign_in(expires_in=-10)
    later = attrs.evolve(sign_in, tokens=Tokens(access="later"), signed_in_at=sign_in.signed_in_at + 1)
    realm.on_token = disk.fill
    with Pool(warnings_seen.append, sign_in_folder=realm.folder) as pool:
        assert pool.call(realm.launch(), ACT).content[0]["text"] == "done"
        disk.full = False
        if meanwhile == "a login":
            realm.store.write(realm.key, later)
        else:
            (entry,) = realm.store.entries()
            realm.store.take_out(entry)
    assert realm.stored() == (later.tokens if meanwhile == "a login" else None)


LIFETIMES = (60, "60", 0.5)


@pytest.mark.parametrize("given", [*LIFETIMES, None, True, "soon", 0, 1e99])
def test_a_lifetime_may_be_a_number_or_a_string(realm, call, given):
    realm.sign_in(expires_in=-10)
    realm.answers.append((200, {**realm.issue(), "expires_in": given}))
    assert call() == "done"
    expires_at = realm.stored().expires_at
    assert (expires_at is not None) is (given in LIFETIMES)
    assert expires_at is None or expires_at - time.time() < float(given)


@pytest.mark.parametrize("scope", ["read  write", ["read", "write"], ["read write", 3]])
def test_scopes_may_be_a_string_or_a_list_and_the_refresh_token_stays_unless_there_is_a_new_one(
    realm, call, scope
):
    realm.sign_in(expires_in=-10)
    realm.answers.append((200, {"access_token": "planted-access-0", "scope": scope}))
    assert call() == "done"
    assert realm.stored().scopes == ("read", "write")
    assert realm.stored().refresh == "planted-refresh-0"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"access_token": "x\ny"}, "answered without a token"),
        ({"access_token": 1}, "answered without a token"),
        ({"access_token": "x", "token_type": "DPoP"}, "issued no bearer token"),
        ({"access_token": "x" * (1 << 21)}, "its answer is larger than 1 MiB"),
    ],
)
def test_a_token_that_cannot_be_sent_is_refused(realm, pool, answer, words):
    before = realm.sign_in(expires_in=-10).tokens
    realm.answers.append((200, answer))
    assert words in refused(pool, realm.launch()).message
    assert realm.stored() == before
