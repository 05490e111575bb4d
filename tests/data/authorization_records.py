"""What the authorization server of the tests remembers: clients, codes, tokens and devices."""

from __future__ import annotations

import secrets
import time
from typing import Any
from urllib.parse import urlsplit

import attrs
from authlib.oauth2.rfc6749 import AuthorizationCodeMixin, ClientMixin, TokenMixin
from authlib.oauth2.rfc8628 import DeviceCredentialMixin
from authorization_switches import Switches


@attrs.define(kw_only=True, eq=False)
class Client(ClientMixin):
    """A client with its metadata as registered (RFC 7591), or as its document says."""

    switches: Switches
    client_id: str
    client_secret: str = ""
    metadata: dict[str, Any]
    registered: bool = False

    def get_client_id(self):
        return self.client_id

    def get_default_redirect_uri(self):
        return next(iter(self.metadata.get("redirect_uris", [])), None)

    def get_allowed_scope(self, scope):
        """Return what of a scope is granted; without one, the right to read."""
        wanted = scope.split() if scope else ["notes:read"]
        most = self.switches.scopes if self.switches.granted is None else self.switches.granted
        return " ".join(name for name in wanted if name in most)

    def check_redirect_uri(self, redirect_uri):
        known = self.metadata.get("redirect_uris", [])
        if redirect_uri in known:
            return True
        return self.switches.loopback_ports and _without_port(redirect_uri) in map(_without_port, known)

    def check_client_secret(self, client_secret):
        return secrets.compare_digest(self.client_secret, client_secret)

    def check_endpoint_auth_method(self, method, endpoint):
        return method == self.metadata.get("token_endpoint_auth_method", "client_secret_basic")

    def check_response_type(self, response_type):
        return response_type in self.metadata.get("response_types", ["code"])

    def check_grant_type(self, grant_type):
        return grant_type in self.metadata.get("grant_types", ["authorization_code"])


def _without_port(url: str) -> str:
    """Return a URL of loopback without its port, which a native app may choose (RFC 8252, section 7.3)."""
    parts = urlsplit(url)
    if parts.scheme != "http" or parts.hostname not in {"127.0.0.1", "::1", "localhost"}:
        return url
    return parts._replace(netloc=parts.hostname).geturl()


@attrs.define(kw_only=True)
class Code(AuthorizationCodeMixin):
    """An authorization code."""

    code: str
    client_id: str
    redirect_uri: str | None
    scope: str
    resource: str | None
    code_challenge: str
    code_challenge_method: str
    family: str
    expires_at: float
    used: bool = False

    def get_redirect_uri(self):
        return self.redirect_uri

    def get_scope(self):
        return self.scope


@attrs.define(kw_only=True)
class Token(TokenMixin):
    """An access token, with its refresh token if there is one.

    Attributes:
        family: What all tokens have in common that stem from one authorization.
        spent: Whether the refresh token was redeemed; once is all.
    """

    access: str
    refresh: str | None
    client_id: str
    scope: str
    resource: str | None
    user: str | None
    family: str
    issued_at: int
    expires_at: float
    revoked: bool = False
    spent: bool = False

    def check_client(self, client):
        return self.client_id == client.client_id

    def get_scope(self):
        return self.scope

    def get_expires_in(self):
        return int(self.expires_at - self.issued_at)

    def is_expired(self):
        return self.expires_at <= time.time()

    def is_revoked(self):
        return self.revoked


@attrs.define(kw_only=True)
class Device(DeviceCredentialMixin):
    """A device that waits for a person (RFC 8628).

    Attributes:
        polls: How often it has asked.
        approved: What the person said; None so far.
    """

    device_code: str
    user_code: str
    client_id: str
    scope: str | None
    resource: str | None
    expires_at: float
    family: str
    polls: int = 0
    approved: bool | None = None

    def get_client_id(self):
        return self.client_id

    def get_scope(self):
        return self.scope

    def get_user_code(self):
        return self.user_code

    def is_expired(self):
        return self.expires_at <= time.time()
