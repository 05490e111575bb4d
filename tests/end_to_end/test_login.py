"""A person signs in with `pflow mcp login`, once, in a browser."""

import json
import shlex
import signal
import subprocess
import sys

import page_follower
import pytest
from browser import approving_person
from programs import importing, until

# A keyring that waits for somebody who does not answer.
HANGING_KEYRING = """import os, time
def ask(*_):
    open(os.environ["ASKED"], "w").close()
    time.sleep(600)
get_password = set_password = delete_password = ask
"""


@pytest.fixture
def follower(tmp_path, protected_server):
    """A `$BROWSER` that goes where it is sent and keeps the last page; the authorization server approves."""
    last = tmp_path / "page.html"
    words = [sys.executable, page_follower.__file__, str(last), str(protected_server.ca_file)]
    return {"BROWSER": shlex.join(words) + " %s &"}


@pytest.fixture
def read_note(pflow, workflow):
    """Run a workflow that reads a note, and return how that went."""
    return lambda: pflow(
        "run", workflow(("read", "mcp-notes-read-note", {})), "--json", env={"BROWSER": "false"}
    )


def test_a_login_in_a_browser_serves_the_runs_after_it_and_is_refreshed_without_one(
    pflow, notes, authorization_server, follower, read_note, pflow_home, tmp_path
):
    finished = pflow("mcp", "login", "notes", env=follower)
    assert finished.exit_code == 0, finished.stderr
    assert f"Signed in at {notes.url}, with {authorization_server.issuer}" in finished.stdout
    assert 'Added auth = { type = "oauth" } to server notes' in finished.stdout
    page = tmp_path / "page.html"
    until(lambda: page.exists() and "Signed in" in page.read_text())
    assert pflow("mcp", "sync", "notes").exit_code == 0
    assert read_note().exit_code == 0
    (asked,) = authorization_server.requests("token", grant_type="authorization_code")
    assert asked.form["resource"] == notes.url
    (authorized,) = authorization_server.requests("authorize")
    assert authorized.query["code_challenge_method"] == "S256"
    assert authorized.query["resource"] == notes.url
    assert authorized.query["scope"] == "notes:read offline_access"

    (file,) = (pflow_home / "data" / "oauth").glob("*.json")
    content = json.loads(file.read_text())
    content["tokens"]["expires_at"] = 1
    file.write_text(json.dumps(content))
    authorization_server.expire_access_tokens()
    assert read_note().exit_code == 0
    (refreshed,) = authorization_server.refreshes()
    assert refreshed.form["resource"] == notes.url
    assert len(authorization_server.requests("authorize")) == 1


@pytest.mark.slow
def test_somebody_signs_in_with_the_mouse(pflow, notes, authorization_server, chromium, tmp_path):
    authorization_server.switch(consent="page")
    person = approving_person(chromium, tmp_path / "profile")
    finished = pflow("mcp", "login", "notes", env={"BROWSER": person})
    assert finished.exit_code == 0, finished.stderr
    assert pflow("mcp", "sync", "notes").exit_code == 0


def test_ctrl_c_ends_the_wait_and_leaves_nothing(notes, pflow_home, started, signalled, no_leftovers):
    program = started("mcp", "login", "notes", stdin=subprocess.PIPE, env={"BROWSER": "true %s &"})
    assert any("https://" in line for line in program.stderr)
    _, stderr = signalled(program, signal.SIGINT)
    assert program.returncode == 130
    assert "Traceback" not in stderr
    assert not list((pflow_home / "data").glob("oauth/*.json"))


def test_ctrl_c_ends_the_wait_for_a_keyring(notes, follower, tmp_path, started):
    asked = tmp_path / "asked"
    keyring = tmp_path / "modules" / "keyring.py"
    keyring.parent.mkdir()
    keyring.write_text(HANGING_KEYRING)
    env = {**follower, **importing(keyring.parent), "ASKED": str(asked)}
    program = started("mcp", "login", "notes", env=env)
    until(asked.exists)
    program.send_signal(signal.SIGINT)
    _, stderr = program.communicate(timeout=30)
    assert program.returncode == 130
    assert stderr.splitlines()[-1] == "Error: interrupted"
