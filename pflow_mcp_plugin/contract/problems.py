"""Findings (`Problem`) and failures (`PflowError`) that hosts and plugins exchange and hosts show."""

from __future__ import annotations

import copyreg
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, get_args

import attrs

from pflow_mcp_plugin.contract.validators import ByFields, one_of, text

Kind = Literal["usage", "config", "validation", "not_found", "connection", "execution", "interrupted"]
"""The `error.type` of the JSON envelope."""

Ran = Literal["ran", "not ran", "unknown"]
"""Whether failed work was done: `ran` if it reports the failure itself. `unknown` work is never repeated."""

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

STATUS_ACTIONS: Mapping[object, str] = {
    401: "auth_failed",
    403: "auth_failed",
    404: "resource_missing",
    408: "timeout",
    410: "resource_missing",
    429: "rate_limited",
    504: "timeout",
}
"""The action of a failure by its HTTP status; that of all others is `error`."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Problem(ByFields):
    """A finding that a plugin or host reports: a mistake before anything ran, or a warning during a run.

    Attributes:
        message: What is wrong, in one sentence that names the thing concerned.
        path: Where: a JSON path (`$.nodes[2].params.title`) or a config path (`mcpServers.slack.auth.type`).
        suggestion: The next step, as an imperative; may be empty.
        severity: An `error` stops the command; a `warning` does not.
        kind: Decides the exit code and the envelope's `type` if it stops the command.
        source: The file, plugin or node source that it comes from.
        line: The line of that place in its file, from 1; 0 if unknown.
        column: The column there, from 1.
    """

    message: str = attrs.field(validator=text)
    path: str = attrs.field(default="", validator=text)
    suggestion: str = attrs.field(default="", validator=text)
    severity: Literal["error", "warning"] = attrs.field(default="error", validator=one_of("error", "warning"))
    kind: Kind = attrs.field(default="validation", validator=one_of(*EXIT_CODES))
    source: str = attrs.field(default="", validator=text)
    line: int = 0
    column: int = 0

    def to_dict(self) -> dict[str, str | int]:
        """Return a `Problem` as JSON: those of its fields that are not empty."""
        return {name: value for name, value in attrs.asdict(self).items() if value}

    def __str__(self) -> str:
        place = f"line {self.line}, column {self.column}" if self.line else ""
        where = f"{self.path} ({place}): " if self.path and place else f"{self.path or place}: "
        where = where if self.path or place else ""
        step = f" ({self.suggestion})" if self.suggestion else ""
        return f"{where}{self.message}{step}"


class PortableError(Exception):
    """Base of the failures that hosts and plugins exchange: `pickle` and `copy` rebuild all their fields.

    By default Python calls the class with `args`, which fails if `__init__` takes something else; for a
    result from another process, `multiprocessing.Pool` then waits forever.
    """

    def __reduce__(self) -> tuple[object, ...]:
        return copyreg.__newobj__, (type(self), *self.args), self.__dict__  # type: ignore[attr-defined]


def described(error: BaseException) -> str:
    """Return what a `Problem` says of an exception: its class, and its message if that can be formatted.

    Raises:
        KeyboardInterrupt: The user interrupted the formatting.
    """
    name = type(error).__name__
    try:
        message = str(error)
    except BaseException as raised:  # the class may be a plugin's own: its `__str__` may raise anything
        if is_interruption(raised):
            raise
        return name
    return f"{name}: {message}" if message else name


def is_interruption(error: BaseException) -> bool:
    """Whether no `Problem` may be made of an error: it is a KeyboardInterrupt, comes from or groups one."""
    seen: set[int] = set()
    pending: list[BaseException | None] = [error]
    while pending:
        current = pending.pop()
        if current is None or id(current) in seen:
            continue
        if isinstance(current, KeyboardInterrupt):
            return True
        seen.add(id(current))
        pending += (current.__context__, current.__cause__)
        if isinstance(current, BaseExceptionGroup):
            pending += current.exceptions
    return False


class PflowError(PortableError):
    """A failure that plugins and hosts raise, and that a user sees as it stands, without a traceback.

    The host acts on the fields `kind`, `action`, `ran`, `retryable` and `retry_after`; `details` are
    for people and programs to read. Subclass it only where somebody catches the subclass.

    Args:
        message: What happened, and to which server, tool or file; one or a few lines.
        kind: The envelope's `type`, which also decides the exit code.
        details: JSON values for the envelope's `details`.
        suggestions: Next steps, best first.
        problems: The findings behind the failure, if a check found it. The message may state a single
            one; several are shown below the message.
        action: The flow action that a node takes when it fails with this error.
        ran: Whether the work was done; None where the question does not arise.
        retryable: Whether a retry of the same work may succeed and does no harm.
        retry_after: Seconds that the other side asks to wait before a retry.

    Raises:
        ValueError: `kind` or `ran` is invalid.
    """

    def __init__(  # noqa: PLR0913 - a field each, by keyword
        self,
        message: str,
        *,
        kind: Kind = "execution",
        details: Mapping[str, object] | None = None,
        suggestions: tuple[str, ...] = (),
        problems: tuple[Problem, ...] = (),
        action: str = "error",
        ran: Ran | None = None,
        retryable: bool = False,
        retry_after: float | None = None,
    ) -> None:
        if kind not in EXIT_CODES:
            raise ValueError(f"PflowError.kind must be one of {', '.join(EXIT_CODES)}, got {kind!r}")
        if ran is not None and ran not in get_args(Ran):
            raise ValueError(f"PflowError.ran must be one of {', '.join(get_args(Ran))}, got {ran!r}")
        super().__init__(message)
        self.message = message
        self.kind: Kind = kind
        self.details: dict[str, Any] = dict(details or {})
        self.suggestions = suggestions
        self.problems = problems
        self.action = action
        self.ran = ran
        self.retryable = retryable
        self.retry_after = retry_after

    def __str__(self) -> str:
        several = self.problems if len(self.problems) > 1 else ()
        return "\n".join([self.message, *(f"  {problem}" for problem in several)])

    @property
    def exit_code(self) -> int:
        """The exit code with which a host's command reports a `PflowError` of this kind; see `EXIT_CODES`."""
        return EXIT_CODES[self.kind]

    def to_dict(self) -> dict[str, object]:
        """Return the failure as every host shows it in JSON, with its problems and outcome, if known."""
        details = dict(self.details)
        if self.ran is not None:
            details |= {"action": self.action, "ran": self.ran, "retryable": self.retryable}
        if self.retry_after is not None:
            details["retry_after"] = self.retry_after
        if self.problems:
            details["problems"] = [problem.to_dict() for problem in self.problems]
        return {
            "type": self.kind,
            "message": self.message,
            "details": details,
            "suggestions": list(self.suggestions),
        }


def fault(path: str, message: str, suggestion: str = "", *, source: str = "") -> Problem:
    """Return a `Problem` of kind `config` and severity `error`, with a suggestion."""
    return Problem(path=path, message=message, suggestion=suggestion, kind="config", source=source)


def advice(path: str, message: str, suggestion: str = "", *, source: str = "") -> Problem:
    """Return a `Problem` of kind `config` and severity `warning`, with a suggestion."""
    return attrs.evolve(fault(path, message, suggestion, source=source), severity="warning")


def errors_in(problems: Iterable[Problem]) -> list[Problem]:
    """Return the problems of severity `error`, which stop a command, without the warnings."""
    return [problem for problem in problems if problem.severity == "error"]


def refused(what: str, problems: Sequence[Problem], kind: Kind) -> PflowError:
    """Return the `PflowError` about something with problems: its message states one, or counts several."""
    if len(problems) > 1:
        return PflowError(f"{what} has {len(problems)} errors", problems=tuple(problems), kind=kind)
    step = problems[0].suggestion
    only = attrs.evolve(problems[0], suggestion="")
    return PflowError(
        f"{what}: {only}", problems=tuple(problems), kind=kind, suggestions=(step,) if step else ()
    )


def problem_of(error: PflowError, **fields: Any) -> Problem:
    """Return the `Problem` to show for a `PflowError`, with its first suggestion; `fields` replace some."""
    step = next(iter(error.suggestions), "")
    return Problem(**{"message": error.message, "suggestion": step, "kind": error.kind, **fields})
