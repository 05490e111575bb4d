"""The tools for settings: a value is saved, and its answer is masked."""

from __future__ import annotations

import re

from pflow_mcp_plugin.discovery.servers import servers

TOKEN = "tok-9f8e7d6c5b4a-PLANTED"


def test_a_setting_is_saved_and_its_value_is_not_repeated(either):
    answer = either.call("settings_set", key="SERVICE_TOKEN", value=TOKEN)
    assert answer["data"] == {"key": "SERVICE_TOKEN", "saved": True}
    assert either.pflow.host.settings.get("SERVICE_TOKEN") == TOKEN
    read = either.call("settings_get", key="SERVICE_TOKEN")
    assert read["data"] == {"key": "SERVICE_TOKEN", "value": "****", "masked": True}


def test_a_secret_is_shown_only_if_the_config_allows_it(served):
    served.data("settings_set", key="SERVICE_TOKEN", value=TOKEN)
    shown = served.call("settings_get", {"show_secrets": lambda: True}, key="SERVICE_TOKEN")
    assert shown["data"] == {"key": "SERVICE_TOKEN", "value": TOKEN, "masked": False}


def test_a_value_that_the_user_marked_as_no_secret_is_shown_until_an_agent_replaces_it(served):
    served.pflow.host.settings.set("BASE_TOKEN_URL", "https://a.example/token", plain=True)
    shown = served.data("settings_get", key="BASE_TOKEN_URL")
    assert shown == {"key": "BASE_TOKEN_URL", "value": "https://a.example/token", "masked": False}
    served.data("settings_set", key="BASE_TOKEN_URL", value=TOKEN)
    assert served.data("settings_get", key="BASE_TOKEN_URL")["value"] == "****"


def test_row_55_an_agent_sets_nothing_that_decides_what_is_started(served):
    allowed = ("SERVICE_TOKEN", "CLIENT_SECRET")
    login = {"type": "oauth", "issuer": "${ISSUER}", "client_secret": "${CLIENT_SECRET}", "client_id": "x"}
    believed = {"ca_bundle": "${AUTHORITIES}", "tls_pins": "${PINS}", "auth": login}
    tables = {
        "local": {"command": "python", "args": ["${SCRIPT}", "--token", "${API_KEY}"], "cwd": "${FOLDER}"},
        "remote": {"type": "http", "url": "https://${HOST}/mcp", "env": {"HOST": "${PLACE}"}},
        "believed": {"type": "http", "url": "https://example.com/mcp", **believed},
        "socket": {"type": "uds", "path": "${SOCKET}"},
        "code": {"command": "x", "env": {"PYTHONPATH": "${LIBRARIES}", "SERVICE_TOKEN": "${SERVICE_TOKEN}"}},
    }
    servers(served.pflow.host.paths).store.add(tables)
    served.pflow.host.refresh("mcp")
    decisive = set(re.findall(r"\$\{(\w+)\}", str(tables))) - set(allowed)
    assert len(decisive) == 10
    for key in decisive:
        error = served.error("settings_set", key=key, value="evil")
        assert error["type"] == "validation"
        assert (
            f"{key} cannot be set here: it decides what is started or reached for server" in error["message"]
        )
        assert error["suggestions"] == [f"Ask the user to set it: pflow settings set {key} -"]
        assert served.pflow.host.settings.get(key) is None
    for key in allowed:
        assert served.data("settings_set", key=key, value=TOKEN)["saved"]


def test_row_55_an_agent_sets_nothing_of_pflow_itself_and_nothing_kept_elsewhere(served):
    settings = served.pflow.host.settings
    for key in ("PFLOW_TRACE_DAYS", "pflow_trace_days", "PFLOW_ANYTHING"):
        assert "settings of pflow itself" in served.error("settings_set", key=key, value="0.00001")["message"]
        assert settings.get(key) is None
    settings.set_command("VAULT_TOKEN", ["printf", "kept"])
    assert "comes from a command" in served.error("settings_set", key="VAULT_TOKEN", value="x")["message"]
    assert settings.get("VAULT_TOKEN") == "kept"
