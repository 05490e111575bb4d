"""What a shell's script sends, and what it is told.

Each line of a reply is a kind, a tab, a value, a tab and a description. A `word` is complete; after a
`stem` more follows, so the shell adds no space. `file` and `folder` let the shell look for them itself:
the value is what stands before the path in the same word, the third part what is typed of the path.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import attrs

from pflow_mcp_plugin.contract import Suggestion
from pflow_mcp_plugin.host.completion.path_names import path_names
from pflow_mcp_plugin.host.completion.shell_line import TypedLine, bash_quoted, read_line

_KINDS = {"plain": "word", "stem": "stem", "file": "file", "dir": "folder"}
_WIDTH = 72
"""Characters of a description."""


class Request(NamedTuple):
    """What a shell asks for.

    Attributes:
        shell: Its name.
        line: The command line before the cursor.
        breaks: The characters at which bash begins a new completion.
    """

    shell: str
    line: TypedLine
    breaks: str = ""


def read_request(shell: str, arguments: Sequence[str]) -> Request:
    """Read what the script of a shell sends.

    Args:
        shell: Its name.
        arguments: For bash `COMP_WORDBREAKS` and the line before the cursor. For zsh and fish the words
            after the program without their quotes, and the one before the cursor; in fish with its quotes.

    Raises:
        ValueError: There are too few.
    """
    if shell == "bash":
        breaks, typed = arguments
        line = read_line(typed, breaks)
        return Request(shell, line._replace(words=line.words[1:]), breaks)
    *words, current = arguments
    current = read_line(current).current if shell == "fish" else current
    return Request(shell, TypedLine(words, current, "", 0, redirected=False))


def reply(request: Request, suggestions: Iterable[Suggestion]) -> Iterator[str]:
    """Yield the lines of the reply to a shell; what has control characters in it is left out."""
    shown = [each for each in suggestions if each.value.isprintable()]
    if request.shell == "bash":
        yield from _for_bash(request, shown)
        return
    for each in shown:
        given = request.line.current.removeprefix(each.value) if each.type in {"file", "dir"} else each.help
        yield f"{_KINDS[each.type]}\t{each.value}\t{_one_line(given)}"


def _one_line(text: str) -> str:
    words = "".join(char if char.isprintable() else " " for char in text[: 4 * _WIDTH]).split()
    line = " ".join(words)
    return line if len(line) <= _WIDTH else f"{line[: _WIDTH - 3]}..."


def _for_bash(request: Request, suggestions: Sequence[Suggestion]) -> Iterator[str]:
    """Yield lines for bash: it replaces only a part of the word, and inserts what it is told as it is."""
    line = request.line
    paths = [each for each in suggestions if each.type in {"file", "dir"}]
    if len(suggestions) == 1 and paths and len(paths[0].value) == line.kept and not line.quote:
        yield f"{_KINDS[paths[0].type]}\t"  # readline lists and quotes them better
        return
    for each in suggestions:
        found = _found_paths(each, line) if each in paths else [each]
        for one in found:
            if one.value.startswith(line.current[: line.kept]) and not (
                "!" in one.value and line.quote == '"'
            ):
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
