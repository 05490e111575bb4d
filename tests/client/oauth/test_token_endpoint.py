"""What the token endpoint may answer, and what is made of it."""

from __future__ import annotations

import time

import pytest
from scripted_realm import refused

LIFETIMES = (60, "60", 0.5)


@pytest.mark.parametrize("given", [*LIFETIMES, None, True, "soon", -1, 0, "0", 1e99])
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


@pytest.mark.parametrize(
    ("status", "content", "words"),
    [
        (404, {}, "answered HTTP 404"),
        (400, {"error": 3}, "answered HTTP 400"),
        (400, {"error": "bad\x1b[31m", "error_description": "x" * 500}, f"bad?[31m ({'x' * 200}"),
    ],
)
def test_a_refusal_is_told_in_one_short_line(realm, pool, status, content, words):
    realm.sign_in(expires_in=-10)
    realm.answers.append((status, content))
    failure = refused(pool, realm.launch())
    assert words in failure.message
    assert len(failure.message.splitlines()) == 1
