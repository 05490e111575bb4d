"""Requests get a token that is good: refreshed in time, and replaced once where it is refused."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from http_server import with_status
from scripted_realm import ACT, refused

from pflow_mcp_plugin.client import Pool


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
