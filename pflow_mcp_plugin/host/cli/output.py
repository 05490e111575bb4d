"""Prints the report of a command, as text for people or as one JSON object."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

from pflow_mcp_plugin.contract import Kind, PflowError, Problem, Report
from pflow_mcp_plugin.contract.problems import described, errors_in
from pflow_mcp_plugin.host.foreign_code import foreign_code
from pflow_mcp_plugin.host.standard_streams import Streams, to_json
from pflow_mcp_plugin.storage import write_output
from pflow_mcp_plugin.terminal.human_units import count_text, names_text
from pflow_mcp_plugin.terminal.looks import continued

if TYPE_CHECKING:
    from pflow_mcp_plugin.contract.json_types import JSONObject
    from pflow_mcp_plugin.terminal.looks import Cell, Column

SCHEMA = 1
"""Version of the JSON envelope that is printed."""
_PLACES = 5
"""The maximum number of further places that a problem's line names."""


def wants_json(arguments: list[str]) -> bool:
    """Return whether a command's output is to be JSON: `--json` is among the arguments, before any `--`."""
    return "--json" in takewhile(lambda word: word != "--", arguments)


class Output:
    """Prints the report of a command or its failure; `as_json` writes nothing but the JSON envelope."""

    def __init__(self, streams: Streams, *, as_json: bool) -> None:
        self._streams = streams
        self._as_json = as_json
        self._answered = False

    def report(
        self, report: Report, *, guard: AbstractContextManager[None] | None = None, strict: bool = False
    ) -> int:
        """Print the output of a command, its report, and return the exit code.

        `guard` is entered while the report is turned into text, before anything is printed. With `strict`, an
        exception of a value that is turned into JSON is raised; otherwise the class of the value is printed.
        """
        error = report.error
        with guard or nullcontext():
            text = self._envelope(report, strict=strict) if self._as_json else self._text(report)
            explanation = self._explanation(error, report.beside) if error else ""
            usual = error.exit_code if error else 0
            code = usual if report.exit_code is None else report.exit_code
        people = not self._as_json and not report.is_data
        written = 0 if self._answered and self._as_json else self._streams.answer(text, as_it_is=people)
        self._answered = True
        self._streams.tell(explanation)
        return code if error else written or code

    def fail(self, error: PflowError) -> int:
        """Print a failure as output and return the exit code; after an answer, only for people."""

        def without_details(raised: BaseException) -> PflowError:
            told = f"{error.message}\nIts details cannot be shown: {described(raised)}"
            return PflowError(told, kind=error.kind)

        try:
            return self.report(Report(error=error), guard=foreign_code(without_details))
        except PflowError as plain:
            return self.report(Report(error=plain))

    def _text(self, report: Report) -> str:
        terminal = self._streams.answers_on_terminal()
        if terminal is None:
            return report.render()
        from pflow_mcp_plugin.terminal.looks import columns_of, wants_colours

        return report.render(columns_of(terminal), coloured=wants_colours())

    def _envelope(self, report: Report, *, strict: bool) -> str:
        envelope: dict[str, object] = {"schema": SCHEMA, "success": report.error is None}
        if report.error is None:
            envelope["data"] = report.data
        else:
            envelope["error"] = failure = report.error.to_dict()
            if report.data is not None:
                details = failure["details"]
                failure["details"] = {
                    **(details if isinstance(details, Mapping) else {}),
                    "data": report.data,
                }
        return to_json({**envelope, **report.beside}, strict=strict)

    def _explanation(self, error: PflowError, beside: Mapping[str, object]) -> str:
        lines = [continued(f"Error: {error.message}")]
        if not self._as_json:
            said = len(error.problems) == 1 and error.problems[0].message in error.message
            lines += () if said else problem_lines(error.problems)
            lines += [continued(f"  -> {suggestion}") for suggestion in error.suggestions]
            shown = (item for item in beside.items() if item[1] and not isinstance(item[1], Mapping))
            lines += [continued(f"  {name.replace('_', ' ')}: {value}") for name, value in shown]
        return "\n".join(lines)


def problem_lines(problems: Iterable[Problem]) -> list[str]:
    """Return the lines for problems in a command's output: path, message and next step.

    A problem that several places share, such as a server that is not there, has one line, with the places.
    """
    alike: dict[tuple[str, ...], list[Problem]] = {}
    for item in problems:
        alike.setdefault((item.severity, item.message, item.suggestion, item.source), []).append(item)
    lines = []
    for first, *others in alike.values():
        places = [f"{it.path} (line {it.line})" if it.line else it.path for it in others if it.path]
        also = f"; also at {names_text(places, _PLACES)}" if places else ""
        lines.append(continued(f"  {'- ' if first.severity == 'error' else '- warning: '}{first}{also}"))
    return lines


def counted(problems: Sequence[Problem]) -> str:
    """Return the number of errors and warnings in words for a command's output: `9 errors and 1 warning`."""
    errors = len(errors_in(problems))
    counts = ((errors, "error"), (len(problems) - errors, "warning"))
    return " and ".join(count_text(count, word) for count, word in counts if count)


def findings_report(
    subject: str,
    problems: Sequence[Problem],
    sound: str,
    *,
    data: object = None,
    kind: Kind = "config",
    details: Mapping[str, object] | None = None,
) -> Report:
    """Return the output of a command that checks: `subject` has errors, or is `sound`, if with warnings.

    `data` is for `--json` if it is sound, by default the problems; `details` are those of the error.
    """
    found = tuple(sorted(problems, key=lambda problem: problem.severity != "error"))
    if errors_in(found):
        message = f"{subject} has {counted(found)}"
        return Report(error=PflowError(message, details=details, problems=found, kind=kind))
    listed = [problem.to_dict() for problem in found]
    text = "\n".join([sound, *problem_lines(found)])
    return Report(data=listed if data is None else data, text=text)


def table_report(
    data: Sequence[object],
    columns: Sequence[Column],
    rows: Iterable[Sequence[Cell]],
    nothing: str,
    *after: str,
    beside: Mapping[str, object] | None = None,
) -> Report:
    """Return the report of a listing command: a table, or `nothing` if it is empty, then further lines."""
    from pflow_mcp_plugin.terminal.looks import Table  # few commands list anything

    shown = Table(columns=columns, rows=list(rows)) if data else nothing
    return Report(data=data, text=(shown, *after), beside=beside or {})


STDOUT = Path("-")
"""The file name that means standard output."""


def write_file(
    text: str,
    target: Path,
    data: JSONObject,
    *,
    source: Path | None,
    private: bool = False,
    opened: bool = False,
) -> Report:
    """Write text to a file, or a page to standard output for `-`, and return the report to print.

    `source`, the file that it was made from, is never written over. `data` is added to the report; a page for
    standard output is in it as `html`. `opened` opens a browser.
    """
    if target == STDOUT:
        if opened:
            raise PflowError("--open needs a file, not standard output", kind="usage")
        return Report(data={**data, "html": text}, text=text, is_data=True)
    if source and source.is_file() and target.is_file() and target.samefile(source):
        steps = ("Name another file for the output",)
        raise PflowError(f"{target} is the file that is read", suggestions=steps, kind="usage")
    write_output(target, text.encode("utf-8", "replace"), private=private)
    told = f"Wrote {target}"
    if opened:
        import webbrowser

        url = target.absolute().as_uri()
        told += "" if webbrowser.open(url) else f"; no browser could be started, open it yourself: {url}"
    return Report(data={**data, "path": str(target)}, text=told)
