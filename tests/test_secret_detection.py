"""Secrets are told by their names and places."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pflow_mcp_plugin import secret_detection
from pflow_mcp_plugin.config import display
from pflow_mcp_plugin.config.expansion import expand
from pflow_mcp_plugin.types import Server

VARIABLES = {"DBURL": "postgres://u:fr0m-url@h/d", "GITHUB_PAT": "ghp_0123456", "ROOT": "/srv/files"}


SECRET = """
    API_KEY GITHUB_PAT pat x-pat-1 MYSQL_PASS DB_PASSWORD passphrase SLACK_TOKEN Authorization Cookie
    access-key-id client_secret SESSION_ID SENTRY_DSN JWT sig
"""
ABOUT_SECRETS = """
    REGION path PATTERN compat MAX_TOKENS max-tokens token-limit KEY_FILE no-auth ssh-key-path passive
    AUTH_TYPE session-timeout allow-tokens oauth_scopes
"""


def test_names_of_secrets_are_told_from_those_of_what_is_about_them():
    assert [name for name in SECRET.split() if not secret_detection.is_secret(name)] == []
    assert [name for name in ABOUT_SECRETS.split() if secret_detection.is_secret(name)] == []


@pytest.mark.parametrize(
    ("args", "shown"),
    [
        (["--token=abc", "x"], ["--token=****", "x"]),
        (["--api-key", "abc", "x"], ["--api-key", "****", "x"]),
        (["-e", "SLACK_TOKEN=abc", "-e", "REGION=eu"], ["-e", "SLACK_TOKEN=****", "-e", "REGION=eu"]),
        (["--header", "Authorization: Bearer abc"], ["--header", "Authorization: ****"]),
        (["--password", "--verbose", "--no-auth", "me"], ["--password", "--verbose", "--no-auth", "me"]),
        (["--token", "${T}", "--key-file", "k.pem"], ["--token", "${T}", "--key-file", "k.pem"]),
        (["postgresql://u:p@h/d?sslmode=on"], ["postgresql://****@h/d?sslmode=on"]),
        (["token", "C:\\keys\\token", "--", ""], ["token", "C:\\keys\\token", "--", ""]),
    ],
)
def test_secrets_in_arguments_are_masked_and_nothing_else(args, shown):
    server = Server(name="a", command="run", args=tuple(args))
    assert display.shown(server)["args"] == shown


def test_secrets_in_arguments_and_urls_are_never_told():
    server = Server(
        name="a",
        command="run",
        args=(
            *("${DBURL}", "${ROOT}", "--pat=${GITHUB_PAT}", "--header", "Cookie: id 0123456789"),
            *("--auth", "basic"),
        ),
        env={"DATABASE": "mysql://me:in-env@h/d", "LOCAL": "mysql://root:root@h/d", "MAX_TOKENS": "4096"},
    )
    secrets = set(expand(server, VARIABLES.get).secrets)
    assert {"fr0m-url", "ghp_0123456", "0123456789", "in-env"} <= secrets
    assert not secrets & {"/srv/files", "basic", "4096", "root", VARIABLES["DBURL"]}
    server = Server(name="a", transport="http", url="https://h/mcp?token=in-query&team=blue-team")
    assert expand(server, {}.get).secrets == ("in-query",)


@given(args=st.lists(st.text(alphabet="-=:?&/@ keytoken${}.\n", max_size=12), max_size=4))
def test_any_arguments_are_shown_one_for_one(args):
    assert len(display.arguments(args)) == len(args)
