r"""Half characters in JSON: a server that cuts an emoji in two sends one as `\ud83d`.

JSON's grammar lets such an escape stand alone, and no text can hold it: parsers refuse the whole
message. It is replaced by U+FFFD, as bytes that are not UTF-8 are.
"""

from __future__ import annotations

import re

_HIGH = rb"\\u[dD][89abAB][0-9a-fA-F]{2}"
_LOW = rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_BEGUN = rb"\\(?:u[0-9a-fA-F]{0,3})?"
_BEGINS = (rb"\ud", rb"\uD")
"""Looked for first: a search for bytes is a hundred times as fast as one for a pattern."""
_SUSPECT = re.compile(_HIGH + b"(?!" + _LOW + b")|(?<!" + _HIGH + b")" + _LOW + rb"|\\" + _HIGH + _LOW)
"""A half that seems to be alone, or may be: a backslash before an escape can make it plain text."""
_ESCAPE = re.compile(_HIGH + _LOW + b"|(" + _HIGH + b"|" + _LOW + rb")|\\.", re.DOTALL)
_CUT = re.compile(b"(?:" + _HIGH + b"(?:" + _BEGUN + b")?|" + _BEGUN + rb")\Z")
_LONGEST_CUT = 11


def mended(data: bytes) -> bytes:
    """Return JSON with each escaped half character replaced."""
    if not any(begins in data for begins in _BEGINS) or _SUSPECT.search(data) is None:
        return data
    return _ESCAPE.sub(lambda escape: rb"\ufffd" if escape[1] else escape[0], data)


class SurrogateMender:
    """Does so in a stream, wherever the chunks begin and end."""

    def __init__(self) -> None:
        self._held = b""

    def feed(self, chunk: bytes) -> bytes:
        """Return what can be passed on; an escape that the chunk cuts waits for the rest of it."""
        data = self._held + chunk
        end = _begun_escape(data)
        self._held = data[end:]
        return mended(data[:end])

    def rest(self) -> bytes:
        """Return what still waited when the stream ended."""
        return mended(self._held)


def _begun_escape(data: bytes) -> int:
    """Return where an escape begins that the end of `data` cuts, else its length."""
    cut = _CUT.search(data, max(0, len(data) - _LONGEST_CUT))
    while cut is not None and _is_escaped(data, cut.start()):
        cut = _CUT.search(data, cut.start() + 1)
    return len(data) if cut is None else cut.start()


def _is_escaped(data: bytes, index: int) -> bool:
    """Whether the backslash there is the second of two that stand for one."""
    before = data[:index]
    return (len(before) - len(before.rstrip(b"\\"))) % 2 == 1
