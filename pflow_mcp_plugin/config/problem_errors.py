"""The error that reports the problems a check found."""

from __future__ import annotations

from collections.abc import Sequence

from pflow_mcp_plugin.contract import Problem
from pflow_mcp_plugin.errors import McpError, Where


def refusal(subject: str, problems: Sequence[Problem], *, server: str = "") -> McpError:
    """Return the error that reports problems of `subject`; a single one is part of its message.

    Args:
        subject: What the problems are about, e.g. `Server github`.
        problems: At least one.
        server: The server's name, if the problems belong to one server.
    """
    where = Where(server=server, phase="config")
    if len(problems) == 1:
        problem = problems[0]
        place = f" ({problem.path})" if problem.path else ""
        message = f"{subject}: {problem.message}{place}"
        return McpError(
            message, where=where, next_step=problem.suggestion, problems=(problem,), kind="config"
        )
    return McpError(
        f"{subject}: {len(problems)} problems", where=where, problems=tuple(problems), kind="config"
    )


def refuse_errors(subject: str, problems: Sequence[Problem], *, server: str = "") -> None:
    """Raise an error that reports the errors among `problems`, if there are any.

    Args:
        subject: What the problems are about, e.g. `Server github`.
        problems: Errors and warnings; warnings are ignored.
        server: The server's name, if the problems belong to one server.

    Raises:
        McpError: There is at least one error.
    """
    errors = [problem for problem in problems if problem.severity == "error"]
    if errors:
        raise refusal(subject, errors, server=server)
