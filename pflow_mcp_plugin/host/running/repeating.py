"""What may be tried again after it failed, and when.

A node is attempted once. Where the workflow asks for more (`retry` of a node, `max_retries` of a
batch), a failure is tried again only if that does no harm:

- the error says `retryable` (as an attribute or in its details): the work was not begun, or the
  other side asks to come back later; or
- the node's entry is `flow_safe`: running it twice does no harm;

and never when the error's details say that nobody knows whether it ran (`"ran": "unknown"`).
"""

from __future__ import annotations

from collections.abc import Iterator

from pflow_mcp_plugin.contract import Entry
from pflow_mcp_plugin.host.running.failures import NodeFailed
from pflow_mcp_plugin.host.workflow.repetition import LONGEST_WAIT, Retry


def is_safe_to_repeat(failure: NodeFailed, entry: Entry) -> bool:
    """Return whether a node that failed so may be run again."""
    if failure.details.get("ran") == "unknown":
        return False
    if entry.purity == "flow_safe":
        return True
    return failure.details.get("retryable") is True or getattr(failure.__cause__, "retryable", None) is True


def asked_wait(failure: NodeFailed) -> float:
    """Return the seconds that the other side asks to wait, by `retry_after` in the details."""
    asked = failure.details.get("retry_after")
    seconds = int(asked) if isinstance(asked, str) and asked.isdecimal() else asked
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return 0.0  # nothing, or a date, which says little where clocks differ
    return min(max(seconds, 0.0), LONGEST_WAIT)


def waits(retry: Retry) -> Iterator[float]:
    """Yield the seconds to wait before each further attempt, at most an hour."""
    wait = retry.wait
    for _ in range(retry.max):
        yield min(wait, LONGEST_WAIT)
        wait *= retry.backoff
