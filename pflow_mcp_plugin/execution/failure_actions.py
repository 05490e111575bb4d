"""The action that a failed tool call takes, by the status or common phrases in the tool's message.

Tools report failures as text only. A number is a status only where the words around it say so: `404` is
one in `404 Client Error`, not in `404 rows`; and `timeout` is not a failure where it names a parameter.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from pflow_mcp_plugin.contract.problems import STATUS_ACTIONS

ERROR = "error"

_READ = 2000
"""Characters of a tool's message to examine: messages name the failure near the start."""

_REASONS = "client error|unauthori[sz]ed|forbidden|not found|too many requests|gone\\b|gateway time"
_STATUS = (
    (  # `HTTP 404: ...`, `status code 404`, `Error executing tool read: 404`, `returned 404 for GET ...`
        r"(?:http|status|(?:status|response|error)_code|error|exception|returned|tool \S{1,128}:)"
        r"\W{1,5}([45]\d\d)(?=\W*\Z|\s*[^\w\s.,]|\s(?:(?-i:[A-Z])|for\b|from\b|on\b|when\b))"
    ),
    r"\A([45]\d\d)(?![\w.,]| \w*[^\Ws]s\b)",  # `404 no such page`, but not `404 rows`
    rf"\b([45]\d\d)\W{{1,3}}(?:{_REASONS})",
)
_NOT_SAID = (
    r"\b\w{2,10}://\S+|['\"]/[^'\"\n]{1,300}['\"]",  # a path may contain any word
    (  # misspellings in a query or a command
        r"\b(?:command|module|method|column|function|option|operator|parameter|argument) (?:\S{1,100} )?"
        r"(?:not found|does not exist|doesn't exist)"
    ),
    r"\bno such (?:command|column|function|option)\b",
)
"""Phrases of a message that do not report a failure: they are removed before the rest is examined."""

_PHRASES: Mapping[str, tuple[str, ...]] = {
    "rate_limited": (
        r"rate_limit(?:ed|_error|.{0,40}\b(?:exceeded|reached|hit)\b)",
        r"\bexceeded\b.{0,40}\b(?:rate_limit|quota)|quota_exceeded",
        r"too_many_requests|throttl(?:ed|ing)|resource_exhausted",
    ),
    "auth_failed": (
        r"unauthori[sz]ed|unauthenticated|not_auth(?:ed|enticated)|bad_credentials|invalid_auth\b",
        r"authentication_(?:failed|required|error)|requires authentication",
        r"(?:\A|: )forbidden\b|expired_token|missing_scope|access denied for user|not accessible by",
        r"(?:invalid|incorrect|missing|expired)_(?:(?:api|access)_(?:key|token)|credentials)",
        r"(?:api|access)_(?:key|token) (?:is |has |was )?(?:been )?(?:invalid|expired|revoked)",
    ),
    "timeout": (
        r"timed_?out|deadline_exceeded|timeout_error|timeout\b.{0,20}\bexceeded",
        r"(?:\A|\s)\w*timeout[.!]?\s*\Z|(?-i:\ATimeout:)",
    ),
    "resource_missing": (
        r"not_found|could(?: not|n't) find|does(?: not|n't) exist|enoent|resource_missing",
        r"no_such_(?:file|directory|key|table|bucket|entity|resource)|no such \w+: ",
    ),
}
"""An underscore stands for a space, a hyphen, an underscore or nothing: phrases are also error codes."""

_WAIT = (
    (
        r"\b(?:retry|try again|wait|resets?)\b[^\d\n]{1,30}(?P<time>\d{1,6}(?:\.\d{1,3})?) ?"
        r"(?P<unit>ms|(?:s|m|h|sec|min|hour)(?:ond|ute)?s?)\b"
    ),
    r"\bretry_after\W{1,4}(?P<seconds>\d{1,6})\b(?![-:/.]\d)",
)


def action_of(text: str) -> str:
    """Return the action for the message of a failed tool call; `error` if it names no specific failure."""
    said = _any_of(*_NOT_SAID).sub(" ", text[:_READ].strip())
    if _any_of(*_PHRASES["rate_limited"]).search(said):  # GitHub sends it with status 403
        return "rate_limited"
    for found in _any_of(*_STATUS).finditer(said):
        status = int(found[found.lastindex or 0])
        if status in STATUS_ACTIONS:
            return STATUS_ACTIONS[status]
    return next((action for action, words in _PHRASES.items() if _any_of(*words).search(said)), ERROR)


@cache
def _any_of(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns).replace("_", "[ _-]?"), re.IGNORECASE)


def wait_of(text: str) -> float | None:
    """Return the seconds to wait, by a phrase in a failed tool call's message such as `retry after 30 s`."""
    found = _any_of(*_WAIT).search(text[:_READ])
    if found is None:
        return None
    unit = (found["unit"] or "s").lower()
    scale = 0.001 if unit == "ms" else {"s": 1, "m": 60, "h": 3_600}[unit[0]]
    return float(found["time"] or found["seconds"]) * scale
