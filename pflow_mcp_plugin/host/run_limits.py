"""How much one run may do: its calls, and those that may change something.

# pflow.toml
[limits]
max_calls = 500  # of a run, over all its resumed parts
max_writes = 20  # calls of nodes that are not known to be read-only

[limits.shell]
max_calls = 3
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from pflow_mcp_plugin.contract import Entry, PflowError, Problem, RunOptions
from pflow_mcp_plugin.contract.problems import advice, fault, refused
from pflow_mcp_plugin.host.flow_policy import POLICY_FILE, policy_table
from pflow_mcp_plugin.terminal.human_units import count_text
from pflow_mcp_plugin.terminal.similar_names import did_you_mean

TABLE = "limits"
"""The table of `pflow.toml` with the limits."""
_KEYS = ("max_calls", "max_writes")
_OF_RUN = ""
_STEP = "Write max_calls = 500, max_writes = 20, or a table for a node type"


def is_call(entry: Entry) -> bool:
    """Return whether limits count a node as a call: all count but pflow's own that only read or compute."""
    is_own = entry.source == "pflow" and entry.purity == "flow_safe"
    return not is_own or "sends_data" in entry.effects


class RunLimits:
    """Counts the calls of a run against its limits; safe to use from any thread.

    It has the limits of each node type by key, those of the run under "". Each step `before`, in the earlier
    parts of the run, is given by its node type, whether it only reads, and its calls.
    """

    def __init__(
        self, limits: Mapping[str, Mapping[str, int]], before: Iterable[tuple[str, bool, int]]
    ) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._made: Counter[tuple[str, str]] = Counter()
        for node_type, is_safe, calls in before:
            for key in _KEYS[:1] if is_safe else _KEYS:
                self._made.update({(_OF_RUN, key): calls, (node_type, key): calls})

    @property
    def are_set(self) -> bool:
        return bool(self._limits)

    def take(self, entry: Entry) -> tuple[str, str, int] | None:
        """Count a call of the run; if a limit does not allow it, return that: node type, key and value."""
        if not self._limits:
            return None
        with self._lock:
            counts = self._counts(entry)
            for of, key in counts:
                most = self._limits.get(of, {}).get(key)
                if most is not None and self._made[of, key] >= most:
                    return of, key, most
            self._made.update(counts)
        return None

    def give_back(self, entry: Entry) -> None:
        """Subtract a call from the count against the run's limits, as it was not sent."""
        with self._lock:
            self._made.subtract(self._counts(entry))

    def _counts(self, entry: Entry) -> list[tuple[str, str]]:
        keys = _KEYS[:1] if entry.purity == "flow_safe" else _KEYS
        return [(of, key) for of in (_OF_RUN, entry.node) for key in keys]


def reached(place: str, limit: tuple[str, str, int], resuming: str) -> PflowError:
    """Return the error of a run that has reached a limit; `resuming` is the command that continues it."""
    of, key, most = limit
    what = count_text(most, "writing call" if key == "max_writes" else "call")
    flag = f"--{key.replace('_', '-')} {max(2 * most, 1)}"
    steps = (f"To allow more: {resuming} {flag}",)
    if of:
        steps = (f"Raise {key} of {of} in {POLICY_FILE}, then: {resuming}",)
    return PflowError(
        f"{place} was not begun: the run has made {what}{f' of {of}' if of else ''}, its limit",
        details={"limit": key, "node_type": of, "value": most},
        suggestions=steps,
        ran="not ran",
    )


def read_limits(config: Path, options: RunOptions) -> dict[str, dict[str, int]]:
    """Return the limits of a run by node type and key, its options first; raise if the table is invalid."""
    table, source = policy_table(config, TABLE), str(config / POLICY_FILE)
    if mistakes := list(_mistakes(table, TABLE, source)):
        raise refused(source, mistakes, "config")
    limits = {of: dict(it) for of, it in table.items() if isinstance(it, dict)}
    given = {key: getattr(options, key) for key in _KEYS}
    of_run = {key: it if it is not None else table.get(key) for key, it in given.items()}
    limits[_OF_RUN] = {key: it for key, it in of_run.items() if it is not None}
    return {of: it for of, it in limits.items() if it}


def check_limits(config: Path, known: Collection[str]) -> Iterator[Problem]:
    """Yield the mistakes in the table of limits, if it can be read, and warn of unknown node types in it."""
    try:
        table = policy_table(config, TABLE)
    except PflowError:
        return
    source = str(config / POLICY_FILE)
    yield from _mistakes(table, TABLE, source)
    for of, limits in table.items() if isinstance(table, dict) else ():
        if isinstance(limits, dict) and of not in known:
            message = f"There is no node type {of}, so the limit has no effect"
            step = did_you_mean(of, known, "See: pflow registry list")
            yield advice(f"{TABLE}.{of}", message, step, source=source)


def _mistakes(table: object, path: str, source: str) -> Iterator[Problem]:
    if not isinstance(table, dict):
        yield fault(path, "Must be a table", f"Write [{TABLE}]", source=source)
        return
    for key, value in table.items():
        where = f"{path}.{key}"
        if isinstance(value, dict) and path == TABLE and key not in _KEYS:
            yield from _mistakes(value, where, source)
        elif key not in _KEYS:
            yield fault(where, f"Unknown key {key}", did_you_mean(key, _KEYS, _STEP), source=source)
        elif isinstance(value, bool) or not isinstance(value, int) or value < 0:
            yield fault(where, "Must be a whole number, 0 or more", f"Write {key} = 20", source=source)
