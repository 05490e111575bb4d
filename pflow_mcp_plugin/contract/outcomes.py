"""The outcome of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs

from pflow_mcp_plugin.contract.json_types import JSONObject
from pflow_mcp_plugin.contract.problems import PflowError
from pflow_mcp_plugin.contract.validators import flag, valid_name


def _itself(value: Any) -> Any:
    return value


@attrs.frozen(kw_only=True)
class Outcome:
    """The outcome of a run, as any host returns it.

    Attributes:
        success: Whether it ended without an unrouted failure.
        outputs: The workflow's outputs by name.
        run_id: Unique; names the trace.
        trace_path: The trace file, None when none was written.
        error: The failure, None on success.
        steps: The number of node executions that began.
        exit_code: 0; 3 if a server could not be reached, or 2 if its config is invalid, before any
            node had run; 130 if it was interrupted; 1 for any other failure.
        checkpoint: On failure, what each node had written by node id: shortened and redacted, as in the
            trace. Empty on success.
        shown: Returns a value of the run as people and models should see it: the same unless it is large;
            else shortened, secrets redacted, with the files that hold what is left out. By default the
            value itself.
    """

    success: bool = attrs.field(validator=flag)
    outputs: Mapping[str, Any]
    run_id: str = attrs.field(validator=valid_name)
    trace_path: Path | None = None
    error: PflowError | None = None
    steps: int = 0
    exit_code: int = 0
    checkpoint: JSONObject = attrs.field(factory=dict, repr=False)
    shown: Callable[[Any], Any] = attrs.field(default=_itself, repr=False, eq=False)
