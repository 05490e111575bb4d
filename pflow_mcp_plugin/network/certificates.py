"""TLS certificates for connections: those that are trusted, the client's own, and pinned public keys."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import ssl
from collections.abc import Iterator
from pathlib import Path
from shlex import quote
from urllib.parse import urlsplit

import attrs

from pflow_mcp_plugin.network.egress import Endpoint, is_loopback
from pflow_mcp_plugin.storage import read_regular, require_regular

_CA_FILES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_PIN = re.compile(r"\A(?:sha256//?)?([A-Za-z0-9+/]{43}=)\Z")
_LONG = 0x80
"""The first byte of a DER length of 128 or more has this bit; the others say how many bytes follow."""


@attrs.define(slots=False)
class CertificatesUnreadable(Exception):
    """Trusted certificates, the client's own with its key, or pins of public keys cannot be read."""

    what: str  # such as `certificates to trust`
    reason: str  # the file or folder, and why it cannot be read
    setting: str  # the field or variables that name it

    def __str__(self) -> str:
        return f"{self.what} cannot be read: {self.reason}"


@attrs.define(slots=False)
class KeyNotPinned(Exception):
    """The public key of a host, whose hash is `pin`, is not one of the `tls_pins`; nothing was sent."""

    host: str
    pin: str

    def __str__(self) -> str:
        return f"the key of {self.host} has the pin {self.pin}, not one of its tls_pins"


def tls_context(endpoint: Endpoint) -> ssl.SSLContext:
    """Return a TLS context that trusts an endpoint's `ca_bundle`, else the environment's or system's CAs.

    `SSL_CERT_FILE` and `SSL_CERT_DIR` are variables of OpenSSL, `REQUESTS_CA_BUNDLE` and
    `CURL_CA_BUNDLE` of other common tools.
    """
    file: str | None
    folder: str | None = None
    setting = "SSL_CERT_FILE, SSL_CERT_DIR or REQUESTS_CA_BUNDLE"
    if endpoint.ca_bundle:
        file = str(Path(endpoint.ca_bundle).expanduser())
        setting = f"ca_bundle of {endpoint.owner}"
    else:
        file = next((os.environ[name] for name in _CA_FILES if os.environ.get(name)), None)
        folder = os.environ.get("SSL_CERT_DIR") or None
    if file is not None and Path(file).is_dir():  # REQUESTS_CA_BUNDLE and ca_bundle may name a folder
        file, folder = None, file
    if file is None and folder is None:
        import httpx2  # failures are explained without it

        return httpx2.create_ssl_context(trust_env=False)
    try:
        if file is not None:
            require_regular(file)
        return ssl.create_default_context(cafile=file, capath=folder)
    except (OSError, ValueError) as error:
        reason = f"{file or folder}: {error}"
        raise CertificatesUnreadable("certificates to trust", reason, setting) from error


def client_context(endpoint: Endpoint, url: str) -> ssl.SSLContext:
    """Return the TLS context with an endpoint's certificates for a URL; any for plain http on loopback."""
    parts = urlsplit(url)
    if parts.scheme == "http" and is_loopback(parts.hostname or ""):
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # loading certificates takes time and is not needed
    context = tls_context(endpoint)
    files = [str(Path(file).expanduser()) for file in endpoint.client_cert]
    if not files:
        return context
    try:
        for file in files:
            require_regular(file)
        # Without a password, OpenSSL would ask for one on the terminal.
        context.load_cert_chain(files[0], files[-1], lambda: b"")
    except (OSError, ValueError) as error:
        reason = f"{' and '.join(files)}: {error}"
        setting = f"client_cert of {endpoint.owner}; its key must not be encrypted"
        raise CertificatesUnreadable("the client certificate", reason, setting) from error
    return context


def trusting_steps(server: str, url: str) -> tuple[str, str]:
    """Return how a refused certificate becomes a trusted one: save it, then set `ca_bundle` to its file."""
    parts, file = urlsplit(url), f"~/{server}.pem"
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    place = quote(f"{host}:{parts.port or 443}")
    save = f"openssl s_client -connect {place} </dev/null | openssl x509 -out {file}"
    return (
        f"If you trust its certificate, save it: {save}",
        f'Then set in [mcpServers.{server}]: ca_bundle = "{file}"',
    )


def pins_of(endpoint: Endpoint) -> frozenset[str]:
    """Return the hashes of the public keys to which an endpoint's certificate is pinned; empty for none."""
    # What is not a hash in base64 is kept as it is, and matches no key.
    if not isinstance(endpoint.tls_pins, str):
        return frozenset(_PIN.sub(r"\1", pin) for pin in endpoint.tls_pins)
    file, setting = Path(endpoint.tls_pins).expanduser(), f"tls_pins of {endpoint.owner}"
    try:
        text = read_regular(file).decode()
        lines = [line.partition("#")[0].strip() for line in text.splitlines()]
    except (OSError, ValueError) as error:
        raise CertificatesUnreadable("pins", f"{file}: {error}", setting) from error
    pins = frozenset(_PIN.sub(r"\1", line) for line in lines if line)
    wrong = next((number for number, line in enumerate(lines, 1) if line and not _PIN.fullmatch(line)), 0)
    if wrong or not pins:
        reason = f"line {wrong} is not a SHA-256 hash in base64" if wrong else "it has no pin"
        raise CertificatesUnreadable("pins", f"{file}: {reason}", setting)
    return pins


def pin_of(certificate: bytes) -> str:
    """Return the pin of a certificate's key: SHA-256 of its SubjectPublicKeyInfo, as base64."""
    _, _, start, end = next(_elements(certificate, 0, len(certificate)))
    _, _, start, end = next(_elements(certificate, start, end))  # what is signed
    # The version, of this tag, may be left out. Serial number, signature, issuer, validity and subject come
    # before the key (RFC 5280, section 4.1).
    found = _elements(certificate, start, end)
    fields = [certificate[begin:after] for tag, begin, _, after in found if tag != 0xA0]
    return base64.b64encode(hashlib.sha256(fields[5]).digest()).decode()


def _elements(data: bytes, start: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield the DER elements of a certificate between two places: tag, begin, begin of its content, end."""
    while start < end:
        tag, length = data[start], data[start + 1]
        content = start + 2
        if length & _LONG:
            size = length & ~_LONG
            length = int.from_bytes(data[content : content + size])
            content += size
        yield tag, start, content, content + length
        start = content + length
