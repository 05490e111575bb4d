"""What people read: hidden characters are escaped, those that a script needs are kept."""

import json
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pflow_mcp_plugin.contract import Report
from pflow_mcp_plugin.terminal.looks import (
    abbreviated,
    barred_lines,
    columns_of,
    cut,
    folded,
    hidden_places,
    line_of,
    moves_cursor,
    one_line,
    padded,
    printable,
    text_width,
    wants_colours,
    wrapped,
)

TEXTS = st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=30)


def test_east_asian_characters_take_two_cells_and_marks_none():
    assert [text_width(text) for text in ("abc", "日本", "e\u0301", "🙂")] == [3, 4, 1, 2]


@given(TEXTS, st.integers(min_value=1, max_value=20))
def test_what_is_cut_fits_and_says_that_it_was(text, room):
    shown = cut(text, room)
    assert text_width(shown) <= room
    assert shown == text or shown.endswith("…")


@given(TEXTS, st.integers(min_value=0, max_value=60), st.booleans())
def test_what_is_padded_fills_its_room(text, room, right):
    assert text_width(padded(text, room, right=right)) == max(room, text_width(text))


def test_long_lines_are_broken_at_spaces_and_no_command_is():
    text = "Error: the key is missing in the file\n  -> Set it, then run: pflow settings set KEY\n  x: y"
    assert wrapped(text, 24).split("\n") == [
        "Error: the key is",
        "  missing in the file",
        "  -> Set it, then run:",
        "     pflow settings set KEY",  # the terminal breaks it, and it can be copied
        "  x: y",
    ]
    assert wrapped(text, 80) == text
    assert wrapped("  hooks   one, two", 14).split("\n") == ["  hooks   one,", "          two"]


@example("aaaa  a", 6)
@given(st.text(st.sampled_from("ab  \n"), max_size=60), st.integers(6, 30))
def test_breaking_lines_loses_no_word(text, room):
    assert wrapped(text, room).split() == text.split()
    too_long = [line for line in wrapped(text, room).split("\n") if text_width(line) > room]
    one_word = re.compile(r"\s*(?:[a-z]+ {2,})?\S* *")  # perhaps beside a label
    assert all(map(one_word.fullmatch, too_long))


@given(TEXTS, st.integers(2, 20))
def test_what_is_folded_fits_and_is_all_there(text, room):
    lines = folded(text, room)
    assert all(text_width(line) <= room for line in lines)
    assert "".join("".join(lines).split()) == "".join(text.split())


def test_a_line_is_cut_where_its_cells_are_used_up_and_colours_take_none():
    parts = [("ok", "good"), ("  ", ""), ("a long text", "dim")]
    assert line_of(parts, 9, coloured=False) == "ok  a lo…"
    assert line_of(parts, 9, coloured=True) == "\x1b[32mok\x1b[0m  \x1b[2ma lo…\x1b[0m"
    assert line_of(parts, None, coloured=False) == "ok  a long text"
    assert line_of([("長い", ""), ("x", "")], 2, coloured=False) == "…"


@pytest.mark.parametrize(
    ("environment", "moves", "colours"),
    [
        ({"TERM": "xterm"}, True, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, True, False),
        ({"TERM": "dumb"}, False, False),
        ({}, False, False),
    ],
)
def test_the_environment_says_what_a_terminal_can_do(monkeypatch, environment, moves, colours):
    for name in ("TERM", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert (moves_cursor(), wants_colours()) == (moves, colours)


def test_the_width_is_that_of_the_variable_or_eighty(monkeypatch):
    assert columns_of(None) == 80
    monkeypatch.setenv("COLUMNS", "33")
    assert columns_of(None) == 33


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
