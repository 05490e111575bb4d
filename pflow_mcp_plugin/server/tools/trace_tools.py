"""The tool for traces: read what each step of a run did."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.contract.json_types import JSONObject
from pflow_mcp_plugin.server.envelopes import output_schema, success
from pflow_mcp_plugin.server.served_tool import ServedRequest, ServedTool, shown, traces_of
from pflow_mcp_plugin.server.tools.schemas import (
    ANY_OBJECT,
    LOCAL_READING,
    NUMBER,
    TEXT,
    arguments_schema,
    list_of,
    object_of,
)

_LARGEST = 200_000
"""The approximate number of characters of a trace that are returned."""
_LONGEST = 4_096


def read(request: ServedRequest, arguments: Mapping[str, Any]) -> JSONObject:
    """Answer `trace_read`: the steps of a run of the same caller."""
    traces = traces_of(request.host)
    run = arguments.get("trace_file", "latest")
    if not run or len(run) > _LONGEST or not run.isprintable():
        raise PflowError(f"{shown(run)!r} is not a trace", kind="validation", suggestions=("Pass latest",))
    path = traces.find(run, owner=request.origin.owner)
    return success({**_capped(traces.read(path)), "trace_file": str(path)})


def _capped(trace: Mapping[str, Any]) -> dict[str, Any]:
    """Return a trace without the params, outputs and items of the steps that would make it too long."""
    steps: list[Any] = []
    left = _LARGEST
    for step in trace["steps"]:
        left -= len(str(step))
        large = {key: "..." for key in ("params", "outputs", "items") if key in step}
        steps.append(step if left > 0 else {**step, **large, "cut": True})
    return {**trace, "steps": steps}


_STEP = object_of(
    {
        "id": TEXT,
        "type": TEXT,
        "action": {"type": ["string", "null"]},
        "milliseconds": NUMBER,
        "error": {"type": ["string", "null"]},
    },
    "id",
    "type",
)

READ = ServedTool(
    name="trace_read",
    title="Read a trace",
    description=(
        "Read the trace of a run: each step in order, with its node, params, outputs, action, time and "
        "error. Call it when a run failed or its outputs are not what you expected. Values are shortened, "
        "and secrets redacted."
    ),
    input_schema=arguments_schema(
        {
            "trace_file": {
                "type": "string",
                "description": "The trace_path of a run, its run_id, or latest, which is the default",
            }
        }
    ),
    output_schema=output_schema(
        object_of(
            {
                "run_id": TEXT,
                "workflow": TEXT,
                "success": {"type": "boolean"},
                "error": {"type": ["object", "null"]},
                "inputs": ANY_OBJECT,
                "steps": list_of(_STEP),
                "trace_file": TEXT,
            },
            "steps",
            "trace_file",
        )
    ),
    claims=LOCAL_READING,
    answer=read,
)
