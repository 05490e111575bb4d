"""The rules for the members of the tables `batch`, `retry` and `cache`."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeGuard

import attrs

from pflow_mcp_plugin.host.workflow.findings import Findings, at, cut, did_you_mean, shown

MOST_CONCURRENT = 1_000
MOST_RETRIES = 100
LONGEST_WAIT = 3_600
"""Seconds of the longest wait between two attempts."""
LONGEST_TTL = 31_536_000
"""Seconds, a year: older results are never used."""
_NAME = re.compile(r"[^\W\d][\w-]*")


@attrs.frozen
class Rule:
    """The rule for the value of a member, and its words for messages."""

    accepts: Callable[[object], bool]
    expected: str


def valid_members(value: object, rules: Mapping[str, Rule], path: str, findings: Findings) -> dict[str, Any]:
    """Return the members of a table that keep the rules; report the others."""
    if not isinstance(value, dict):
        findings.error(path, f"Expected an object, found {shown(value)}", "Write {...}")
        return {}
    members = {}
    for key, member in value.items():
        if member is None:  # null counts as absent, as everywhere in a workflow
            continue
        rule = rules.get(key)
        if rule is None:
            hint = did_you_mean(str(key), rules, f"It takes {', '.join(rules)}")
            findings.error(at(path, str(key)), f"Unknown key {key}", hint)
        elif rule.accepts(member):
            members[key] = member
        else:
            message = f"{key} must be {rule.expected}, got {_given(member)}"
            findings.error(at(path, key), message, _step(key, member))
    return members


def _given(value: object) -> str:
    if isinstance(value, str):
        return cut(json.dumps(value, ensure_ascii=False))  # quoted, as `"[1, 2]"` is no list
    return cut(str(value)) if _is_number(value) else shown(value)


def _step(key: str, given: object) -> str:
    if key == "error_handling" and isinstance(given, str):
        return did_you_mean(given.replace("-", "_"), _HANDLING, "Use fail_fast or continue")
    return "Write one" if key in ("items", "max") else f"Write one, or leave {key} out"


def _is_list(value: object) -> bool:
    return isinstance(value, list) or (isinstance(value, str) and "${" in value)


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(_NAME.fullmatch(value)) and not value.startswith("__")


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _whole(least: int, most: int) -> Callable[[object], bool]:
    def accepts(value: object) -> bool:
        return _is_number(value) and least <= value <= most and float(value).is_integer()

    return accepts


def _between(least: float, most: float) -> Callable[[object], bool]:
    def accepts(value: object) -> bool:
        return _is_number(value) and least <= value <= most

    return accepts


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and -math.inf < value < math.inf


_HANDLING = ("fail_fast", "continue")
_FLAG = Rule(_is_flag, "true or false")
_RETRIES = Rule(_whole(0, MOST_RETRIES), f"a whole number from 0 to {MOST_RETRIES}")
_SECONDS = Rule(_between(0, LONGEST_WAIT), f"seconds from 0 to {LONGEST_WAIT}")
BATCH: Mapping[str, Rule] = {
    "items": Rule(_is_list, 'a list or a template such as "${list.files}"'),
    "as": Rule(_is_name, "a name of letters, digits, _ and -"),
    "parallel": _FLAG,
    "max_concurrent": Rule(_whole(1, MOST_CONCURRENT), f"a whole number from 1 to {MOST_CONCURRENT}"),
    "error_handling": Rule(lambda value: value in _HANDLING, "fail_fast or continue"),
    "max_retries": _RETRIES,
    "retry_wait": _SECONDS,
}
RETRY: Mapping[str, Rule] = {
    "max": _RETRIES,
    "wait": _SECONDS,
    "backoff": Rule(_between(1, 10), "a number from 1 to 10"),
}
CACHE: Mapping[str, Rule] = {"ttl": Rule(_between(0, LONGEST_TTL), f"seconds from 0 to {LONGEST_TTL}")}
