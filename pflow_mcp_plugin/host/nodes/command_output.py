"""One output stream of a command: kept in memory up to a limit, in a file above it."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.storage import StoreError, make_folder

INLINE = 8 << 20
"""Bytes of a stream that are kept in memory; a longer one goes to a file."""
SHOWN = 32 << 10
"""Bytes shown of the beginning, and of the end, of a stream that is in a file."""
_SEAM = 4 << 10
"""Bytes beside those shown: a secret that ends there is redacted as a whole before it is cut off."""


class CommandOutput:
    """Collects a stream while it is read; its memory is bounded.

    Args:
        name: `stdout` or `stderr`.
        file: Where a long stream is written (mode 0600); created when it is needed.
        most: Bytes that are accepted.

    Attributes:
        name: `stdout` or `stderr`.
        most: Bytes that are accepted.
        path: The file, once the stream is in one.
        exceeded: Whether there was more than `most`; the rest was dropped.
    """

    def __init__(self, name: str, file: Path, most: int) -> None:
        self.name = name
        self.path: Path | None = None
        self.exceeded = False
        self._target = file
        self.most = most
        self._size = 0
        self._head = bytearray()
        self._tail = bytearray()
        self._file: BinaryIO | None = None

    def add(self, data: bytes) -> None:
        """Add bytes to the output of a command, which moves from memory to a file when it grows long.

        Raises:
            PflowError: The file cannot be written.
        """
        self.exceeded = self.exceeded or self._size + len(data) > self.most
        accepted = data[: self.most - self._size]
        self._size += len(accepted)
        if self._size <= INLINE:
            self._head += accepted
            return
        try:
            self._write(accepted)
        except (OSError, StoreError) as error:
            message = f"its {self.name} is too long for memory and cannot be written to a file: {error}"
            raise PflowError(message, details={"path": str(self._target)}, ran="ran") from error

    def _write(self, data: bytes) -> None:
        if self._file is None:
            make_folder(self._target.parent)
            self._file = open(self._target, "xb", opener=partial(os.open, mode=0o600))  # noqa: SIM115  # closed by `close`
            self.path = self._target
            self._file.write(self._head)
            self._tail = self._head[-SHOWN - _SEAM :]
            del self._head[SHOWN + _SEAM :]
        self._file.write(data)
        self._tail = (self._tail + data)[-SHOWN - _SEAM :]

    def close(self) -> None:
        """Close the file with a command's output; what cannot be written any more is lost."""
        if self._file is not None:
            with suppress(OSError):
                self._file.close()

    def discard(self) -> None:
        """Close and delete the file with a command's output."""
        self.close()
        if self.path is not None:
            self.path.unlink(missing_ok=True)

    def text(self, redact: Callable[[str], str]) -> str:
        """Return the whole stream; of one in a file its two ends and the path, secrets redacted.

        Args:
            redact: Removes secrets from a string.
        """
        if self.path is None:
            return self._head.decode("utf-8", "replace")
        head = redact(self._head.decode("utf-8", "replace"))[:-_SEAM]
        tail = redact(self._tail.decode("utf-8", "replace"))[_SEAM:]
        return f"{head}\n... ({self._size:,} bytes, all of them in {self.path}) ...\n{tail}"
