"""The exceptions inside exception groups and behind other exceptions, and exceptions as text."""

from __future__ import annotations

from collections.abc import Iterator

from pflow_mcp_plugin.redaction import Redactor

_SHOWN = 200
"""Characters of an exception's message that are shown."""


def in_words(error: BaseException, redactor: Redactor) -> str:
    """Return an exception in a chain of exceptions as text: its message, redacted and cut, and its class."""
    kind, text = type(error).__name__, redactor.shortened(" ".join(str(error).split()), _SHOWN)
    return f"{text} ({kind})" if text else kind


def leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield the exceptions inside nested exception groups."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from leaves(inner)
    else:
        yield error


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception, its cause, the cause of that, and so on."""
    while error is not None:
        yield from leaves(error)
        error = error.__cause__ or error.__context__
