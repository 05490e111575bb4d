"""How many servers are started at the same time."""

from __future__ import annotations

import os

import pytest

from pflow_mcp_plugin.config.expansion import STARTS_SETTING, starts_at_once
from pflow_mcp_plugin.contract import PflowError


def test_as_many_servers_are_started_at_once_as_there_are_cores_for():
    assert starts_at_once(lambda name: None) == 4 * (os.cpu_count() or 1)


def test_the_user_may_set_another_number():
    assert starts_at_once({STARTS_SETTING: "3"}.get) == 3


@pytest.mark.parametrize("given", ["0", "-1", "many", "1.5"])
def test_anything_else_is_refused_by_its_name(given, monkeypatch):
    for step in ("Run: pflow settings set PFLOW_MCP_STARTS 8", "Unset the environment variable, "):
        with pytest.raises(PflowError, match=STARTS_SETTING) as caught:
            starts_at_once({STARTS_SETTING: given}.get)
        assert caught.value.suggestions[0].startswith(step)
        monkeypatch.setenv(STARTS_SETTING, given)


def test_the_check_of_the_config_finds_a_wrong_number(pflow):
    checked = pflow("config", "check", env={STARTS_SETTING: "0"})
    assert (checked.exit_code, f"{STARTS_SETTING} must be" in checked.stderr) == (2, True)
