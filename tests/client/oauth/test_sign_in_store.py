"""What is kept of sign-ins: private, apart for each server and issuer, in the keyring where there is one."""

import asyncio
import json
import re
import sys

import attrs
import pytest

from pflow_mcp_plugin.client.oauth import sign_in_state, sign_in_store
from pflow_mcp_plugin.client.oauth.sign_in_state import AuthorizationServer, Registration, SignIn, Tokens
from pflow_mcp_plugin.client.oauth.sign_in_store import SignInKey, SignInStore
from pflow_mcp_plugin.client.request_failures import NoAccessToken
from pflow_mcp_plugin.storage import StoreError

KEY = SignInKey("https://mcp.example.com/mcp?key=planted-query")
SECRETS = ("planted-access", "planted-refresh", "planted-client")
SIGN_IN = SignIn(
    server="web",
    server_url="https://mcp.example.com/mcp",
    resource="https://mcp.example.com/mcp",
    authorization_server=AuthorizationServer(
        issuer="https://login.example.com",
        token_endpoint="https://login.example.com/token",
        scopes_supported=("read", "write"),
        client_id_metadata_document_supported=True,
    ),
    registration=Registration(
        client_id="me",
        client_secret="planted-client",
        method="client_secret_basic",
        redirect_uris=("http://127.0.0.1:7000/callback",),
    ),
    tokens=Tokens(
        access="planted-access",
        refresh="planted-refresh",
        expires_at=2_000.5,
        issued_at=1.0,
        scopes=("read",),
    ),
    signed_in_at=1_000.0,
)


class Keyring:
    """A keyring, with what it holds and what it was asked; `takes` is called with each new secret."""

    def __init__(self):
        self.entries = {}
        self.asked = []
        self.takes = self.entries.__setitem__

    def get_password(self, _service, key):
        self.asked.append(key)
        return self.entries.get(key)

    def set_password(self, _service, key, value):
        self.takes(key, value)

    def delete_password(self, _service, key):
        del self.entries[key]


@pytest.fixture
def store(tmp_path):
    """A store."""
    return SignInStore(tmp_path / "oauth")


@pytest.fixture
def keyring(monkeypatch):
    """The keyring of this process."""
    installed = Keyring()
    monkeypatch.setitem(sys.modules, "keyring", installed)
    yield installed
    sign_in_store._from_keyring.cache_clear()


@pytest.fixture
def no_keyring(monkeypatch):
    """Nothing can be imported under the name of the keyring."""
    monkeypatch.setitem(sys.modules, "keyring", None)


def file_of(store):
    (file,) = store._folder.glob("*.json")
    return file


def secrets_in(store):
    return json.loads(file_of(store).read_text(encoding="utf-8"))["secrets"]


def test_a_sign_in_is_read_as_it_was_written_and_its_file_is_private(store, no_keyring):
    store.write(KEY, SIGN_IN)
    assert store.read(KEY) == SIGN_IN
    file = file_of(store)
    assert (file.stat().st_mode & 0o777, store._folder.stat().st_mode & 0o777) == (0o600, 0o700)
    assert "planted-query" not in file.name + file.read_text(encoding="utf-8")


def test_what_is_printed_of_a_sign_in_has_no_secrets(store, no_keyring):
    printed = f"{SIGN_IN!r} {SIGN_IN.tokens} {KEY!r}"
    assert not any(secret in printed for secret in (*SECRETS, "planted-query"))
    store.write(KEY, SIGN_IN)
    (entry,) = store.entries()
    assert entry.is_refreshable
    tokens = attrs.evolve(SIGN_IN.tokens, access="", refresh="")
    registration = attrs.evolve(SIGN_IN.registration, client_secret="")
    assert entry.sign_in == attrs.evolve(SIGN_IN, tokens=tokens, registration=registration)


def test_sign_ins_are_apart_for_each_url_client_and_issuer(store, no_keyring):
    store.write(KEY, SIGN_IN)
    assert store.read(SignInKey("https://mcp.example.com/mcp")) is None
    assert store.read(SignInKey(KEY.server_url, "me")) is None
    assert store.read(KEY, "https://other.example.com") is None
    there = attrs.evolve(SIGN_IN.authorization_server, issuer="https://other.example.com")
    other = attrs.evolve(SIGN_IN, authorization_server=there, signed_in_at=2_000.0)
    store.write(KEY, other)
    assert store.read(KEY) == other
    assert store.read(KEY, "https://login.example.com/") == SIGN_IN
    (entry,) = (each for each in store.entries() if each.sign_in.issuer == SIGN_IN.issuer)
    assert store.take_out(entry) == SIGN_IN
    assert store.read(KEY, SIGN_IN.issuer) is None
    assert store.read(KEY) == other


def test_an_ended_sign_in_keeps_its_registration(store, no_keyring):
    store.write(KEY, SIGN_IN)
    store.write(KEY, attrs.evolve(SIGN_IN, tokens=None))
    found = store.read(KEY)
    assert found.tokens is None
    assert found.registration == SIGN_IN.registration


def test_secrets_are_in_the_keyring_where_there_is_one(store, keyring):
    store.write(KEY, SIGN_IN)
    assert secrets_in(store) == "keyring"
    assert not any(secret in file_of(store).read_text() for secret in SECRETS)
    assert all(secret in str(keyring.entries) for secret in SECRETS)
    assert store.read(KEY) == SIGN_IN
    (entry,) = store.entries()
    assert store.take_out(entry) == SIGN_IN
    assert keyring.entries == {}
    assert list(store.entries()) == []
    assert store.take_out(entry) is None


def test_the_keyring_is_read_once_until_something_new_is_written(store, keyring):
    store.write(KEY, SIGN_IN)
    keyring.asked.clear()
    for _ in range(3):
        assert SignInStore(store._folder).read(KEY) == SIGN_IN
    assert len(list(store.entries())) == 1
    assert len(keyring.asked) == 1
    newer = attrs.evolve(SIGN_IN, tokens=Tokens(access="planted-newer"))
    store.write(KEY, newer)
    assert store.read(KEY) == newer


def raises(_key, _value):
    raise RuntimeError("it is locked")


@pytest.mark.parametrize("is_locked", [True, False])
def test_secrets_are_in_the_file_where_the_keyring_does_not_take_them(store, keyring, is_locked):
    keyring.takes = raises if is_locked else lambda *_: None
    store.write(KEY, SIGN_IN)
    assert set(secrets_in(store)) == {"access", "refresh", "client_secret"}
    assert store.read(KEY) == SIGN_IN


def test_without_its_keyring_a_sign_in_has_no_secrets_and_without_its_entry_no_tokens(store, keyring):
    store.write(KEY, SIGN_IN)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "keyring", None)
        sign_in_store._from_keyring.cache_clear()
        found = store.read(KEY).tokens
        assert (found.access, found.refresh, found.scopes) == ("", "", ("read",))
    sign_in_store._from_keyring.cache_clear()
    sign_in_store._ask_keyring("delete_password", file_of(store).stem)
    assert store.read(KEY).tokens is None


def test_what_cannot_be_removed_or_locked_is_named_once(store, no_keyring):
    store.write(KEY, SIGN_IN)
    (entry,) = store.entries()
    file = file_of(store)
    file.unlink()
    file.mkdir()
    with pytest.raises(StoreError) as failure:
        store.take_out(entry)
    assert failure.value.message.count(str(file)) == 1
    lock = store._folder / f"{KEY.digest}.lock"
    lock.unlink(missing_ok=True)
    lock.mkdir()

    async def locked():
        async with store.locked(KEY):
            pytest.fail("it was locked")

    with pytest.raises(StoreError) as failure:
        asyncio.run(locked())
    assert str(lock) not in failure.value.message


@pytest.mark.parametrize("number", ["1e300", "1e400", "-5", "9" * 400, "true", '"1"'])
def test_a_time_that_no_calendar_has_is_unknown(store, no_keyring, number):
    store.write(KEY, SIGN_IN)
    file = file_of(store)
    file.write_text(re.sub(r'("expires_at"|"signed_in_at"): [\d.]+', rf"\1: {number}", file.read_text()))
    found = store.read(KEY)
    assert (found.tokens.expires_at, found.signed_in_at) == (None, 0.0)


def test_json_that_describes_no_sign_in_is_refused_by_field():
    good = sign_in_state.as_json(SIGN_IN)
    assert sign_in_state.from_json(good) == SIGN_IN
    for key, value in (("resource", ""), ("server_url", None), ("authorization_server", []), ("tokens", 1)):
        with pytest.raises(ValueError, match=f"{key}|AuthorizationServer|Tokens"):
            sign_in_state.from_json({**good, key: value})


def test_the_lock_keeps_others_out_until_it_is_released(store, monkeypatch):
    monkeypatch.setattr("pflow_mcp_plugin.client.oauth.sign_in_store._LOCK_SECONDS", 0.1)

    async def both():
        async with store.locked(KEY):
            with pytest.raises(NoAccessToken, match="another process"):
                await SignInStore(store._folder).locked(KEY).__aenter__()
            async with SignInStore(store._folder).locked(SignInKey("https://other")):
                pass
        async with SignInStore(store._folder).locked(KEY):
            pass

    asyncio.run(both())


def test_a_file_that_cannot_be_read_is_listed_with_the_reason_beside_the_others(store, no_keyring):
    store.write(KEY, SIGN_IN)
    for name, text in (("0-1.json", "{"), ("0-2.json", '{"schema_version": 1}')):
        (store._folder / name).write_text(text)
    broken, wrong, good = store.entries()
    assert (broken.sign_in, wrong.sign_in, good.sign_in.server) == (None, None, "web")
    assert "0-1.json" in broken.problem
    assert "not a sign-in" in wrong.problem
    assert good.digest == KEY.digest
    assert good.name == store.name_of(KEY, SIGN_IN.issuer)
