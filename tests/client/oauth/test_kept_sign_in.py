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


def test_a_machine_signs_in_again_where_the_keyring_that_has_its_tokens_cannot_be_read(realm, pool):
    assert pool.call(realm.machine(), ACT).content[0]["text"] == "done"
    (file,) = realm.folder.glob("*.json")
    file.write_text(json.dumps({**json.loads(file.read_text()), "secrets": "keyring"}))
    with Pool(pytest.fail, sign_in_folder=realm.folder) as next_run:
        assert next_run.call(realm.machine(), ACT).content[0]["text"] == "done"
