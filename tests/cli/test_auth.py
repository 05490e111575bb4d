"""`pflow mcp auth`: who is signed in where is shown, and never a token."""

import re

import attrs
import pytest

from pflow_mcp_plugin.cli.auth import auth
from pflow_mcp_plugin.client.oauth.sign_in_state import AuthorizationServer, Tokens
from pflow_mcp_plugin.config.locations import sign_in_folder

WEB = '[mcpServers.web]\ntype = "http"\nurl = "https://example.com/mcp"\n'
LOGIN = {"issuer": "https://login.example", "token_endpoint": "https://login.example/token"}
UNNAMED = {
    "authorization_server": AuthorizationServer(**LOGIN, scopes_supported=("a",)),
    "tokens": Tokens(access="planted", refresh="planted"),
}
"""A sign-in at an authorization server that does not name the scope b."""
PERSON = f'{WEB}auth = {{ type = "oauth" }}\n'


@attrs.frozen
class Settings:
    """Settings that hold one key, whose value must not be asked for."""

    key: str

    def names(self):
        return {self.key: "keyring"}

    def get(self, name):
        pytest.fail("the keyring was opened")


def rows(desk, *arguments):
    report = desk.run(auth, *arguments)
    assert "planted" not in str(report.data) + report.render()
    return report.data


def test_a_login_is_shown_with_its_scopes_and_its_end(desk, signed_in):
    desk.write(PERSON)
    signed_in()
    report = desk.run(auth)
    (row,) = report.data
    assert row.pop("signed_in_at") < row.pop("expires_at")
    assert row == {
        "server": "web",
        "url": "https://example.com/mcp",
        "type": "oauth",
        "state": "ready",
        "note": row["note"],
        "next": None,
        "flow": None,
        "issuer": "https://login.example.com",
        "client_id": "registered",
        "scopes": ["read"],
        "renewable": True,
        "variables": {},
    }
    _, first, _, *others = report.render().splitlines()
    assert first.startswith("web     oauth  ready  signed in; its token is renewed at 2")
    assert [line.split() for line in others][1:] == [["client", "registered"], ["scopes", "read"]]
    assert "planted" not in str(report.data) + report.render()


@pytest.mark.parametrize(
    ("config", "stored", "note"),
    [
        (PERSON, None, "nobody is signed in"),
        (PERSON, {"expires_in": -10, "refresh": ""}, "the login expired at 2"),
        (PERSON, {"tokens": None}, "the login has ended"),
        (PERSON.replace(" }", ', scopes = ["write"] }'), {}, "the scope write was not granted"),
        (PERSON.replace(" }", ', scopes = ["b"] }'), UNNAMED, "the scope b was not granted"),
        (PERSON.replace(" }", ', client_id = "me" }'), {}, "nobody is signed in"),
        (PERSON.replace(" }", ', issuer = "https://other.example" }'), {}, "nobody is signed in"),
    ],
)
def test_a_server_that_needs_a_login_is_shown_with_the_reason_and_the_command(
    desk, signed_in, config, stored, note
):
    desk.write(config)
    if stored is not None:
        signed_in(**stored)
    row = rows(desk)[0]
    assert (row["server"], row["state"], row["next"]) == ("web", "needs_login", "pflow mcp login web")
    assert row["note"].startswith(note)


@pytest.mark.parametrize("expires_in", [-10, None, 1e300])
def test_a_login_whose_token_expired_is_good_if_it_can_be_renewed_or_has_no_end(desk, signed_in, expires_in):
    desk.write(PERSON)
    signed_in(expires_in=expires_in)
    (row,) = rows(desk)
    assert (row["state"], row["expires_at"] is None) == ("ready", expires_in != -10)
    assert expires_in == 1e300 or ("is renewed when it is used" in row["note"]) is (expires_in == -10)


def test_a_sign_in_at_another_url_or_of_a_removed_server_is_shown_as_not_used(desk, signed_in):
    desk.write(PERSON.replace("/mcp", "/other"))
    signed_in()
    signed_in(server="gone", url="https://gone.example/mcp?key=planted")
    first, *others = rows(desk)
    assert (first["server"], first["state"]) == ("web", "needs_login")
    assert sorted((row["server"], row["state"]) for row in others) == [("gone", "unused"), ("web", "unused")]
    assert {row["next"] for row in others} == {"pflow mcp logout gone", None}
    (gone,) = rows(desk, "gone")
    assert (gone["state"], gone["next"]) == ("unused", "pflow mcp logout gone")
    assert "not used: no configured server has this URL" in gone["note"]


def test_the_latest_of_two_issuers_is_used_unless_the_config_names_one(desk, signed_in):
    desk.write(PERSON)
    earlier = signed_in()
    newer = AuthorizationServer(issuer="https://new.example", token_endpoint="https://new.example/token")
    signed_in(authorization_server=newer, signed_in_at=earlier.signed_in_at + 1)
    states = {row["issuer"]: row["state"] for row in rows(desk)}
    assert states == {"https://new.example": "ready", earlier.issuer: "unused"}
    desk.write(PERSON.replace(" }", f', issuer = "{earlier.issuer}/" }}'))
    states = {row["issuer"]: row["state"] for row in rows(desk)}
    assert states == {"https://new.example": "unused", earlier.issuer: "ready"}


def test_a_login_is_found_though_its_server_lacks_a_secret_or_a_certificate(desk, signed_in, monkeypatch):
    monkeypatch.delenv("GONE", raising=False)
    others = 'client_cert = "${GONE}"\nheaders = { X = "${GONE}" }\n'
    desk.write(PERSON.replace(" }", ', client_id = "me", client_secret = "${GONE}" }') + others)
    signed_in(client="me")
    (row,) = rows(desk)
    assert (row["client_id"], row["state"], row["variables"]) == ("me", "lacks_variables", {"GONE": False})


def test_a_file_that_cannot_be_read_hides_no_other(desk, signed_in):
    desk.write(PERSON)
    signed_in()
    (sign_in_folder(desk.paths) / "0000-1111.json").write_text("{")
    assert {row["state"] for row in rows(desk)} == {"ready", "unused"}
    shown = desk.run(auth).render()
    assert re.search(r"^\(unreadable\) +oauth  unused +it cannot be read", shown, re.MULTILINE)
    (file,) = sign_in_folder(desk.paths).glob("*-*[!1].json")
    file.write_text("{")
    row = rows(desk)[0]
    assert row["state"] == "needs_login"
    assert row["note"].startswith("its sign-in cannot be read: ")


def test_a_machine_needs_no_login(desk, signed_in, monkeypatch):
    monkeypatch.delenv("WEB_SECRET", raising=False)
    machine = (
        'auth = { type = "oauth", flow = "client_credentials", client_id = "me", '
        'client_secret = "${WEB_SECRET}", issuer = "https://login.example.com" }'
    )
    desk.write(f"{WEB}{machine}\n")
    (row,) = rows(desk)
    assert (row["state"], row["flow"]) == ("lacks_variables", "client_credentials")
    assert row["variables"] == {"WEB_SECRET": False}
    monkeypatch.setenv("WEB_SECRET", "planted-secret")
    (row,) = rows(desk)
    assert (row["state"], row["note"]) == ("by_itself", "gets a token when it is used")
    signed_in(client="me")
    (row,) = rows(desk)
    assert (row["state"], row["client_id"]) == ("ready", "me")


@pytest.mark.parametrize(
    ("auth_table", "kind", "note"),
    [
        ('auth = { type = "bearer", token = "${T}" }', "bearer", "bearer token in the header Authorization"),
        ('auth = { type = "api_key", key = "${T}" }', "api_key", "API key in the header X-API-Key"),
        (
            'auth = { type = "basic", username = "me", password = "${T}" }',
            "basic",
            "user name and password in",
        ),
        ('headers = { Authorization = "Bearer ${T}" }', "headers", "credentials in the header Authorization"),
    ],
)
def test_other_credentials_are_shown_by_their_kind_and_whether_their_variables_are_set(
    desk, monkeypatch, auth_table, kind, note
):
    monkeypatch.delenv("T", raising=False)
    desk.write(f"{WEB}{auth_table}\n")
    (row,) = rows(desk)
    assert (row["type"], row["state"], row["variables"]) == (kind, "lacks_variables", {"T": False})
    assert row["note"].startswith(note)
    assert "  ! variable T is not set" in desk.run(auth).render()
    monkeypatch.setenv("T", "planted-token")
    (row,) = rows(desk)
    assert (row["state"], row["variables"]) == ("ready", {"T": True})


def test_a_variable_in_the_settings_counts_and_its_value_is_not_asked_for(desk, monkeypatch):
    monkeypatch.delenv("T", raising=False)
    desk.write(f'{WEB}auth = {{ type = "bearer", token = "${{OWN}}" }}\nenv = {{ OWN = "${{T}}" }}\n')
    desk.settings = Settings("T")
    assert [row["state"] for row in rows(desk)] == ["ready"]
    desk.settings = Settings("OTHER")
    assert [row["state"] for row in rows(desk)] == ["lacks_variables"]


def test_a_server_without_credentials_is_shown_only_if_it_is_named(desk):
    desk.write(f'{WEB}[mcpServers.clock]\ncommand = "a"\n')
    assert rows(desk) == []
    assert desk.run(auth).render().startswith("No server has auth, and nobody is signed in")
    assert [row["note"] for row in rows(desk, "web")] == ["its config has no auth"]
    assert [row["note"] for row in rows(desk, "clock")] == [
        "its config has no auth, as it is reached over stdio"
    ]


def test_a_server_with_mistakes_is_shown_with_them_beside_the_others(desk, signed_in):
    desk.write(PERSON + '[mcpServers.bad]\ntype = "http"\nurl = 7\n')
    signed_in()
    shown = {row["server"]: row["state"] for row in rows(desk)}
    assert shown == {"web": "ready", "bad": "has_mistakes"}


def test_variables_beside_the_auth_count_and_those_with_a_default_are_not_lacking(desk, monkeypatch):
    monkeypatch.delenv("GONE", raising=False)
    own = 'headers = { X-Team = "${GONE}", X-Other = "${UNSET_TOO:-}" }\n'
    desk.write(f'{WEB}auth = {{ type = "bearer", token = "${{UNSET:-planted}}" }}\n{own}')
    (row,) = rows(desk)
    assert (row["state"], row["variables"]) == ("lacks_variables", {"UNSET": True, "GONE": False})
    monkeypatch.setenv("GONE", "here")
    assert rows(desk)[0]["state"] == "ready"
