"""Which failures may be retried, and after how long.

A node is attempted once. Where the workflow asks for more (`retry` of a node, `max_retries` of a
batch), a failure is retried only if that does no harm:

- the error is `retryable`: the work was not started, or the other side asks to retry later; or
- the node's entry is `flow_safe`: running it twice does no harm;

and never when it is unknown whether the work was done (`PflowError.ran` is `unknown`).
"""

from __future__ import annotations

from collections.abc import Iterator

from pflow_mcp_plugin.contract import Entry, PflowError
from pflow_mcp_plugin.host.workflow.constructs import Retry
from pflow_mcp_plugin.host.workflow.table_rules import LONGEST_WAIT


def is_safe_to_repeat(failure: PflowError, entry: Entry) -> bool:
    """Return whether a retry after this failure does no harm."""
    return failure.ran != "unknown" and (failure.retryable or entry.purity == "flow_safe")


def asked_wait(failure: PflowError) -> float:
    """Return the wait, in seconds, that a failure asks for before a node is retried, at most an hour."""
    return min(max(failure.retry_after or 0.0, 0.0), LONGEST_WAIT)


def waits(retry: Retry) -> Iterator[float]:
    """Yield the seconds to wait before each retry that the workflow allows, at most an hour."""
    wait = retry.wait
    for _ in range(retry.max):
        yield min(wait, LONGEST_WAIT)
        wait *= retry.backoff
