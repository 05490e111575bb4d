"""How text looks on a terminal: the colours of states, and whether to use any."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import IO, Literal

from pflow_mcp_plugin.terminal.text_width import cut, text_width

Look = Literal["", "good", "warn", "bad", "dim", "head"]
"""The looks of a text: none, success, something to look at, failure, less important, heading."""
Part = tuple[str, Look]
"""Printable text, and how it looks."""

_CODES: Mapping[str, str] = {"good": "32", "warn": "33", "bad": "31", "dim": "2", "head": "1"}
_USUAL_COLUMNS = 80


def styled(text: str, look: Look, *, coloured: bool) -> str:
    """Return printable text with the terminal codes of its look, unless there are to be no colours."""
    return f"\x1b[{_CODES[look]}m{text}\x1b[0m" if coloured and look and text else text


def line_of(parts: Iterable[Part], room: int | None, *, coloured: bool) -> str:
    """Return parts as one line of a terminal."""
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


def moves_cursor(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether the terminal can move its cursor: not if `TERM` is `dumb` or missing."""
    return os.name == "nt" or environment.get("TERM", "dumb") not in ("", "dumb")


def wants_colours(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether to use colours on a terminal: not if `NO_COLOR` is set, or `TERM` is `dumb`."""
    return not environment.get("NO_COLOR") and moves_cursor(environment)


def columns_of(stream: IO[str] | None) -> int:
    """Return the width of a terminal in cells: that of `COLUMNS` if set, else what the terminal says."""
    asked = os.environ.get("COLUMNS", "")
    if asked.isdecimal() and int(asked):
        return int(asked)
    try:
        return os.get_terminal_size(stream.fileno()).columns or _USUAL_COLUMNS if stream else _USUAL_COLUMNS
    except (OSError, ValueError):
        return _USUAL_COLUMNS
