"""Tables in reports for people: aligned columns, cut to fit a terminal; elsewhere only long prose is cut."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from pflow_mcp_plugin.terminal.looks import (
    Look,
    Part,
    cut,
    folded,
    line_of,
    printable,
    styled,
    text_width,
    wrapped,
)

Cell = str | Part
"""The text of a cell, with its look if it has one of its own."""

_NARROWEST = 8
"""The width, in terminal cells, below which a column is left out rather than cut."""
_READABLE = 24
"""The width below which a column is not cut as long as another can be spared."""
_BETWEEN = 2
_PROSE = 120
"""The width to which prose is cut where there is no terminal."""


class Column(NamedTuple):
    """A column of a table for people; without any title, the table has no line of headings."""

    title: str = ""
    whole: bool = False  # not cut as long as others can be, as for names that people type or copy
    right: bool = False  # aligned to the right, as numbers are
    spare: bool = False  # left out first if there is no room; of several, the last goes first
    broken: bool = False  # its cells go on in further lines instead of being cut
    look: Look = ""  # of cells without a look of their own
    prose: bool = False  # descriptions, whose beginning says enough even without a terminal
    tree: bool = False  # its cells keep the spaces that they begin with


class Table:
    """A table for people in a report; every row is one line, and hidden characters are escaped.

    `below` has lines under a row, by its number from 0; `indent` is the number of spaces before each line.
    """

    def __init__(
        self,
        *,
        columns: Sequence[Column],
        rows: Sequence[Sequence[Cell]],
        below: Mapping[int, Sequence[str]] | None = None,
        indent: int = 0,
    ) -> None:
        self.columns = columns
        self.rows = rows
        self.below = below or {}
        self.indent = indent

    def render(self, width: int | None = None, *, coloured: bool = False) -> str:
        cells = [
            [_part(cell, column) for cell, column in zip(row, self.columns, strict=True)] for row in self.rows
        ]
        heads: list[list[Part]] = []
        if any(column.title for column in self.columns):
            heads = [[(column.title, "head") for column in self.columns]]
        natural = [
            max((text_width(text) for text, _ in each), default=0)
            for each in zip(*heads, *cells, strict=True)
        ]
        columns = zip(natural, self.columns, strict=True)
        widths = [min(room, _PROSE) if column.prose else room for room, column in columns]
        if width is not None:
            filled = [any(text for text, _ in each) for each in zip(*cells, strict=True)] or natural
            used = [room if full else 0 for room, full in zip(natural, filled, strict=True)]
            widths = self._fitted(used, width - self.indent)
        lines = [self._line(row, widths, coloured=coloured) for row in heads]
        for number, row in enumerate(cells):
            if sum(widths) > (width or sum(widths)):  # a single column that is not cut
                lines += [styled(line, row[0][1], coloured=coloured) for line in _lines(row[0][0], width)]
            else:
                parts = zip(*self._broken(row, widths), strict=True)
                lines += [self._line(part, widths, coloured=coloured) for part in parts]
            for line in self.below.get(number, ()):
                lines += _lines(" " * self.indent + printable(line), width)
        return "\n".join(lines)

    def _fitted(self, natural: Sequence[int], width: int) -> list[int]:
        """Return the width of each column of a table; 0 for one that is left out.

        What can be spared goes before another column is cut too short to be read; only where nothing else
        is left, columns that should be whole are cut too.
        """
        columns = self.columns
        places = range(len(columns))
        able = [place for place in places if not columns[place].whole]
        spare = [place for place in places if columns[place].spare]
        widths = [*natural]
        fitted = _narrowed(widths, able, width, _READABLE)
        while fitted is None and spare:
            widths[spare.pop()] = 0
            fitted = _narrowed(widths, able, width, _READABLE)
        while fitted is None:
            fitted = _narrowed(widths, able, width, _NARROWEST)
            if fitted is None and not able:
                break
            if fitted is None:
                widths[able.pop()] = 0
        if fitted is None and sum(map(bool, widths)) > 1:
            fitted = _narrowed(widths, places, width, _NARROWEST)
        return fitted or widths

    def _broken(self, row: Sequence[Part], widths: Sequence[int]) -> list[list[Part]]:
        """Return the cells of a table's row as those of its lines: one line unless a column is broken."""
        broken = [
            folded(text, room) if column.broken and room else [text]
            for (text, _), column, room in zip(row, self.columns, widths, strict=True)
        ]
        most = max(map(len, broken))
        return [
            [(part, look) for part in (*parts, *[""] * (most - len(parts)))]
            for parts, (_, look) in zip(broken, row, strict=True)
        ]

    def _line(self, row: Sequence[Part], widths: Sequence[int], *, coloured: bool) -> str:
        parts: list[Part] = [(" " * self.indent, "")]
        for (text, look), column, width in zip(row, self.columns, widths, strict=True):
            if width:
                shown = cut(text, width)
                space: Part = (" " * (width - text_width(shown)), "")
                parts += [space, (shown, look)] if column.right else [(shown, look), space]
                parts.append((" " * _BETWEEN, ""))
        return line_of(parts, None, coloured=coloured)


def _lines(text: str, width: int | None) -> list[str]:
    return [text] if width is None else wrapped(text, width).split("\n")


def _narrowed(natural: Sequence[int], places: Sequence[int], width: int, least: int) -> list[int] | None:
    widths = list(natural)
    while (excess := sum(it + _BETWEEN for it in widths if it) - _BETWEEN - width) > 0:
        able = [place for place in places if widths[place] > least]
        if not able:
            return None
        widest = max(able, key=widths.__getitem__)
        next_to = max((widths[it] for it in able if widths[it] < widths[widest]), default=least)
        widths[widest] -= min(excess, widths[widest] - max(next_to, least))
    return widths


def _part(cell: Cell, column: Column) -> Part:
    text, look = (cell, column.look) if isinstance(cell, str) else cell
    indent = text[: len(text) - len(text.lstrip(" "))] if column.tree else ""
    return indent + printable(" ".join(text.split())), look
