"""How text looks on a terminal: its width, colours and line breaks, and whether to use colours at all."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import IO, Literal

ELLIPSIS = "…"
_FIRST_COMBINING = "\u0300"


def text_width(text: str) -> int:
    """Return how wide text looks on a terminal, in cells: a character takes one, two or none."""
    if _is_plain(text):
        return len(text)
    from wcwidth import wcswidth

    # It is negative for text with control characters.
    return max(wcswidth(text), 0)


def cut(text: str, room: int) -> str:
    """Cut text that looks wider than `room` cells on a terminal, with an ellipsis in place of the rest."""
    if text_width(text) <= room:
        return text
    return _beginning(text, room - 1).rstrip() + ELLIPSIS if room > 0 else ""


def padded(text: str, room: int, *, right: bool = False) -> str:
    """Return text with spaces, so that it looks `room` cells wide on a terminal."""
    space = " " * (room - text_width(text))
    return space + text if right else text + space


def wrapped(text: str, room: int) -> str:
    """Return text with lines that look too wide broken at spaces; what follows is indented.

    It starts below the text after a mark such as `->`, or after a label in a column of labels.

    A `pflow` command is not broken, nor is a word: if it has too little room, the terminal breaks it, and it
    can still be copied.
    """
    return "\n".join(part for line in text.split("\n") for part in _broken(line, room))


def folded(text: str, room: int) -> list[str]:
    """Return text as lines that look at most `room` cells wide, broken at spaces or within long words."""
    lines = [""]
    for word in text.split():
        rest = word
        if text_width(f"{lines[-1]} {rest}".lstrip()) > room and lines[-1]:
            lines.append("")
        while text_width(rest) > room:
            part = _beginning(rest, room) or rest[0]
            lines[-1:] = [part, ""]
            rest = rest[len(part) :]
        lines[-1] = f"{lines[-1]} {rest}".strip()
    return lines


def _beginning(text: str, room: int) -> str:
    if _is_plain(text):
        return text[:room]
    from wcwidth import iter_graphemes

    taken, count = 0, 0
    for cluster in iter_graphemes(text):
        taken += text_width(cluster)
        if taken > room:
            break
        count += len(cluster)
    return text[:count]


def _is_plain(text: str) -> bool:
    # Latin letters, and the ellipsis of what was cut, are one cell wide each.
    return text.isascii() or max(text.replace(ELLIPSIS, ""), default="") < _FIRST_COMBINING


def _broken(line: str, room: int) -> Iterator[str]:
    if text_width(line) <= room:
        yield line
        return
    mark = re.match(r"\s*(?:->? |[a-z]+ {2,})?", line)
    current = mark[0] if mark else ""
    indent, empty = " " * (len(current) or 2), True
    for piece in re.findall(r"\s*(?:pflow [a-z][^;,()]*|\S+)", line[len(current) :]):
        if not empty and text_width(current + piece) > room:
            yield current
            current, empty = indent, True
        current += piece.lstrip() if empty else piece
        empty = False
    yield current


Look = Literal["", "good", "warn", "bad", "dim", "head"]
"""The looks of a text: none, success, something to look at, failure, less important, heading."""
Part = tuple[str, Look]
"""Printable text, and how it looks."""

_CODES: Mapping[str, str] = {"good": "32", "warn": "33", "bad": "31", "dim": "2", "head": "1"}
_USUAL_COLUMNS = 80


def styled(text: str, look: Look, *, coloured: bool) -> str:
    """Return text with the terminal codes for its colour, unless there are to be no colours."""
    return f"\x1b[{_CODES[look]}m{text}\x1b[0m" if coloured and look and text else text


def line_of(parts: Iterable[Part], room: int | None, *, coloured: bool) -> str:
    """Return parts of text in their colours, cut where they would look wider than `room` cells."""
    shown = []
    left = room
    for text, look in parts:
        kept = text if left is None else cut(text, left)
        shown.append(styled(kept, look, coloured=coloured))
        if left is not None:
            left -= text_width(kept)
            if kept != text or left <= 0:
                break
    return "".join(shown).rstrip()


def moves_cursor() -> bool:
    """Whether the terminal can move its cursor to redraw lines: not if `TERM` is `dumb` or missing."""
    return os.name == "nt" or os.environ.get("TERM", "dumb") not in ("", "dumb")


def wants_colours() -> bool:
    """Whether to use colours on a terminal: not if `NO_COLOR` is set, or `TERM` is `dumb`."""
    return not os.environ.get("NO_COLOR") and moves_cursor()


def columns_of(stream: IO[str] | None) -> int:
    """Return the width of a terminal in cells: `COLUMNS` if that is set, else what the terminal says."""
    asked = os.environ.get("COLUMNS", "")
    if asked.isdecimal() and int(asked):
        return int(asked)
    try:
        return os.get_terminal_size(stream.fileno()).columns or _USUAL_COLUMNS if stream else _USUAL_COLUMNS
    except (OSError, ValueError):
        return _USUAL_COLUMNS
