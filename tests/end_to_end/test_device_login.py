"""A person signs in with a code, where there is no browser; `auth` shows it, and `logout` ends it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from planted_secrets import remains

WORKFLOW = {"nodes": [{"id": "read", "type": "mcp-notes-read-note"}]}
AUTH = {"type": "oauth", "flow": "device_code"}


@pytest.fixture(autouse=True)
def _no_keyring_of_the_user(monkeypatch):
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")


@pytest.fixture
def notes(pflow, protected_server, authorization_server):
    """Add the protected server, where one signs in with a code; a device need not wait between two polls."""
    authorization_server.switch(interval=0)
    table = {
        "type": "http",
        "url": protected_server.url,
        "auth": AUTH,
        "ca_bundle": str(protected_server.ca_file),
    }
    assert pflow("mcp", "add", json.dumps({"notes": table})).exit_code == 0
    return protected_server


def approved_login(authorization_server):
    """Run `pflow mcp login notes`, enter the code that it shows, and return what it printed."""
    authorization_server.switch(consent="page")
    program = subprocess.Popen(
        [sys.executable, "-P", "-m", "pflow_mcp_plugin", "mcp", "login", "notes", "--json"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    try:
        shown = ""
        while "?user_code=" not in shown:
            line = program.stderr.readline()
            assert line, shown
            shown += line
        with authorization_server.client() as client:
            page = shown.split()[-1]
            assert client.post(page, data={"decision": "approve"}).status_code == 200
        stdout, stderr = program.communicate(timeout=60)
    finally:
        program.kill()
        program.communicate()
    assert program.returncode == 0, stderr
    return stdout, shown + stderr


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_login_with_a_code_serves_runs_until_the_logout(
    pflow, notes, authorization_server, pflow_home, tmp_path
):
    workflow = tmp_path / "read.json"
    workflow.write_text(json.dumps(WORKFLOW))
    printed = [*approved_login(authorization_server)]
    assert json.loads(printed[0])["data"]["scopes"] == ["notes:read", "offline_access"]
    runs = [
        pflow(*words)
        for words in (
            ("mcp", "sync", "notes"),
            ("run", workflow, "--json"),
            ("mcp", "auth", "--json"),
            ("mcp", "auth", "notes"),
            ("mcp", "logout", "notes", "--json"),
            ("run", workflow, "--json"),
            ("mcp", "auth", "--json"),
        )
    ]
    assert [finished.exit_code for finished in runs] == [0, 0, 0, 0, 0, 3, 0]
    _, _, shown, lines, ended, failed, after = runs
    (row,) = shown.envelope["data"]
    assert (row["state"], row["issuer"]) == ("ready", authorization_server.issuer)
    assert "flow     device_code" in lines.stdout
    assert [each["revoked"] for each in ended.envelope["data"]["removed"]] == [True]
    assert all(token["revoked"] for token in authorization_server.tokens())
    assert "run: pflow mcp login notes" in failed.stdout
    assert [each["state"] for each in after.envelope["data"]] == ["needs_login"]
    printed += [text for finished in runs for text in (finished.stdout, finished.stderr)]
    assert [
        found for secret in authorization_server.secrets() for found in remains(secret, printed, pflow_home)
    ] == []


@pytest.mark.slow
def test_a_login_that_is_denied_fails_as_such_and_leaves_nothing(
    pflow, notes, authorization_server, pflow_home
):
    authorization_server.switch(consent="deny")
    denied = pflow("mcp", "login", "notes", "--json")
    assert denied.exit_code == 3
    error = denied.envelope["error"]
    assert error["message"] == "Server notes: the login was denied"
    assert not list((pflow_home / "data" / "oauth").glob("*.json"))


@pytest.mark.slow
def test_a_server_that_is_removed_is_signed_out_of(pflow, notes, authorization_server, pflow_home):
    assert pflow("mcp", "login", "notes").exit_code == 0
    removed = pflow("mcp", "remove", "notes")
    assert removed.exit_code == 0, removed.stderr
    assert f"Signed out of server notes: {notes.url}" in removed.stdout
    assert all(token["revoked"] for token in authorization_server.tokens())
    assert pflow("mcp", "auth").stdout.startswith("No server has auth, and nobody is signed in")
