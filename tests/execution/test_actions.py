"""Which action a failure takes."""

from __future__ import annotations

from pflow_mcp_plugin.errors import CallFailed, DeadlineExceeded, McpError, Where

WHERE = Where(server="s", tool="t")


def test_a_failure_may_name_its_own_action():
    assert DeadlineExceeded("x", where=WHERE, status=401).action == "timeout"
    gone = McpError("x", where=WHERE, kind="not_found", action="resource_missing", code=-32001)
    assert gone.action == "resource_missing"


def test_the_words_of_a_failure_that_no_tool_reports_are_not_read():
    assert CallFailed("HTTP 429", where=WHERE).action == "error"
