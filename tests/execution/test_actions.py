"""Which action a failure takes."""

from __future__ import annotations

import pytest

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.errors import CallFailed, DeadlineExceeded, McpError, Where
from pflow_mcp_plugin.execution.failure_actions import classify

WHERE = Where(server="s", tool="t")


@pytest.mark.parametrize(
    ("facts", "action"),
    [
        ({"status": 429}, "rate_limited"),
        ({"status": 401}, "auth_failed"),
        ({"status": 403}, "auth_failed"),
        ({"status": 404}, "resource_missing"),
        ({"status": 500}, "error"),
        ({"code": -32002}, "resource_missing"),
        ({"code": -32001}, "timeout"),
        ({}, "error"),
    ],
)
def test_status_and_code_decide(facts, action):
    assert classify(CallFailed("rate limit", where=WHERE, **facts)) == action


def test_a_failure_may_name_its_own_action():
    assert classify(DeadlineExceeded("x", where=WHERE)) == "timeout"
    assert (
        classify(McpError("x", where=WHERE, kind="not_found", action="resource_missing"))
        == "resource_missing"
    )
    assert classify(PflowError("not found")) == "error"


def test_the_words_of_a_failure_that_no_tool_reports_are_not_read():
    assert classify(CallFailed("HTTP 429", where=WHERE)) == "error"
