"""A person signs in with a code, where there is no browser; `auth` shows it, and `logout` ends it."""

from __future__ import annotations

import json

import pytest
from planted_secrets import remains

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
AUTH = {"type": "oauth", "flow": "device_code"}


@pytest.fixture
def notes(pflow, protected_server, authorization_server, monkeypatch):
    """Add the protected server, where one signs in with a code; a device need not wait between two polls."""
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
    authorization_server.switch(interval=0)
    table = {"type": "http", "url": protected_server.url, "ca_bundle": str(protected_server.ca_file)}
    table["auth"] = AUTH
    assert pflow("mcp", "add", json.dumps({"notes": table})).exit_code == 0
    return protected_server


def test_a_login_with_a_code_serves_runs_until_the_logout(
    pflow, notes, authorization_server, pflow_home, started, workflow
):
    authorization_server.switch(consent="page")
    login = started("mcp", "login", "notes", "--json")
    page_shown = ""
    while "?user_code=" not in page_shown:
        line = login.stderr.readline()
        assert line, page_shown
        page_shown += line
    with authorization_server.client() as client:
        assert client.post(page_shown.split()[-1], data={"decision": "approve"}).status_code == 200
    stdout, stderr = login.communicate(timeout=60)
    assert login.returncode == 0, stderr
    assert json.loads(stdout)["data"]["scopes"] == ["notes:read", "offline_access"]
    run = f"run {workflow(('read', 'mcp-notes-read-note', {}))} --json"
    lines = ("mcp sync notes", run, "mcp auth --json", "mcp auth notes", "mcp logout notes --json")
    runs = [pflow(*line.split()) for line in (*lines, run, "mcp auth --json")]
    assert [finished.exit_code for finished in runs] == [0, 0, 0, 0, 0, 3, 0]
    _, _, shown, lines, ended, failed, after = runs
    (row,) = shown.envelope["data"]
    assert (row["state"], row["issuer"]) == ("ready", authorization_server.issuer)
    assert "flow     device_code" in lines.stdout
    assert [each["revoked"] for each in ended.envelope["data"]["removed"]] == [True]
    assert all(token["revoked"] for token in authorization_server.tokens())
    assert "run: pflow mcp login notes" in failed.stdout
    assert [each["state"] for each in after.envelope["data"]] == ["needs_login"]
    printed = [stdout, page_shown, stderr, *(text for ended in runs for text in (ended.stdout, ended.stderr))]
    assert [
        found for secret in authorization_server.secrets() for found in remains(secret, printed, pflow_home)
    ] == []
