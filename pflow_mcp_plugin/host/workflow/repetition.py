"""The members `batch`, `retry` and `cache` of a node: how often it runs, and whether it needs to.

    "batch": {"items": "${list.files}", "as": "file", "parallel": true, "error_handling": "continue"}
    "retry": {"max": 3, "wait": 1, "backoff": 2}
    "cache": {"ttl": 3600}

Only what is safe to repeat is retried, see `running.retry_rules`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeGuard

import attrs

from pflow_mcp_plugin.contract import Entry, Field
from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.host.workflow.findings import Findings, at, cut, did_you_mean, shown

MOST_CONCURRENT = 1_000
MOST_RETRIES = 100
LONGEST_WAIT = 3_600
"""Seconds of the longest wait between two attempts."""
LONGEST_TTL = 31_536_000
"""Seconds, a year: older results are never used."""
USUAL_TTL = 3_600.0
"""Seconds for which a kept result is used where nobody says for how long."""
_NAME = re.compile(r"[^\W\d][\w-]*")


@attrs.frozen(kw_only=True)
class Retry:
    """The table `retry` of a node: how often and after how long a failure is retried.

    Attributes:
        max: How many attempts may follow the first one.
        wait: Seconds before the second attempt.
        backoff: The factor by which the wait grows for each further attempt.
    """

    max: int = 0
    wait: float = 1.0
    backoff: float = 2.0


@attrs.frozen(kw_only=True)
class Batch:
    """The table `batch` of a node, which runs once for each item of a list.

    Attributes:
        items: A list, or a template of one.
        name: The name of the item in the node's templates.
        parallel: Whether items run at the same time.
        max_concurrent: How many of them do.
        fail_fast: Whether the first failed item ends the batch; else the rest go on.
        retry: How a failed item is retried.
        path: The table's JSON path.
    """

    items: JSON
    name: str = "item"
    parallel: bool = False
    max_concurrent: int = 10
    fail_fast: bool = True
    retry: Retry = attrs.field(factory=Retry)
    path: str = ""


@attrs.frozen(kw_only=True)
class Caching:
    """The member `cache` of a node: `true`, `false` or a table.

    Attributes:
        ttl: Seconds for which the result of an earlier run is used instead of running the node. With 0 the
            node always runs, and its result is kept.
        never: Whether its results are never kept nor used, whatever a run asks for.
    """

    ttl: float = USUAL_TTL
    never: bool = False


ITEMS = Field(key="items", type="list")
"""The declared type of `batch.items`."""


@attrs.frozen
class _Rule:
    """The rule for a member's value, and its words for messages."""

    accepts: Callable[[object], bool]
    expected: str


def read_batch(value: object, path: str, findings: Findings) -> Batch | None:
    """Read a node's table `batch`; return None if it has none. Problems go to `findings`.

    An invalid table still returns a batch, so that references to its outputs are not reported too.

    Args:
        value: The table; any JSON value.
        path: Its JSON path.
        findings: Collects the problems.
    """
    if value is None:
        return None
    table = _table(value, _BATCH, path, findings)
    if isinstance(value, dict) and value.get("items") is None:
        findings.error(path, "items is missing", 'Add items, such as "${list.files}"')
    return Batch(
        items=table.get("items", []),
        name=table.get("as", "item"),
        parallel=table.get("parallel", False),
        max_concurrent=int(table.get("max_concurrent", 10)),
        fail_fast=table.get("error_handling", "fail_fast") == "fail_fast",
        retry=Retry(max=int(table.get("max_retries", 0)), wait=float(table.get("retry_wait", 1.0))),
        path=path,
    )


def read_retry(value: object, path: str, findings: Findings) -> Retry | None:
    """Read a node's table `retry`; return None if it has none. Problems go to `findings`.

    Args:
        value: The table; any JSON value.
        path: Its JSON path.
        findings: Collects the problems.
    """
    if value is None:
        return None
    table = _table(value, _RETRY, path, findings)
    if isinstance(value, dict) and value.get("max") is None:
        findings.error(path, "max is missing", "Add max, the number of attempts after the first")
    return Retry(
        max=int(table.get("max", 0)),
        wait=float(table.get("wait", 1.0)),
        backoff=float(table.get("backoff", 2.0)),
    )


def read_caching(value: object, path: str, findings: Findings) -> Caching | None:
    """Read a node's member `cache`; return None if it has none. Problems go to `findings`.

    Args:
        value: The member; any JSON value.
        path: Its JSON path.
        findings: Collects the problems.
    """
    if value is None or isinstance(value, bool):
        return None if value is None else Caching(never=not value)
    if not isinstance(value, dict):
        message = f"Expected true, false or an object, found {shown(value)}"
        findings.error(path, message, 'Write true, or {"ttl": SECONDS}')
        return Caching()
    return Caching(ttl=float(_table(value, _CACHE, path, findings).get("ttl", USUAL_TTL)))


def is_cacheable(entry: Entry) -> bool:
    """Return whether results of a node may be kept where its `cache`, or the run, asks for that."""
    return entry.purity == "flow_safe" and entry.cacheable


def _table(value: object, rules: Mapping[str, _Rule], path: str, findings: Findings) -> dict[str, Any]:
    """Return the valid members of a table."""
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
_FLAG = _Rule(_is_flag, "true or false")
_RETRIES = _Rule(_whole(0, MOST_RETRIES), f"a whole number from 0 to {MOST_RETRIES}")
_SECONDS = _Rule(_between(0, LONGEST_WAIT), f"seconds from 0 to {LONGEST_WAIT}")
_BATCH: Mapping[str, _Rule] = {
    "items": _Rule(_is_list, 'a list or a template such as "${list.files}"'),
    "as": _Rule(_is_name, "a name of letters, digits, _ and -"),
    "parallel": _FLAG,
    "max_concurrent": _Rule(_whole(1, MOST_CONCURRENT), f"a whole number from 1 to {MOST_CONCURRENT}"),
    "error_handling": _Rule(lambda value: value in _HANDLING, "fail_fast or continue"),
    "max_retries": _RETRIES,
    "retry_wait": _SECONDS,
}
_RETRY: Mapping[str, _Rule] = {
    "max": _RETRIES,
    "wait": _SECONDS,
    "backoff": _Rule(_between(1, 10), "a number from 1 to 10"),
}
_CACHE: Mapping[str, _Rule] = {"ttl": _Rule(_between(0, LONGEST_TTL), f"seconds from 0 to {LONGEST_TTL}")}
