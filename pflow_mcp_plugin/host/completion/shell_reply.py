"""What a shell's completion script sends, and the reply to it.

Each line of a reply is a kind, a tab, a value, a tab and a description. A `word` is complete; after a `stem`
more follows, so the shell adds no space. `file` and `folder` let the shell look for them itself: the value is
what comes before the path in the same word, the third part what is typed of the path.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import attrs

from pflow_mcp_plugin.contract import Suggestion
from pflow_mcp_plugin.terminal.looks import abbreviated

_ESCAPED_IN_DOUBLE_QUOTES = '$`"\\\n'


class TypedLine(NamedTuple):
    """A command line being typed in a shell."""

    words: list[str]  # the complete words, the program first, without redirections
    current: str  # the word before the cursor, without quotes; empty after a space
    quote: str  # the quote in it that is still open, if any
    kept: int  # characters of `current` that the shell leaves as they are; it replaces the rest
    redirected: bool  # whether the word is the file of a redirection


def read_line(line: str, breaks: str = "") -> TypedLine:
    """Read a command line up to the cursor; `breaks` is the `COMP_WORDBREAKS` of bash."""
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
        if self._quote:
            self._take_quoted(piece)
        elif piece[0] == "\\":
            self._add(piece[1:])
        elif piece in "'\"":
            self._quote, self._started = piece, True
            self._kept_before, self._kept = self._kept, len(self._word)
        elif piece in " \t\n":
            self._end()
        elif piece in "<>|&;":
            if self._word.isdigit():  # the number of a stream, as in 2>errors
                self._begin()
            self._end()
            self._is_file = piece in "<>"
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

    def line(self) -> TypedLine:
        return TypedLine(self._words, self._word, self._quote, self._kept, self._is_file)


def bash_quoted(text: str, quote: str = "") -> str:
    """Return a text as it is typed in bash, after the open quote if there is one."""
    if quote == "'":
        return text.replace("'", r"'\''")
    if quote == '"':
        return re.sub(r'[$`"\\]', r"\\\g<0>", text)
    return re.sub(r"[^\w@%+:,./=-]", r"\\\g<0>", text)


def path_names(typed: str, *, folders_only: bool = False) -> Iterator[Suggestion]:
    """Yield the paths that begin as typed in a shell; a folder ends in `/`, and its contents may follow."""
    folder, slash, name = typed.rpartition("/")
    shown = folder + slash
    try:
        entries = sorted(os.scandir(Path(shown or ".").expanduser()), key=lambda entry: entry.name)
    except (OSError, RuntimeError):  # unreadable, or no home folder
        return
    for entry in entries:
        if not entry.name.startswith(name) or (entry.name.startswith(".") and not name):
            continue
        if entry.is_dir():
            yield Suggestion(value=f"{shown}{entry.name}/", type="stem")
        elif not folders_only:
            yield Suggestion(value=f"{shown}{entry.name}")


_KINDS = {"plain": "word", "stem": "stem", "file": "file", "dir": "folder"}
_WIDTH = 72
"""The most characters of a description."""


def read_request(shell: str, arguments: Sequence[str]) -> TypedLine:
    """Read the request of a shell's script: the command line before the cursor.

    bash sends `COMP_WORDBREAKS` and the line before the cursor. zsh and fish send the words after the program
    without quotes, and the one at the cursor, which has its quotes in fish.
    """
    if shell == "bash":
        breaks, typed = arguments
        line = read_line(typed, breaks)
        return line._replace(words=line.words[1:])
    *words, current = arguments
    current = read_line(current).current if shell == "fish" else current
    return TypedLine(words, current, "", 0, redirected=False)


def reply(shell: str, line: TypedLine, suggestions: Iterable[Suggestion]) -> Iterator[str]:
    """Yield the lines of the reply to a shell; suggestions with control characters are left out."""
    shown = [each for each in suggestions if each.value.isprintable()]
    if shell == "bash":
        yield from _for_bash(line, shown)
        return
    for each in shown:
        given = line.current.removeprefix(each.value) if each.type in {"file", "dir"} else each.help
        words = "".join(char if char.isprintable() else " " for char in given[: 4 * _WIDTH]).split()
        yield f"{_KINDS[each.type]}\t{each.value}\t{abbreviated(' '.join(words), _WIDTH)}"


def _for_bash(line: TypedLine, suggestions: Sequence[Suggestion]) -> Iterator[str]:
    """Yield the reply to bash, which replaces only a part of the word, and inserts what it gets as it is."""
    paths = [each for each in suggestions if each.type in {"file", "dir"}]
    if len(suggestions) == 1 and paths and len(paths[0].value) == line.kept and not line.quote:
        yield f"{_KINDS[paths[0].type]}\t"  # readline lists and quotes files better itself
        return
    for each in suggestions:
        for one in _found_paths(each, line) if each in paths else [each]:
            expands = "!" in one.value and line.quote == '"'  # it would be a history event
            if one.value.startswith(line.current[: line.kept]) and not expands:
                value = _quoted(one.value[line.kept :], line, is_path=each in paths)
                yield f"{_KINDS[one.type]}\t{value}"


def _found_paths(wanted: Suggestion, line: TypedLine) -> Iterator[Suggestion]:
    typed = line.current.removeprefix(wanted.value)
    for path in path_names(typed, folders_only=wanted.type == "dir"):
        if path.value.isprintable():
            # In quotes, bash leaves a ~ as it is. After an @, pflow reads it.
            literal = line.quote and not wanted.value.endswith("@")
            found = os.path.expanduser(path.value) if literal else path.value  # noqa: PTH111 - keeps the last /
            yield attrs.evolve(path, value=wanted.value + found)


def _quoted(text: str, line: TypedLine, *, is_path: bool) -> str:
    """Return text as bash inserts it; a `~` that stands for a home folder is not escaped."""
    begin = re.match(r"@?(~[^/]*)/", text) if is_path and not line.quote else None
    if begin is None or os.path.expanduser(begin[1]) == begin[1]:  # noqa: PTH111 - `Path.expanduser` may raise
        return bash_quoted(text, line.quote)
    return begin[0] + bash_quoted(text[begin.end() :], line.quote)
