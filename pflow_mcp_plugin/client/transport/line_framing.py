"""Splits chunks of bytes into lines, in time linear in their length, with a cap."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO


class LineTooLong(Exception):
    """A line reached its cap before its newline.

    Attributes:
        size: Bytes of the line received so far.
    """

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size


class LineBuffer:
    """Splits a byte stream into lines, examining each byte once.

    A line in several chunks grows in one buffer, which becomes the line: joining a list of chunks
    would need twice the memory.
    """

    def __init__(self, cap: int) -> None:
        self._cap = cap
        self._begun = BytesIO()

    @property
    def pending(self) -> int:
        """The number of bytes of the line whose newline is still missing."""
        return self._begun.tell()

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the lines that a chunk of bytes completes, without their newlines.

        Raises:
            LineTooLong: The current line is longer than the cap.
        """
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            yield self._complete(end)
        if rest:
            self._check(rest)
            self._begun.write(rest)

    def _complete(self, end: bytes) -> bytes:
        self._check(end)
        if not self.pending:
            return end
        begun, self._begun = self._begun, BytesIO()
        begun.write(end)
        return begun.getvalue()

    def _check(self, more: bytes) -> None:
        size = self.pending + len(more)
        if size > self._cap:
            self._begun = BytesIO()  # frees the memory, which may be large
            raise LineTooLong(size)
