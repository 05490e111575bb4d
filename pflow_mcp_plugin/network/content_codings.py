"""Decompresses the bodies of HTTP answers (RFC 9110, 8.4.1), and refuses those that end too early."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Iterator
from itertools import chain

import httpx2

ACCEPTED = "gzip, deflate"
"""The value of the header `Accept-Encoding`; `decompressed` reads no other coding."""
_CODINGS = frozenset({"gzip", "x-gzip", "deflate"})
_MOST_CODINGS = 5
_PIECE = 1 << 20
_MAGIC = b"\x1f\x8b"


async def decompressed(response: httpx2.Response) -> AsyncIterator[bytes]:
    """Yield the body of an answer in pieces of at most 1 MiB; other codings than `ACCEPTED` stay as they are.

    Raise `httpx2.DecodingError` if it is damaged or incomplete, after what could be read of it. An empty body
    is empty in every coding.
    """
    named = (name.lower() for name in response.headers.get_list("content-encoding", split_commas=True))
    codings = [name for name in named if name in _CODINGS]
    if len(codings) > _MOST_CODINGS:
        raise httpx2.DecodingError(f"it has more than {_MOST_CODINGS} codings")
    layers = [_Decompressor(is_gzip=name != "deflate") for name in reversed(codings)]
    async for data in response.aiter_raw():
        pieces: Iterator[bytes] = iter((data,))
        for layer in layers:
            pieces = chain.from_iterable(map(layer.pieces, pieces))
        for piece in pieces:
            yield piece
    if any(layer.is_incomplete for layer in layers):
        raise httpx2.DecodingError("it is incomplete")


class _Decompressor:
    """Decompresses one coding: all members of `gzip` (RFC 1952, 2.2), or `deflate`, with or without zlib."""

    def __init__(self, *, is_gzip: bool) -> None:
        self._is_gzip = is_gzip
        self._stream = zlib.decompressobj()
        self._is_open = self._has_member = self._is_done = False
        self._held = b""

    @property
    def is_incomplete(self) -> bool:
        return self._is_open or bool(self._held)

    def pieces(self, data: bytes) -> Iterator[bytes]:
        data, self._held = self._held + data, b""
        piece = b""
        while data or len(piece) == _PIECE:  # after a full piece there may be more, without further data
            if not self._is_open and not self._begin(data):
                return
            try:
                piece = self._stream.decompress(data, _PIECE)
            except zlib.error as error:
                raise httpx2.DecodingError(str(error)) from error
            if piece:
                yield piece
            data = self._stream.unconsumed_tail
            if self._stream.eof:
                data, piece, self._is_open = self._stream.unused_data, b"", False
                self._has_member, self._is_done = True, not self._is_gzip

    def _begin(self, data: bytes) -> bool:
        """Begin with the first member or the next one; return whether `data` begins one, as far as is known.

        What follows the last member is ignored, as by `gzip`.
        """
        self._is_done = self._is_done or (self._has_member and not _MAGIC.startswith(data[:2]))
        if self._is_done:
            return False
        if len(data) < len(_MAGIC):
            self._held = data
            return False
        # The first two bytes of zlib's format are a check of each other (RFC 1950, 2.2).
        is_zlib = data[0] & 15 == zlib.DEFLATED and int.from_bytes(data[:2], "big") % 31 == 0
        bits = zlib.MAX_WBITS | 16 if self._is_gzip else zlib.MAX_WBITS if is_zlib else -zlib.MAX_WBITS
        self._stream, self._is_open = zlib.decompressobj(bits), True
        return True
