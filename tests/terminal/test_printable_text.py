"""What people read: hidden characters are escaped, those that a script needs are kept."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pflow_mcp_plugin.contract import Report
from pflow_mcp_plugin.terminal.printable_text import (
    abbreviated,
    barred_lines,
    hidden_places,
    one_line,
    printable,
)

TAGS = "".join(chr(0xE0000 + ord(letter)) for letter in "obey")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J", "\\u001b[2J"),
        ("a\rb", "a\\rb"),
        ("a\x00b\x7f", "a\\u0000b\\u007f"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("zero\u200bwidth\u2060\ufeff", "zero\\u200bwidth\\u2060\\ufeff"),
        ("\u3164", "\\u3164"),
        ("a\u200db", "a\\u200db"),
        ("a\ufe0f", "a\\ufe0f"),
        ("\U0001f3f4" + TAGS[0], "\U0001f3f4\\udb40\\udc6f"),
        ("\U0001f600" + "\ufe0f" * 2, "\U0001f600\ufe0f\\ufe0f"),
    ],
)
def test_what_is_hidden_is_escaped(text, shown):
    assert printable(text) == shown
    assert printable(shown) == shown


@pytest.mark.parametrize(
    "text",
    [
        "plain\n\twords\r\n",
        "caf\u00e9 \u00a0\u2026 \u65e5\u672c\u8a9e",
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",  # Persian, with a non-joiner
        "\u0915\u094d\u200d\u0937 \u0915\u094d\u200c\u0937",  # Hindi, with both
        "\U0001f468\u200d\U0001f469\u200d\U0001f467",  # a family
        "\u2764\ufe0f\u200d\U0001f525 \u26a0\ufe0f 1\ufe0f\u20e3 \u00a9\ufe0e",
        "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",  # Scotland
        "\u05e9\u05dc\u05d5\u05dd\u200f (C++)\u200e",  # Hebrew, with marks
        "\u845b\U000e0100",  # a variant of an ideograph
    ],
)
def test_what_a_script_or_an_emoji_needs_is_kept(text):
    assert printable(text) == text
    assert list(hidden_places(text)) == []


@given(st.text())
def test_nothing_hidden_is_left_of_any_text(text):
    shown = printable(text)
    assert list(hidden_places(shown)) == []
    assert not set(shown) & set("\x1b\x9b\x00\x08\u202e\u2066\u200b\ufeff")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\r\n\tb", "a\\r\\n\\tb"),
        ("a\u00a0b\ud800\U000e0041", "a\\u00a0b\\ud800\\udb40\\udc41"),
        ("\U0001f468\u200d\U0001f469", "\U0001f468\u200d\U0001f469"),
    ],
)
def test_one_line_holds_no_line_end_and_keeps_what_a_script_needs(text, shown):
    assert one_line(text) == shown


@given(st.text())
def test_one_line_of_any_text_is_one_line_and_final(text):
    shown = one_line(text)
    assert len(shown.splitlines()) <= 1
    assert one_line(shown) == printable(shown) == shown


@given(st.recursive(st.none() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_a_json_document_means_the_same(value):
    for indent in (None, 2):
        assert json.loads(printable(json.dumps(value, ensure_ascii=False, indent=indent))) == value


def test_a_report_is_printable_unless_it_is_data():
    assert Report(text="\x1b[2Jx").render() == "\\u001b[2Jx"
    assert Report(text="\x1b[2Jx", is_data=True).render() == "\x1b[2Jx"


def test_what_is_abbreviated_ends_with_dots_and_the_lines_of_others_are_barred():
    assert [abbreviated(text, 5) for text in ("abcde", "abcdef")] == ["abcde", "ab..."]
    assert barred_lines("a\nb\r\nc") == ["a", "| b", "| c"]
    assert [*hidden_places("a\u200bb\u202e")] == [1, 3]
