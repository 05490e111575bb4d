"""Secrets written out in a server's table."""

from __future__ import annotations

import json

import pytest

from pflow_mcp_plugin.config.interchange.transfer_plans import extracted


def moved(table, taken=()):
    changed, secrets = extracted("git-hub", table, lambda name, value: name in taken)
    return changed, {secret.variable: secret.value for secret in secrets}


AUTHORIZATION = {"GIT_HUB_AUTHORIZATION": "planted-1"}
PASSWORD = {"GIT_HUB_PASSWORD": "planted-1"}


@pytest.mark.parametrize(
    ("table", "secrets"),
    [
        ({"env": {"GITHUB_TOKEN": "<GITHUB_TOKEN>", "LEVEL": "info"}}, {"GITHUB_TOKEN": "ghp_planted"}),
        ({"env": {"API_KEY": "<API_KEY>"}}, {"API_KEY": "a${b}"}),
        ({"headers": {"Authorization": "Bearer <GIT_HUB_AUTHORIZATION>"}}, AUTHORIZATION),
        ({"auth": {"type": "basic", "username": "ada", "password": "<GIT_HUB_PASSWORD>"}}, PASSWORD),
        (
            {"args": ["-y", "--token=<GIT_HUB_TOKEN>", "--api-key", "<GIT_HUB_API_KEY>"]},
            {"GIT_HUB_TOKEN": "planted-1", "GIT_HUB_API_KEY": "planted-2"},
        ),
        ({"args": ["--header", "Authorization: Bearer <GIT_HUB_AUTHORIZATION>"]}, AUTHORIZATION),
        ({"args": ["postgresql://ada:<GIT_HUB_PASSWORD>@db/shop"]}, PASSWORD),
        (
            {"url": "https://x.example/mcp?team=blue&api_key=<GIT_HUB_API_KEY>&b=2"},
            {"GIT_HUB_API_KEY": "planted-1"},
        ),
        ({"headers": {"X-Key": "<GIT_HUB_X_KEY>"}}, {"GIT_HUB_X_KEY": "abcd"}),
        ({"args": ["--token=<GIT_HUB_TOKEN>"]}, {"GIT_HUB_TOKEN": "abcd"}),
        ({"url": "https://h/?key=<GIT_HUB_KEY>"}, {"GIT_HUB_KEY": "abcd"}),
    ],
)
def test_a_secret_is_replaced_by_a_reference(table, secrets):
    text = json.dumps(table)
    before, after = text, text
    for variable, secret in secrets.items():
        before = before.replace(f"<{variable}>", secret.replace("${", "$${"))
        after = after.replace(f"<{variable}>", f"${{{variable}}}")
    assert moved(json.loads(before)) == (json.loads(after), secrets)


@pytest.mark.parametrize(
    "table",
    [
        {"env": {"API_KEY": "${API_KEY}", "TOKEN_FILE": "/run/token", "MAX_TOKENS": "1000"}},
        {"headers": {"Authorization": "Bearer ${T}"}},
        {"args": ["--token", "${T}", "--key-file", "/run/key"]},
        {"env": {"API_KEY": ""}, "args": ["--token"]},
        {"headers": {"X-Key": "Bearer abc"}, "args": ["--token=abc"], "url": "https://h/?key=abc"},
        {"command": "x", "args": "not a list", "env": {"API_KEY": 7}},
    ],
)
def test_references_files_and_limits_are_no_secrets(table):
    assert moved(table) == (table, {})


def test_a_variable_that_has_another_value_is_not_used():
    table = {"env": {"API_KEY": "planted-1"}}
    assert moved(table, {"API_KEY"})[1] == {"GIT_HUB_API_KEY": "planted-1"}
    assert moved(table, {"API_KEY", "GIT_HUB_API_KEY"})[1] == {"GIT_HUB_API_KEY_2": "planted-1"}


def test_two_values_of_one_server_get_two_variables():
    table = {"headers": {"X-API-Key": "planted-1"}, "url": "https://x.example/?x-api-key=planted-2"}
    assert set(moved(table)[1].values()) == {"planted-1", "planted-2"}
