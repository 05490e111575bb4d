"""Which action a failure takes."""

from __future__ import annotations

import pytest

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.errors import CallFailed, DeadlineExceeded, ToolFailed, ToolNotFound, Where
from pflow_mcp_plugin.execution.actions import classify, from_words

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
    assert classify(ToolNotFound("x", where=WHERE)) == "resource_missing"
    assert classify(PflowError("not found")) == "error"


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("GitHub API rate limit exceeded", "rate_limited"),
        ("HTTP 429", "rate_limited"),
        ("Request failed with status code 429", "rate_limited"),
        ("401 Unauthorized", "auth_failed"),
        ("Error 403: nope", "auth_failed"),
        ("Invalid API key", "auth_failed"),
        ("ENOENT: no such file or directory, open 'x'", "resource_missing"),
        ("Repository not found", "resource_missing"),
        ("status 404", "resource_missing"),
        ("The request timed out", "timeout"),
        ("connect ETIMEDOUT 1.2.3.4:443", "timeout"),
        ("429 widgets were expected", "rate_limited"),
        ("division by zero", "error"),
        ("the author is Forbiddenson", "error"),
        ("expected 404 rows", "error"),
        ("line 4290", "error"),
        ("", "error"),
    ],
)
def test_a_tools_own_words_decide_where_they_leave_no_doubt(text, action):
    assert from_words(text) == action
    assert classify(ToolFailed(text, where=WHERE)) == action
