"""What the authorization server of the tests does, and remembers: clients, codes, tokens and devices."""

import secrets
import time
from typing import Any, Literal
from urllib.parse import urlsplit

import attrs
from authlib.oauth2.rfc6749 import AuthorizationCodeMixin, ClientMixin, TokenMixin
from authlib.oauth2.rfc8628 import DeviceCredentialMixin


@attrs.define(kw_only=True)
class Switches:
    """What is switched with `AuthorizationServer.switch`, and what it is at the start.

    Attributes:
        consent: What the person at the login page says: `auto` approves without a page, `deny` denies
            without one, `page` shows a page and waits for a click (`browser.py` has one who clicks).
        refresh_tokens: Whether there are any.
        scopes: The scopes that exist.
        granted: The most that is granted, whatever is requested; None for all.
        loopback_ports: Whether the port of a redirect to loopback may differ from the registered one.
        client_documents: Whether a client id may be the URL of a client metadata document.
        registration: Whether clients may register.
        registered_method: How a client that registers has to show who it is, whatever it asked for.
        secret_seconds: How long the secret of one that registers is good for, as it is told; 0 for ever.
        device: Whether there is a device flow.
        pending_polls: How often a device is told to wait before `consent` is asked.
        slow_downs: How many of the next answers to a device that waits say `slow_down`.
        interval: How many seconds a device is to wait between two polls.
        metadata: What the metadata says instead; a field that is None is left out. So the issuer can be
            wrong, S256 missing, and any endpoint a URL of any kind.
    """

    consent: Literal["auto", "deny", "page"] = "auto"
    refresh_tokens: bool = True
    scopes: list[str] = attrs.field(
        factory=lambda: ["notes:read", "notes:write", "notes:delete", "offline_access"]
    )
    granted: list[str] | None = None
    loopback_ports: bool = True
    client_documents: bool = True
    registration: bool = True
    registered_method: str | None = None
    secret_seconds: int = 0
    device: bool = True
    pending_polls: int = 1
    slow_downs: int = 0
    interval: int = 1
    metadata: dict[str, Any] = attrs.field(factory=dict)


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
