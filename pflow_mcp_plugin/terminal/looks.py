"""How text looks on a terminal: hidden characters escaped, its width, colours and line breaks; tables.

Text for people is *printable* if nothing in it could steer a terminal or hide. Hidden are control characters
(the escape sequences of terminals begin with one), the controls of writing direction, tag characters, and all
that Unicode calls ignorable: zero-width characters, fillers, variation selectors (Unicode 16,
`Default_Ignorable_Code_Point`). Tabs and line ends are not, nor what a script or an emoji needs in its place:
a joiner between Persian or Indic letters, the joiners and selectors inside an emoji, a direction mark beside
Hebrew or Arabic.

Reports, messages on standard error and tables go through `printable` when they are printed. `one_line` is for
values from elsewhere inside a line, such as a tool's name: a line end in one could forge the next line.

Tables have aligned columns, cut to fit a terminal; elsewhere only long prose is cut.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import IO, Literal, NamedTuple

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


_HIDDEN = (
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    r"\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]|\r(?!\n)"
)
_RIGHT_TO_LEFT = (
    r"[\u0590-\u061b\u061d-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff"
    r"\U0001e800-\U0001efff]"
)
_MARKS = "\u200e\u200f\u061c"
_EMOJI = (
    r"[\xa9\xae\u203c\u2049\u2100-\u214f\u2190-\u21ff\u2300-\u23ff\u2460-\u24ff\u25a0-\u27bf\u2900-\u297f"
    r"\u2b00-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff]"
)
_JOINING = (
    r"[\u0600-\u061b\u061d-\u08ff\u0900-\u0dff\u0f00-\u109f\u1780-\u17b3\u17b6-\u180a\u1810-\u18ff"
    r"\u1a20-\u1cff\ua840-\uabff\ufb50-\ufdff\ufe70-\ufefc]"
)
_WITH_VARIANTS = r"[\u2200-\u22ff\u1000-\u109f\u3400-\u9fff\ua840-\ua87f\uf900-\ufaff\U00020000-\U0003ffff]"
_BELONGS = (
    rf"(?:(?<={_EMOJI})|(?<=\ufe0f))\u200d(?={_EMOJI})|(?<={_JOINING})[\u200c\u200d](?!{_HIDDEN})"
    rf"|(?<={_EMOJI})[\ufe0e\ufe0f]|(?<=[0-9#*])[\ufe0e\ufe0f](?=\u20e3)"
    rf"|(?<={_WITH_VARIANTS})[\ufe00-\ufe0d\U000e0100-\U000e01ef]|(?<=[\u1820-\u18aa])[\u180b-\u180f]"
)
"""Joiners, selectors and variants where a script or an emoji needs them, one at a time."""
_FLAG = "\U0001f3f4"
# Those of England, Scotland and Wales: the only flags that are written with tag characters.
_FLAGS = f"{_FLAG}\U000e0067\U000e0062(?:{{}})\U000e007f".format(
    "|".join("".join(chr(0xE0000 + ord(letter)) for letter in part) for part in ("eng", "sct", "wls"))
)
_CANDIDATES = f"{_FLAGS}|{_HIDDEN}"
_ESCAPES = {"\t": "\\t", "\n": "\\n", "\r": "\\r"}
_NEAR = 64
"""Characters within which a direction mark stands beside writing that runs from right to left."""


def printable(text: str) -> str:
    r"""Return how text may appear on a terminal: hidden characters are escaped as in JSON, like `\u001b`.

    A JSON document stays one and means the same.
    """
    if text.isascii() and text.isprintable():
        return text
    return _pattern(_CANDIDATES).sub(
        lambda found: found[0] if _belongs(text, found.start()) else escape(found[0]), text
    )


def one_line(text: str) -> str:
    r"""Return how text may appear in one line of a terminal: line ends and hidden characters are escaped.

    That includes spaces other than the usual one, and characters that Unicode does not assign.
    """
    if text.isprintable() and text.isascii():
        return text
    from unicodedata import category

    return "".join(
        # A format character (Cf) that `printable` keeps belongs to its neighbours.
        each if each.isprintable() or category(each) == "Cf" else escape(each)
        for each in printable(text)
    )


def abbreviated(text: str, most: int) -> str:
    """Return text cut to `most` characters; dots at its end say that something is left out."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def continued(text: str) -> str:
    """Return text for people with a bar before its further lines, which might pass for pflow's own."""
    return text.replace("\n", "\n  | ")


def barred_lines(text: str) -> list[str]:
    """Return the lines of a text from elsewhere for people, with a bar before all but the first."""
    return "\n| ".join(text.splitlines()).split("\n") if text else []


def escape(char: str) -> str:
    r"""Return how a hidden character may appear on a terminal: as in JSON, `\u001b`; astral ones in pairs."""
    code = ord(char)
    if code <= 0xFFFF:
        return _ESCAPES.get(char, f"\\u{code:04x}")
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"


def hidden_places(text: str) -> Iterator[int]:
    """Yield the positions in a text of what is not printable for people, and escaped by `printable`."""
    if text.isascii() and text.isprintable():
        return
    for found in _pattern(_CANDIDATES).finditer(text):
        if not _belongs(text, found.start()):
            yield found.start()


def runs_right_to_left(text: str) -> bool:
    """Whether printed text runs from right to left in parts: it has letters of such a script."""
    return not text.isascii() and _pattern(_RIGHT_TO_LEFT).search(text) is not None


def _belongs(text: str, place: int) -> bool:
    if text[place] in _MARKS:
        near = text[max(place - _NEAR, 0) : place + _NEAR]
        return runs_right_to_left(near) and text[place + 1 : place + 2] not in set(_MARKS)
    return text[place] == _FLAG or _pattern(_BELONGS).match(text, place) is not None


@cache
def _pattern(source: str) -> re.Pattern[str]:
    """Compile a pattern for hidden characters on first use: most programs print none of them."""
    return re.compile(source)


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
    """A table on a terminal or in a text; every row is one line, and hidden characters are escaped.

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
        """Return the cells of each line of a table's row: there is one line unless a column is broken."""
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
