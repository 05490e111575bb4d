"""The width of text on a terminal, in cells: most characters take one, East Asian ones and emoji two."""

from __future__ import annotations

from collections.abc import Iterator

ELLIPSIS = "…"


def text_width(text: str) -> int:
    """Return the number of cells that printable text takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(map(_cells, text))


def cut(text: str, room: int) -> str:
    """Return text that takes at most `room` cells; if something is left out, it ends with an ellipsis."""
    if text_width(text) <= room:
        return text
    return _beginning(text, room - 1).rstrip() + ELLIPSIS if room > 0 else ""


def padded(text: str, room: int, *, right: bool = False) -> str:
    """Return text filled up with spaces to `room` cells.

    Args:
        text: Printable text.
        room: The width in cells.
        right: Whether the text is aligned to the right.
    """
    space = " " * (room - text_width(text))
    return space + text if right else text + space


def wrapped(text: str, room: int) -> str:
    """Return text for people with its long lines broken at spaces; what follows a break is indented.

    It stands below the text after a mark such as `->`, or after a label in a column of labels.

    A `pflow` command is not broken, nor is a word: if it has too little room, the terminal breaks it, and it
    can still be copied.
    """
    return "\n".join(part for line in text.split("\n") for part in _broken(line, room))


def folded(text: str, room: int) -> list[str]:
    """Return the words of text as lines of at most `room` cells; words that are longer are broken."""
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
    taken, count = 0, 0
    for char in text:
        taken += _cells(char)
        if taken > room:
            break
        count += 1
    return text[:count]


def _broken(line: str, room: int) -> Iterator[str]:
    if text_width(line) <= room:
        yield line
        return
    import re

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


def _cells(char: str) -> int:
    if char.isascii():
        return 1
    from unicodedata import category, east_asian_width

    if category(char) in ("Mn", "Me", "Cf"):  # drawn over or beside another character
        return 0
    return 2 if east_asian_width(char) in "WF" else 1
