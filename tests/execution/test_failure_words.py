"""What is read out of the words that real servers, SDKs and HTTP libraries fail with."""

import time

import pytest

from pflow_mcp_plugin.errors import CallFailed, DeadlineExceeded, McpError, Where
from pflow_mcp_plugin.execution.failure_actions import action_of, wait_of

RATE_LIMITED = [
    # GitHub
    "GitHub API Error: 403 - You have exceeded a secondary rate limit. Please wait a few minutes.",
    # Slack, Stripe, Notion, Discord
    "An API error occurred: ratelimited",
    # HTTP libraries: axios, requests, httpx, got, urllib
    "Request failed with status code 429",
    # Anthropic, OpenAI, AWS, gRPC
    "Rate limit reached for gpt-4o in organization org-x on requests per min (RPM): Limit 500",
    "You exceeded your current quota, please check your plan and billing details.",
    "An error occurred (ThrottlingException) when calling the ListFunctions operation: Rate exceeded",
    "rpc error: code = ResourceExhausted desc = try again later",
]
AUTH_FAILED = [
    "failed to get user: GET https://api.github.com/user: 401 Bad credentials []",
    "Permission Denied: Resource not accessible by personal access token",
    "An API error occurred: missing_scope",
    "Slack API error: not_authed",
    "Invalid API Key provided: sk_test_****1234",
    '<HttpError 403 when requesting https://www.googleapis.com/drive/v3 returned "Insufficient Permission">',
    'password authentication failed for user "app"',
    "Access denied for user 'root'@'localhost' (using password: YES)",
    "rpc error: code = Unauthenticated desc = no credentials were sent",
    "An error occurred (ExpiredToken) when calling the GetObject operation: The security token is expired",
    "Incorrect API key provided: sk-abc. You can find your API key at https://platform.openai.com.",
    "Error: API token is invalid.",
    "The access token has expired or has been revoked",
    "Forbidden",
]
RESOURCE_MISSING = [
    "Not Found: Not Found - Resource not found: /repos/a/b",
    "failed to get repository: GET https://api.github.com/repos/a/b: 404 Not Found []",
    "No such customer: 'cus_NffrFeUfNV2Hib'",
    '{"error": {"code": "resource_missing", "doc_url": "https://stripe.com/docs/error-codes"}}',
    "Could not find page with ID: 8c2f. Make sure the relevant pages are shared with your integration.",
    "[Errno 2] No such file or directory: 'timeout.txt'",
    "HTTP 404: no article at https://example.com/too-many-requests",
]
TIMEOUT = [
    "timeout of 5000ms exceeded",
    "connect ETIMEDOUT 140.82.121.6:443",
    'Get "https://api.example.com": context deadline exceeded',
    "Error executing tool fetch: 504 Server Error: Gateway Timeout for url: https://example.com",
    "UND_ERR_CONNECT_TIMEOUT: Connect Timeout Error",
    "Timeout: no answer from the camera",
]
NONE_OF_THEM = [
    # Names of parameters and options
    "Unknown option --timeout",
    "connection timeout must be between 1 and 600",
    "timeout: expected number, received string",
    "rate limit must be greater than zero",
    # Numbers that are no status
    "429 widgets were expected",
    "Expected 401 items but got 403",
    "Error: line 404: unexpected token",
    "Process exited with exit code 401",
    "HTTP 404 rows were written",
    # Words that mean something else
    "character '/' is forbidden in names",
    "max_tokens: 9000 > 8192, which is the maximum allowed number of output tokens",
    "bash: frobnicate: command not found",
    'column "nmae" does not exist',
    "Access denied - path outside allowed directories: /etc/passwd not in /data",
    "500 Server Error: Internal Server Error for url: https://example.com/timeout",
    "",
]
TABLE = [
    (text, action)
    for action, texts in {
        "rate_limited": RATE_LIMITED,
        "auth_failed": AUTH_FAILED,
        "resource_missing": RESOURCE_MISSING,
        "timeout": TIMEOUT,
        "error": NONE_OF_THEM,
    }.items()
    for text in texts
]


@pytest.mark.parametrize(("text", "action"), TABLE)
def test_a_real_message_takes_the_action_that_a_person_would_choose(text: str, action: str) -> None:
    assert action_of(text) == action


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("A rate limit was exceeded, please retry after 30 seconds", 30),
        ("Rate limit reached for gpt-4o. Please try again in 1.5s.", 1.5),
        ("Slow down; wait at least 2 minutes", 120),
        ("429: quota resets in 1 hour", 3600),
        ('{"message": "You are being rate limited.", "retry_after": 64}', 64),
        ("Too Many Requests\nRetry-After: 120", 120),
        ("try again in 250ms", 0.25),
        ("Retry-After: 2026-01-02", None),
        ("retry after you read page 30 of this", None),
        ("waited 30 seconds for a lock", None),
        ("rate limit exceeded", None),
    ],
)
def test_the_wait_that_a_message_asks_for_is_read_as_seconds(text: str, seconds: float | None) -> None:
    assert wait_of(text) == seconds


@pytest.mark.parametrize("wrapping", ["Error executing tool act: {}", "Error: {}", "MCP error -32603: {}"])
@pytest.mark.parametrize(
    ("code", "action"), [(401, "auth_failed"), (404, "resource_missing"), (429, "rate_limited")]
)
def test_what_a_framework_puts_before_a_message_does_not_hide_its_status(
    wrapping: str, code: int, action: str
) -> None:
    for status in (
        f"HTTP {code}",
        f"Request failed with status code {code}",
        f"{code} Client Error: x for url: y",
    ):
        assert action_of(wrapping.format(status)) == action


@pytest.mark.parametrize(
    "piece",
    [
        "timeout ",
        "http ",
        "--",
        "error ",
        "a_timeout_",
        "no such a ",
        "rate limit ",
        "'",
        "retry after ",
        "wait 1",
    ],
)
def test_words_are_read_in_no_time_whatever_they_are(piece: str) -> None:
    started = time.process_time()
    action_of(piece * 2000)
    wait_of(piece * 2000)
    assert time.process_time() - started < 1


def test_a_failure_may_name_its_own_action_and_words_that_no_tool_reports_are_not_read():
    where = Where(server="s", tool="t")
    assert DeadlineExceeded("x", where=where, status=401).action == "timeout"
    gone = McpError("x", where=where, kind="not_found", action="resource_missing", code=-32001)
    assert gone.action == "resource_missing"
    assert CallFailed("HTTP 429", where=where).action == "error"
