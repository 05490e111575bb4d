"""The tools for settings: a value is saved, and its answer is masked."""

from __future__ import annotations

TOKEN = "tok-9f8e7d6c5b4a-PLANTED"


def test_a_setting_is_saved_and_its_value_is_not_repeated(either):
    answer = either.call("settings_set", key="SERVICE_TOKEN", value=TOKEN)
    assert answer["data"] == {"key": "SERVICE_TOKEN", "saved": True}
    assert either.pflow.host.settings.get("SERVICE_TOKEN") == TOKEN
    read = either.call("settings_get", key="SERVICE_TOKEN")
    assert read["data"] == {"key": "SERVICE_TOKEN", "value": "****", "masked": True}


def test_an_invalid_key_is_refused(served):
    for key in ("", "../x", "A B", "1A", "A\0B", "${X}"):
        error = served.error("settings_set", key=key, value="x")
        assert error["type"] in ("usage", "validation")


def test_a_setting_that_is_not_saved_is_answered_with_the_nearest(served):
    served.data("settings_set", key="GITHUB_TOKEN", value=TOKEN)
    error = served.error("settings_get", key="GITHUB_TOKN")
    assert error["type"] == "not_found"
    assert error["suggestions"] == ["Did you mean GITHUB_TOKEN?"]


def test_a_secret_is_shown_only_if_the_config_allows_it(served):
    served.data("settings_set", key="SERVICE_TOKEN", value=TOKEN)
    shown = served.call("settings_get", {"show_secrets": lambda: True}, key="SERVICE_TOKEN")
    assert shown["data"] == {"key": "SERVICE_TOKEN", "value": TOKEN, "masked": False}
