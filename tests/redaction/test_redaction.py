from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pflow_mcp_plugin.redaction import REDACTED, SHORTEST, Redactor, mask


@pytest.mark.parametrize(
    "value",
    ["${TOKEN}", "Bearer ${TOKEN}", "${USER}:${PASSWORD}", "  ${A} ${B}", "${TOKEN:-}", "basic ${X}", ""],
)
def test_a_value_of_references_only_is_shown(value: str) -> None:
    assert mask(value) == value


@pytest.mark.parametrize(
    "value", ["ghp_abc", "x", "Bearer abc", "abc${TOKEN}", "${TOKEN}abc", "$TOKEN", "hunter2 ${A}"]
)
def test_any_other_value_is_masked_without_a_trace_of_it(value: str) -> None:
    assert mask(value) == "****"


def test_a_default_inside_a_reference_is_masked() -> None:
    assert mask("Bearer ${TOKEN:-ghp_abc}") == "Bearer ${TOKEN:-****}"


def test_the_longest_secret_is_taken_out_first() -> None:
    redactor = Redactor(["token", "token-and-more"])
    assert redactor.text("a token-and-more, a token") == "a ***, a ***"


def test_short_values_are_left_alone() -> None:
    assert Redactor(["", "abc"]).text("abcabc") == "abcabc"


def test_nested_values_and_keys_are_redacted() -> None:
    redactor = Redactor()
    redactor.add(["hunter2"])
    assert redactor.value({"hunter2": [1, "my hunter2", ("hunter2", None)]}) == {
        "***": [1, "my ***", ["***", None]]
    }


def test_a_secret_is_found_inside_a_json_text() -> None:
    secret = 'line one\n"line" two'
    assert "line" not in Redactor([secret]).text(json.dumps({"key": secret}))


def test_a_number_that_is_a_secret_is_redacted_and_others_are_left_alone() -> None:
    redactor = Redactor(["12345678", "True", "1.25"])
    assert redactor.value([12345678, 1.25]) == ["***", "***"]
    others = [1234567, True, 10**5000]
    assert redactor.value(others) == others


def test_a_secret_is_found_in_a_json_text_of_ascii_only() -> None:
    assert Redactor(["pässwörd"]).text(json.dumps("pässwörd")) == '"***"'


def test_without_secrets_values_pass_as_they_are() -> None:
    value = {"a": ("b",)}
    assert Redactor().value(value) is value


@given(st.lists(st.text(alphabet="abc-", min_size=SHORTEST), min_size=1), st.text(alphabet="abc-"))
def test_no_secret_survives_in_any_text(secrets: list[str], text: str) -> None:
    redacted = Redactor(secrets).text(text + secrets[0] + text)
    assert not any(secret in part for secret in secrets for part in redacted.split(REDACTED))
