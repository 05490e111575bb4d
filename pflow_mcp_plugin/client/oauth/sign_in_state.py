"""What is kept of a sign-in: tokens, the client's registration, and the authorization server's metadata."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import attrs

from pflow_mcp_plugin.config.auth import missing_scopes, wanted_scopes
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject

SCHEMA_VERSION = 1
"""The version of a sign-in's JSON that this program writes."""

Method = Literal["none", "client_secret_basic", "client_secret_post", "private_key_jwt"]
"""How the client of a sign-in authenticates at the token endpoint."""


_YEAR_10000 = 253_402_300_800  # in seconds since the epoch


def _words(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(values)


@attrs.frozen(kw_only=True)
class Tokens:
    """The tokens in the state of a sign-in, with their scopes; times are in seconds since the epoch."""

    # Empty where secrets are left out, or the keyring cannot be read.
    access: str = attrs.field(default="", repr=False)
    refresh: str = attrs.field(default="", repr=False)
    expires_at: float | None = None
    issued_at: float = 0.0
    # What was granted, empty if the authorization server did not say; and what a machine asked for.
    scopes: tuple[str, ...] = attrs.field(default=(), converter=_words)
    requested_scopes: tuple[str, ...] = attrs.field(default=(), converter=_words)

    def is_valid(self, now: float) -> bool:
        return self.expires_at is None or now < self.expires_at

    def is_fresh(self, now: float) -> bool:
        if self.expires_at is None:
            return True
        # A minute before it expires, or a quarter of its lifetime, if that is less.
        early = min(60.0, max(0.0, self.expires_at - self.issued_at) / 4)
        return now < self.expires_at - early


@attrs.frozen(kw_only=True)
class Registration:
    """A client's registration with an authorization server; its secret may expire."""

    client_id: str
    client_secret: str = attrs.field(default="", repr=False)
    method: Method = "none"
    redirect_uris: tuple[str, ...] = attrs.field(default=(), converter=_words)
    expires_at: float | None = None


@attrs.frozen(kw_only=True)
class AuthorizationServer:
    """The state of a sign-in about its authorization server: endpoints as checked; what it lacks is empty."""

    issuer: str
    token_endpoint: str
    authorization_endpoint: str = ""
    registration_endpoint: str = ""
    device_authorization_endpoint: str = ""
    revocation_endpoint: str = ""
    scopes_supported: tuple[str, ...] = attrs.field(default=(), converter=_words)
    token_endpoint_auth_methods_supported: tuple[str, ...] = attrs.field(default=(), converter=_words)
    token_endpoint_auth_signing_alg_values_supported: tuple[str, ...] = attrs.field(
        default=(), converter=_words
    )
    code_challenge_methods_supported: tuple[str, ...] = attrs.field(default=(), converter=_words)
    client_id_metadata_document_supported: bool = False
    authorization_response_iss_parameter_supported: bool = False


@attrs.frozen(kw_only=True)
class SignIn:
    """What is kept of a sign-in at one server: one authorization server's tokens, and what is known of it."""

    server: str  # its configured name at that time, for messages
    server_url: str  # without its query
    resource: str  # what the tokens are for (RFC 8707)
    authorization_server: AuthorizationServer
    registration: Registration
    # Those that the server declared to need when it asked a person to sign in.
    required_scopes: tuple[str, ...] = attrs.field(default=(), converter=_words)
    tokens: Tokens | None = None  # None once the sign-in has ended
    signed_in_at: float = 0.0

    @property
    def issuer(self) -> str:
        return self.authorization_server.issuer

    def missing_scopes(self, auth: JSONObject) -> list[str]:
        """Return the scopes in an `auth` table that this sign-in was not granted, or that do not even exist.

        If it is not known what was granted, the scopes count that the authorization server names. Without
        scopes in the table, those count that the server declared to need.
        """
        granted = self.tokens.scopes if self.tokens else ()
        wanted = wanted_scopes(auth)
        if not wanted:
            return missing_scopes(self.required_scopes, granted)
        return missing_scopes(wanted, granted or self.authorization_server.scopes_supported)

    @property
    def secrets(self) -> tuple[str, ...]:
        found = (
            self.registration.client_secret,
            *((self.tokens.access, self.tokens.refresh) if self.tokens else ()),
        )
        return tuple(filter(None, found))

    def without_configured_secret(self, auth: JSONObject) -> SignIn:
        """Return what is kept of this sign-in: no secret of a client that the config names."""
        if "client_id" not in auth:
            return self
        return attrs.evolve(self, registration=attrs.evolve(self.registration, client_secret=""))


def as_json(sign_in: SignIn) -> dict[str, JSON]:
    """Return the state of a sign-in as JSON: tokens, registration and metadata, with their secrets."""
    found: dict[str, JSON] = attrs.asdict(sign_in)
    return {"schema_version": SCHEMA_VERSION, **found}


def from_json(value: JSONObject) -> SignIn:
    """Return the sign-in that its JSON describes."""
    tokens = value.get("tokens")
    found: SignIn = built(
        SignIn,
        value,
        authorization_server=built(AuthorizationServer, value.get("authorization_server")),
        registration=built(Registration, value.get("registration")),
        tokens=None if tokens is None else built(Tokens, tokens),
    )
    return found


def built(kind: Any, value: JSON, **parts: object) -> Any:
    """Build a sign-in, or one of its parts, from JSON and parts; the default of each field tells its type."""
    if not isinstance(value, Mapping):
        raise ValueError(f"{kind.__name__} is not an object")  # noqa: TRY004 - about a file
    given: dict[str, Any] = {**parts}
    for field in attrs.fields(kind):
        name, default, item = field.name, field.default, value.get(field.name)
        if name in parts:
            continue
        if name.endswith("_at"):
            is_time = isinstance(item, int | float) and not isinstance(item, bool) and 0 <= item < _YEAR_10000
            given[name] = item if is_time else default
        elif isinstance(default, bool):
            given[name] = item is True
        elif default == ():
            words = item if isinstance(item, list | tuple) else ()
            given[name] = tuple(word for word in words if isinstance(word, str))
        elif isinstance(item, str) and (item or default is not attrs.NOTHING):
            given[name] = item
        elif item is not None or default is attrs.NOTHING:
            raise ValueError(f"{name} is not a string")
    return kind(**given)
