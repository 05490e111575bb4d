r"""Lone surrogates in JSON: a server that cuts an emoji in two sends an escape such as `\ud83d`.

JSON's grammar allows such an escape alone (RFC 8259, section 8.2), but UTF-8 cannot encode it, and
parsers reject the whole message. It is replaced by U+FFFD, as bytes that are not UTF-8 are.
"""

from __future__ import annotations

import re

_HIGH = rb"\\u[dD][89abAB][0-9a-fA-F]{2}"
_LOW = rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_BEGINS = (rb"\ud", rb"\uD")
"""How escaped surrogates begin; searched first, a hundred times as fast as a pattern."""
_SUSPECT = re.compile(_HIGH + b"(?!" + _LOW + b")|(?<!" + _HIGH + b")" + _LOW + rb"|\\" + _HIGH + _LOW)
"""A possibly lone surrogate; also a pair after a backslash, which may make the first escape plain text."""
_ESCAPE = re.compile(_HIGH + _LOW + b"|(" + _HIGH + b"|" + _LOW + rb")|\\.", re.DOTALL)


def replace_lone_surrogates(data: bytes) -> bytes:
    """Return JSON with the escape of each lone surrogate replaced; the same object if it has none."""
    if not any(begins in data for begins in _BEGINS) or _SUSPECT.search(data) is None:
        return data
    return _ESCAPE.sub(lambda escape: rb"\ufffd" if escape[1] else escape[0], data)
