"""A command line as it stands before the cursor, with its quotes read."""

from __future__ import annotations

import re
from typing import NamedTuple

_SPACES = " \t\n"
_OPERATORS = "<>|&;"
_ESCAPED_IN_DOUBLE_QUOTES = '$`"\\\n'


class TypedLine(NamedTuple):
    """A command line that is being typed.

    Attributes:
        words: The words that are complete, the program first, without redirections.
        current: The word before the cursor, without quotes; empty after a space.
        quote: The quote in it that is still open, if any.
        kept: How many characters of `current` the shell leaves as they are: a completion replaces the rest.
        redirected: Whether the word is the file of a redirection.
    """

    words: list[str]
    current: str
    quote: str
    kept: int
    redirected: bool


def read_line(line: str, breaks: str = "") -> TypedLine:
    """Read a command line that ends at the cursor.

    Args:
        line: The line, as typed.
        breaks: Characters at which the shell begins a new completion, as bash's `COMP_WORDBREAKS`.
    """
    reader = _Reader(breaks)
    for piece in re.findall(r"\\.|\\|.", line, re.DOTALL):
        reader.take(piece)
    return reader.line()


class _Reader:
    def __init__(self, breaks: str) -> None:
        self._breaks = breaks
        self._words: list[str] = []
        self._is_file = False
        self._begin()

    def _begin(self) -> None:
        self._word, self._started = "", False
        self._quote = ""
        self._kept = self._kept_before = 0

    def take(self, piece: str) -> None:
        """Take a character, or a backslash with the character after it."""
        if self._quote:
            self._take_quoted(piece)
        elif piece[0] == "\\":
            self._add(piece[1:])
        elif piece in "'\"":
            self._quote, self._started = piece, True
            self._kept_before, self._kept = self._kept, len(self._word)
        elif piece in _SPACES:
            self._end()
        elif piece in _OPERATORS:
            self._operator(piece)
        else:
            before = len(self._word)
            self._add(piece)
            if piece in self._breaks:  # readline replaces an @ too, which may begin the name of a host
                self._kept = before if piece == "@" else len(self._word)

    def _take_quoted(self, piece: str) -> None:
        if self._quote == "'" and len(piece) == 2:  # a backslash means nothing here
            self._take_quoted(piece[0])
            self.take(piece[1])
        elif piece == self._quote:
            self._quote, self._kept = "", self._kept_before
        elif len(piece) == 2 and piece[1] in _ESCAPED_IN_DOUBLE_QUOTES:
            self._add(piece[1])
        else:
            self._add(piece)

    def _add(self, text: str) -> None:
        self._word += text
        self._started = True

    def _end(self) -> None:
        if self._started:
            if not self._is_file:
                self._words.append(self._word)
            self._is_file = False
        self._begin()

    def _operator(self, operator: str) -> None:
        if self._word.isdigit():  # of a stream, as in 2>errors
            self._begin()
        self._end()
        self._is_file = operator in "<>"

    def line(self) -> TypedLine:
        return TypedLine(self._words, self._word, self._quote, self._kept, self._is_file)


def bash_quoted(text: str, quote: str = "") -> str:
    """Return text as it is typed in bash, after the quote that is open if there is one."""
    if quote == "'":
        return text.replace("'", r"'\''")
    if quote == '"':
        return re.sub(r'[$`"\\]', r"\\\g<0>", text)
    return re.sub(r"[^\w@%+:,./=-]", r"\\\g<0>", text)
