"""A server as it may be printed."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pflow_mcp_plugin.config import display
from pflow_mcp_plugin.types import Server

secrets = st.text(alphabet="0123456789", min_size=12, max_size=20).map("s3cr3t-{}".format)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://example.com/mcp?team=blue", "https://example.com/mcp?team=blue"),
        ("https://user:pass@example.com/mcp", "https://****@example.com/mcp"),
        ("https://${USER}:${PASS}@example.com", "https://${USER}:${PASS}@example.com"),
        ("https://example.com/?a=b&apiKey=x#c", "https://example.com/?a=b&apiKey=****#c"),
        ("https://example.com/?access_token=${T}", "https://example.com/?access_token=${T}"),
        ("", ""),
    ],
)
def test_a_url_is_shown_without_its_secrets(url, shown):
    assert display.url(url) == shown


def test_a_command_is_shown_as_a_shell_takes_it():
    assert (
        display.command_line(Server(name="a", command="my server", args=("a b", "$c")))
        == "'my server' 'a b' '$c'"
    )


def test_what_is_public_in_auth_stays():
    auth = {"token_env": "T", "scopes": ["repo"], "other": {"deep": "hidden"}}
    shown = display.shown(Server(name="a", transport="http", url="https://e.com", auth=auth))
    assert shown["auth"] == {"token_env": "T", "scopes": ["repo"], "other": "****"}


def test_the_target_is_what_the_server_is_reached_by():
    assert display.target(Server(name="a", transport="uds", path="/run/a", command="b")) == "/run/a"
    assert display.target(Server(name="a", command="b", args=("c",))) == "b c"


@given(
    secret=secrets,
    around=st.sampled_from(["{}", "Bearer {}", "${{A}}{}", "${{A:-{}}}", "{} ${{A}}", "$${{{}}}"]),
)
def test_no_secret_is_shown(secret, around):
    value = around.format(secret)
    server = Server(
        name="a",
        transport="http",
        url=f"https://{secret}@example.com/?token={secret}",
        env={"A": value},
        headers={"B": value},
        auth={"type": "basic", "username": value, "password": value, "unknown": value},
    )
    assert secret not in json.dumps(display.shown(server))
    assert secret not in display.target(server)


def test_the_default_of_a_reference_to_a_secret_is_masked_wherever_it_stands():
    server = Server(name="s", command="c", args=("${API_KEY:-abc}", "x=${API_KEY:-abc}-y", "${REGION:-eu}"))
    assert display.arguments(server.args) == ["${API_KEY:-****}", "x=${API_KEY:-****}-y", "${REGION:-eu}"]
    assert "abc" not in display.command_line(server)
    assert display.url("https://host/${TOKEN:-abc}/x") == "https://host/${TOKEN:-****}/x"
