"""Values put into the text of a JSON file; comments and layout of the rest stay.

What it writes is checked by its caller: a text that does not parse to what was wanted is not used.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import attrs

_TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[{}\[\],:]|[^\s"'{}\[\],:/]+|/""",
    re.DOTALL,
)
_INDENT = re.compile(r"\n([ \t]+)\S")


@attrs.frozen
class _Token:
    text: str
    start: int
    end: int
    is_comment: bool


@attrs.frozen(kw_only=True)
class _Member:
    """A key of an object in a JSON text, and the indexes of its value's first and last token."""

    key: str
    first: int
    last: int


class JsonText:
    """The text of a JSON object, perhaps with comments and trailing commas, to be edited.

    Args:
        text: The text.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._newline = "\r\n" if "\r\n" in text else "\n"
        found = _INDENT.search(text)
        self._unit = found[1] if found else "  "
        self._read()

    def __str__(self) -> str:
        return self._text

    def put(self, path: tuple[str, ...], value: Any) -> None:
        """Put a value into the JSON text, in place of the one there or behind the last one of its object.

        Args:
            path: The keys that lead to it; objects that are missing are added.
            value: A JSON value.

        Raises:
            LookupError: The path leads through something that is not an object, or the text breaks off.
        """
        at = next((index for index, token in enumerate(self._tokens) if not token.is_comment), -1)
        for depth, key in enumerate(path):
            if at < 0 or self._tokens[at].text != "{":
                raise LookupError(path)
            found = [member for member in self._members(at) if member.key == key]
            if not found:
                for missing in reversed(path[depth + 1 :]):
                    value = {missing: value}
                self._insert(at, key, value)
                return
            at, last = found[-1].first, found[-1].last  # parsers use the last one of the same name
        written = self._dumped(value, self._indent(at))
        self._text = self._text[: self._tokens[at].start] + written + self._text[self._tokens[last].end :]
        self._read()

    def _read(self) -> None:
        self._tokens = [
            _Token(found[0], found.start(), found.end(), found["comment"] is not None)
            for found in _TOKEN.finditer(self._text)
        ]

    def _members(self, opening: int) -> Iterator[_Member]:
        """Yield the members of the object that begins at a token."""
        at = self._after(opening)
        while self._tokens[at].text != "}":
            first = self._after(self._after(at))  # behind the colon
            last = self._end(first)
            yield _Member(key=_key(self._tokens[at].text), first=first, last=last)
            at = self._after(last)
            if self._tokens[at].text == ",":
                at = self._after(at)

    def _after(self, index: int) -> int:
        """Return the index of the next token that is not a comment."""
        index += 1
        while self._tokens[index].is_comment:
            index += 1
        return index

    def _end(self, index: int) -> int:
        """Return the index of the last token of the value that begins at a token."""
        depth = 0
        while True:
            token = self._tokens[index]
            if not token.is_comment:
                depth += (token.text in ("{", "[")) - (token.text in ("}", "]"))
            if depth == 0:
                return index
            index += 1

    def _insert(self, opening: int, key: str, value: Any) -> None:
        """Add a member at the end of the object that begins at a token."""
        closing = self._end(opening)
        last = closing - 1  # it may be a comment, behind which the member goes
        outer = self._indent(opening)
        written = f"{json.dumps(key, ensure_ascii=False)}: {self._dumped(value, outer + self._unit)}"
        added = f"{self._newline}{outer}{self._unit}{written}"
        between = self._text[self._tokens[last].end : self._tokens[closing].start]
        if "\n" not in between:
            added += f"{self._newline}{outer}"
        text = self._text[: self._tokens[last].end] + added + self._text[self._tokens[last].end :]
        members = list(self._members(opening))
        if members and self._tokens[self._after(members[-1].last)].text != ",":
            end = self._tokens[members[-1].last].end
            text = f"{text[:end]},{text[end:]}"
        self._text = text
        self._read()

    def _indent(self, index: int) -> str:
        """Return the whitespace at the beginning of a token's line."""
        start = self._tokens[index].start
        line = self._text[self._text.rfind("\n", 0, start) + 1 : start]
        return line[: len(line) - len(line.lstrip())]

    def _dumped(self, value: Any, indent: str) -> str:
        lines = json.dumps(value, ensure_ascii=False, indent=self._unit, allow_nan=False).split("\n")
        return f"{self._newline}{indent}".join(lines)


def _key(text: str) -> str:
    """Return the key that a token spells; keys of JSON5 may have single quotes, or none."""
    if text.startswith('"'):
        try:
            return str(json.loads(text))
        except ValueError:
            return text
    return text.strip("'")
