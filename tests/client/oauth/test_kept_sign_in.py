"""A sign-in that cannot be read or stored costs as little as possible, and says so."""

from __future__ import annotations

import json

import attrs
import pytest
from scripted_realm import ACT, refused

from pflow_mcp_plugin.client import Pool
from pflow_mcp_plugin.client.oauth.sign_in_state import Tokens


def test_without_a_login_nothing_is_sent(realm, pool):
    failure = refused(pool, realm.launch())
    assert failure.message == f"Server web: nobody is signed in at {realm.server.url()}"
    assert (failure.action, failure.exit_code) == ("auth_failed", 3)
    assert realm.server.requests == []


def test_tokens_that_cannot_be_stored_are_good_for_this_run(realm, pool, warnings_seen):
    realm.sign_in(expires_in=-10)
    (file,) = realm.folder.glob("*.json")
    realm.on_token = lambda: file.is_dir() or (file.unlink(), file.mkdir(), (file / "x").touch())
    assert pool.call(realm.launch(), ACT).content[0]["text"] == "done"
    assert "its new token could not be stored" in warnings_seen[0]
    realm.valid.clear()
    assert pool.call(realm.launch(), ACT).content[0]["text"] == "done"
    assert [form["refresh_token"] for form in realm.forms] == ["planted-refresh-0", "planted-refresh-1"]
    assert not any("planted" in line for line in warnings_seen)


def test_what_could_not_be_stored_takes_the_place_of_no_login_that_was_made_meanwhile(
    realm, disk, warnings_seen
):
    sign_in = realm.sign_in(expires_in=-10)

    realm.on_token = disk.fill
    with Pool(warnings_seen.append, sign_in_folder=realm.folder) as pool:
        assert pool.call(realm.launch(), ACT).content[0]["text"] == "done"
        disk.full = False
        later = attrs.evolve(sign_in, tokens=Tokens(access="later"), signed_in_at=sign_in.signed_in_at + 1)
        realm.store.write(realm.key, later)
    assert realm.stored().access == "later"


def test_what_could_not_be_stored_is_not_stored_after_a_logout(realm, disk, warnings_seen):
    realm.sign_in(expires_in=-10)

    realm.on_token = disk.fill
    with Pool(warnings_seen.append, sign_in_folder=realm.folder) as pool:
        assert pool.call(realm.launch(), ACT).content[0]["text"] == "done"
        disk.full = False
        (entry,) = realm.store.entries()
        realm.store.take_out(entry)
    assert list(realm.store.entries()) == []


@pytest.mark.parametrize("is_machine", [False, True])
def test_tokens_in_a_keyring_that_cannot_be_read_are_not_taken_for_a_login_that_has_ended(
    realm, pool, is_machine
):
    launch = realm.machine() if is_machine else realm.launch()
    realm.sign_in()
    if is_machine:
        assert pool.call(launch, ACT).content[0]["text"] == "done"
    for file in realm.folder.glob("*.json"):
        content = json.loads(file.read_text())
        file.write_text(json.dumps({**content, "secrets": "keyring"}))
    before = file.read_bytes()
    with Pool(pytest.fail, sign_in_folder=realm.folder) as next_run:
        if is_machine:
            assert next_run.call(launch, ACT).content[0]["text"] == "done"
            return
        failure = refused(next_run, launch)
    assert failure.message == "Server web: its tokens are in the keyring, which cannot be read"
    assert (failure.action, failure.exit_code) == ("auth_failed", 3)
    step = "unlock the keyring of this system; if it is gone, run: pflow mcp login web"
    assert failure.suggestions == (step,)
    assert file.read_bytes() == before
    assert realm.server.requests == []
