"""Reading the text of a workflow."""

from __future__ import annotations

import json
import math
from typing import Any

from pflow_mcp_plugin.host.workflow.findings import WorkflowInvalid, shown


def load_workflow(text: str, origin: str) -> dict[str, Any]:
    """Return the workflow that is written in `text` as JSON.

    Args:
        text: The whole file; a byte order mark is skipped.
        origin: The file's name, for messages.

    Raises:
        WorkflowInvalid: It is not JSON (line and column are named), or not an object.
    """
    try:
        value = json.loads(text.removeprefix("\ufeff"), parse_constant=_number, parse_float=_number)
    except json.JSONDecodeError as error:
        raise _not_json(origin, error) from error
    except ValueError as error:
        raise WorkflowInvalid(f"{origin}: {error}", details={"file": origin}) from error
    except RecursionError as error:
        raise WorkflowInvalid(f"{origin}: nested too deep", details={"file": origin}) from error
    if not isinstance(value, dict):
        message = f"{origin}: a workflow is a JSON object, this is {shown(value)}"
        raise WorkflowInvalid(message, details={"file": origin})
    return value


def _number(text: str) -> float:
    number = float(text)
    if math.isfinite(number):
        return number
    message = f"{text} is too large a number" if text[-1].isdigit() else f"{text} is not a JSON value"
    raise ValueError(message)


def _not_json(origin: str, error: json.JSONDecodeError) -> WorkflowInvalid:
    details = {"file": origin, "line": error.lineno, "column": error.colno}
    message = f"{origin} is not valid JSON: {error.msg} at line {error.lineno}, column {error.colno}"
    return WorkflowInvalid(message, details=details, suggestions=(f"Fix line {error.lineno} of {origin}",))
