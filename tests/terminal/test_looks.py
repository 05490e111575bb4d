import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pflow_mcp_plugin.terminal.looks import (
    columns_of,
    cut,
    folded,
    line_of,
    moves_cursor,
    padded,
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
