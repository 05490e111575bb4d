"""Access tokens of an authorization server: JWTs, checked by its keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import jwt
from mcp.server.auth.provider import AccessToken

from pflow_mcp_plugin.server.http.authorization_server import AuthorizationServer, KeysUnavailable
from pflow_mcp_plugin.server.http.token_verdict import Refusal

_KEY_TYPES = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), "RSA"),
    **dict.fromkeys(("ES256", "ES384", "ES512"), "EC"),
    "EdDSA": "OKP",
}
"""The accepted algorithms with their key types: asymmetric ones only, because the keys are public."""
_TYPES = frozenset({"jwt", "at+jwt", "application/at+jwt"})
_LONGEST = 16 << 10
_SHORTEST_RSA = 2048
_MOST_TRIED = 8
_LEEWAY = 30
"""Seconds by which the clocks of the two servers may differ."""
_REQUIRED: Any = {"require": ["iss", "sub", "aud", "exp"]}


class _Unusable(Exception):
    """A token that is refused; the message says why."""


@attrs.frozen(kw_only=True)
class AccessTokens:
    """Accepts access tokens that an authorization server issued for this server (RFC 9068).

    Attributes:
        server: The authorization server.
        audience: What `aud` must name.
        scopes: What `scope` must contain.
    """

    server: AuthorizationServer
    audience: str
    scopes: Sequence[str] = ()

    async def check(self, token: str) -> AccessToken | Refusal:
        """Return what a token allows, or why it is refused."""
        try:
            claims = await self._claims(token)
        except _Unusable as error:
            return Refusal(reason=str(error))
        except KeysUnavailable:
            reason = "The keys of the authorization server cannot be fetched at the moment"
            return Refusal(error="temporarily_unavailable", reason=reason)
        granted = _scopes(claims)
        missing = [scope for scope in self.scopes if scope not in granted]
        if missing:
            reason = f"The token lacks the scope {', '.join(missing)}"
            return Refusal(error="insufficient_scope", reason=reason, scope=" ".join(self.scopes))
        return AccessToken(
            token=token,
            client_id=str(claims.get("client_id") or claims.get("azp") or claims["sub"]),
            scopes=granted,
            expires_at=int(claims["exp"]) + _LEEWAY,
            resource=self.audience,
            subject=claims["sub"],
            claims={"iss": claims["iss"]},
        )

    async def _claims(self, token: str) -> Mapping[str, Any]:
        """Return the claims of a valid token."""
        header = _header(token)
        algorithm = header["alg"]
        known = await self.server.keys(header.get("kid"))
        keys = [key for key in known if _fits(key, algorithm)]
        if not keys:
            raise _Unusable("The token is signed by an unknown key")
        for key in keys[:_MOST_TRIED]:
            try:
                return self._decoded(token, key, algorithm)
            except jwt.InvalidSignatureError:
                continue
        raise _Unusable("The signature of the token is wrong")

    def _decoded(self, token: str, key: Mapping[str, Any], algorithm: str) -> Mapping[str, Any]:
        try:
            public = jwt.PyJWK(dict(key), algorithm=algorithm)
            if getattr(public.key, "key_size", _SHORTEST_RSA) < _SHORTEST_RSA and key["kty"] == "RSA":
                raise _Unusable("The token is signed by a key that is too short")
            claims = jwt.decode(
                token,
                public,
                algorithms=[algorithm],
                issuer=self.server.issuer,
                audience=self.audience,
                leeway=_LEEWAY,
                options=_REQUIRED,
            )
        except jwt.InvalidSignatureError:
            raise
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError) as error:
            raise _Unusable(_reason(error)) from error
        if not isinstance(claims["sub"], str) or not claims["sub"]:
            raise _Unusable("The token names no subject")
        return claims


def _header(token: str) -> dict[str, Any]:
    """Return the header of a token, unless it alone is reason enough to refuse the token."""
    if len(token) > _LONGEST:
        raise _Unusable("The token is too long")
    try:
        header = jwt.get_unverified_header(token)
    except (jwt.PyJWTError, RecursionError) as error:
        raise _Unusable("The token is not a JWT") from error
    if header.get("alg") not in _KEY_TYPES:
        raise _Unusable("The algorithm of the token's signature is not accepted")
    if header.keys() & {"crit", "b64"}:
        raise _Unusable("The token needs an extension that is not supported")
    if str(header.get("typ", "JWT")).lower() not in _TYPES:
        raise _Unusable("The token is not an access token")
    return header


def _fits(key: Mapping[str, Any], algorithm: str) -> bool:
    return key.get("kty") == _KEY_TYPES[algorithm] and key.get("alg", algorithm) == algorithm


def _reason(error: Exception) -> str:
    """Return why a token is invalid, quoting nothing from it."""
    reasons: Mapping[type[Exception], str] = {
        jwt.ExpiredSignatureError: "The token has expired",
        jwt.ImmatureSignatureError: "The token is not valid yet",
        jwt.InvalidIssuerError: "The token is from another issuer",
        jwt.InvalidAudienceError: "The token is for another audience",
        jwt.MissingRequiredClaimError: "The token lacks one of the claims iss, sub, aud and exp",
    }
    return reasons.get(type(error), "The token is invalid")


def _scopes(claims: Mapping[str, Any]) -> list[str]:
    """Return the scopes of a token: `scope` (RFC 9068), or `scp`, as some servers call it."""
    granted = claims.get("scope", claims.get("scp", ""))
    if isinstance(granted, str):
        return granted.split()
    return [scope for scope in granted if isinstance(scope, str)] if isinstance(granted, list) else []
