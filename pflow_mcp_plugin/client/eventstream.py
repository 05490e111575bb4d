"""The bytes of an event stream on their way to the parser: watched, capped, mended, with sane pauses.

A server says with `retry:` how long a client shall wait before it comes back. Whoever believes any
number can be made to wait for years, or to come back without a pause.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import httpx2

from pflow_mcp_plugin.client.exchange import Exchange, TooLarge
from pflow_mcp_plugin.client.surrogates import SurrogateMender

_LONGEST_PAUSE = 30_000
_SHORTEST_PAUSE = 100
"""Milliseconds."""
_RETRY = re.compile(rb"(?:^|(?<=[\r\n]))retry:([^\r\n]*)")
_EVENT_END = re.compile(rb"\n\n|\r\r|\r\n\r\n")


class EventBytes(httpx2.AsyncByteStream):
    """The decoded bytes of one answer.

    Args:
        response: The answer, not read yet.
        limit: Bytes that one event may have.
        exchange: Told how the stream ended, unless the reader had enough.
    """

    def __init__(self, response: httpx2.Response, limit: int, exchange: Exchange) -> None:
        self._response = response
        self._limit = limit
        self._exchange = exchange
        self._clamp = RetryClamp()
        self._mender = SurrogateMender()
        self._event_size = 0
        self._tail = b""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._response.aiter_bytes():
                self._measure(chunk)
                yield self._mender.feed(self._clamp.feed(chunk))
            yield self._mender.feed(self._clamp.rest()) + self._mender.rest()
        except (httpx2.HTTPError, TooLarge) as error:
            self._exchange.error, self._exchange.cut = error, True
            raise
        finally:
            await self._response.aclose()
        self._exchange.cut = True

    async def aclose(self) -> None:
        """Take no more."""
        await self._response.aclose()

    def _measure(self, chunk: bytes) -> None:
        """Count the bytes since the last event ended.

        Raises:
            TooLarge: There are too many.
        """
        ends = [match.end() for match in _EVENT_END.finditer(self._tail + chunk)]
        if ends:
            self._event_size = len(self._tail) + len(chunk) - ends[-1]
        else:
            self._event_size += len(chunk)
        self._tail = (self._tail + chunk)[-3:]
        if self._event_size > self._limit:
            raise TooLarge("an event", self._limit, self._event_size)


class RetryClamp:
    """Rewrites `retry:` lines whose pause is out of bounds, wherever the chunks begin and end."""

    def __init__(self) -> None:
        self._held = b""
        self._in_line = False

    def feed(self, chunk: bytes) -> bytes:
        """Return what can be passed on; the beginning of a `retry:` line waits for its end."""
        data, self._held = self._held + chunk, b""
        last_line = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        if last_line or not self._in_line:
            last = data[last_line:]
            if last and (last.startswith(b"retry") or b"retry".startswith(last)):
                data, self._held = data[:last_line], last
        passed = self._clamped(data)
        if data:
            self._in_line = not data.endswith((b"\n", b"\r"))
        return passed

    def rest(self) -> bytes:
        """Return what still waited when the stream ended."""
        return self._clamped(self._held)

    def _clamped(self, data: bytes) -> bytes:
        if b"retry" not in data:
            return data
        return _RETRY.sub(lambda line: self._line(line, data), data)

    def _line(self, line: re.Match[bytes], data: bytes) -> bytes:
        if line.start() == 0 and self._in_line:
            return line[0]  # the middle of a line that began in an earlier chunk
        return b"retry: %d" % clamped(line[1])


def clamped(text: bytes) -> int:
    """Return the pause in milliseconds to make where a server wants `text`."""
    digits = text.strip().lstrip(b"0")
    if not digits.isdigit():
        return 1000 if digits else _SHORTEST_PAUSE
    if len(digits) > len(str(_LONGEST_PAUSE)):
        return _LONGEST_PAUSE
    return max(_SHORTEST_PAUSE, min(int(digits), _LONGEST_PAUSE))
