"""`pflow mcp logout`: a sign-in goes from this machine, whatever the authorization server does."""

import asyncio
import socket
import threading

import attrs
import click
import pytest
from scripted_realm import Realm

from pflow_mcp_plugin.cli.login import logout
from pflow_mcp_plugin.client.oauth.sign_in_state import AuthorizationServer
from pflow_mcp_plugin.client.oauth.sign_in_store import SignInStore
from pflow_mcp_plugin.config.locations import sign_in_folder
from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.storage import CorruptFile

WEB = '[mcpServers.web]\ntype = "http"\nurl = "https://example.com/mcp"\nauth = { type = "oauth" }\n'


@pytest.fixture
def realm(desk):
    """A server that wants access tokens, configured as `web`; its sign-in is stored."""
    made = Realm(sign_in_folder(desk.paths))
    with made.server:
        desk.write(WEB.replace("https://example.com/mcp", made.server.url()))
        yield made


def revocable(realm, **changed):
    """Store a sign-in at an authorization server that revokes tokens."""
    found = AuthorizationServer(
        issuer=realm.issuer,
        token_endpoint=realm.server.url(path="/odd/token"),
        revocation_endpoint=realm.server.url(path="/odd/revoke"),
    )
    realm.sign_in(**{"authorization_server": found, **changed})


def files(desk):
    return sorted(path.name for path in sign_in_folder(desk.paths).glob("*.json"))


def answering(realm, *statuses, content=None):
    """Have the endpoint answer with these statuses, and return the forms that came."""
    forms, left = [], list(statuses)

    async def answer(request, reply):
        forms.append(request.body.decode())
        await reply.json(content or {}, left.pop(0) if left else 200)

    realm.scripts["/odd/revoke"] = answer
    return forms


def test_both_tokens_are_revoked_and_the_sign_in_is_gone(desk, realm):
    revocable(realm)
    forms = answering(realm)
    report = desk.run(logout, "web")
    assert forms == [
        "token=planted-refresh-0&token_type_hint=refresh_token&client_id=registered",
        "token=planted-access-0&token_type_hint=access_token&client_id=registered",
    ]
    assert files(desk) == []
    (removed,) = report.data["removed"]
    assert removed == {
        "server": "web",
        "url": realm.server.url(),
        "issuer": realm.issuer,
        "used_by": ["web"],
        "revoked": True,
        "reason": None,
    }
    assert report.render() == f"Signed out of server web: {realm.server.url()}, with {realm.issuer}"


@pytest.mark.parametrize(
    ("statuses", "content", "reason"),
    [
        ([503], {}, "answered HTTP 503"),
        ([400], {"error": "invalid_client"}, "answered invalid_client"),
        ([200, 400], {"error": "invalid_request", "error_description": "planted-access-0"}, "(***)"),
        ([302], {}, "redirects to "),
    ],
)
def test_a_sign_in_whose_tokens_cannot_be_revoked_is_removed_and_the_reason_is_told(
    desk, realm, statuses, content, reason
):
    revocable(realm)
    answering(realm, *statuses, content=content)
    report = desk.run(logout, "web")
    assert files(desk) == []
    (removed,) = report.data["removed"]
    assert not removed["revoked"]
    assert reason in removed["reason"]
    assert "! its tokens were not revoked: " in report.render()
    assert "planted" not in report.render() + str(report.data)
    assert report.error is None


def test_an_access_token_that_cannot_be_revoked_as_such_ends_with_its_refresh_token(desk, realm):
    revocable(realm)
    answering(realm, 200, 400, content={"error": "unsupported_token_type"})
    assert desk.run(logout, "web").data["removed"][0]["revoked"]


def test_an_authorization_server_that_is_gone_does_not_keep_a_sign_in(desk, realm):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # bound and not listening: nobody else gets the port
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        endpoints = {"token_endpoint": f"{url}/token", "revocation_endpoint": f"{url}/revoke"}
        realm.sign_in(authorization_server=AuthorizationServer(issuer=url, **endpoints))
        (removed,) = desk.run(logout, "web").data["removed"]
    assert "could not be asked" in removed["reason"]
    assert files(desk) == []


def test_without_tokens_or_a_revocation_endpoint_nothing_is_revoked_and_a_second_logout_finds_nobody(
    desk, realm
):
    revocable(realm, tokens=None)
    (removed,) = desk.run(logout, "web").data["removed"]
    assert (removed["revoked"], removed["reason"]) == (False, None)
    realm.sign_in()
    (removed,) = desk.run(logout, "web").data["removed"]
    assert "does not offer it" in removed["reason"]
    assert (files(desk), realm.paths) == ([], [])
    report = desk.run(logout, "web")
    assert report.data == {"removed": []}
    assert report.render() == "Nobody is signed in at server web"
    assert desk.run(logout, "--all").render() == "Nobody is signed in anywhere"


def test_sign_ins_at_former_urls_of_a_server_go_with_it_and_those_of_others_stay(desk, realm, signed_in):
    revocable(realm)
    answering(realm)
    signed_in()
    other = signed_in(url="https://other.example/mcp", server="other")
    assert len(desk.run(logout, "web").data["removed"]) == 2
    (left,) = SignInStore(sign_in_folder(desk.paths)).entries()
    assert left.sign_in.server_url == other.server_url
    assert desk.run(logout, "other").data["removed"][0]["server"] == "other"  # which is not configured


def test_everything_goes_with_all_also_what_no_server_has_and_what_cannot_be_read(desk, realm, signed_in):
    revocable(realm)
    answering(realm)
    signed_in(server="gone", url="https://gone.example/mcp")
    (sign_in_folder(desk.paths) / "0000-1111.json").write_text("{")
    report = desk.run(logout, "--all")
    assert files(desk) == []
    assert {removed.get("server") for removed in report.data["removed"]} == {"web", "gone", None}
    assert "Removed 0000-1111.json, a sign-in that could not be read" in report.render()


@pytest.mark.parametrize(
    ("name", "config", "reason"),
    [
        ("web", '[network]\npolicy = "registered"\n', "registered"),
        ("--all", f"{WEB}[network]\npolicy = 5\n", "the rules for the network cannot be read"),
        ("web", "[mcpServers.web\n", "the rules for the network cannot be read from the config"),
    ],
)
def test_what_the_rules_for_the_network_do_not_allow_is_not_requested_and_keeps_nobody_signed_in(
    desk, realm, config, reason, name
):
    revocable(realm)
    desk.write(config)
    report = desk.run(logout, name)
    assert report.error is None
    (removed,) = report.data["removed"]
    assert (removed["server"], removed["used_by"], removed["revoked"]) == ("web", [], False)
    assert reason in removed["reason"]
    assert (files(desk), realm.paths) == ([], [])


def test_the_secret_in_the_config_authenticates_the_revocation(desk, realm, monkeypatch):
    monkeypatch.setenv("WEB_SECRET", "planted-secret")
    table = 'auth = { type = "oauth", client_id = "me", client_secret = "${WEB_SECRET}" }'
    desk.write(
        WEB.replace("https://example.com/mcp", realm.server.url()).replace('auth = { type = "oauth" }', table)
    )
    answering(realm)
    revocable(realm)
    store = SignInStore(sign_in_folder(desk.paths))
    (entry,) = store.entries()
    sign_in = store.take_out(entry)
    store.write(attrs.evolve(realm.key, client="me"), sign_in)
    assert desk.run(logout, "web").data["removed"][0]["revoked"]
    revoked = next(request for request in realm.server.requests if request.target == "/odd/revoke")
    assert revoked.headers["authorization"].startswith("Basic ")


def test_a_sign_in_that_two_servers_use_is_told_for_both_and_a_machine_signs_in_again(desk, signed_in):
    desk.write(WEB + WEB.replace("web", "same"))
    signed_in()
    report = desk.run(logout, "same")
    assert report.data["removed"][0]["used_by"] == ["web", "same"]
    assert report.render().startswith("Signed out of server web, same: ")
    machine = (
        'auth = { type = "oauth", flow = "client_credentials", client_id = "me", '
        'client_secret = "planted-secret", issuer = "https://login.example.com" }'
    )
    desk.write(WEB.replace('auth = { type = "oauth" }', machine))
    signed_in(client="me")
    report = desk.run(logout, "web")
    assert "  ! server web signs in again by itself when it is used" in report.render()


def test_a_sign_in_whose_server_lacks_a_variable_is_found_by_its_name(desk, signed_in, monkeypatch):
    monkeypatch.delenv("HOST_OF_WEB", raising=False)
    desk.write(WEB.replace("example.com", "${HOST_OF_WEB}"))
    signed_in()
    assert len(desk.run(logout, "web").data["removed"]) == 1
    with pytest.raises(PflowError, match="HOST_OF_WEB"):  # it cannot be told whether there is another
        desk.run(logout, "web")
    desk.write("[mcpServers.web\n")
    with pytest.raises(CorruptFile, match="line 1"):
        desk.run(logout, "web")


def test_a_sign_in_that_another_process_refreshes_stays_and_that_is_an_error(desk, realm, monkeypatch):
    realm.sign_in()
    monkeypatch.setattr("pflow_mcp_plugin.client.oauth.sign_in_store._LOCK_SECONDS", 0.1)
    held, done = threading.Event(), threading.Event()

    async def hold():
        async with realm.store.locked(realm.key):
            held.set()
            await asyncio.to_thread(done.wait, 30)

    thread = threading.Thread(target=lambda: asyncio.run(hold()))
    thread.start()
    try:
        assert held.wait(30)
        report = desk.run(logout, "web")
    finally:
        done.set()
        thread.join()
    assert "another process is using it" in report.error.message
    assert report.data == {"removed": []}
    assert "Nobody is signed in" not in report.render()
    assert len(files(desk)) == 1


@pytest.mark.parametrize("arguments", [(), ("web", "--all")])
def test_a_name_or_all_must_be_given_and_not_both(desk, arguments):
    with pytest.raises(click.UsageError, match="Give a NAME"):
        desk.run(logout, *arguments)
