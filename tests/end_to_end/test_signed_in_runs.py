"""Runs of workflows on a server that wants access tokens; nothing that is printed or kept tells one."""

from __future__ import annotations

import json
import os
from base64 import urlsafe_b64encode

import pytest
from planted_secrets import remains
from scripted_realm import Realm

SECRET = "planted-client-secret-0123456789"


@pytest.fixture
def realm(tmp_path, monkeypatch):
    """A server that wants access tokens; the keyring of whoever runs the tests is left alone."""
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
    made = Realm(tmp_path / "unused")
    with made.server:
        yield made


@pytest.fixture
def workflow(tmp_path):
    """A workflow of one step on that server."""
    file = tmp_path / "act.json"
    file.write_text(json.dumps({"nodes": [{"id": "act", "type": "mcp-web-act"}]}))
    return file


@pytest.fixture
def added(pflow, realm):
    """Add the server, with its secret in a variable."""
    auth = {
        "type": "oauth",
        "flow": "client_credentials",
        "client_id": "me",
        "client_secret": "${WEB_SECRET}",
        "issuer": realm.issuer,
    }
    document = json.dumps({"web": {"type": "http", "url": realm.server.url(), "auth": auth}})
    assert pflow("mcp", "add", document).exit_code == 0

    def run(*arguments):
        return pflow(*arguments, env={"WEB_SECRET": SECRET})

    return run


@pytest.mark.slow
def test_one_token_serves_a_sync_and_the_runs_after_it_and_is_in_none_of_their_files(
    realm, added, workflow, pflow_home
):
    printed = []
    for arguments in (("mcp", "sync", "web"), ("run", workflow, "--json"), ("mcp", "list", "--json")):
        finished = added(*arguments)
        assert finished.exit_code == 0, finished.stderr
        printed += [finished.stdout, finished.stderr]
    assert len(realm.forms) == 1
    kept = [
        path for path in pflow_home.rglob("*") if path.is_file() and "planted" in path.read_text("latin-1")
    ]
    assert [path.parent.name for path in kept] == ["oauth"]
    assert os.name == "nt" or kept[0].stat().st_mode & 0o777 == 0o600
    assert remains(SECRET, printed, pflow_home) == []
    assert remains("planted-access-1", printed) == remains("planted-refresh-1", printed) == []


@pytest.mark.slow
def test_a_run_without_access_fails_as_such_and_what_the_server_repeats_is_redacted(
    realm, added, workflow, pflow_home
):
    assert added("mcp", "sync", "web").exit_code == 0
    realm.valid.clear()
    text = f"no {SECRET} for planted-refresh-1"
    realm.answers += [
        (400, {"error": "invalid_grant"}),
        (401, {"error": "invalid_client", "error_description": text}),
    ]
    failed = added("run", workflow, "--json")
    assert failed.exit_code == 3
    error = json.loads(failed.stdout)["error"]
    assert "invalid_client (no *** for ***)" in error["message"]
    for folder in (pflow_home / "state", pflow_home / "cache"):
        assert remains(SECRET, [failed.stdout, failed.stderr], folder) == []
        assert remains("planted-refresh-1", [failed.stdout, failed.stderr], folder) == []


@pytest.mark.slow
def test_an_action_routes_a_run_without_access(realm, added, tmp_path):
    assert added("mcp", "sync", "web").exit_code == 0
    realm.valid.clear()
    realm.answers += [(400, {"error": "invalid_grant"}), (401, {"error": "invalid_client"})]
    nodes = [
        {"id": "act", "type": "mcp-web-act"},
        {"id": "else", "type": "echo", "params": {"message": "no access"}},
    ]
    file = tmp_path / "routed.json"
    file.write_text(
        json.dumps({"nodes": nodes, "edges": [{"from": "act", "to": "else", "action": "auth_failed"}]})
    )
    routed = added("run", file, "--json")
    assert routed.exit_code == 0, routed.stderr
    assert "no access" in routed.stdout


@pytest.mark.slow
def test_a_token_that_lacks_a_scope_is_not_sent_and_its_variable_is_named(pflow, realm, workflow):
    claims = urlsafe_b64encode(b'{"scope": "read"}').decode().rstrip("=")
    token = f"e30.{claims}.planted-signature"
    auth = {"token_env": "WEB_TOKEN", "scopes": ["read", "write"]}
    document = json.dumps({"web": {"type": "http", "url": realm.server.url(), "auth": auth}})
    assert pflow("mcp", "add", document).exit_code == 0
    for arguments in (("mcp", "sync", "web", "--json"), ("mcp", "test", "web", "--json")):
        failed = pflow(*arguments, env={"WEB_TOKEN": token})
        assert failed.exit_code == 3
        assert failed.envelope["error"]["message"] == (
            "Server web: its token lacks the scope write; it has read"
        )
        step = "set the variable WEB_TOKEN to a token with the scope write"
        assert failed.envelope["error"]["suggestions"] == [step]
        assert "planted" not in failed.stdout + failed.stderr
    assert realm.server.requests == []
