"""What is inside exception groups and behind exceptions, and an exception in words."""

from __future__ import annotations

from collections.abc import Iterator

_SHOWN = 200
"""Characters of an exception's own words."""


def in_words(error: BaseException) -> str:
    """Return what an exception that nobody foresaw says, for people: its words, then its kind."""
    kind, text = type(error).__name__, " ".join(str(error).split())[:_SHOWN]
    return f"{text} ({kind})" if text else kind


def leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield the exceptions inside nested exception groups."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from leaves(inner)
    else:
        yield error


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception and what it came from, down to the first."""
    while error is not None:
        yield from leaves(error)
        error = error.__cause__ or error.__context__
