"""Findings and failures, in the form every host shows them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

import attrs

Kind = Literal["usage", "config", "validation", "not_found", "connection", "execution", "interrupted"]
"""The `error.type` of the JSON envelope."""

EXIT_CODES: Mapping[Kind, int] = {
    "usage": 2,
    "config": 2,
    "validation": 2,
    "not_found": 2,
    "connection": 3,
    "execution": 1,
    "interrupted": 130,
}
"""The process exit code of a failure of each kind."""


@attrs.frozen(kw_only=True)
class Problem:
    """Something found wrong before anything ran, or worth a warning while it runs.

    Attributes:
        message: What is wrong, in one sentence, naming the thing it is about.
        path: Where: a JSON path (`$.nodes[2].params.title`) or a config path (`mcpServers.slack.auth.type`).
        suggestion: The next step, as an imperative; empty when there is none.
        severity: An `error` stops what was asked for; a `warning` does not.
        kind: Which exit code and envelope type it gets when it stops something.
        source: The file, plugin or node source that it comes from.
    """

    message: str
    path: str = ""
    suggestion: str = ""
    severity: Literal["error", "warning"] = "error"
    kind: Kind = "validation"
    source: str = ""

    def to_dict(self) -> dict[str, str]:
        """Return the filled fields, for `--json`."""
        return {name: value for name, value in attrs.asdict(self).items() if value}

    def __str__(self) -> str:
        where = f"{self.path}: " if self.path else ""
        step = f" ({self.suggestion})" if self.suggestion else ""
        return f"{where}{self.message}{step}"


class PortableError(Exception):
    """An exception that `pickle` and `copy` rebuild with all its fields, whatever its `__init__` takes.

    Python's own way is to call the class with `args`, which fails where these are not what it takes: in
    the result of another process, `multiprocessing.Pool` then waits for ever.
    """

    def __reduce__(self) -> tuple[object, ...]:
        return _blank, (type(self), self.args), self.__dict__


def _blank(kind: type[PortableError], args: tuple[object, ...]) -> PortableError:
    """Return an exception without its fields."""
    return kind.__new__(kind, *args)


class PflowError(PortableError):
    """A failure that is told to the user as it stands, without a traceback.

    Args:
        message: What happened, to whom; one or a few lines.
        details: JSON values for the envelope's `details`.
        suggestions: Next steps, best first.
        problems: The findings behind the failure, when it was found by checking. The message of a single
            one may tell it; several are shown below the message.

    Attributes:
        kind: The envelope's `type`; subclasses set their own.
        action: The flow action a node takes when it fails with this error.
    """

    kind: ClassVar[Kind] = "execution"
    action: str = "error"

    def __init__(
        self,
        message: str,
        *,
        details: Mapping[str, object] | None = None,
        suggestions: tuple[str, ...] = (),
        problems: tuple[Problem, ...] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.details: dict[str, object] = dict(details or {})
        self.suggestions = suggestions
        self.problems = problems

    def __str__(self) -> str:
        several = self.problems if len(self.problems) > 1 else ()
        return "\n".join([self.message, *(f"  {problem}" for problem in several)])

    @property
    def exit_code(self) -> int:
        """The process exit code, see `EXIT_CODES`."""
        return EXIT_CODES[self.kind]

    def to_dict(self) -> dict[str, object]:
        """Return the envelope's `error` object."""
        details = dict(self.details)
        if self.problems:
            details["problems"] = [problem.to_dict() for problem in self.problems]
        return {
            "type": self.kind,
            "message": self.message,
            "details": details,
            "suggestions": list(self.suggestions),
        }
