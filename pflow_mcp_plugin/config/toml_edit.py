"""Edits the text of a TOML file: one table is replaced, the rest is preserved.

This module locates the text of a table; tomllib parses keys and values. tomlkit (0.15.2), which
edits whole documents, drops the comments above the next table when one is removed or replaced, and
mixes up tables that are written as dotted keys.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.storage.toml_text import TOKEN, encode

Keys = tuple[str, ...]


class _Line(NamedTuple):
    """One statement, which may run over several lines of the text; or a comment, or a blank line.

    Attributes:
        text: The source text, line end included.
        table: The table that the nearest header above names; of a header, the one it names itself.
        path: What the statement is about, from the root; empty for comments and blank lines.
        is_header: Whether it is `[table]` or `[[table]]`.
    """

    text: str
    table: Keys = ()
    path: Keys = ()
    is_header: bool = False


class Layout:
    """The text of a valid TOML document by statements, for editing.

    Parse the result of an edit before you trust it: a table inside an inline table cannot be
    edited here.

    Args:
        text: The document.
    """

    def __init__(self, text: str) -> None:
        self._lines = list(_lines(text))
        self._line_end = "\r\n" if "\r\n" in text else "\n"

    def __str__(self) -> str:
        return "".join(line.text for line in self._lines)

    def put(self, path: Keys, table: JSONObject) -> None:
        """Replace a table in the TOML text; a new one is inserted after its siblings, or at the end."""
        spans = list(self._spans(path))
        # From the end, so that the places of the earlier lines stay valid.
        for span in reversed(spans[1:]):
            self._cut(span)
        if not spans:
            self._append(path, table)
            return
        line = self._lines[spans[0].start]
        text = _table_text(path, table) if line.is_header else _dotted_text(path[len(line.table) :], table)
        self._lines[spans[0]] = [line._replace(text=self._with_line_ends(text), path=path)]

    def remove(self, path: Keys) -> None:
        """Remove a table's statements from the TOML text; comments above and below it stay."""
        for span in reversed(list(self._spans(path))):
            self._cut(span)

    def _spans(self, path: Keys) -> Iterator[slice]:
        """Yield the lines with statements about a table: its sections, and its keys in other sections."""
        end = 0
        for place, line in enumerate(self._lines):
            if place >= end and line.path[: len(path)] == path:
                end = self._section_end(place) if line.is_header else place + 1
                yield slice(place, end)

    def _section_end(self, place: int) -> int:
        """Return the index after the last statement of the section that contains a line."""
        end = place + 1
        for later in range(end, len(self._lines)):
            if self._lines[later].is_header:
                break
            if self._lines[later].path:
                end = later + 1
        return end

    def _cut(self, span: slice) -> None:
        """Remove lines; for a section, also the blank lines directly above it."""
        start, end = span.start, span.stop
        if self._lines[start].is_header:
            while start and self._lines[start - 1].text.isspace():
                start -= 1
        del self._lines[start:end]

    def _append(self, path: Keys, table: JSONObject) -> None:
        siblings = [place for place, line in enumerate(self._lines) if line.path[:1] == path[:1]]
        place = self._section_end(siblings[-1]) if siblings else len(self._lines)
        text = self._with_line_ends(_table_text(path, table))
        if place:
            above = self._lines[place - 1]
            ended = above.text if above.text.endswith("\n") else above.text + self._line_end
            self._lines[place - 1] = above._replace(text=ended)
            text = self._line_end + text
        self._lines.insert(place, _Line(text, path, path, is_header=True))

    def _with_line_ends(self, text: str) -> str:
        return text.replace("\n", self._line_end)


def _lines(text: str) -> Iterator[_Line]:
    table: Keys = ()
    for statement in _statements(text):
        bare = statement.lstrip(" \t")
        if bare.startswith("["):
            table = _keys(tomllib.loads(statement))
            yield _Line(statement, table, table, is_header=True)
        elif not bare.strip() or bare.startswith("#"):
            yield _Line(statement, table)
        else:
            yield _Line(statement, table, table + _keys(tomllib.loads(f"{_key_text(statement)} = 0")))


def _statements(text: str) -> Iterator[str]:
    start = depth = 0
    for token in TOKEN.finditer(text):
        # Brackets inside strings and comments are part of those tokens.
        depth += (token[0] in "[{") - (token[0] in "]}")
        if token[0] == "\n" and depth == 0:
            yield text[start : token.end()]
            start = token.end()
    if start < len(text):
        yield text[start:]


def _key_text(statement: str) -> str:
    """Return the text before the first equals sign outside quotes."""
    for token in TOKEN.finditer(statement):
        if token[0][0] not in "\"'" and "=" in token[0]:
            return statement[: token.start() + token[0].index("=")]
    return statement


def _keys(document: JSON) -> Keys:
    """Return the path of keys into a document in which every table has exactly one entry."""
    keys = []
    while isinstance(document, dict | list) and document:
        if isinstance(document, list):
            document = document[0]
        else:
            ((key, document),) = document.items()
            keys.append(key)
    return tuple(keys)


def _table_text(path: Keys, table: JSONObject) -> str:
    document: JSONObject = table
    for key in reversed(path):
        document = {key: document}
    return encode(document).decode()


def _dotted_text(path: Sequence[str], value: JSON) -> str:
    """Return a table as lines of dotted keys, its form inside another table's section."""
    if isinstance(value, Mapping) and value:
        return "".join(_dotted_text([*path, key], inner) for key, inner in value.items())
    key = ".".join(encode({part: 0}).decode().removesuffix(" = 0\n") for part in path)
    return f"{key} = {_value_text(value)}\n"


def _value_text(value: JSON) -> str:
    text = encode({"_": value}).decode()
    if text.startswith("["):  # tomli_w writes a list of tables inline only if it has other items too
        return encode({"_": [0, value]}).decode().removeprefix("_ = [\n    0,\n    ").removesuffix(",\n]\n")
    return text.removeprefix("_ = ").removesuffix("\n")
