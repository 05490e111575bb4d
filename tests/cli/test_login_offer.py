"""`pflow mcp sync` and `test` offer a login where a server needs one, on a terminal only."""

import shlex
import sys

import page_follower
import pytest
from screen import run_on_terminal


@pytest.fixture
def opened(tmp_path, protected_server, monkeypatch):
    """Where a browser that goes wherever it is sent notes it; everybody approves."""
    file = tmp_path / "opened"
    command = [sys.executable, page_follower.__file__, str(file), str(protected_server.ca_file)]
    monkeypatch.setenv("BROWSER", f"{shlex.join(command)} %s")
    return file


@pytest.fixture
def typed(pflow_home, hosts):
    """Run a command on a terminal, with this answer; return its exit code and what it showed."""

    def typed(answer, *arguments):
        given = {"home": pflow_home, "answers": {"Log in now?": answer}, "started": hosts.append}
        screen = run_on_terminal("mcp", *arguments, **given)
        return screen.exit_code, screen.shown

    return typed


def test_without_a_terminal_the_command_is_named_and_nothing_opened(
    pflow, notes, opened, authorization_server
):
    for words in (("sync", "notes"), ("test", "notes", "--json")):
        failed = pflow("mcp", *words, stdin="y\n")
        assert failed.exit_code == 3
        assert "run: pflow mcp login notes" in failed.stdout + failed.stderr
        assert "Log in now?" not in failed.stdout + failed.stderr
    assert failed.envelope["error"]["details"]["login"] is True
    assert pflow("mcp", "add", "more", notes.url).exit_code == 0
    failed = pflow("mcp", "sync", "--json")
    steps = ["run: pflow mcp login more", "run: pflow mcp login notes"]
    assert sorted(failed.envelope["error"]["suggestions"]) == steps
    assert not opened.exists()
    assert authorization_server.requests() == []


@pytest.mark.slow
@pytest.mark.parametrize(("command", "answer"), [("sync", "y"), ("test", "")])
def test_on_a_terminal_the_login_is_made_and_the_command_goes_on(
    notes, opened, typed, authorization_server, pflow_home, command, answer
):
    exit_code, said = typed(answer, command, "notes")
    assert exit_code == 0, said
    assert "Server notes needs a login. Log in now? [Y/n]" in said
    assert ("notes: 3 tools" if command == "sync" else "notes: works") in said
    (started,) = (line for line in opened.read_text().splitlines() if line.startswith("["))
    assert authorization_server.url("authorize") in started
    assert len(authorization_server.requests("token")) == 1
    assert 'type = "oauth"' in (pflow_home / "config" / "mcp-servers.toml").read_text()


@pytest.mark.slow
def test_a_login_that_is_declined_opens_nothing(notes, opened, typed, authorization_server):
    exit_code, said = typed("n", "sync", "notes")
    assert exit_code == 3
    assert "run: pflow mcp login notes" in said
    assert not opened.exists()
    assert authorization_server.requests() == []


@pytest.mark.slow
def test_a_login_that_fails_is_told_and_the_server_not_asked_again(
    notes, typed, opened, authorization_server
):
    authorization_server.switch(metadata={"code_challenge_methods_supported": None})
    exit_code, said = typed("y", "test", "notes")
    assert exit_code == 3
    assert "does not name S256" in " ".join(said.split())
    assert "run: pflow mcp login notes" in said
    assert not opened.exists()
