"""How far calls have come."""

from __future__ import annotations

import pytest

from pflow_mcp_plugin.exchange import ToolCall
from pflow_mcp_plugin.execution.call_progress import CallProgress, line

CALL = ToolCall(server="odd", tool="act", node_id="fetch")


def test_progress_is_noted_in_the_trace_and_not_shown_off_a_terminal(capsys):
    notes = {}
    with CallProgress(notes.__setitem__, on_terminal=False) as progress:
        progress(CALL, 1, 4, "reading")
        progress(CALL, 2, 4, None)
    assert notes == {"fetch": {"progress": {"done": 2, "total": 4, "message": None}}}
    assert capsys.readouterr() == ("", "")


def test_progress_is_shown_on_a_terminal_until_the_end(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    with CallProgress(lambda *_: None, on_terminal=True) as progress:
        progress(CALL, 1, 4, "[bold]reading")
    progress(CALL, 2, 4, "late")
    shown = capsys.readouterr().err
    assert "fetch: 1 of 4, [bold]reading" in shown
    assert "late" not in shown


@pytest.mark.parametrize(
    ("call", "total", "text", "said"),
    [
        (CALL, 10, "a\x1b[31m\nb", "fetch: 2.5 of 10, a\\u001b[31m b"),
        (ToolCall(server="odd", tool="act"), None, None, "act: 2.5"),
        (ToolCall(server="odd", tool="a\x1b[2J\u202ec"), None, "", "a\\u001b[2J\\u202ec: 2.5"),
        (CALL, None, "x" * 100, "fetch: 2.5, " + "x" * 60),
    ],
)
def test_the_line_says_whose_progress_it_is_and_shows_no_control_characters(call, total, text, said):
    assert line(call, 2.5, total, text) == said
