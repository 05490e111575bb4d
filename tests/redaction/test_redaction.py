"""Secrets are taken out of what is shown, in every form that programs write."""

import base64
import html
import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pflow_mcp_plugin.redaction import REDACTED, SHORTEST, Redactor
from pflow_mcp_plugin.secret_detection import mask


def test_a_value_of_references_only_is_shown_and_any_other_masked_without_a_trace_of_it() -> None:
    for value in ("Bearer ${TOKEN}", "${USER}:${PASSWORD}", "  ${A} ${B}", "${TOKEN:-}", "basic ${X}", ""):
        assert mask(value) == value
    for value in ("ghp_abc", "Bearer abc", "abc${TOKEN}", "${TOKEN}abc", "$TOKEN", "hunter2 ${A}"):
        assert mask(value) == "****"
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
        (
            ["12345678", "-4321", "98765.0", "1e16"],
            [-12345678, 12345678.0, -4321, 4321, 98765, 10**16],
            ["***"] * 6,
        ),
        (
            ["12345678", "nan", "1e400", "inf"],
            [1234567.8, float("inf"), True, 0.5],
            [1234567.8, float("inf"), True, 0.5],
        ),
    ],
    ids=range(8),
)
def test_secrets_are_taken_out_of_texts_keys_and_numbers(secrets, value, shown):
    assert Redactor(secrets).value(value) == shown


@given(st.lists(st.text(alphabet="abc-", min_size=SHORTEST), min_size=1), st.text(alphabet="abc-"))
def test_no_secret_survives_in_any_text(secrets: list[str], text: str) -> None:
    redacted = Redactor(secrets).text(text + secrets[0] + text)
    assert not any(secret in part for secret in secrets for part in redacted.split(REDACTED))


ESCAPES = {
    "percent": "%{:02x}",
    "percent twice": "%25{:02X}",
    "JSON": "\\u{:04x}",
    "JavaScript": "\\u{{{:x}}}",
    "Python": "\\U{:08x}",
    "a shell": "\\x{:02x}",
    "octal": "\\{:03o}",
    "HTML": "&#{};",
    "HTML in hex": "&#x{:X};",
    "old JavaScript": "%u{:04x}",
    "JSON in a URL": "%5Cu{:04x}",
    "percent in HTML": "&#37;{:02x}",
}


@pytest.mark.parametrize("escape", ESCAPES.values(), ids=ESCAPES)
@pytest.mark.parametrize("around", ['said "{}".', "x={}&y=1"])
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
    for part in ("&amp;", "%41", r"\u0041", "%41 ", "\\\\\\", "%25", "&#"):
        text = part * 60_000
        assert Redactor(["tok3nSecretValue-9"]).text(text) == text


PLAIN = "ghp_i0VpEBOWfbZAVaBSo63bbH6xnAbnBEoonCrb"
SPECIAL = 'p@ss w/ord+&"quo\'te"\\é\n€😀~end?=0123456789'
PART = 12


def forms(secret: str) -> Iterator[str]:
    raw = secret.encode()
    quoted = (quote(secret), quote(secret, safe=""), quote_plus(secret), quote(quote(secret)))
    yield from (secret, *quoted)
    yield from (re.sub("%..", lambda found: found[0].lower(), form) for form in quoted)
    yield from (json.dumps(secret), json.dumps(secret, ensure_ascii=False), json.dumps(json.dumps(secret)))
    yield from (shlex.quote(secret), shlex.quote(shlex.quote(secret)), repr(secret), repr(raw))
    doubled = [secret.replace(it, 2 * it) for it in ('"', "'")]
    yield from (*doubled, *map(json.dumps, doubled))
    yield from (html.escape(secret), subprocess_quoted(secret), json.dumps(secret).replace("/", r"\/"))
    for before in range(3):
        text = b"." * before + raw + b"!"
        yield from (base64.b64encode(text).decode(), base64.urlsafe_b64encode(text).decode())
        yield quote(base64.b64encode(text), safe="")
    long = base64.encodebytes(b"-" * 45 + raw + b"-" * 9).decode()
    yield from (long, json.dumps(long), long.replace("\n", "\r\n"))


def subprocess_quoted(secret: str) -> str:
    """What `printf %q` of bash makes of it."""
    command = ["bash", "-c", 'printf %q "$1"', "bash", secret]
    return subprocess.run(command, capture_output=True, encoding="utf-8", check=True).stdout


def left(secret: str, text: str) -> list[str]:
    """Return what a text still has of a secret, decoded where it can be."""
    parts = {secret[at : at + PART] for at in range(len(secret) - PART + 1)}
    return sorted(part for part in parts if part in text)


@pytest.mark.parametrize("secret", [PLAIN, SPECIAL, "/+ab/+cd/+ef/+gh", "éèàü-ñçßø-æœ"])
def test_a_secret_is_found_in_every_form_that_programs_write(secret):
    redactor = Redactor([secret, "another-secret"])
    for form in forms(secret):
        text = redactor.text(f"before {form} after")
        assert "***" in text, form
        assert not left(secret, text)
        # what is left of it are the neighbours that were encoded with it
        assert len(text.replace("LS0t", "")) < len("before  after") + 40 + 12, (form, text)


def test_a_secret_of_six_characters_is_found_in_base64_where_it_stands_alone():
    for secret in ("q7Rk2x", "é7Rk2"):
        encoded = base64.b64encode(secret.encode()).decode()
        assert Redactor([secret]).text(f"Basic {encoded}") == "Basic ***"


def test_lines_of_a_secret_are_found_one_by_one_but_not_short_ones():
    secret = "line-one\r\n  two: longer-than-one\nbegin\n"
    redactor = Redactor([secret])
    lines = ["<line-one>", "two: longer-than-one, is it", "begin"]
    assert redactor.value(lines) == ["<***>", "***, is it", "begin"]
    assert redactor.text(f"is {secret}") == "is ***"


@pytest.mark.parametrize("cut", [1, 3, 4, 11, 12, 13, 20, 28, 29, len(PLAIN) - 1])
def test_a_part_beside_a_cut_is_found(cut):
    redactor = Redactor([PLAIN])
    head, tail = PLAIN[:cut], PLAIN[cut:]
    for text in (f"token {head}...", f"token {head}… and more", f"...{tail} was given"):
        assert not left(PLAIN, redactor.text(text)), text
    assert not left(PLAIN, redactor.text(f"…{tail} was given"))
    assert not left(PLAIN, redactor.text(f"…{tail} was given… later"))
    for text in (f"token {head}", f"{tail}\nline", f" {head}\n", head[3:]):
        assert not left(PLAIN, redactor.piece(text)), text
    for part in (head[3:], tail, head):
        assert redactor.piece(part) == ("***" if len(part) >= PART else part)
    assert "".join(redactor.pieces([f"is {head}", f"{tail}, is it"])) == "is ******, is it"
    assert redactor.value([f"is {head}", 1, f"{tail}, is it"]) == ["is ***", 1, "***, is it"]


def test_a_part_that_no_cut_explains_stays_as_it_is():
    middle, tail = PLAIN[5:17], PLAIN[-PART:]
    for text in (f"...{middle} {tail} and", f"and {PLAIN[:PART]} {middle}...", f"... is {PLAIN[:20]}"):
        assert Redactor([PLAIN]).text(text) == text


def test_a_secret_is_found_in_one_of_two_pieces_or_in_both_together():
    redactor = Redactor([PLAIN, "q7Rk2xWm9TzL4vBn"])
    assert redactor.pieces(["is ", PLAIN, ", is it"]) == ["is ", "***", ", is it"]
    assert redactor.value(["q7Rk2xWm", "9TzL4vBn"]) == ["***", "***"]


def test_ordinary_text_stays_as_it_is():
    redactor = Redactor([PLAIN, "postgres-password"])
    text = "the driver postgres... needs a password, ghp_ is the prefix of a token…"
    assert redactor.piece(text) == text
    value = {"driver": "postgres", "password": "", "none": [None, True, 1.5, "ghp_"]}
    assert redactor.value(value) == value
    assert Redactor().value(value) is value


def test_a_text_is_redacted_before_it_is_shortened():
    redactor = Redactor([PLAIN])
    for before in range(80, 101):
        text = redactor.shortened("x" * before + PLAIN + "y" * 50, 100)
        assert not left(PLAIN, text)
        assert text.endswith("characters in all)")
    assert redactor.shortened("x" * 100, 100) == "x" * 100
    assert redactor.shortened("x" * 1001, 100) == "x" * 100 + "... (1,001 characters in all)"


@settings(max_examples=50)
@given(st.lists(st.text(min_size=4, max_size=30), min_size=1, max_size=3), st.text(max_size=40))
def test_any_secret_is_found_in_its_usual_forms(secrets, around):
    redactor = Redactor(secrets)
    for form in (secrets[0], json.dumps(secrets[0])[1:-1], quote(secrets[0].encode("utf-8", "replace"))):
        redacted = redactor.text(around + form + around)
        assert "***" in redacted or form in "***"
