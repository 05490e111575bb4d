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


@pytest.mark.parametrize(
    ("secrets", "value", "shown"),
    [
        (["token", "token-and-more"], "a token-and-more, a token", "a ***, a ***"),
        (["", "abc"], "abcabc", "abcabc"),
        (["abcd"], "abcd", "***"),
        (["hunter2"], {"hunter2": ["my hunter2", ("hunter2", None)]}, {"***": ["my ***", ["***", None]]}),
        (["12345678", "True", "1.25"], [12345678, 1.25, 1234567, True], ["***", "***", 1234567, True]),
        (["12345678"], [10**5000], [10**5000]),
    ],
    ids=range(6),
)
def test_secrets_are_taken_out_of_texts_keys_and_numbers(secrets, value, shown):
    assert Redactor(secrets).value(value) == shown


def test_without_secrets_values_pass_as_they_are() -> None:
    value = {"a": ("b",)}
    assert Redactor().value(value) is value


@given(st.lists(st.text(alphabet="abc-", min_size=SHORTEST), min_size=1), st.text(alphabet="abc-"))
def test_no_secret_survives_in_any_text(secrets: list[str], text: str) -> None:
    redacted = Redactor(secrets).text(text + secrets[0] + text)
    assert not any(secret in part for secret in secrets for part in redacted.split(REDACTED))


ESCAPES = {
    "percent": "%{:02x}",
    "percent twice": "%25{:02X}",
    "JSON": "\\u{:04x}",
    "JSON twice": "\\\\u{:04X}",
    "JavaScript": "\\u{{{:x}}}",
    "Python": "\\U{:08x}",
    "a shell": "\\x{:02x}",
    "octal": "\\{:03o}",
    "HTML": "&#{};",
    "HTML in hex": "&#x{:X};",
    "HTML twice": "&amp;#{};",
    "old JavaScript": "%u{:04x}",
    "Perl": "\\x{{{:x}}}",
    "JSON in a URL": "%5Cu{:04x}",
    "HTML in a URL": "%26%23{}%3B",
    "percent in HTML": "&#37;{:02x}",
    "percent in JSON": "\\u0025{:02x}",
}


@pytest.mark.parametrize("escape", ESCAPES.values(), ids=ESCAPES)
@pytest.mark.parametrize("around", ["{}", 'said "{}".', "x={}&y=1", "<p>{}</p>"])
def test_row_57_a_secret_is_found_with_every_or_any_letter_escaped(escape, around):
    secret = "tok3nSecretValue-9"
    every = "".join(escape.format(ord(letter)) for letter in secret)
    one = secret[:5] + escape.format(ord(secret[5])) + secret[6:]
    for written in (every, one):
        text = around.format(written)
        assert Redactor([secret]).text(text) == around.format("***")
        found = Redactor([secret]).value({"a": [text], text: {"b": text}})
        assert written not in json.dumps(found, ensure_ascii=False)
        assert found["a"] == [around.format("***")]


def test_escaped_letters_of_other_words_stay():
    text = r"%41%42 \u0041\x41 &#65; C:\101 100%25"
    assert Redactor(["tok3nSecretValue-9"]).text(text) == text


def test_a_text_of_escaped_letters_is_searched_in_linear_time():
    for text in (
        "%25" * 30_000 + "41" * 30_000,
        "&amp;" * 60_000,
        "%41" * 100_000,
        r"\u0041" * 100_000,
        "%41 " * 100_000,
        "\\" * 300_000,
        "%25" * 100_000,
        "&#" * 100_000,
    ):
        assert Redactor(["tok3nSecretValue-9"]).text(text) == text
