import io
import threading

import pytest
from screen import screen_lines

from pflow_mcp_plugin.terminal.live_lines import LiveLines

SECONDS = 10


class Terminal(io.StringIO):
    """What was written to a terminal; `drawn` is set when something is."""

    def __init__(self):
        super().__init__()
        self.drawn = threading.Event()

    def write(self, text):
        try:
            return super().write(text)
        finally:
            self.drawn.set()

    def again(self):
        self.drawn.clear()
        assert self.drawn.wait(SECONDS)


@pytest.fixture
def drawing(monkeypatch):
    """Draw lines; returns the terminal and what draws them, which is closed in the end."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    opened = []

    def draw(now, size=24):
        class Lines(LiveLines):
            columns, rows = 20, size

        terminal = Terminal()
        opened.append(Lines(terminal, now))
        opened[-1].start()
        terminal.again()
        return terminal, opened[-1]

    yield draw
    for lines in opened:
        lines.close()


def test_what_is_drawn_stands_below_what_stays_and_is_erased_in_the_end(drawing):
    terminal, lines = drawing(lambda: [[("⠋ one", "")], [("    two", "")]])
    lines.keep([("✓ done", "good")])
    terminal.again()
    assert screen_lines(terminal.getvalue())[:3] == ["✓ done", "⠋ one", "    two"]
    lines.close()
    assert screen_lines(terminal.getvalue()) == ["✓ done"]


def test_what_a_terminal_echoes_leaves_no_rest_of_what_was_drawn(drawing):
    terminal, lines = drawing(lambda: [[("x" * 30, "")], [("y" * 30, "")]])
    with lines.lock:  # the cursor stands in the first line, far from the edge where the echo would wrap
        assert terminal.getvalue().endswith("\x1b[1A\r\x1b[C")
        terminal.write("^C")
    lines.close()
    assert screen_lines(terminal.getvalue()) == []


def test_more_lines_than_the_terminal_has_rows_are_counted(drawing):
    terminal, _ = drawing(lambda: [[(f"server {number}", "")] for number in range(30)], 5)
    assert screen_lines(terminal.getvalue())[-4:] == ["server 0", "server 1", "server 2", "  and 27 more"]


def test_what_is_written_meanwhile_stands_where_the_lines_were_until_nothing_happens_any_more(drawing):
    now = [[("one", "")], [("two", "")]]
    terminal, lines = drawing(lambda: now)
    assert screen_lines(terminal.getvalue()) == ["one", "two"]
    with lines.paused():
        terminal.write("written\n")
        assert screen_lines(terminal.getvalue()) == ["written"]
    terminal.again()
    assert screen_lines(terminal.getvalue()) == ["written", "one", "two"]
    terminal.again()
    assert "\r\x1b[J\r" not in terminal.getvalue()  # they are drawn over each other, not erased first
    now.clear()
    terminal.again()
    assert screen_lines(terminal.getvalue()) == ["written"]


def test_a_terminal_that_is_gone_is_not_written_to_again(drawing):
    terminal, lines = drawing(lambda: [[("one", "")]])
    with lines.lock:
        terminal.close()
    lines.keep([("done", "")])
    terminal.drawn.clear()
    lines.keep([("more", "")])
    lines.close()
    assert not terminal.drawn.is_set()
