"""The part of a server's stderr that goes into a message: the most informative lines."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import attrs

# Sequences such as colours, and single control characters except tab and newline.
_TERMINAL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_MOST_LINES = 12
_HEAD, _TAIL = 3, 5
"""Lines of the beginning and of the end that an excerpt of stderr shows in any case."""
_LONGEST_LINE = 300
# In a help text. Options are often `required`, and name no cause; the line before `usage` often does.
_OPTION = re.compile(r"\s*-{1,2}\w")
_USAGE = re.compile(r"\s*usage\b", re.IGNORECASE)
_NAMED_CAUSE = re.compile(
    r"^\W*(?:\w+ )?(?:error|fatal|panic|exception|traceback|abort(?:ed)?)\b"
    r"|\b\w*(?:error|exception|fatal|panic)(?:\[\w+\])?: ",
    re.IGNORECASE,
)
_POSSIBLE_CAUSE = re.compile(
    r"\b(?:cannot|can't|could not|failed|missing|required|not found|not set|denied|invalid|unable|unknown"
    r"|no such|refused|unsupported|must)\b",
    re.IGNORECASE,
)


def plain(text: str) -> str:
    """Return an excerpt of stderr, or any text, without terminal control codes."""
    return _TERMINAL.sub("", text)


@attrs.frozen
class Excerpt:
    """Selected lines of a server's stderr, in their order.

    Attributes:
        lines: The lines to show, with a note wherever some are left out.
        is_whole: Whether nothing is left out and no line is shortened.
    """

    lines: tuple[str, ...]
    is_whole: bool


def excerpt(text: str) -> Excerpt:
    """Return the first and last lines of stderr, and those between them that may name a cause."""
    lines = [line.rstrip() for line in text.splitlines() if line.strip()]
    if len(lines) <= _MOST_LINES:
        chosen = list(range(len(lines)))
    else:
        middle = range(_HEAD, len(lines) - _TAIL)
        telling = _telling(lines, middle, _MOST_LINES - _HEAD - _TAIL)
        chosen = [*range(_HEAD), *telling, *range(len(lines) - _TAIL, len(lines))]
    is_whole = len(chosen) == len(lines) and all(len(line) <= _LONGEST_LINE for line in lines)
    return Excerpt(tuple(_shown(lines, chosen)), is_whole)


def _telling(lines: Sequence[str], among: Sequence[int], most: int) -> list[int]:
    """Return the indices of the lines that are most likely to name a cause, in order."""
    candidates = [index for index in among if not _OPTION.match(lines[index])]
    named = [
        index
        for index in candidates
        if _NAMED_CAUSE.search(lines[index]) or (_USAGE.match(lines[index + 1]) and lines[index].strip())
    ]
    possible = [index for index in candidates if index not in named and _POSSIBLE_CAUSE.search(lines[index])]
    found = _first_and_last(named, most)
    return sorted({*found, *_first_and_last(possible, most - len(found))})


def _first_and_last(indices: Sequence[int], most: int) -> list[int]:
    """Return the first index and the last ones: the first failure, and the final ones."""
    if most <= 0:
        return []
    return [*indices] if len(indices) <= most else [indices[0], *indices[len(indices) - most + 1 :]]


def _shown(lines: Sequence[str], chosen: Iterable[int]) -> Iterator[str]:
    after = 0
    for index in chosen:
        if index > after:
            yield f"... ({index - after:,} lines left out)"
        yield _shortened(lines[index])
        after = index + 1


def _shortened(line: str) -> str:
    """Return a line; a long one is cut, between words if possible."""
    if len(line) <= _LONGEST_LINE:
        return line
    head = line[:_LONGEST_LINE]
    return f"{head.rpartition(' ')[0] or head} ... ({len(line):,} characters in all)"
