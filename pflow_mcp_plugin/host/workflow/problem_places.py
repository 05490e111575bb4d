"""Where in the text of a workflow its problems are: line and column."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import attrs

from pflow_mcp_plugin.contract import PflowError, Problem
from pflow_mcp_plugin.host.workflow.findings import at
from pflow_mcp_plugin.host.workflow.workflow_file import read_text
from pflow_mcp_plugin.host.workflow.workflow_loader import is_yaml
from pflow_mcp_plugin.host.workflow.yaml_text import Place, YamlText

_TOKEN = re.compile(r'[\s\ufeff]*([{}\[\],:]|"(?:[^"\\]|\\.)*"|[^\s{}\[\],:"]+)')


def located(problems: Iterable[Problem], file: Path | None) -> tuple[Problem, ...]:
    """Return problems with the line and column of each place in its file.

    A place that is not there, such as a parameter that is missing, is that of what it is missing from.

    Args:
        problems: The problems; those with a `source` are in that file.
        file: The file of the workflow; None if it has none that could be read again.
    """
    known: dict[str, Mapping[str, Place]] = {}
    found = []
    for problem in problems:
        source = problem.source or str(file or "")
        if source not in known:
            known[source] = _places(source)
        line, column = _nearest(problem.path, known[source])
        found.append(attrs.evolve(problem, line=line, column=column))
    return tuple(found)


def locate(error: PflowError, file: Path | None) -> None:
    """Add line and column to the problems of an error.

    Args:
        error: The error.
        file: As for `located`.
    """
    problems = located(error.problems, file)
    if len(problems) == 1:  # it is also part of the message
        before, after = (str(attrs.evolve(it, suggestion="")) for it in (*error.problems, *problems))
        error.message = error.message.replace(before, after)
        error.args = (error.message,)
    error.problems = problems


def _places(source: str) -> Mapping[str, Place]:
    """Return the places in a workflow file; none if it cannot be read, or is something else."""
    if not source:
        return {}
    try:
        text = read_text(Path(source))
        return YamlText(text, source).places if is_yaml(source, text) else json_places(text)
    except PflowError:
        return {}


def _nearest(path: str, places: Mapping[str, Place]) -> Place:
    while path and path not in places:
        path = path[: max(path.rfind("."), path.rfind("["))] if path.strip("$") else ""
    return places.get(path, (0, 0))


def json_places(text: str) -> dict[str, Place]:
    """Return line and column of each part of a JSON text, by its JSON path; of a member those of its key.

    Args:
        text: Valid JSON; of anything else some places may be missing.
    """
    lines = [0, *(match.end() for match in re.finditer("\n", text))]
    places: dict[str, Place] = {}
    for path, offset in _paths(text):
        line = bisect_right(lines, offset)
        places.setdefault(path, (line, offset - lines[line - 1] + 1))
    return places


def _paths(text: str) -> Iterator[tuple[str, int]]:
    """Yield the path of each value with the offset at which it, or its key, begins."""
    # Of each list or object around the current place: its path, and an index or a key.
    around: list[tuple[str, int | str | None]] = []
    yield "$", len(text) - len(text.lstrip("\ufeff \t\r\n"))
    for match in _TOKEN.finditer(text):
        part, offset = match[1], match.start(1)
        if part in ("}", "]"):
            around = around[:-1]
        elif part == ",":
            holder, key = around[-1] if around else ("$", None)
            around[-1:] = [(holder, key + 1 if isinstance(key, int) else None)]
        elif part != ":":
            path = _here(around, part)
            yield path, offset
            if part in ("{", "["):
                around.append((path, 0 if part == "[" else None))
            elif around and around[-1][1] is None:
                around[-1] = (around[-1][0], _name(part))


def _here(around: Sequence[tuple[str, int | str | None]], part: str) -> str:
    if not around:
        return "$"
    holder, key = around[-1]
    if isinstance(key, int):
        return f"{holder}[{key}]"
    return at(holder, _name(part) if key is None else key)


def _name(part: str) -> str:
    import json

    try:
        return str(json.loads(part, strict=False))
    except ValueError:
        return part
