"""The exceptions for files that cannot be read or written."""

from __future__ import annotations

from pathlib import Path

from pflow_mcp_plugin.contract import PflowError


class CorruptFile(PflowError):
    """The file error for invalid content, which was not overwritten.

    Args:
        path: The file.
        reason: What is wrong with it, e.g. the parser's words.
        line: Line of the mistake, from 1; 0 if it has no line.
        column: Column of the mistake, from 1.
    """

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
        self.reason = reason
        self.line = line
        self.column = column


class StoreError(PflowError):
    """The file error for a file that could not be read, locked or written; its content is unchanged.

    Args:
        path: The file.
        reason: What failed, e.g. the words of the operating system.
        suggestion: The next step, may be empty.
    """

    def __init__(self, path: Path, reason: str, *, suggestion: str = "") -> None:
        super().__init__(
            f"{path}: {reason}",
            kind="config",
            details={"path": str(path)},
            suggestions=(suggestion,) if suggestion else (),
        )
        self.path = path
