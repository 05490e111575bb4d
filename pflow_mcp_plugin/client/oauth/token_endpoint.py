"""Requests to the token endpoint of an authorization server, and how a client authenticates there.

It uses a secret, an assertion signed with its private key (RFC 7523), or nothing.
"""

from __future__ import annotations

import math
import re
import time
from base64 import b64encode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import attrs

from pflow_mcp_plugin.client.oauth.authorization_requests import Answer, AuthorizationRequests, place
from pflow_mcp_plugin.client.oauth.sign_in_state import (
    AuthorizationServer,
    Method,
    Registration,
    SignIn,
    Tokens,
)
from pflow_mcp_plugin.client.request_failures import NoAccessToken
from pflow_mcp_plugin.client.transport.messages import read_json
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.redaction import Redactor
from pflow_mcp_plugin.storage import read_regular

CLIENT_UNKNOWN = ("invalid_client", "unauthorized_client")
"""The `error` of a request by a client that the authorization server does not know, or no longer knows."""

DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
"""The grant of the device flow, at the token endpoint and in the metadata of clients."""

_TOKEN = re.compile(r"[\x21-\x7e]+")
_SECRET = frozenset(
    {"client_secret", "client_assertion", "refresh_token", "code", "code_verifier", "device_code", "token"}
)
_ALGORITHMS = ("RS256", "ES256", "ES384", "ES512", "EdDSA")
_CURVES = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512", "secp256k1": "ES256K"}


@attrs.define(slots=False)
class TokenRefused(Exception):
    """A request to the token endpoint, or to one that belongs to it, was refused for good."""

    code: str  # the `error` of RFC 6749, such as `invalid_grant`; empty if the answer names none
    text: str  # what it said, for people


async def requested_tokens(
    requests: AuthorizationRequests, sign_in: SignIn, form: Mapping[str, str]
) -> Tokens:
    """Request tokens at the token endpoint for the resource of a sign-in, as its client."""
    found = sign_in.authorization_server
    fields, headers = authentication(sign_in.registration, found, requests.server.auth)
    sent = time.time()
    body = {**form, **fields, "resource": sign_in.resource}
    answer = await requests.post(found.token_endpoint, headers, data=body)
    content = answer.content or {}
    # Some, such as GitHub's, refuse with the status 200.
    if answer.status != HTTPStatus.OK or ("error" in content and "access_token" not in content):
        raise refusal(answer, "token endpoint", {**form, **fields})
    access, kind = content.get("access_token"), content.get("token_type")
    if not isinstance(access, str) or not _TOKEN.fullmatch(access):
        raise NoAccessToken(f"the token endpoint {place(answer.url)} answered without a token", "later")
    if isinstance(kind, str) and kind.lower() != "bearer":
        raise NoAccessToken(f"the token endpoint {place(answer.url)} issued no bearer token", "operator")
    refresh, scope = content.get("refresh_token"), content.get("scope")
    words = scope if isinstance(scope, list) else [scope]  # some servers send a list
    scopes = [each for word in words if isinstance(word, str) for each in word.split()]
    seconds = seconds_of(content.get("expires_in"))
    # Some mean by 0 that it does not expire; more than ten years are taken for the same.
    if seconds is not None and not 0 < seconds <= 10 * 365 * 86_400:
        seconds = None
    # What the answer leaves out stays as it was, or was asked for (RFC 6749, sections 5.1 and 6).
    former = sign_in.tokens or Tokens(scopes=form.get("scope", "").split())
    return Tokens(
        access=access,
        refresh=refresh if isinstance(refresh, str) and _TOKEN.fullmatch(refresh) else former.refresh,
        expires_at=None if seconds is None else sent + seconds,
        issued_at=sent,
        scopes=scopes or former.scopes,
    )


def seconds_of(value: JSON) -> float | None:
    """Return the seconds in a token endpoint's answer, which may be a string; None if invalid."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        seconds = float(value)
    except (ValueError, OverflowError):
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def refusal(answer: Answer, what: str, form: Mapping[str, str]) -> TokenRefused:
    """Return the token endpoint's refusal in its own words; secrets that were sent are redacted."""
    redactor = Redactor(value for key, value in form.items() if key in _SECRET)
    content = redactor.value(answer.content or {})
    code, text = error_of(content, f"HTTP {answer.status}")
    text = f"the {what} {place(answer.url)} answered {text}"
    off = 0.0 if answer.date is None else time.time() - answer.date
    if "client_assertion" in form and abs(off) >= 60.0:  # its times may be why it was refused
        minutes = f"{abs(off) / 60:.0f} minutes {'ahead of' if off > 0 else 'behind'}"
        text += f"; this machine's clock is {minutes} that of the authorization server"
    return TokenRefused(code, text)


def error_of(content: JSONObject, otherwise: str = "") -> tuple[str, str]:
    """Return the error in a token endpoint's answer (RFC 6749, 5.2), without and with its description."""
    said = (content.get(key) for key in ("error", "error_description"))
    words = (" ".join(value.split()) if isinstance(value, str) else "" for value in said)
    # One printable line each, cut.
    code, description = (
        "".join(char if char.isprintable() else "?" for char in word)[:200] for word in words
    )
    text = code or otherwise
    return code, f"{text} ({description})" if description else text


def registered_client(auth: JSONObject, found: AuthorizationServer) -> Registration | None:
    """Return how a configured client authenticates at the token endpoint; None if `auth` names no client.

    Its authentication is the one that the authorization server knows; with a private key, an assertion.
    """
    client_id, secret = auth.get("client_id"), auth.get("client_secret")
    if not isinstance(client_id, str):
        return None
    known = found.token_endpoint_auth_methods_supported
    method: Method = "none"
    if auth.get("private_key"):
        method = "private_key_jwt"
    elif secret:
        only_post = "client_secret_post" in known and "client_secret_basic" not in known
        method = "client_secret_post" if only_post else "client_secret_basic"
    return Registration(
        client_id=client_id, client_secret=secret if isinstance(secret, str) else "", method=method
    )


def authentication(
    client: Registration, found: AuthorizationServer, auth: JSONObject
) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Return the form fields and the headers with which a client authenticates at the token endpoint."""
    if client.method == "client_secret_basic":
        return {}, {"authorization": f"Basic {basic_pair(client.client_id, client.client_secret)}"}
    fields = {"client_id": client.client_id}
    if client.method == "client_secret_post":
        return {**fields, "client_secret": client.client_secret}, {}
    if client.method == "private_key_jwt" and auth.get("private_key"):
        signed = _assertion(
            client.client_id, found, str(auth["private_key"]), str(auth.get("private_key_id", ""))
        )
        kind = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"  # RFC 7523, section 2.2
        return {**fields, "client_assertion_type": kind, "client_assertion": signed}, {}
    return fields, {}


def basic_pair(client_id: str, client_secret: str) -> str:
    """Return a client's id and secret as its header for a token endpoint contains them (RFC 6749, 2.3.1)."""
    pair = f"{quote(client_id, safe='')}:{quote(client_secret, safe='')}"
    return b64encode(pair.encode()).decode()


def _assertion(client_id: str, found: AuthorizationServer, file: str, key_id: str) -> str:
    """Return a client's assertion for a token endpoint, signed with the private key in a file.

    The file is PEM, or a JWK; without an id, the key has that of the JWK.
    """
    import jwt

    try:
        content = read_regular(Path(file).expanduser())
    except OSError as error:
        reason = f"the private key {file} cannot be read: {error.strerror or error}"
        raise NoAccessToken(reason, "credentials") from error
    key_data: Any = content  # PEM, or no key at all
    with suppress(ValueError, RecursionError, jwt.PyJWTError):
        value = read_json(content)
        if isinstance(value, dict):
            jwk = jwt.PyJWK(value)
            key_data = jwk.key
            key_id = key_id or (jwk.key_id if isinstance(jwk.key_id, str) else "")
    signing = _signing_key(key_data, found.token_endpoint_auth_signing_alg_values_supported)
    if signing is None:
        why = "it is not an unencrypted RSA, elliptic curve or Ed25519 key in PEM, or a JWK of one"
        raise NoAccessToken(f"the private key {file} cannot be used: {why}", "credentials")
    key, algorithm = signing
    now = int(time.time())
    claims = {
        "iss": client_id,
        "sub": client_id,
        "aud": found.issuer,  # only this authorization server can use it
        "iat": now,
        "exp": now + 120,
        "jti": uuid4().hex,
    }
    return jwt.encode(claims, key, algorithm=algorithm, headers={"kid": key_id} if key_id else None)


def _signing_key(loaded: Any, known: Sequence[str]) -> tuple[Any, str] | None:
    import jwt

    for algorithm in _ALGORITHMS:
        try:
            key: Any = jwt.get_algorithm_by_name(algorithm).prepare_key(loaded)
        except (jwt.PyJWTError, TypeError, ValueError):  # a key of another kind, or none
            continue
        kind = "RS" if hasattr(key, "decrypt") else "ES" if hasattr(key, "curve") else "Ed"
        if not (hasattr(key, "sign") and kind == algorithm[:2]):  # older PyJWT takes any kind
            continue
        if not hasattr(key, "curve") or _CURVES.get(key.curve.name) == algorithm:
            pss = algorithm == "RS256" and "PS256" in known and "RS256" not in known
            return key, "PS256" if pss else algorithm
    return None
