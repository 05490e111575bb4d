"""How far calls have come."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pflow_mcp_plugin.exchange import ToolCall
from pflow_mcp_plugin.execution.call_hooks import note_progress, shortened

CALL = ToolCall(server="odd", tool="act", node_id="fetch")


def test_progress_is_noted_in_the_trace_and_reported():
    notes, reports = {}, []
    run = SimpleNamespace(annotate=notes.__setitem__, report_progress=lambda *it: reports.append(it))
    note_progress(run, CALL, 1, 4, "reading\n")
    note_progress(run, CALL, 2, 4, None)
    assert notes == {"fetch": {"progress": {"done": 2, "total": 4, "message": None}}}
    assert reports == [("fetch", 1, 4, "reading"), ("fetch", 2, 4, "")]


def test_progress_of_a_call_without_a_node_is_ignored():
    run = SimpleNamespace(annotate=pytest.fail, report_progress=pytest.fail)
    note_progress(run, ToolCall(server="odd", tool="act"), 1, 2, "")


@pytest.mark.parametrize(
    ("text", "said"),
    [("a\x1b[31m\nb", "a\\u001b[31m b"), ("a\x1b[2J\u202ec", "a\\u001b[2J\\u202ec"), ("x" * 300, "x" * 200)],
)
def test_a_message_is_one_short_line_without_control_characters(text, said):
    assert shortened(text) == said
