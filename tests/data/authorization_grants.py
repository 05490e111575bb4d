"""What the authorization server of the tests issues, and to whom: Authlib's grants over a store in memory.

Authlib's core knows no web framework: all that one needs is a request and an answer, which are
Starlette's here, as Starlette and uvicorn come with the SDK. Its Flask and Django parts would bring those.
"""

from __future__ import annotations

import secrets
import time
from typing import Any

from authlib.oauth2 import AuthorizationServer as AuthlibServer
from authlib.oauth2.rfc6749 import OAuth2Error, grants
from authlib.oauth2.rfc6749.errors import InvalidRequestError
from authlib.oauth2.rfc6750 import BearerTokenGenerator
from authlib.oauth2.rfc7009 import RevocationEndpoint
from authlib.oauth2.rfc7523 import JWTBearerClientAssertion
from authlib.oauth2.rfc7591 import ClientRegistrationEndpoint
from authlib.oauth2.rfc7636 import CodeChallenge
from authlib.oauth2.rfc7662 import IntrospectionEndpoint
from authlib.oauth2.rfc8628 import DeviceAuthorizationEndpoint, DeviceCodeGrant
from authorization_messages import Answer, Inbound
from authorization_records import Client, Code, Device, Switches, Token
from joserfc.jwk import KeySet
from starlette.responses import JSONResponse

METHODS = ["private_key_jwt", "client_secret_basic", "client_secret_post", "none"]
USER = "alice"
RESOURCE_SERVER = "resource-server"
"""The client that may introspect tokens."""
_CODE_SECONDS = 60
_ACCESS_SECONDS = 3600


class InvalidTarget(OAuth2Error):
    """The resource is another than the one that was authorized (RFC 8707)."""

    error = "invalid_target"


class Issuing(AuthlibServer):
    """The store, and Authlib's server over it.

    Args:
        url: Where its endpoints are, such as `https://127.0.0.1:4711/login`.
        issuer: Its identifier.
        switches: What it does.
    """

    def __init__(self, url: str, issuer: str, switches: Switches) -> None:
        super().__init__()
        self.url = url
        self.issuer = issuer
        self.switches = switches
        self.clients: dict[str, Client] = {}
        self.codes: dict[str, Code] = {}
        self.devices: dict[str, Device] = {}
        self.tokens: list[Token] = []
        self.assertions: set[str] = set()
        self.issued: list[str] = []
        self.register_token_generator(
            "default",
            BearerTokenGenerator(
                lambda **_: f"access-{secrets.token_urlsafe(24)}",
                lambda **_: f"refresh-{secrets.token_urlsafe(24)}",
                lambda *_: _ACCESS_SECONDS,
            ),
        )
        self.register_client_auth_method("private_key_jwt", PrivateKeyAssertion(self))
        for grant in (CodeGrant, RefreshGrant, DeviceGrant, MachineGrant):
            self.register_grant(grant, [Challenge()] if grant is CodeGrant else [])
        for endpoint in (DeviceEndpoint, Registration, Introspection, Revocation):
            self.register_endpoint(endpoint)

    def clear(self) -> None:
        """Forget everything but the client that introspects."""
        for kept in (self.clients, self.codes, self.devices, self.tokens, self.assertions, self.issued):
            kept.clear()

    def query_client(self, client_id):
        return self.clients.get(client_id)

    def validate_requested_scope(self, scope):
        self.scopes_supported = self.switches.scopes
        super().validate_requested_scope(scope)

    def generate_token(self, *arguments: Any, include_refresh_token: bool = True, **fields: Any):
        included = include_refresh_token and self.switches.refresh_tokens
        return super().generate_token(*arguments, include_refresh_token=included, **fields)

    def save_token(self, token, request):
        self.issued += [token["access_token"], *filter(None, [token.get("refresh_token")])]
        origin = request.authorization_code or request.refresh_token or request.credential
        now = int(time.time())
        self.tokens.append(
            Token(
                access=token["access_token"],
                refresh=token.get("refresh_token"),
                client_id=request.client.client_id,
                scope=token.get("scope", ""),
                resource=self.resource_of(request, origin),
                user=USER if request.user else None,
                family=origin.family if origin else secrets.token_hex(8),
                issued_at=now,
                expires_at=now + _ACCESS_SECONDS,
            )
        )

    def resource_of(self, request: Inbound, origin: Any = None) -> str | None:
        """Return the resource that a request is about."""
        authorized = origin.resource if origin else None
        if authorized and request.resource not in {None, authorized}:
            raise InvalidTarget("Another resource was authorized.")
        return request.resource or authorized

    def revoke_family(self, family: str) -> None:
        """Revoke all tokens that stem from one authorization."""
        for token in self.tokens:
            if token.family == family:
                token.revoked = True

    def create_oauth2_request(self, request):
        return request

    def create_json_request(self, request):
        return request

    def handle_response(self, status, body, headers):
        if isinstance(body, dict):
            return JSONResponse(body, status, dict(headers))
        return Answer(body, status, dict(headers))

    def send_signal(self, name, *args, **kwargs):
        """Tell nobody."""


class PrivateKeyAssertion(JWTBearerClientAssertion):
    """A client that shows a JWT signed with its private key (RFC 7523)."""

    CLIENT_AUTH_METHOD = "private_key_jwt"

    def __init__(self, server: Issuing) -> None:
        super().__init__()
        self._server = server

    def get_audiences(self):
        return [self._server.issuer, f"{self._server.url}/token"]

    def validate_jti(self, claims, jti):
        new = jti not in self._server.assertions
        self._server.assertions.add(jti)
        return new

    def resolve_client_public_key(self, client):
        return KeySet.import_key_set(client.metadata["jwks"])


class Challenge(CodeChallenge):
    """PKCE with S256, which every client has to use."""

    SUPPORTED_CODE_CHALLENGE_METHOD = ["S256"]  # noqa: RUF012 - as Authlib has it

    def validate_code_challenge(self, grant, redirect_uri):
        if grant.request.payload.data.get("code_challenge_method") != "S256":
            raise InvalidRequestError("Missing code_challenge with the method S256")
        super().validate_code_challenge(grant, redirect_uri)


class CodeGrant(grants.AuthorizationCodeGrant):
    """Authorization codes, each of which can be redeemed once."""

    TOKEN_ENDPOINT_AUTH_METHODS = METHODS

    def save_authorization_code(self, code, request):
        data = request.payload.data
        self.server.issued.append(code)
        self.server.codes[code] = Code(
            code=code,
            client_id=request.client.client_id,
            redirect_uri=request.payload.redirect_uri,
            scope=request.scope,
            resource=self.server.resource_of(request),
            code_challenge=data["code_challenge"],
            code_challenge_method=data["code_challenge_method"],
            family=secrets.token_hex(8),
            expires_at=time.time() + _CODE_SECONDS,
        )

    def query_authorization_code(self, code, client):
        found = self.server.codes.get(code)
        if found is None or found.client_id != client.client_id or found.expires_at < time.time():
            return None
        if found.used:
            self.server.revoke_family(found.family)
            return None
        return found

    def delete_authorization_code(self, authorization_code):
        authorization_code.used = True

    def authenticate_user(self, authorization_code):
        return USER


class RefreshGrant(grants.RefreshTokenGrant):
    """Refresh tokens: each can be redeemed once; a second time ends all that stem from its authorization."""

    TOKEN_ENDPOINT_AUTH_METHODS = METHODS

    INCLUDE_NEW_REFRESH_TOKEN = True

    def authenticate_refresh_token(self, refresh_token):
        found = next((token for token in self.server.tokens if token.refresh == refresh_token), None)
        if found is not None and found.spent:
            self.server.revoke_family(found.family)
        return None if found is None or found.revoked else found

    def authenticate_user(self, refresh_token):
        return USER

    def revoke_old_credential(self, refresh_token):
        refresh_token.spent = True


class MachineGrant(grants.ClientCredentialsGrant):
    """Tokens for a client itself."""

    TOKEN_ENDPOINT_AUTH_METHODS = METHODS[:-1]


class DeviceGrant(DeviceCodeGrant):
    """Tokens for a device, once a person has approved it."""

    TOKEN_ENDPOINT_AUTH_METHODS = METHODS

    def query_device_credential(self, device_code):
        found = self.server.devices.get(device_code)
        if found is not None:
            found.polls += 1
        return found

    def query_user_grant(self, user_code):
        device = next(one for one in self.server.devices.values() if one.user_code == user_code)
        approved = device.approved
        asked_enough = device.polls > self.server.switches.pending_polls
        if approved is None and asked_enough and self.server.switches.consent in {"auto", "deny"}:
            approved = self.server.switches.consent == "auto"
        return None if approved is None else (USER, approved)

    def should_slow_down(self, credential):
        slow = self.server.switches.slow_downs > 0
        self.server.switches.slow_downs -= slow
        return slow

    def create_token_response(self):
        answer = super().create_token_response()
        del self.server.devices[self.request.credential.device_code]
        return answer


class DeviceEndpoint(DeviceAuthorizationEndpoint):
    """Where a device asks for its codes."""

    CLIENT_AUTH_METHODS = METHODS

    @property
    def INTERVAL(self):  # noqa: N802 - Authlib's name
        return self.server.switches.interval

    EXPIRES_IN = 600

    def create_endpoint_response(self, request):
        self._resource = self.server.resource_of(request)
        return super().create_endpoint_response(request)

    def get_verification_uri(self):
        return f"{self.server.url}/device/verify"

    def save_device_credential(self, client_id, scope, data):
        self.server.issued.append(data["device_code"])
        self.server.devices[data["device_code"]] = Device(
            device_code=data["device_code"],
            user_code=data["user_code"],
            client_id=client_id,
            scope=scope,
            resource=self._resource,
            expires_at=time.time() + data["expires_in"],
            family=secrets.token_hex(8),
        )


class Registration(ClientRegistrationEndpoint):
    """Dynamic registration: anybody may."""

    def authenticate_token(self, request):
        return "anybody"

    def get_server_metadata(self):
        return {"scopes_supported": list(self.server.switches.scopes)}

    def extract_client_metadata(self, request):
        metadata = super().extract_client_metadata(request)
        if assigned := self.server.switches.registered_method:
            metadata["token_endpoint_auth_method"] = assigned
        return metadata

    def save_client(self, client_info, client_metadata, request):
        client = Client(
            switches=self.server.switches,
            client_id=client_info["client_id"],
            client_secret=client_info["client_secret"],
            metadata=client_metadata,
            registered=True,
        )
        self.server.clients[client.client_id] = client
        self.server.issued.append(client.client_secret)
        return client

    def create_registration_response(self, request):
        status, body, headers = super().create_registration_response(request)
        if body.get("token_endpoint_auth_method") in {"none", "private_key_jwt"}:
            del body["client_secret"], body["client_secret_expires_at"]
        elif self.server.switches.secret_seconds:
            body["client_secret_expires_at"] = int(time.time()) + self.server.switches.secret_seconds
        return status, body, headers


class Introspection(IntrospectionEndpoint):
    """What the protected server asks about a token (RFC 7662)."""

    CLIENT_AUTH_METHODS = METHODS[:-1]

    def check_permission(self, token, client, request):
        return client.client_id == RESOURCE_SERVER

    def query_token(self, token_string, token_type_hint):
        return next((token for token in self.server.tokens if token.access == token_string), None)

    def introspect_token(self, token):
        return {
            "client_id": token.client_id,
            "scope": token.scope,
            "sub": token.user or token.client_id,
            "aud": token.resource,
            "iss": self.server.issuer,
            "exp": int(token.expires_at),
            "iat": token.issued_at,
        }


class Revocation(RevocationEndpoint):
    """Where a client ends its login (RFC 7009)."""

    CLIENT_AUTH_METHODS = METHODS

    def query_token(self, token_string, token_type_hint):
        return next((one for one in self.server.tokens if token_string in {one.access, one.refresh}), None)

    def revoke_token(self, token, request):
        self.server.revoke_family(token.family)
