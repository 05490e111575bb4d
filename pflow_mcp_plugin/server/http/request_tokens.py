"""Checks the bearer token of an HTTP request to pflow: what it allows, why it is refused, who sends it.

It is the server's own token, or a JWT of an authorization server, which is checked by its keys.
"""

from __future__ import annotations

import hmac
import re
import stat
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from http import HTTPStatus
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import anyio
import attrs
import jwt
from mcp.client.auth.utils import build_oauth_authorization_server_metadata_discovery_urls
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from mcp.server.context import ServerRequestContext

from pflow_mcp_plugin.client.oauth.authorization_requests import AuthorizationRequests
from pflow_mcp_plugin.client.request_failures import NoAccessToken
from pflow_mcp_plugin.contract import Keeper, PflowError, RunOrigin
from pflow_mcp_plugin.network.certificates import CertificatesUnreadable
from pflow_mcp_plugin.network.egress import HostRefused, plain_http_host
from pflow_mcp_plugin.server.pflow_server import the_user
from pflow_mcp_plugin.storage.files import read_regular
from pflow_mcp_plugin.types import NetworkRules, Server

TokenError = Literal["", "invalid_token", "insufficient_scope", "temporarily_unavailable"]

_STATUS = {"insufficient_scope": 403, "temporarily_unavailable": 503}


@attrs.frozen(kw_only=True)
class Refusal:
    """Why the bearer token of a request is refused (RFC 6750, section 3)."""

    error: TokenError = "invalid_token"  # empty where the request had no token
    reason: str  # for the client's user; it quotes nothing from the token
    scope: str = ""  # the scopes that the server requires, if some are missing

    @property
    def status(self) -> int:
        return _STATUS.get(self.error, 401)


MOST_TOKENS = 64
"""The most tokens for which something is kept; that of the least recently used one is closed."""
_SHORTEST = 16
_LONGEST = 4096
_SENDABLE = re.compile(r"[A-Za-z0-9\-._~+/]+=*")
"""The characters of a bearer token (RFC 6750, section 2.1)."""


@attrs.frozen
class BearerToken:
    """The server's own bearer token: whoever sends it is the user."""

    value: str = attrs.field(repr=False)

    async def check(self, token: str) -> AccessToken | Refusal:
        if not hmac.compare_digest(token.encode(), self.value.encode()):
            return Refusal(reason="The token is not that of this server")
        return AccessToken(token=token, client_id="pflow", scopes=[])


def read_token(path: Path) -> tuple[str, str]:
    """Return the token that HTTP requests must bear, from its file, and a warning if others may read that."""
    try:
        content = read_regular(path, _LONGEST).decode()
        mode = stat.S_IMODE(path.stat().st_mode)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise PflowError(f"The token file {path} cannot be read: {reason}", kind="usage") from error
    loose = f"Others may read the token file {path} (mode {mode:04o}): run chmod 600 on it"
    return valid_token(content.strip(), f"The token file {path}"), loose if mode & 0o077 else ""


def valid_token(token: str, source: str) -> str:
    """Return a bearer token for the HTTP server unless it is too short or cannot be sent in a header."""
    step = 'Make one: python -c "import secrets; print(secrets.token_urlsafe(32))"'
    if not token:
        held = "no token"
    elif len(token) < _SHORTEST:
        held = f"a token of fewer than {_SHORTEST} characters, which can be guessed"
    elif not _SENDABLE.fullmatch(token):
        held = "a token with characters that cannot be sent in a header"
    else:
        return token
    raise PflowError(f"{source} holds {held}", kind="usage", suggestions=(step,))


def http_caller(context: ServerRequestContext[Any, Any]) -> RunOrigin:
    """Return who sent an HTTP request, by its token: `ISSUER SUBJECT` owns its runs, or the user.

    Whoever has the server's own bearer token is the user. The issuer is named because a subject is unique
    within its issuer only (RFC 7519, section 4.1.2).
    """
    token = get_access_token()
    if token is None:  # without a token, nobody is taken for the user
        raise PflowError("The request has no token", kind="usage")
    issuer = (token.claims or {}).get("iss", "")
    return attrs.evolve(the_user(context), owner="" if token.subject is None else f"{issuer} {token.subject}")


class KeptByToken:
    """What is kept for the requests that have a token, by its hash; closed when the token is long unused.

    Two tokens share nothing, even if they have the same subject: one may be that of another program.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._keepers: OrderedDict[bytes, Keeper] = OrderedDict()

    def keeper(self) -> Keeper:
        token = get_access_token()
        key = sha256(token.token.encode() if token else b"").digest()
        with self._lock:
            keeper = self._keepers.setdefault(key, Keeper())
            self._keepers.move_to_end(key)
            least = self._keepers.popitem(last=False)[1] if len(self._keepers) > MOST_TOKENS else None
        if least is not None:
            least.close()
        return keeper

    def close(self) -> None:
        with self._lock:
            keepers, self._keepers = list(self._keepers.values()), OrderedDict()
        for keeper in keepers:
            keeper.close()


_MOST_KEYS = 100


class KeysUnavailable(Exception):
    """No JWT can be checked, as the keys cannot be fetched; the message says why, without secrets."""


@attrs.define(kw_only=True)
class AuthorizationServer:
    """The authorization server whose tokens requests to pflow may carry, and the keys that it signs with.

    `issuer` is its identifier, exactly as in its metadata and tokens. `network` says where its metadata and
    keys may come from; its own host is registered. `warn` is told why they cannot be fetched.
    """

    issuer: str
    network: NetworkRules = NetworkRules()  # noqa: RUF009 - frozen
    warn: Callable[[str], None] = lambda _: None
    wait: float = 5  # the seconds that one fetch may take in all
    pause: float = 60  # the least time between two fetches
    fresh: float = 600  # the age at which keys are fetched again
    stale: float = 3600  # the age at which keys are no longer used if fetching them keeps failing
    _keys: tuple[dict[str, Any], ...] = ()
    _fetched: float = float("-inf")
    _tried: float = float("-inf")
    _failure: str = ""
    _lock: anyio.Lock = attrs.field(factory=anyio.Lock)

    async def keys(self, key_id: str | None) -> tuple[dict[str, Any], ...]:
        """Return the signing keys with an id, or all; fetched if they are old or the id is unknown."""
        if self._age() > self.fresh or not self._found(key_id):
            async with self._lock:  # requests that wait share one fetch
                if self._age() > self.fresh or not self._found(key_id):
                    await self._refresh()
        if self._age() > self.stale:
            raise KeysUnavailable(self._failure)
        return self._found(key_id)

    def _age(self) -> float:
        return time.monotonic() - self._fetched

    def _found(self, key_id: str | None) -> tuple[dict[str, Any], ...]:
        return tuple(key for key in self._keys if key_id is None or key.get("kid") == key_id)

    async def _refresh(self) -> None:
        """Fetch the signing keys, unless that was tried a moment ago."""
        if time.monotonic() - self._tried < self.pause:
            return
        self._tried = time.monotonic()
        try:
            self._keys = await self._fetch()
        except KeysUnavailable as error:
            if str(error) != self._failure:
                self.warn(f"The keys of {self.issuer} cannot be fetched: {error}")
            self._failure = str(error)
        else:
            self._failure = ""
            self._fetched = time.monotonic()

    async def _fetch(self) -> tuple[dict[str, Any], ...]:
        rules = self.network._replace(hosts=(*self.network.hosts, urlsplit(self.issuer).hostname or ""))
        server = Server(name="of --issuer", transport="http", url=self.issuer, network=rules)
        try:
            with anyio.fail_after(self.wait):
                async with AuthorizationRequests(server) as requests:
                    for url in build_oauth_authorization_server_metadata_discovery_urls(
                        self.issuer, self.issuer
                    ):
                        metadata = await requests.get(url)
                        if metadata.status == HTTPStatus.OK and metadata.content is not None:
                            key_set = await requests.get(self._key_url(metadata.content))
                            keys = (key_set.content or {}).get("keys")
                            if not isinstance(keys, list) or len(keys) > _MOST_KEYS:
                                raise KeysUnavailable("the authorization server has no valid key set")
                            # Only these may have signed a token (RFC 7517, section 4.2).
                            return tuple(
                                it for it in keys if isinstance(it, dict) and it.get("use", "sig") == "sig"
                            )
        except TimeoutError as error:
            raise KeysUnavailable(f"{self.issuer} does not answer") from error
        except HostRefused as error:
            raise KeysUnavailable(f"{error}; {error.refusal.next_step}") from error
        except (NoAccessToken, CertificatesUnreadable) as error:
            raise KeysUnavailable(str(error)) from error
        raise KeysUnavailable(f"{self.issuer} has no metadata of an authorization server")

    def _key_url(self, metadata: Mapping[str, Any]) -> str:
        """Return the URL of the keys by which tokens are checked; refuse another issuer (RFC 8414, 3.3)."""
        if metadata.get("issuer") != self.issuer:
            raise KeysUnavailable(f"the metadata of {self.issuer} is that of another issuer")
        url = metadata.get("jwks_uri")
        if not isinstance(url, str) or not _is_safe(url):
            raise KeysUnavailable(f"the metadata of {self.issuer} names no key set at an https URL")
        return url


def valid_issuer(issuer: str) -> str:
    """Return the issuer of request tokens if it is an https URL, or on loopback http, without query."""
    plain = issuer.isascii() and issuer.isprintable() and not set(issuer) & set(' ?#"\\<>@')
    if not plain or not _is_safe(issuer):
        message = f"--issuer must be an https URL without query and fragment, got {issuer!r}"
        raise PflowError(message, kind="usage")
    return issuer


def _is_safe(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and not plain_http_host(url)
    except ValueError:
        return False


_KEY_TYPES = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), "RSA"),
    **dict.fromkeys(("ES256", "ES384", "ES512"), "EC"),
    "EdDSA": "OKP",
}
"""The accepted algorithms with their key types: asymmetric ones only, because the keys are public."""
_TYPES = frozenset({"jwt", "at+jwt", "application/at+jwt"})
_LONGEST_JWT = 16 << 10
_SHORTEST_RSA = 2048
_MOST_TRIED = 8
_LEEWAY = 30
"""Seconds by which the clocks of the two servers may differ."""
_REQUIRED: Any = {"require": ["iss", "sub", "aud", "exp"]}


_REASONS: Mapping[type[Exception], str] = {
    jwt.ExpiredSignatureError: "The token has expired",
    jwt.ImmatureSignatureError: "The token is not valid yet",
    jwt.InvalidIssuerError: "The token is from another issuer",
    jwt.InvalidAudienceError: "The token is for another audience",
    jwt.MissingRequiredClaimError: "The token lacks one of the claims iss, sub, aud and exp",
}
"""Why a token is invalid, in words that quote nothing from it."""


class _Unusable(Exception):
    """The JWT of a request is refused; the message says why."""


@attrs.frozen(kw_only=True)
class AccessTokens:
    """Accepts access tokens that an authorization server issued for this pflow server (RFC 9068)."""

    server: AuthorizationServer
    audience: str
    scopes: Sequence[str] = ()

    async def check(self, token: str) -> AccessToken | Refusal:
        try:
            claims = await self._claims(token)
        except _Unusable as error:
            return Refusal(reason=str(error))
        except KeysUnavailable:
            reason = "The keys of the authorization server cannot be fetched at the moment"
            return Refusal(error="temporarily_unavailable", reason=reason)
        # `scope` (RFC 9068), or `scp`, as some servers call it
        granted = claims.get("scope", claims.get("scp", ""))
        if isinstance(granted, str):
            granted = granted.split()
        granted = [it for it in granted if isinstance(it, str)] if isinstance(granted, list) else []
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
        header = _header(token)
        algorithm = header["alg"]
        known = await self.server.keys(header.get("kid"))
        kind = _KEY_TYPES[algorithm]
        keys = [it for it in known if it.get("kty") == kind and it.get("alg", algorithm) == algorithm]
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
            raise _Unusable(_REASONS.get(type(error), "The token is invalid")) from error
        if not isinstance(claims["sub"], str) or not claims["sub"]:
            raise _Unusable("The token names no subject")
        return claims


TokenCheck = BearerToken | AccessTokens
"""What checks the tokens of requests."""


def _header(token: str) -> dict[str, Any]:
    """Return the header of a request's JWT, unless it alone is reason enough to refuse the token."""
    if len(token) > _LONGEST_JWT:
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
