"""Counts the progress of a run, and reports it to whoever started the run."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from pflow_mcp_plugin.contract import Progress
from pflow_mcp_plugin.contract.problems import described

_LONGEST = 200
"""Characters of a message that are reported."""


class Progressing(Protocol):
    """Counts the progress of a run, or of what runs inside one of its nodes."""

    def begin(self, node_id: str) -> None:
        """A node begins: progress it."""

    def end(self, node_id: str) -> None:
        """A node has ended: progress it."""

    def within(self, done: float, total: float | None, message: str) -> None:
        """The node that runs now has come so far: progress it."""


class RunProgress:
    """Counts the node executions of a run and reports each beginning and end; safe to use from any thread.

    Args:
        report: Receives the progress. If it raises, nothing more is reported: a listener cannot fail a run.
        redact: Redacts the run's secrets in a string.
        expected: The number of nodes that run if each takes its default action; 0 if unknown.
        warn: Called with a message if `report` raises.
    """

    def __init__(
        self,
        report: Callable[[Progress], object],
        redact: Callable[[str], str],
        expected: int,
        warn: Callable[[str], None],
    ) -> None:
        self._report = report
        self._redact = redact
        self._expected = expected
        self._warn = warn
        self._lock = threading.Lock()
        self._begun = 0
        self._ended = 0
        self._furthest = 0.0
        self._broken = False

    def begin(self, node_id: str) -> None:
        """Report to the run's listener that a node begins."""
        with self._lock:
            self._begun += 1
        self._tell(0.0, f"node {node_id}")

    def end(self, node_id: str) -> None:
        """Report to the run's listener that a node has ended."""
        with self._lock:
            self._ended += 1
        self._tell(0.0, f"node {node_id} done")

    def within(self, done: float, total: float | None, message: str) -> None:
        """Report to the run's listener how far the node that runs now has come.

        Args:
            done: What it has done.
            total: What it has to do; None if unknown.
            message: What it does, for people.
        """
        self._tell(done / total if total and 0 <= done <= total else 0.0, message)

    def _tell(self, share: float, message: str) -> None:
        with self._lock:
            if self._broken:
                return
            # Never back: parallel items report in any order, and listeners may insist on progress that grows.
            self._furthest = max(self._furthest, self._ended + min(share, 1.0))
            total = max(self._expected, self._begun) if self._expected else None
            progress = Progress(
                done=self._furthest, total=total, message=self._redact(message)[:_LONGEST].strip()
            )
        try:
            self._report(progress)
        except Exception as error:  # noqa: BLE001 - the listener is the caller's code
            self._broken = True
            self._warn(f"The progress of the run is no longer reported: {described(error)}")


class ProgressInside:
    """Counts the progress of what runs inside a node, and reports it as that of the node.

    Args:
        outer: Counts the progress of the run around it.
        expected: The number of nodes that run there; 0 to report nothing.
    """

    def __init__(self, outer: Progressing, expected: int) -> None:
        self._outer = outer
        self._expected = expected
        self._ended = 0

    def begin(self, node_id: str) -> None:
        """Report that a node inside the node that runs begins."""
        self.within(0.0, None, f"node {node_id}")

    def end(self, node_id: str) -> None:
        """Report that a node inside the node that runs has ended."""
        self._ended += 1
        self.within(0.0, None, f"node {node_id} done")

    def within(self, done: float, total: float | None, message: str) -> None:
        """Report how far a node inside the node that runs has come.

        Args:
            done: What it has done.
            total: What it has to do; None if unknown.
            message: What it does, for people.
        """
        if not self._expected:
            return
        share = done / total if total and 0 <= done <= total else 0.0
        self._outer.within(min(self._ended + share, self._expected), self._expected, message)
