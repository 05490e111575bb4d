import pytest

from pflow_mcp_plugin.terminal.looks import columns_of, line_of, moves_cursor, wants_colours


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
        ({"TERM": "xterm", "NO_COLOR": ""}, True, True),
        ({"TERM": "dumb"}, False, False),
        ({}, False, False),
    ],
)
def test_the_environment_says_what_a_terminal_can_do(environment, moves, colours):
    assert (moves_cursor(environment), wants_colours(environment)) == (moves, colours)


def test_the_width_is_that_of_the_variable_or_eighty(monkeypatch):
    monkeypatch.setenv("COLUMNS", "33")
    assert columns_of(None) == 33
    monkeypatch.delenv("COLUMNS")
    assert columns_of(None) == 80
