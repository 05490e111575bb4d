"""The handle that nodes and plugins get on their run."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pflow_mcp_plugin.contract import Host, PflowError, Run, Workflow
from pflow_mcp_plugin.contract.json_types import JSONObject
from pflow_mcp_plugin.host.running.trace_recorder import Recorder
from pflow_mcp_plugin.redaction import Redactor


class CurrentRun(Run):
    """The embedded host's handle on its current run.

    Args:
        host: The host it runs in.
        workflow: The workflow that runs.
    """

    def __init__(self, host: Host, workflow: Workflow) -> None:
        self.run_id = new_run_id()
        self.workflow = workflow
        self.host = host
        self.artifacts_dir: Path = host.paths.state / "artifacts" / self.run_id
        self.resources: dict[str, Any] = {}
        self.redactor = Redactor()
        self.recorder = Recorder(self.run_id, workflow.name, self.redactor)
        self._cancelled = threading.Event()

    def cancelled(self) -> bool:
        """Return whether the user has stopped the current run."""
        return self._cancelled.is_set()

    def cancel(self) -> None:
        """Mark the current run as stopped; nodes and plugins see it in `cancelled`."""
        self._cancelled.set()

    def pause(self, seconds: float) -> None:
        """Wait for some seconds, or until the user stops the current run.

        Raises:
            PflowError: The user has stopped the run.
        """
        if self._cancelled.wait(seconds):
            raise PflowError("the run was stopped", kind="interrupted")

    def annotate(self, node_id: str, details: JSONObject) -> None:
        """Add JSON values to a node's step in the current run's trace."""
        self.recorder.annotate(node_id, details)

    def add_secrets(self, values: Iterable[str]) -> None:
        """Redact these values in the trace and errors of the current run."""
        self.redactor.add(values)


def new_run_id() -> str:
    """Return a unique id for a run that becomes the current one; ids sort by time."""
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{os.urandom(4).hex()}"
