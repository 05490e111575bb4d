"""Which action a failed call takes."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.errors import McpError, ToolFailed

ERROR = "error"

_STATUS: Mapping[object, str] = {
    401: "auth_failed",
    403: "auth_failed",
    404: "resource_missing",
    408: "timeout",
    410: "resource_missing",
    429: "rate_limited",
    504: "timeout",
}
_CODES: Mapping[object, str] = {-32001: "timeout", -32002: "resource_missing"}
_WORDS: Mapping[str, tuple[str, ...]] = {
    "rate_limited": (
        r"\brate[ _-]?limit",
        r"\btoo many requests\b",
        r"^429\b",
        r"\b(http|status|error|code)\W{0,3}429\b",
    ),
    "auth_failed": (
        r"\bunauthori[sz]ed\b",
        r"\bforbidden\b",
        r"\bbad credentials\b",
        r"\bauthentication (failed|required)\b",
        r"\b(invalid|expired|missing) (api[ _-]?key|access token|token|credentials)\b",
        r"^40[13]\b",
        r"\b(http|status|error|code)\W{0,3}40[13]\b",
    ),
    "timeout": (r"\btimed[ -]?out\b", r"\btimeout\b", r"\betimedout\b", r"\bdeadline exceeded\b"),
    "resource_missing": (
        r"\bnot found\b",
        r"\bdoes not exist\b",
        r"\bno such (file|directory|key|table|resource)\b",
        r"\benoent\b",
        r"^404\b",
        r"\b(http|status|error|code)\W{0,3}404\b",
    ),
}
_PATTERNS = {action: re.compile("|".join(words), re.IGNORECASE) for action, words in _WORDS.items()}
_READ = 2000


def classify(error: PflowError) -> str:
    """Return the most specific action for a failure.

    What the failure was made with counts first: its own action, an HTTP status, a JSON-RPC code.
    A tool that reports a failure in words is read for a few that leave no doubt.

    Returns:
        `rate_limited`, `auth_failed`, `resource_missing`, `timeout`, else `error`.
    """
    if error.action != ERROR or not isinstance(error, McpError):
        return error.action
    facts = error.facts
    known = _STATUS.get(facts.get("status")) or _CODES.get(facts.get("code"))
    if known:
        return known
    return from_words(error.message) if isinstance(error, ToolFailed) else ERROR


def from_words(text: str) -> str:
    """Return the action that a tool's own words speak of, `error` if none."""
    beginning = text[:_READ].strip()
    return next((action for action, pattern in _PATTERNS.items() if pattern.search(beginning)), ERROR)
