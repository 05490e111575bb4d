"""Faults of signing in: fault 56 and those that are of the same kind."""

import asyncio
import json
import subprocess
import sys

import attrs
import pytest
from http_server import FaultServer, trickling, well
from scripted_realm import Realm
from signing_in import Visitor

from pflow_mcp_plugin.client import Pool
from pflow_mcp_plugin.client.oauth.sign_in_state import Tokens
from pflow_mcp_plugin.client.request_failures import NoAccessToken
from pflow_mcp_plugin.errors import McpError
from pflow_mcp_plugin.exchange import ToolCall
from pflow_mcp_plugin.storage import StoreError

ACT = ToolCall(server="web", tool="act")
LOGIN = {"action": "auth_failed", "suggestions": ("run: pflow mcp login web",)}
LATER = {"suggestions": ("try again later; the login is kept",)}

PROGRAM = """
import sys
from pathlib import Path
from pflow_mcp_plugin.client import Pool
from pflow_mcp_plugin.exchange import Launch, ToolCall
from pflow_mcp_plugin.types import Server
server = Server(name="web", transport="http", url=sys.argv[1], auth={"type": "oauth"}, startup_timeout=60)
with Pool(print, sign_in_folder=Path(sys.argv[2])) as pool:
    print("ready", flush=True)
    sys.stdin.readline()
    print(pool.call(Launch(server=server), ToolCall(server="web", tool="act")).content[0]["text"])
"""


@pytest.mark.timeout(90)
def test_row_56_two_processes_with_one_refresh_token_redeem_it_once(tmp_path):
    realm = Realm(tmp_path)

    async def slow(request, reply):
        """Answer once nobody else has asked for a while."""
        asked = len(realm.server.requests)
        for _ in range(100):
            await asyncio.sleep(0.01)
            if len(realm.server.requests) > asked:
                break
        await realm.token(request, reply)

    realm.scripts["/odd/token"] = slow
    with realm.server:
        realm.sign_in(expires_in=-1)
        command = [sys.executable, "-c", PROGRAM, realm.server.url(), str(tmp_path)]
        pipe = subprocess.PIPE
        running = [subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) for _ in range(2)]
        assert [process.stdout.readline() for process in running] == ["ready\n"] * 2
        for process in running:
            process.stdin.write("go\n")
            process.stdin.flush()
        outputs = [process.communicate(timeout=60)[0] for process in running]
    assert [form["refresh_token"] for form in realm.forms] == ["planted-refresh-0"]
    assert outputs == ["done\n"] * 2


@pytest.fixture
def call(realm):
    """Call the tool in a run of its own, which warns of nothing."""

    def made(launch=None):
        with Pool(pytest.fail, sign_in_folder=realm.folder) as pool:
            return pool.call(launch or realm.launch(), ACT).content[0]["text"]

    return made


@pytest.fixture
def fails(call):
    """Call the tool, which fails with these words and fields; it saw nothing of the call."""

    def made(words="", launch=None, **fields):
        with pytest.raises(McpError) as raised:
            call(launch)
        failure = raised.value
        assert words in failure.message
        fields |= {"exit_code": 3, "ran": "not ran"}
        assert {name: getattr(failure, name) for name in fields} == fields
        assert "planted" not in repr(failure.to_dict())
        return failure

    return made


def test_row_65_an_expired_token_that_cannot_be_refreshed_is_not_sent(realm, fails):
    sign_in = realm.sign_in(expires_in=-1)
    realm.sign_in(tokens=attrs.evolve(sign_in.tokens, refresh=""))
    fails(message="Server web: the login has expired", **LOGIN)
    assert realm.server.requests == []


def test_row_66_a_refused_refresh_token_ends_the_login_that_it_is_of(realm, fails, call):
    realm.sign_in(expires_in=-1)
    realm.refresh = "another"
    assert "the login has ended: " in fails("answered invalid_grant", **LOGIN).message
    assert realm.stored() is None
    fails()
    assert len(realm.forms) == 1
    realm.sign_in()
    assert call() == "done"


def test_row_66_a_refused_refresh_token_ends_no_later_login(realm, fails, call):
    sign_in = realm.sign_in(expires_in=-1)
    realm.refresh = "another"
    realm.valid.add("later")
    later = attrs.evolve(sign_in, tokens=Tokens(access="later", refresh="later"))
    realm.on_token = lambda: realm.store.write(realm.key, later)
    fails()
    assert realm.stored() == later.tokens
    assert call() == "done"


@pytest.mark.parametrize(
    ("status", "content", "words"),
    [
        (500, {"error": "invalid_grant"}, "answered HTTP 500"),
        (429, {}, "answered HTTP 429"),
        (200, ["?"], ""),
        (200, {"access_token": "a b"}, ""),
    ],
)
def test_row_67_a_failing_authorization_server_ends_no_login(realm, fails, call, status, content, words):
    before = realm.sign_in(expires_in=-1).tokens
    realm.answers.append((status, content))
    fails(words, action="error", retryable=True, **LATER)
    assert realm.stored() == before
    assert call() == "done"


trickle = trickling(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n")


async def reset(request, reply):
    reply.reset()


@pytest.mark.parametrize(("script", "words"), [(trickle, "it did not answer within 1 s"), (reset, "")])
def test_row_68_an_authorization_server_that_does_not_finish_its_answer_ends_no_login(
    realm, fails, call, script, words
):
    before = realm.sign_in(expires_in=-1).tokens
    realm.scripts["/odd/token"] = script
    fails(f"/odd/token could not be asked: {words}", realm.launch(timeout=1), **LATER)
    assert realm.stored() == before
    realm.scripts.clear()
    assert call() == "done"


def test_row_69_a_token_of_another_issuer_than_that_in_the_config_is_not_sent(realm, fails):
    before = realm.sign_in().tokens
    launch = realm.launch({"type": "oauth", "issuer": "https://login.example.com"})
    words = f"its last login was at {realm.server.url()}, with {realm.issuer}, and is valid there only"
    fails(words, launch, **LOGIN)
    assert realm.server.requests == []
    assert realm.stored() == before


def test_row_69_the_credentials_of_a_machine_go_to_no_other_issuer(realm, fails):
    realm.resource = {"authorization_servers": ["https://evil.example"]}
    words = f"it uses the authorization server https://evil.example, not {realm.issuer}"
    fails(words, realm.machine(), action="auth_failed")
    assert realm.forms == []


def test_row_70_a_token_is_not_sent_to_another_url_of_its_server(realm, fails):
    realm.sign_in()
    moved = attrs.evolve(realm.launch().server, url=realm.server.url(path="/moved"))
    words = f"its last login was at {realm.server.url()}, with {realm.issuer}, and is valid there only"
    fails(words, attrs.evolve(realm.launch(), server=moved), **LOGIN)
    assert realm.server.requests == []


@pytest.fixture
def person(protected_server, tmp_path):
    """Somebody at a browser."""
    return Visitor(protected_server, tmp_path / "oauth")


@pytest.mark.parametrize("methods", [None, ["plain"]])
def test_row_71_without_s256_no_browser_is_opened(person, authorization_server, methods):
    authorization_server.switch(metadata={"code_challenge_methods_supported": methods})
    with pytest.raises(NoAccessToken, match="code_challenge_methods_supported does not name S256") as failure:
        person.sign_in()
    assert failure.value.remedy == "operator"
    assert person.urls == []
    assert [request.endpoint for request in authorization_server.requests()] == ["metadata"]


def test_row_74_a_client_that_was_forgotten_is_registered_again_once(person, authorization_server):
    person.sign_in()
    authorization_server.forget_clients()
    person.sign_in()
    assert len(authorization_server.requests("register")) == 2
    assert person.stored().tokens.access == authorization_server.tokens()[-1]["access"]


def test_row_74_a_client_that_is_never_known_is_not_registered_for_ever(person, authorization_server):
    authorization_server.fail("token", status=401, body={"error": "invalid_client"})
    with pytest.raises(NoAccessToken, match="invalid_client"):
        person.sign_in()
    assert len(authorization_server.requests("register")) == 1


@pytest.mark.parametrize("code", ["invalid_client", "invalid_scope", "unauthorized_client"])
def test_row_74_a_forgotten_client_at_a_refresh_asks_for_a_login_and_keeps_the_tokens(realm, fails, code):
    before = realm.sign_in(expires_in=-1).tokens
    realm.answers.append((401, {"error": code, "error_description": "because"}))
    failure = fails(f"answered {code} (because); the tokens are kept", **LOGIN)
    assert "has ended" not in failure.message
    assert realm.stored() == before


@pytest.mark.parametrize("issuer", ["https://evil.example", "{origin}/other", None, 1])
def test_row_72_metadata_of_another_issuer_are_refused(realm, fails, issuer):
    realm.metadata = {"issuer": issuer.format(origin=realm.issuer) if isinstance(issuer, str) else issuer}
    report = ("report it to the server's operator",)
    fails("is that of another issuer, ", realm.machine(), suggestions=report)
    assert realm.forms == []


@pytest.mark.parametrize(
    ("name", "url"),
    [
        ("authorization_endpoint", "javascript:alert(1)"),
        ("token_endpoint", "http://login.example.com/x"),
        ("registration_endpoint", "//login.example.com"),
    ],
)
def test_row_73_an_endpoint_of_an_unsafe_scheme_is_refused_by_name(realm, fails, name, url):
    realm.metadata = {name: url}
    failure = fails("must be an https URL", realm.machine())
    assert f"{name} in the metadata of its authorization server {realm.issuer} is refused" in failure.message
    assert realm.forms == []


def test_row_75_a_scope_that_was_not_granted_is_named_before_anything_is_sent(realm, fails, call):
    realm.sign_in()
    failure = fails(
        launch=realm.launch({"type": "oauth", "scopes": ["read", "write", "admin"]}),
        message="Server web: the scope write admin was not granted",
        action="auth_failed",
        suggestions=("run: pflow mcp login web --scope write --scope admin",),
    )
    assert failure.details["scope"] == "write admin"
    assert realm.server.requests == []
    assert call(realm.launch({"type": "oauth", "scopes": ["read", "offline_access"]})) == "done"


@pytest.mark.parametrize(
    ("is_machine", "scope", "step"),
    [
        (False, "a b", "run: pflow mcp login web --scope a --scope b"),
        (False, "a;rm", "run: pflow mcp login web --scope 'a;rm'"),
        (True, "files:write", "add files:write to scopes in auth of server web"),
    ],
)
def test_row_75_a_scope_that_a_tool_needs_is_named_and_the_call_sent_once(
    realm, fails, is_machine, scope, step
):
    async def more(request, reply):
        if request.rpc != "tools/call":
            return await realm.server._answer(request, reply)
        challenge = f'Bearer error="insufficient_scope", scope="{scope}"'
        return await reply.status(403, www_authenticate=challenge)

    realm.sign_in()
    realm.scripts["/mcp"] = more
    launch = realm.machine() if is_machine else realm.launch()
    failure = fails("(HTTP 403)", launch, action="auth_failed", suggestions=(step,))
    assert failure.message.endswith(f": it needs the scope {scope}")
    assert failure.details["scope"] == scope
    assert realm.count("tools/call") == 1
    assert len(realm.forms) == is_machine


@pytest.mark.parametrize("path", ["/.well-known/oauth-authorization-server", "/odd/token"])
def test_row_76_nothing_follows_a_redirect_to_another_host(realm, fails, path):
    with FaultServer(well) as other:

        async def elsewhere(request, reply):
            await reply.status(307, location=other.url(path="/x"))

        realm.scripts[path] = elsewhere
        failure = fails(f"{other.url(path='/x')}; refused", realm.machine())
        assert "redirects to " in failure.message
        assert other.requests == []


def test_row_77_a_locked_keyring_ends_no_login(realm, fails):
    realm.sign_in()
    (file,) = realm.folder.glob("*.json")
    file.write_text(json.dumps({**json.loads(file.read_text()), "secrets": "keyring"}))
    before = file.read_bytes()
    told = "Server web: its tokens are in the keyring, which cannot be read"
    failure = fails(message=told, action="auth_failed")
    assert failure.suggestions[0].startswith("unlock the keyring of this system; if it is gone, run: pflow")
    assert file.read_bytes() == before
    assert realm.server.requests == []


@pytest.mark.parametrize("content", ['{"server": "planted', '{"server": "planted"}', "[]"])
def test_row_78_a_corrupt_sign_in_is_told_with_its_file_and_left_until_the_next_login(
    realm, fails, call, content
):
    realm.sign_in()
    (file,) = realm.folder.glob("*.json")
    file.write_text(content)
    fails(f"Server web: its sign-in could not be read: {file}", **LOGIN)
    assert file.read_text() == content
    assert realm.server.requests == []
    realm.sign_in()
    assert call() == "done"


def test_row_79_a_sign_in_of_a_newer_schema_is_not_written_over(realm, fails):
    sign_in = realm.sign_in()
    (file,) = realm.folder.glob("*.json")
    file.write_text(json.dumps({**json.loads(file.read_text()), "schema_version": 99}))
    before = file.read_bytes()
    fails("a newer pflow wrote the sign-in", action="auth_failed", suggestions=("Upgrade pflow",))
    with pytest.raises(StoreError, match="newer pflow"):
        realm.store.write(realm.key, sign_in)
    assert file.read_bytes() == before
    assert realm.server.requests == []


def test_row_80_a_refresh_token_that_could_not_be_replaced_on_the_disk_is_not_spent(realm, fails, call, disk):
    before = realm.sign_in(expires_in=-1).tokens
    disk.full = True
    failure = fails("a new token could not be stored, so that none was requested")
    assert "no space left" in failure.message
    assert realm.forms == []
    disk.full = False
    assert realm.stored() == before
    assert call() == "done"


def test_row_80_a_token_that_cannot_be_stored_is_used_and_stored_later(realm, disk):
    realm.sign_in(expires_in=-1)
    realm.on_token = lambda: setattr(disk, "full", True)
    warnings = []
    with Pool(warnings.append, sign_in_folder=realm.folder) as pool:
        assert pool.call(realm.launch(), ACT).content[0]["text"] == "done"
        disk.full = False
    assert "its new token could not be stored" in warnings[0]
    assert realm.stored().refresh == realm.refresh
