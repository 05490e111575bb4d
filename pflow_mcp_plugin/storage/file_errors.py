"""The errors of stored files that are corrupt or cannot be read or written; how deep a document may be."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pflow_mcp_plugin.contract import PflowError

if TYPE_CHECKING:
    from json import JSONDecodeError

_STRICT = "in double quotes, has no comments and no comma before a closing bracket"
_JSON_HINTS = (
    ("Illegal trailing comma", "Remove the comma before the closing bracket"),
    ("property name", f"JSON puts names {_STRICT}"),
    ("Expecting value", f"JSON puts strings {_STRICT}"),
    ("delimiter", "A comma, colon or closing bracket is missing before this position"),
    ("Unterminated string", "A closing double quote is missing"),
    ("Invalid \\", "Write each backslash twice"),
    ("Extra data", "One object is expected; something follows it"),
)
"""Part of the message of Python's decoder, and what to do about it."""


class CorruptFile(PflowError):
    """A stored file has invalid content, which was not overwritten; line 0 means that none is known."""

    def __init__(self, path: Path, reason: str, *, line: int = 0, column: int = 0) -> None:
        place = f", line {line}, column {column}" if line else ""
        details: dict[str, object] = {"path": str(path)}
        if line:
            details |= {"line": line, "column": column}
        super().__init__(
            f"{path}{place}: {reason}",
            kind="config",
            details=details,
            suggestions=(f"Correct {path}, or move it away to start afresh",),
        )
        self.path = path


class StoreError(PflowError):
    """The error of a stored file that could not be read, locked or written; its content is unchanged."""

    def __init__(self, path: Path, reason: str, *, suggestion: str = "") -> None:
        super().__init__(
            f"{path}: {reason}",
            kind="config",
            details={"path": str(path)},
            suggestions=(suggestion,) if suggestion else (),
        )
        self.path = path

    @property
    def is_disk_full(self) -> bool:
        """Whether the disk of the stored file is full, or the user's part of it."""
        cause = self.__cause__
        is_full = isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT)
        return is_full or "disk is full" in str(cause)  # as SQLite says


def corrupt_after(path: Path, reason: str, before: str) -> CorruptFile:
    """Return the error of a corrupt file, with line and column: right after this text."""
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    return CorruptFile(path, reason, line=line, column=column)


def json_hint(error: JSONDecodeError) -> str:
    """Return the hint in the error about a file with invalid JSON, if the mistake is common; else empty."""
    return next((hint for words, hint in _JSON_HINTS if words in error.msg), "")


def decoded(path: Path, content: bytes) -> str:
    """Decode a stored file, without byte order mark; if it is not UTF-8, raise the error that says where."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise corrupt_after(path, "not UTF-8", content[: error.start].decode()) from error


def refuse_newer(path: Path, version: object, known: int, what: str) -> None:
    """Raise the error of a stored file that a newer pflow wrote, by its schema version."""
    if isinstance(version, int) and version > known:
        reason = f"a newer pflow wrote the {what} (schema {version}, this one knows {known})"
        raise StoreError(path, reason, suggestion="Upgrade pflow")


DEEPEST = 100
"""Levels of tables and lists in a document; a server needs five, a dotted key has one for each part."""


def is_too_deep(document: object, deepest: int = DEEPEST) -> bool:
    """Whether a document is deeper than a stored file may be: an error when it is read or written."""
    level, depth = [document], 0
    while level:
        if depth > deepest:
            return True
        containers = (value for value in level if isinstance(value, Mapping | list | tuple))
        level = [
            inner for each in containers for inner in (each.values() if isinstance(each, Mapping) else each)
        ]
        depth += 1
    return False
