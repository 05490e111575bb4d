"""Pinned public keys: the hashes that a server's config lists, and the hash of a certificate's key."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

from pflow_mcp_plugin.client.request_failures import CertificatesUnreadable
from pflow_mcp_plugin.storage import read_regular
from pflow_mcp_plugin.types import Server

_PIN = re.compile(r"(?:sha256//?)?([A-Za-z0-9+/]{43}=)")
_LONG = 0x80
"""The first byte of a DER length of 128 or more has this bit; the others say how many bytes follow."""
_VERSION = 0xA0
"""The DER tag of a certificate's version, which may be left out."""
_BEFORE_KEY = 5
"""Serial number, signature, issuer, validity and subject stand before the key (RFC 5280, section 4.1)."""


def pins_of(server: Server) -> frozenset[str]:
    """Return the pinned keys of a server as base64, none if it has no `tls_pins`.

    Raises:
        CertificatesUnreadable: The file with them cannot be read, or holds something else.
    """
    if not isinstance(server.tls_pins, str):
        return frozenset(map(_bare, server.tls_pins))
    file = Path(server.tls_pins).expanduser()
    try:
        text = read_regular(file).decode()
        lines = [line.partition("#")[0].strip() for line in text.splitlines()]
    except (OSError, ValueError) as error:
        raise _unreadable(server, f"{file}: {error}") from error
    pins = frozenset(_bare(line) for line in lines if line)
    wrong = next((number for number, line in enumerate(lines, 1) if line and not _PIN.fullmatch(line)), 0)
    if wrong or not pins:
        reason = f"line {wrong} is not a SHA-256 hash in base64" if wrong else "it has no pin"
        raise _unreadable(server, f"{file}: {reason}")
    return pins


def pin_of(certificate: bytes) -> str:
    """Return the pin of a certificate's key: SHA-256 of its SubjectPublicKeyInfo, as base64.

    Args:
        certificate: The certificate, in DER.
    """
    return base64.b64encode(hashlib.sha256(_public_key(certificate)).digest()).decode()


def _bare(pin: str) -> str:
    match = _PIN.fullmatch(pin)
    return match[1] if match else pin  # which is the pin of no key


def _unreadable(server: Server, reason: str) -> CertificatesUnreadable:
    return CertificatesUnreadable("pins", reason, f"tls_pins of server {server.name}")


def _public_key(certificate: bytes) -> bytes:
    """Return the SubjectPublicKeyInfo of a certificate, the bytes as they stand in it."""
    _, _, start, end = next(_elements(certificate, 0, len(certificate)))
    _, _, start, end = next(_elements(certificate, start, end))  # what is signed
    fields = [
        certificate[begin:after]
        for tag, begin, _, after in _elements(certificate, start, end)
        if tag != _VERSION
    ]
    return fields[_BEFORE_KEY]


def _elements(data: bytes, start: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield the DER elements between two positions: tag, and where it, its content and the next begin."""
    while start < end:
        tag, length = data[start], data[start + 1]
        content = start + 2
        if length & _LONG:
            size = length & ~_LONG
            length = int.from_bytes(data[content : content + size])
            content += size
        yield tag, start, content, content + length
        start = content + length
