"""A person signs in with `pflow mcp login`, once: in a browser, or by pasting the redirect."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from urllib.parse import parse_qsl, urlsplit

import pytest
from browser import approving_person
from planted_secrets import remains
from typing_terminal import terminal

WORKFLOW = {"nodes": [{"id": "read", "type": "mcp-notes-read-note"}]}

# Opens a page as a browser does, follows its redirects and keeps what it shows at the end.
FOLLOWER = """import os, ssl, sys, urllib.request
context = ssl._create_unverified_context()
https = urllib.request.HTTPSHandler(context=context)
opener = urllib.request.build_opener(https, urllib.request.ProxyHandler({}))
try:
    page = opener.open(sys.argv[2], timeout=60).read().decode()
except urllib.error.HTTPError as error:
    page = error.read().decode()
with open(sys.argv[1] + ".part", "w") as file:
    file.write(page)
os.rename(sys.argv[1] + ".part", sys.argv[1])
"""

# A keyring that waits for somebody who does not answer.
HANGING_KEYRING = """import os, time
def ask(*_):
    open(os.environ["ASKED"], "w").close()
    time.sleep(600)
get_password = set_password = delete_password = ask
"""


@pytest.fixture(autouse=True)
def _no_keyring_of_the_user(monkeypatch):
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")


@pytest.fixture
def last_page(tmp_path):
    """Where a follower keeps the page that it has come to."""
    return tmp_path / "page.html"


@pytest.fixture
def follower(tmp_path, last_page):
    """A `$BROWSER` that goes wherever it is sent; the authorization server approves."""
    script = tmp_path / "follower.py"
    script.write_text(FOLLOWER)
    return {"BROWSER": shlex.join([sys.executable, str(script), str(last_page)]) + " %s &"}


@pytest.fixture
def notes(pflow, protected_server, monkeypatch):
    """Add the protected server, without saying that one signs in there."""
    monkeypatch.setenv("SSL_CERT_FILE", str(protected_server.ca_file))
    assert pflow("mcp", "add", "notes", protected_server.url).exit_code == 0
    return protected_server


@pytest.fixture
def read_note(pflow, tmp_path):
    """Run a workflow that reads a note, and return how that went."""
    file = tmp_path / "read.json"
    file.write_text(json.dumps(WORKFLOW))
    return lambda: pflow("run", file, "--json", env={"BROWSER": "false"})


@contextmanager
def asking():
    """Run `pflow mcp login notes --no-browser`, and yield the program and the URL that it shows."""
    program = subprocess.Popen(
        [sys.executable, "-P", "-m", "pflow_mcp_plugin", "mcp", "login", "notes", "--no-browser"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    try:
        shown = ""
        while "paste it here" not in shown:
            line = program.stderr.readline()
            assert line, shown
            shown += line
        yield program, re.search(r"https://\S+", shown)[0]
    finally:
        program.kill()
        program.communicate()


def redirect_of(server, url):
    """Return where an approved login sends the browser."""
    with server.client() as client:
        answer = client.get(url)
    assert answer.status_code == 302, answer.text
    return answer.headers["location"]


def wait_for(path):
    deadline = time.monotonic() + 30
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return path.read_text()


def one_refresh(server):
    (entry,) = server.refreshes()
    return entry


def test_a_login_in_a_browser_serves_the_runs_after_it_and_is_refreshed_without_one(
    pflow, notes, authorization_server, follower, last_page, read_note, pflow_home
):
    finished = pflow("mcp", "login", "notes", env=follower)
    assert finished.exit_code == 0, finished.stderr
    assert f"Signed in at {notes.url}, with {authorization_server.issuer}" in finished.stdout
    assert 'Added auth = { type = "oauth" } to server notes' in finished.stdout
    assert "Signed in" in wait_for(last_page)
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
    assert one_refresh(authorization_server).form["resource"] == notes.url
    assert len(authorization_server.requests("authorize")) == 1


def test_a_refresh_that_fails_for_now_keeps_the_login(
    pflow, notes, authorization_server, follower, read_note
):
    authorization_server.switch(access_seconds=1)
    assert pflow("mcp", "login", "notes", env=follower).exit_code == 0
    assert pflow("mcp", "sync", "notes").exit_code == 0
    authorization_server.expire_access_tokens()
    authorization_server.fail("token", status=503)
    failed = read_note()
    assert failed.exit_code == 3
    assert "answered HTTP 503" in failed.envelope["error"]["message"]
    assert "the login is kept" in failed.stdout
    authorization_server.mend()
    assert read_note().exit_code == 0
    assert len(authorization_server.requests("authorize")) == 1


def test_a_call_without_a_login_says_which_command_helps_and_opens_no_browser(
    pflow, notes, authorization_server, follower, read_note
):
    failed = pflow("mcp", "sync", "notes")
    assert failed.exit_code == 3
    assert "run: pflow mcp login notes" in failed.stderr + failed.stdout
    assert pflow("mcp", "login", "notes", env=follower).exit_code == 0
    assert pflow("mcp", "sync", "notes").exit_code == 0
    authorization_server.revoke_tokens()
    for _ in range(2):
        failed = read_note()
        assert failed.exit_code == 3
        assert "run: pflow mcp login notes" in failed.stdout
    assert len(authorization_server.requests("authorize")) == 1
    assert len(authorization_server.refreshes(400)) == 1
    assert pflow("mcp", "login", "notes", env=follower).exit_code == 0
    assert read_note().exit_code == 0


@pytest.mark.slow
def test_somebody_signs_in_with_the_mouse(pflow, notes, authorization_server, chromium, tmp_path):
    authorization_server.switch(consent="page")
    person = approving_person(chromium, tmp_path / "profile")
    finished = pflow("mcp", "login", "notes", env={"BROWSER": person})
    assert finished.exit_code == 0, finished.stderr
    assert pflow("mcp", "sync", "notes").exit_code == 0


def test_a_redirect_is_pasted(pflow, notes, authorization_server, read_note, pflow_home):
    with asking() as (program, url):
        stdout, stderr = program.communicate(redirect_of(authorization_server, url) + "\n", timeout=60)
    assert program.returncode == 0, stderr
    assert f"Signed in at {notes.url}" in stdout
    assert pflow("mcp", "sync", "notes").exit_code == 0
    assert read_note().exit_code == 0


def test_nobody_who_pastes_nothing_is_signed_in(pflow, notes):
    finished = pflow("mcp", "login", "notes", "--no-browser", "--json")
    assert finished.exit_code == 3
    assert finished.envelope["error"]["message"] == "Server notes: no redirect was pasted"
    assert finished.envelope["error"]["suggestions"] == ["run: pflow mcp login notes"]
    assert "auth" not in pflow("mcp", "list", "--json").stdout


def test_without_a_display_nothing_is_opened_and_a_redirect_is_asked_for(pflow, notes):
    none = dict.fromkeys(("BROWSER", "DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME"), "")
    finished = pflow("mcp", "login", "notes", env=none)
    assert "paste it here" in finished.stderr
    assert finished.exit_code == 3


@pytest.mark.skipif(os.name == "nt", reason="needs a terminal of Unix")
def test_what_is_pasted_at_a_terminal_is_not_shown(pflow, notes, authorization_server, pflow_home, tmp_path):
    program = shlex.join([sys.executable, "-P", "-m", "pflow_mcp_plugin"])
    env = {**os.environ, "PS1": "", "COLUMNS": "2000"}
    with terminal(["bash", "--norc", "--noediting"], env, str(tmp_path)) as shell:
        shown = shell.type(f"{program} mcp login notes --no-browser; echo EN''DED $?\n", "paste it here:\r\n")
        url = re.search(r"https://\S+/authorize\S+", shown)[0]
        redirect = redirect_of(authorization_server, url)
        said = shell.type(redirect + "\n", r"ENDED \d+")
    assert said.endswith("ENDED 0"), said
    assert remains(dict(parse_qsl(urlsplit(redirect).query))["code"], [shell.shown]) == []


@pytest.mark.skipif(os.name == "nt", reason="Ctrl-C is a signal of Unix")
@pytest.mark.parametrize("waiting", [("--no-browser",), ()])
def test_ctrl_c_ends_the_wait_and_leaves_nothing(
    pflow, notes, waiting, pflow_home, signalled, hosts, no_leftovers
):
    program = subprocess.Popen(
        [sys.executable, "-P", "-m", "pflow_mcp_plugin", "mcp", "login", "notes", *waiting],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        env={**os.environ, "BROWSER": "true %s &"},
    )
    hosts.append(program.pid)
    with program:
        while "https://" not in (line := program.stderr.readline()):
            assert line
        _, stderr = signalled(program, signal.SIGINT)
    assert program.returncode == 130
    assert "Traceback" not in stderr
    assert not list((pflow_home / "data").glob("oauth/*.json"))


@pytest.mark.skipif(os.name == "nt", reason="Ctrl-C is a signal of Unix")
@pytest.mark.parametrize("command", ["login", "logout"])
def test_ctrl_c_ends_the_wait_for_a_keyring(pflow, notes, follower, command, tmp_path, hosts):
    asked = tmp_path / "asked"
    keyring = tmp_path / "modules" / "keyring.py"
    keyring.parent.mkdir()
    keyring.write_text(HANGING_KEYRING)
    if command == "logout":
        assert pflow("mcp", "login", "notes", env=follower).exit_code == 0
    program = subprocess.Popen(
        [sys.executable, "-P", "-m", "pflow_mcp_plugin", "mcp", command, "notes"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        env={**os.environ, **follower, "PYTHONPATH": str(keyring.parent), "ASKED": str(asked)},
    )
    hosts.append(program.pid)
    with program:
        try:
            wait_for(asked)
            program.send_signal(signal.SIGINT)
            _, stderr = program.communicate(timeout=30)
        finally:
            program.kill()
    assert program.returncode == 130
    assert stderr.splitlines()[-1] == "Error: interrupted"


def test_no_secret_of_a_login_is_printed_or_kept_elsewhere(
    pflow, notes, authorization_server, follower, read_note, pflow_home
):
    authorization_server.switch(registered_method="client_secret_post", access_seconds=1)
    printed = []

    def ran(finished):
        printed.extend([finished.stdout, finished.stderr])
        return finished.exit_code

    assert ran(pflow("mcp", "login", "notes", "--json", env=follower)) == 0
    assert ran(pflow("mcp", "sync", "notes")) == 0
    assert ran(read_note()) == 0
    authorization_server.expire_codes()
    authorization_server.fail("token", status=400, body={"error": "invalid_grant"})
    assert ran(pflow("mcp", "login", "notes", env=follower)) == 3
    assert ran(read_note()) == 3
    secrets = authorization_server.secrets()
    assert len(secrets) >= 6
    for secret in secrets:
        assert remains(secret, printed) == []
        kept = [
            path for path in pflow_home.rglob("*") if path.is_file() and secret in path.read_text("latin-1")
        ]
        assert all(path.parent.name == "oauth" for path in kept)


@pytest.mark.parametrize(
    ("metadata", "wrong"),
    [
        ({"code_challenge_methods_supported": None}, "does not name S256"),
        ({"authorization_endpoint": "javascript:alert(1)"}, "authorization_endpoint"),
        ({"authorization_endpoint": "http://login.example/"}, "authorization_endpoint"),
        ({"issuer": "https://wrong.example"}, "another issuer, https://wrong.example"),
    ],
)
def test_what_is_wrong_with_metadata_is_named_and_no_browser_opened(
    pflow, notes, authorization_server, follower, last_page, metadata, wrong
):
    authorization_server.switch(metadata=metadata)
    finished = pflow("mcp", "login", "notes", env=follower)
    assert finished.exit_code == 3
    assert wrong in finished.stderr
    assert "report it to the server's operator" in finished.stderr
    assert not last_page.exists()
