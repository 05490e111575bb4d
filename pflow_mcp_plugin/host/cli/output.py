"""Prints the report of a command, as text for people or as one JSON object."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence

from pflow_mcp_plugin.contract import PflowError, Problem, Report
from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.host.standard_streams import write

SCHEMA = 1
"""Version of the JSON envelope that is printed."""

_DEEPEST = 200
"""Levels of nesting that are printed."""
_LARGEST = 10**4_000
"""Python refuses to convert larger numbers, of more than 4,300 digits, to decimal."""


def wants_json(arguments: list[str]) -> bool:
    """Return whether the output shall be JSON: `--json` is among the arguments, before any `--`."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    return "--json" in arguments[:end]


class Output:
    """The output of a command: prints its report or failure.

    Args:
        as_json: Whether to write the JSON envelope, and nothing else, to standard output.
    """

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json

    def report(self, report: Report) -> int:
        """Print the report of a command and return the exit code."""
        code = report.exit_code
        if report.error is None:
            text = self._success(report) if self.as_json else report.render()
            return write(sys.stdout, text) or code or 0
        if self.as_json:
            write(sys.stdout, self._failure(report.error, report))
        else:
            write(sys.stdout, report.render())
        self._explain(report.error, report.beside)
        return report.error.exit_code if code is None else code

    def fail(self, error: PflowError) -> int:
        """Print the failure of a command and return the exit code."""
        return self.report(Report(error=error))

    def _success(self, report: Report) -> str:
        return to_json({"schema": SCHEMA, "success": True, "data": report.data, **report.beside})

    def _failure(self, error: PflowError, report: Report) -> str:
        data = error.to_dict()
        if report.data is not None:
            details = data["details"]
            data["details"] = {**(details if isinstance(details, Mapping) else {}), "data": report.data}
        return to_json({"schema": SCHEMA, "success": False, "error": data, **report.beside})

    def _explain(self, error: PflowError, beside: Mapping[str, object]) -> None:
        lines = [f"Error: {error.message}"]
        if not self.as_json:
            said = len(error.problems) == 1 and error.problems[0].message in error.message
            lines += () if said else problem_lines(error.problems)
            lines += [f"  -> {suggestion}" for suggestion in error.suggestions]
            lines += [f"  {name.replace('_', ' ')}: {value}" for name, value in beside.items() if value]
        write(sys.stderr, "\n".join(lines))


def problem_lines(problems: tuple[Problem, ...]) -> list[str]:
    """Return the lines to print for problems: path, message and next step of each."""
    return [f"  {'- ' if item.severity == 'error' else '- warning: '}{item}" for item in problems]


def counted(problems: Sequence[Problem]) -> str:
    """Return the number of errors and warnings as it is printed: `9 errors and 1 warning`."""
    errors = sum(problem.severity == "error" for problem in problems)
    counts = ((errors, "error"), (len(problems) - errors, "warning"))
    return " and ".join(f"{count} {word}{'' if count == 1 else 's'}" for count, word in counts if count)


def to_json(value: object) -> str:
    """Return a value as the JSON that is printed; values that JSON cannot represent become strings.

    Circular references, and values nested deeper than 200 levels, are written as `...`.
    """
    try:
        return json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return json.dumps(_jsonable(value, ()), ensure_ascii=False, indent=2)


def _jsonable(value: object, above: tuple[int, ...]) -> JSON:
    """Return a value as JSON can represent it; `above` holds the ids of the values that enclose it."""
    if isinstance(value, Mapping | list | tuple | set | frozenset):
        if id(value) in above or len(above) == _DEEPEST:
            return "..."
        within = (*above, id(value))
        if isinstance(value, Mapping):
            return {_text(key): _jsonable(item, within) for key, item in value.items()}
        return [_jsonable(item, within) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, int) and abs(value) < _LARGEST:
        return value
    return value if value is None or isinstance(value, str) else _text(value)


def _text(value: object) -> str:
    return hex(value) if isinstance(value, int) and abs(value) >= _LARGEST else str(value)
