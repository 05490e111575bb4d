"""The report of a run."""

from __future__ import annotations

from pflow_mcp_plugin.contract import Outcome, Report
from pflow_mcp_plugin.host.printable_json import to_json


def outcome_report(outcome: Outcome) -> Report:
    """Return the report of `pflow run` on an outcome."""
    return Report(
        data={"outputs": dict(outcome.outputs), "run_id": outcome.run_id},
        text=lambda: outputs_text(outcome),
        is_data=True,
        error=outcome.error,
        beside={
            "trace_path": None if outcome.trace_path is None else str(outcome.trace_path),
            **({} if outcome.error is None else {"checkpoint": dict(outcome.checkpoint)}),
        },
        exit_code=outcome.exit_code,
    )


def outputs_text(outcome: Outcome) -> str:
    """Return the outputs as `pflow run` prints them; a single one without its name, for use in scripts."""
    if len(outcome.outputs) == 1:
        return printed(*outcome.outputs.values())
    if outcome.outputs:
        return "\n".join(f"{name}: {printed(value)}" for name, value in outcome.outputs.items())
    return f"Done, {outcome.steps} steps" if outcome.success else ""


def printed(value: object) -> str:
    """Return an output of a run as it is printed: text as it is, anything else as JSON."""
    return value if isinstance(value, str) else to_json(value)
