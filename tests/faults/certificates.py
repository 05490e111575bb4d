"""Certificates made for a test: a CA of its own, and what it signs."""

import ssl
from datetime import UTC, datetime, timedelta
from hashlib import sha1
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_CA_NAME = "test ca"


class Authority:
    """A CA.

    Args:
        folder: Where its files go.

    Attributes:
        file: Its certificate.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(_CA_NAME)
        certificate = (
            _builder(self._name, self._name, self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_usage(signs=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        self.file = folder / "ca.pem"
        self.file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def hashed_folder(self) -> Path:
        """Return a folder that holds the certificate under the name that OpenSSL looks for."""
        folder = self._folder / "hashed"
        folder.mkdir()
        text = _CA_NAME.encode()
        value = b"\x06\x03\x55\x04\x03\x0c" + bytes([len(text)]) + text  # commonName, UTF-8
        entry = b"\x30" + bytes([len(value)]) + value
        digest = sha1(b"\x31" + bytes([len(entry)]) + entry, usedforsecurity=False).digest()
        (folder / f"{int.from_bytes(digest[:4], 'little'):08x}.0").write_bytes(self.file.read_bytes())
        return folder

    def server_context(self, *names: str, days: int = 1, self_signed: bool = False) -> ssl.SSLContext:
        """Return the TLS side of a server whose certificate is for `names` and ends in `days`, after 31."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.server_file(*names, days=days, self_signed=self_signed))
        return context

    def server_file(
        self, *names: str, days: int = 1, self_signed: bool = False, file_name: str = "server.pem"
    ) -> Path:
        """Return a file with the key and the certificate of such a server, for a program of its own."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _name("test server")
        issuer, issuer_key = (subject, key) if self_signed else (self._name, self._key)
        certificate = (
            _builder(subject, issuer, key, days)
            .add_extension(
                x509.SubjectAlternativeName([_alternative(name) for name in names]), critical=False
            )
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False
            )
            .sign(issuer_key, hashes.SHA256())
        )
        file = self._folder / file_name
        file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
            + certificate.public_bytes(serialization.Encoding.PEM)
        )
        return file


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int = 1
) -> x509.CertificateBuilder:
    end = datetime.now(UTC) + timedelta(days=days)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(end - timedelta(days=31))
        .not_valid_after(end)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)
