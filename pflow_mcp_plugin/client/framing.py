"""Lines out of chunks of bytes, in time linear in their length, with a cap."""

from __future__ import annotations

from collections.abc import Iterator


class LineTooLong(Exception):
    """A line reached the cap before it ended.

    Attributes:
        size: Bytes of the line that had come so far.
    """

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size


class LineBuffer:
    """Splits a byte stream at newlines. Each byte is looked at once and joined once."""

    def __init__(self, cap: int) -> None:
        self._cap = cap
        self._parts: list[bytes] = []
        self._size = 0

    @property
    def pending(self) -> int:
        """Bytes of the line that has begun but not ended."""
        return self._size

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the lines that `chunk` completes, without their newlines.

        Raises:
            LineTooLong: The line under way is longer than the cap.
        """
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            yield self._complete(end)
        if rest:
            self._parts.append(rest)
            self._size += len(rest)
            self._check()

    def _complete(self, end: bytes) -> bytes:
        self._size += len(end)
        self._check()
        self._parts.append(end)
        line = b"".join(self._parts) if len(self._parts) > 1 else end
        self._parts, self._size = [], 0
        return line

    def _check(self) -> None:
        if self._size > self._cap:
            size = self._size
            self._parts, self._size = [], 0  # it may be large, and is of no use any more
            raise LineTooLong(size)
