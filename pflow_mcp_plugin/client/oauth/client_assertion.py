"""Assertions by which a client proves who it is, signed with its private key (RFC 7523)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

import attrs

from pflow_mcp_plugin.client.oauth.sign_in_state import AuthorizationServer
from pflow_mcp_plugin.client.request_failures import NoAccessToken
from pflow_mcp_plugin.client.transport.messages import read_json
from pflow_mcp_plugin.contract.json_types import JSONObject
from pflow_mcp_plugin.storage import read_regular

TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
"""What an assertion is, in the request that it belongs to (RFC 7523, section 2.2)."""

_SECONDS = 120
_ALGORITHMS = ("RS256", "ES256", "ES384", "ES512", "EdDSA")
_CURVES = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512", "secp256k1": "ES256K"}


@attrs.frozen(kw_only=True)
class PrivateKey:
    """The private key with which a client signs its assertions.

    Attributes:
        file: The file that it is in: PEM, or a JWK.
        key_id: The id under which the authorization server knows the key; empty for that of the JWK, if any.
    """

    file: str
    key_id: str = ""

    @classmethod
    def of(cls, auth: JSONObject) -> Self | None:
        """Return the private key that a server's `auth` table names, None if it names none."""
        file = auth.get("private_key")
        return cls(file=str(file), key_id=str(auth.get("private_key_id", ""))) if file else None

    def assertion(self, client_id: str, found: AuthorizationServer) -> str:
        """Return an assertion of a client, for one authorization server.

        Raises:
            NoAccessToken: The key cannot be read or used.
        """
        import jwt

        loaded, own_id = _loaded(self._content())
        key, algorithm = self._signing(loaded, found.token_endpoint_auth_signing_alg_values_supported)
        now = int(time.time())
        claims = {
            "iss": client_id,
            "sub": client_id,
            "aud": found.issuer,  # only this authorization server can use it
            "iat": now,
            "exp": now + _SECONDS,
            "jti": uuid4().hex,
        }
        key_id = self.key_id or own_id
        return jwt.encode(claims, key, algorithm=algorithm, headers={"kid": key_id} if key_id else None)

    def _content(self) -> bytes:
        try:
            return read_regular(Path(self.file).expanduser())
        except OSError as error:
            reason = f"the private key {self.file} cannot be read: {error.strerror or error}"
            raise NoAccessToken(reason, "credentials") from error

    def _signing(self, loaded: Any, known: Sequence[str]) -> tuple[Any, str]:
        """Return the key, and the algorithm with which it signs.

        Args:
            loaded: The key as PyJWT takes it.
            known: The algorithms that the authorization server names.
        """
        import jwt

        for algorithm in _ALGORITHMS:
            try:
                key: Any = jwt.get_algorithm_by_name(algorithm).prepare_key(loaded)
            except (jwt.PyJWTError, TypeError, ValueError):  # a key of another kind, or none
                continue
            if not (hasattr(key, "sign") and _kind(key) == algorithm[:2]):  # older PyJWT takes any kind
                continue
            if not hasattr(key, "curve") or _CURVES.get(key.curve.name) == algorithm:
                pss = algorithm == "RS256" and "PS256" in known and "RS256" not in known
                return key, "PS256" if pss else algorithm
        why = "it is not an unencrypted RSA, elliptic curve or Ed25519 key in PEM, or a JWK of one"
        raise NoAccessToken(f"the private key {self.file} cannot be used: {why}", "credentials")


def _loaded(content: bytes) -> tuple[Any, str]:
    """Return a key as PyJWT takes it, and its id if it is a JWK that has one."""
    import jwt

    try:
        value = read_json(content)
        key = jwt.PyJWK(value) if isinstance(value, dict) else None
    except (ValueError, RecursionError, jwt.PyJWTError):  # PEM, or nothing that is a key
        return content, ""
    if key is None:
        return content, ""
    return key.key, key.key_id if isinstance(key.key_id, str) else ""


def _kind(key: object) -> str:
    """Return how the names of the algorithms begin with which a private key signs."""
    return "RS" if hasattr(key, "decrypt") else "ES" if hasattr(key, "curve") else "Ed"
