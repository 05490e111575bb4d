"""What is read out of the words that real servers, SDKs and HTTP libraries fail with."""

from __future__ import annotations

import time

import pytest

from pflow_mcp_plugin.execution.failure_actions import action_of, wait_of

RATE_LIMITED = [
    # GitHub
    "API rate limit exceeded for user ID 583231. If you reach out to GitHub Support for help, ...",
    "GitHub API Error: 403 - You have exceeded a secondary rate limit. Please wait a few minutes.",
    "failed to search code: GET https://api.github.com/search/code: 403 API rate limit of 30 still exceeded",
    # Slack, Stripe, Notion, Discord
    "An API error occurred: ratelimited",
    "A rate limit was exceeded, please retry after 30 seconds",
    '{"error": {"code": "rate_limit", "message": "Testmode request rate limit exceeded"}}',
    '{"object":"error","status":429,"code":"rate_limited","message":"You have been rate limited."}',
    "You are being rate limited.",
    # HTTP libraries: axios, requests, httpx, got, urllib
    "Request failed with status code 429",
    "Error executing tool search: 429 Client Error: Too Many Requests for url: https://api.example.com/v1",
    "Client error '429 Too Many Requests' for url 'https://api.example.com/v1/search'",
    "Response code 429 (Too Many Requests)",
    "HTTP Error 429: Too Many Requests",
    # Anthropic, OpenAI, AWS, gRPC
    'Error code: 429 - {"type": "error", "error": {"type": "rate_limit_error", "message": "..."}}',
    "Rate limit reached for gpt-4o in organization org-x on requests per min (RPM): Limit 500",
    "You exceeded your current quota, please check your plan and billing details.",
    "An error occurred (ThrottlingException) when calling the ListFunctions operation: Rate exceeded",
    "rpc error: code = ResourceExhausted desc = try again later",
    "Brave API error: 429 ",
    "429 slow down",
]
AUTH_FAILED = [
    "Authentication Failed: Bad credentials",
    "Authentication Failed: Requires authentication",
    "failed to get user: GET https://api.github.com/user: 401 Bad credentials []",
    "Permission Denied: Resource not accessible by personal access token",
    "An API error occurred: invalid_auth",
    "An API error occurred: missing_scope",
    "Slack API error: not_authed",
    "Invalid API Key provided: sk_test_****1234",
    "Error executing tool list_issues: 401 Client Error: Unauthorized for url: https://gitlab.com/api/v4/issues",
    "Error executing tool get_page: 403 Client Error: Forbidden for url: https://example.com/wiki",
    "Error executing tool read: 401",
    "Client error '401 Unauthorized' for url 'https://api.example.com/me'",
    "AxiosError: Request failed with status code 403",
    "HTTPError: 401 Unauthorized",
    "HTTP error! status: 401",
    '<HttpError 403 when requesting https://www.googleapis.com/drive/v3 returned "Insufficient Permission">',
    'password authentication failed for user "app"',
    "Access denied for user 'root'@'localhost' (using password: YES)",
    "rpc error: code = Unauthenticated desc = no credentials were sent",
    "An error occurred (ExpiredToken) when calling the GetObject operation: The security token is expired",
    '401 {"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}',
    "Incorrect API key provided: sk-abc. You can find your API key at https://platform.openai.com.",
    "Error: API token is invalid.",
    "The access token has expired or has been revoked",
    "Forbidden",
    "403 Forbidden",
    "403 access denied",
    "MCP error -32603: Sentry API: Unauthorized (401)",
]
RESOURCE_MISSING = [
    "Error executing tool get_issue: 404 Client Error: Not Found for url: https://api.example.com/issues/9",
    "Not Found: Not Found - Resource not found: /repos/a/b",
    "failed to get repository: GET https://api.github.com/repos/a/b: 404 Not Found []",
    "An API error occurred: channel_not_found",
    "No such customer: 'cus_NffrFeUfNV2Hib'",
    "No such payment_intent: 'pi_3'",
    '{"error": {"code": "resource_missing", "doc_url": "https://stripe.com/docs/error-codes"}}',
    "Could not find page with ID: 8c2f. Make sure the relevant pages are shared with your integration.",
    "ENOENT: no such file or directory, open '/data/notes.txt'",
    "Error: ENOENT: no such file or directory, stat '/tmp/connection timeout.log'",
    "[Errno 2] No such file or directory: 'timeout.txt'",
    "Parent directory does not exist: /data/reports",
    'relation "orders" does not exist',
    'database "shop" does not exist',
    "Request failed with status code 404",
    "Failed to fetch https://example.com/unauthorized - status code 404",
    "HTTP 404: no article at https://example.com/too-many-requests",
    "Client error '404 Not Found' for url 'https://api.example.com/pypi/nothing/json'",
    "HTTP Error 410: Gone",
    "An error occurred (NoSuchKey) when calling the GetObject operation: The specified key does not exist.",
    "rpc error: code = NotFound desc = no such thing",
    'pods "web-1" not found',
    "Error from server (NotFound): deployments.apps web",
    "Server returned 404 for GET /v1/things",
    "404: no such page",
    "Database not found: primary",
    "Repository not found",
]
TIMEOUT = [
    "timeout of 5000ms exceeded",
    "page.goto: Timeout 30000ms exceeded.\nCall log:\n  - navigating to https://example.com",
    "connect ETIMEDOUT 140.82.121.6:443",
    "net::ERR_CONNECTION_TIMED_OUT at https://example.com/",
    "HTTPSConnectionPool(host='api.example.com', port=443): Read timed out. (read timeout=10)",
    "canceling statement due to statement timeout",
    "rpc error: code = DeadlineExceeded desc = context deadline exceeded",
    'Get "https://api.example.com": context deadline exceeded',
    "Error executing tool fetch: 504 Server Error: Gateway Timeout for url: https://example.com",
    "Error executing tool fetch: ReadTimeout",
    "TimeoutError: The operation was aborted due to timeout",
    "Command '['git', 'fetch']' timed out after 30 seconds",
    "MCP error -32001: Request timed out",
    "Lock wait timeout exceeded; try restarting transaction",
    "UND_ERR_CONNECT_TIMEOUT: Connect Timeout Error",
    "The request timed out",
    "Timeout: no answer from the camera",
    "Timeout",
]
NONE_OF_THEM = [
    # Names of parameters and options
    "parameter timeout must be positive",
    "Unknown option --timeout",
    "error: unknown option '--timeout'",
    "unrecognized arguments: --timeout 30",
    "Invalid value for timeout: -1",
    "Invalid timeout value: abc",
    "1 validation error for fetchArguments\ntimeout\n  Input should be a valid integer",
    "timeout must be a number",
    "timeout: expected number, received string",
    "'timeout' is not a valid field",
    "connection timeout must be between 1 and 600",
    "request_timeout is required",
    "unexpected keyword argument 'timeout'",
    "TypeError: fetch() got an unexpected keyword argument 'read_timeout'",
    "The rate_limit parameter must be an integer",
    "rate limit must be greater than zero",
    "Unknown field: rateLimit",
    # Numbers that are no status
    "429 widgets were expected",
    "expected 404 rows",
    "Expected 401 items but got 403",
    "Error: line 404: unexpected token",
    "line 4290",
    'syntax error at or near "FROM" at character 404',
    "Process exited with exit code 401",
    "Invalid port 429",
    "Issue #404 is closed",
    "ERROR 4040: too many columns",
    "Total: 404",
    "HTTP 404 rows were written",
    # Words that mean something else
    "the author is Forbiddenson",
    "character '/' is forbidden in names",
    "DROP statements are forbidden in this mode",
    "Unexpected token < in JSON at position 0",
    "Invalid token at line 3",
    "Missing token ')' in expression",
    "Area code 404 is in Atlanta",
    "Validation error: 404 is not a prime number",
    "Status of 404 orders changed",
    "max_tokens: 9000 > 8192, which is the maximum allowed number of output tokens",
    "bash: frobnicate: command not found",
    'column "nmae" does not exist',
    "Access denied - path outside allowed directories: /etc/passwd not in /data",
    "EACCES: permission denied, open '/data/notes.txt'",
    "division by zero",
    "Request failed with status code 500",
    "500 Server Error: Internal Server Error for url: https://example.com/timeout",
    "400 Client Error: Bad Request for url: https://example.com/not-found/404",
    "Validation Failed: name already exists on this account",
    "Could not edit file: no exact match",
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
