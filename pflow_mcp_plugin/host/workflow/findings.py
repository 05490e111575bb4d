"""Findings about a workflow: the problems in it, the errors that reject it, and the wording of both."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Literal

import attrs

from pflow_mcp_plugin.contract import Kind, PflowError, Problem
from pflow_mcp_plugin.contract.json_types import NAMES_OF_PYTHON
from pflow_mcp_plugin.contract.problems import described, refused
from pflow_mcp_plugin.terminal.human_units import names_text
from pflow_mcp_plugin.terminal.looks import abbreviated

_LONGEST = 60
"""The most characters of a value that a message shows."""
CLOSE = 0.75
"""From this similarity to a known word on, one that could also be the user's own counts as misspelt."""
MOST_PROBLEMS = 10_000
"""A check stops after this many findings: nobody reads more, and each takes time and memory."""
TYPE_WORDS: Mapping[str, str] = {
    "str": "a string",
    "int": "a number",
    "float": "a number",
    "bool": "true or false",
    "list": "a list",
    "dict": "an object",
    "None": "null",
}
"""The words for a value, by the friendly name of its type."""


class TooManyProblems(PflowError):
    """The error that ends the check of a workflow with `MOST_PROBLEMS` findings."""


class Findings:
    """Collects the findings of a workflow's check, so that all of them are reported.

    Each method raises `TooManyProblems` if there are `MOST_PROBLEMS` already.
    """

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def error(self, path: str, message: str, suggestion: str = "") -> None:
        self.add(path, message, suggestion, severity="error")

    def warning(self, path: str, message: str, suggestion: str = "") -> None:
        self.add(path, message, suggestion, severity="warning")

    def add(self, path: str, message: str, suggestion: str, *, severity: Literal["error", "warning"]) -> None:
        if len(self.problems) >= MOST_PROBLEMS:
            message = f"There are more than {MOST_PROBLEMS:,} problems; these are the first"
            raise TooManyProblems(message, kind="validation")
        self.problems.append(Problem(message=message, path=path, suggestion=suggestion, severity=severity))


def at(path: str, key: str) -> str:
    """Return the JSON path at which a finding names `key` in the object at `path`."""
    plain = key.replace("_", "a").replace("-", "a")
    return f"{path}.{key}" if plain.isalnum() else f'{path}["{key}"]'


def parts_in(value: object, path: str) -> Iterator[tuple[str, object]]:
    """Yield a JSON value and all parts of it, each with the JSON path at which a finding names it."""
    yield path, value
    if isinstance(value, dict):
        for key, item in value.items():
            yield from parts_in(item, at(path, str(key)))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from parts_in(item, f"{path}[{index}]")


def shown(value: object) -> str:
    """Word the type of a value for a finding about a workflow, such as `a string` or `a list`."""
    kind = NAMES_OF_PYTHON.get(type(value))
    return TYPE_WORDS[kind] if kind else f"a {type(value).__name__}"


def cut(text: str) -> str:
    """Return a string shortened for the message of a finding."""
    return abbreviated(text, _LONGEST)


def listing(names: Iterable[str], limit: int = 12) -> str:
    """Return names listed for the message of a finding, cut after `limit` of them."""
    every = list(names)
    return names_text(every, limit) if every else "none"


def refusal(name: str, problems: Sequence[Problem], kind: Kind = "validation") -> PflowError:
    """Return the error that rejects the workflow `name` for these findings.

    Its kind is `not_found` if every problem is an unknown node type.
    """
    kinds = {problem.kind for problem in problems}
    return refused(f"Workflow {name}", problems, "not_found" if kinds == {"not_found"} else kind)


@contextmanager
def unwritten(what: str) -> Iterator[None]:
    """Word the error that rejects a workflow which nobody wrote: without the places of the problems in it."""
    try:
        yield
    except PflowError as error:
        if error.problems:
            # A place in a workflow that somebody did write is kept.
            unplaced = (
                it if it.source or ".params.workflow" in it.path else attrs.evolve(it, path="")
                for it in error.problems
            )
            found = tuple(dict.fromkeys(unplaced))
            only = len(found) == 1
            message = found[0].message if only else f"{what} has {len(found)} mistakes"
            steps = (found[0].suggestion,) if only and found[0].suggestion else error.suggestions
            error.problems, error.message, error.suggestions = found, message, steps
            error.args = (message,)
        raise


def said(error: BaseException) -> str:
    """Return the words of an exception for a problem found in a workflow; its class too unless it is ours."""
    return error.message if isinstance(error, PflowError) else described(error)
