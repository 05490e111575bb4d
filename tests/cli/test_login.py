"""`pflow mcp login` reports where somebody is signed in, and adds to the config what is missing there."""

import shlex
import sys

import click
import pytest

from pflow_mcp_plugin.cli.login import log_in, login
from pflow_mcp_plugin.errors import McpError
from pflow_mcp_plugin.storage import StoreError

WEB = 'type = "http"\nurl = "https://a.example"\n'
MACHINE = """
flow = "client_credentials"
client_id = "a"
client_secret = "b"
issuer = "https://login.example"
"""
VISIT = """import ssl, sys, urllib.request
https = urllib.request.HTTPSHandler(context=ssl._create_unverified_context())
urllib.request.build_opener(https, urllib.request.ProxyHandler({})).open(sys.argv[1], timeout=60).read()
"""


@pytest.fixture(autouse=True)
def _surroundings(monkeypatch, tmp_path):
    """A browser that goes wherever it is sent."""
    script = tmp_path / "visit.py"
    script.write_text(VISIT)
    monkeypatch.setenv("BROWSER", shlex.join([sys.executable, str(script)]) + " %s &")


def config(server, more=""):
    return (
        f'# mine\n[mcpServers.notes]\ntype = "http"\nurl = "{server.url}"  # here\n'
        f'ca_bundle = "{server.ca_file}"\n{more}'
    )


def test_the_report_says_where_somebody_is_signed_in_and_a_server_without_auth_gets_it(
    desk, protected_server, authorization_server
):
    desk.write(config(protected_server))
    report = desk.run(login, "notes")
    assert report.data.pop("expires_at").endswith("+00:00")
    assert report.data == {
        "server": "notes",
        "url": protected_server.url,
        "issuer": authorization_server.issuer,
        "scopes": ["notes:read", "offline_access"],
        "renewable": True,
        "auth_added": True,
        "sync_due": True,
    }
    assert "Next: pflow mcp sync notes" in report.render()
    for secret in authorization_server.secrets():
        assert secret not in repr(report)
    assert desk.raw()["mcpServers"]["notes"]["auth"] == {"type": "oauth"}
    assert "# mine" in (desk.paths.config / "mcp-servers.toml").read_text()
    assert desk.refreshed == ["mcp"]


def test_a_server_with_auth_keeps_its_config(desk, protected_server):
    text = config(protected_server, 'auth = { type = "oauth", scopes = ["notes:write"] }  # so\n')
    desk.write(text)
    report = log_in(desk, "notes", scopes=["notes:delete"])
    assert not report.data["auth_added"]
    assert report.data["scopes"] == ["notes:write", "notes:delete", "offline_access"]
    assert (desk.paths.config / "mcp-servers.toml").read_text() == text


def test_a_login_that_ends_soon_is_told(desk, protected_server, authorization_server):
    authorization_server.switch(refresh_tokens=False)
    desk.write(config(protected_server))
    report = log_in(desk, "notes")
    assert not report.data["renewable"]
    assert "this authorization server renews no login" in report.render()


def test_a_login_that_fails_leaves_the_config_alone(desk, protected_server, authorization_server):
    authorization_server.switch(consent="deny")
    text = config(protected_server)
    desk.write(text)
    with pytest.raises(McpError, match=r"Server notes: nobody was signed in: .* access_denied") as failure:
        log_in(desk, "notes")
    assert (failure.value.exit_code, failure.value.action) == (3, "auth_failed")
    assert failure.value.suggestions == ("run: pflow mcp login notes",)
    assert (desk.paths.config / "mcp-servers.toml").read_text() == text


@pytest.mark.parametrize(
    ("more", "becomes"),
    [
        ("", ""),
        ('auth = { type = "oauth" }\n', '[mcpServers.notes]\ntype = "http"\nurl = "https://o.example"\n'),
    ],
)
def test_row_61_a_login_to_a_server_that_is_removed_or_replaced_meanwhile_is_not_kept(
    desk, protected_server, monkeypatch, tmp_path, more, becomes
):
    """The browser visits after the config was changed."""
    desk.write(config(protected_server, more))
    file = desk.paths.config / "mcp-servers.toml"
    script = tmp_path / "change-and-visit.py"
    script.write_text(f"from pathlib import Path\nPath({str(file)!r}).write_text({becomes!r})\n{VISIT}")
    monkeypatch.setenv("BROWSER", shlex.join([sys.executable, str(script)]) + " %s &")
    with pytest.raises(McpError, match="changed during the login"):
        log_in(desk, "notes")
    assert file.read_text() == becomes
    assert list((desk.paths.data / "oauth").glob("*.json")) == []


@pytest.mark.parametrize("scope", ["", " ", 'a"b', "a\\b", "é", "a\n"])
def test_what_is_no_scope_is_refused_before_anybody_signs_in(
    desk, protected_server, authorization_server, scope
):
    desk.write(config(protected_server))
    with pytest.raises(click.BadParameter, match="is not a scope"):
        desk.run(login, "notes", "--scope", scope)
    assert authorization_server.requests() == []


def test_nobody_signs_in_where_it_could_not_be_stored(desk, protected_server, authorization_server, disk):
    desk.write(config(protected_server))
    disk.fill()
    with pytest.raises(StoreError, match="could not be written"):
        log_in(desk, "notes")
    assert authorization_server.requests("authorize") == authorization_server.requests("register") == []


@pytest.mark.parametrize(
    ("table", "wrong"),
    [
        ('command = "npx"', "it is reached over stdio"),
        (f'{WEB}auth = {{ type = "bearer", token = "x" }}', "its auth is of type bearer"),
        (f'{WEB}[mcpServers.notes.auth]\ntype = "oauth"{MACHINE}', "flow client_credentials needs no person"),
    ],
)
def test_a_server_that_nobody_signs_in_to_is_refused(desk, table, wrong):
    desk.write(f"[mcpServers.notes]\n{table}\n")
    with pytest.raises(McpError, match=f"Server notes cannot be signed in to: {wrong}") as failure:
        log_in(desk, "notes")
    assert failure.value.exit_code == 2


def test_a_server_of_a_project_without_auth_is_refused_before_anybody_signs_in(
    desk, protected_server, authorization_server, monkeypatch
):
    from pflow_mcp_plugin.config.server_store import ServerStore

    desk.write(config(protected_server))
    elsewhere = desk.paths.config / ".mcp.json"
    monkeypatch.setattr(ServerStore, "file_of", lambda *_: elsewhere)
    with pytest.raises(McpError, match=r"\.mcp\.json has no auth for it") as failure:
        log_in(desk, "notes")
    assert failure.value.suggestions == (
        f"Add it to your own config: pflow mcp add notes {protected_server.url}",
    )
    assert authorization_server.requests() == []
