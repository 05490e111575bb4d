"""The login of a person: chooses a flow, runs it, and stores the sign-in.

Also ends a sign-in: removes it from the store, and revokes its tokens (RFC 7009).
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from http import HTTPStatus
from typing import Any, cast, get_args
from urllib.parse import urlsplit

import attrs

from pflow_mcp_plugin.client.oauth.authorization_requests import Answer, AuthorizationRequests, place
from pflow_mcp_plugin.client.oauth.login_flows import (
    LoopbackListener,
    PastedRedirect,
    Person,
    code_tokens,
    device_tokens,
)
from pflow_mcp_plugin.client.oauth.metadata import Discovery, discovered
from pflow_mcp_plugin.client.oauth.sign_in_state import Method, Registration, SignIn, Tokens
from pflow_mcp_plugin.client.oauth.sign_in_store import SignInKey, SignInStore, StoredSignIn, store_of
from pflow_mcp_plugin.client.oauth.token_endpoint import (
    CLIENT_UNKNOWN,
    DEVICE_GRANT,
    TokenRefused,
    authentication,
    error_of,
    refusal,
    registered_client,
    seconds_of,
)
from pflow_mcp_plugin.client.request_failures import NoAccessToken
from pflow_mcp_plugin.config.auth import DEVICE, wanted_scopes
from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.contract.json_types import JSONObject
from pflow_mcp_plugin.daemon_threads import in_daemon_thread
from pflow_mcp_plugin.exchange import Launch
from pflow_mcp_plugin.network.certificates import CertificatesUnreadable, KeyNotPinned
from pflow_mcp_plugin.network.egress import HostRefused
from pflow_mcp_plugin.storage import CorruptFile, StoreError
from pflow_mcp_plugin.types import Server


@attrs.frozen(kw_only=True)
class SignOut:
    """The outcome of a sign-out: whether the tokens were revoked, or why not; `""` if there were none."""

    entry: StoredSignIn
    revoked: bool = False
    reason: str = ""


async def sign_out(store: SignInStore, entry: StoredSignIn, server: Server | None) -> SignOut:
    """End a login: remove it from its store, then revoke its tokens if the authorization server can.

    A failed revocation is only reported in the result: the sign-in is gone by then.
    """
    name = entry.sign_in.server if entry.sign_in else entry.name
    try:
        async with store.locked(entry):  # a refresh that is running would store it again
            sign_in = await in_daemon_thread(store.take_out, entry)
    except NoAccessToken:  # the lock is taken
        raise PflowError(
            f"The sign-in at server {name} was not removed: another process is using it",
            suggestions=("Try again later",),
        ) from None
    if entry.sign_in and entry.sign_in.tokens is None:
        return SignOut(entry=entry)
    reason = await _why_not_revoked(server, sign_in)
    return SignOut(entry=entry, revoked=not reason, reason=reason)


async def _why_not_revoked(server: Server | None, sign_in: SignIn | None) -> str:
    """For a logout: revoke the tokens of the sign-in; return why that failed, `""` if it did not."""
    if sign_in is None or sign_in.tokens is None or not sign_in.tokens.access:
        return "they could not be read"
    if server is None:
        return "the rules for the network cannot be read from the config"
    try:
        await _revoke(server, sign_in, sign_in.tokens)
    except (NoAccessToken, HostRefused, KeyNotPinned, CertificatesUnreadable) as failure:
        return str(failure)
    return ""


_METHODS: Sequence[Method] = ("none", "client_secret_basic", "client_secret_post")
"""How a client that registers itself would authenticate, the best first: it can keep no secret."""


async def _revoke(server: Server, sign_in: SignIn, tokens: Tokens) -> None:
    found = sign_in.authorization_server
    if not found.revocation_endpoint:
        reason = f"the authorization server {place(found.issuer)} does not offer it"
        raise NoAccessToken(reason, "operator")
    client = registered_client(server.auth, found) or sign_in.registration
    fields, headers = authentication(client, found, server.auth)
    # The refresh token first, as it is good for the longest.
    wanted = [("refresh_token", tokens.refresh)] if tokens.refresh else []
    if tokens.access and tokens.is_valid(time.time()):
        wanted.append(("access_token", tokens.access))
    async with AuthorizationRequests(server) as requests:
        for hint, token in wanted:
            form = {"token": token, "token_type_hint": hint, **fields}
            answer = await requests.post(found.revocation_endpoint, headers, data=form)
            if answer.status == HTTPStatus.OK:
                continue
            refused = refusal(answer, "revocation endpoint", form)
            # An access token that is not revoked here ends with its refresh token, or soon after.
            if refused.code != "unsupported_token_type" or token != tokens.access or not tokens.refresh:
                raise NoAccessToken(refused.text, "operator") from refused


async def login(launch: Launch, person: Person, scopes: Sequence[str] = ()) -> SignIn:
    """Choose a login flow, run it with the person, and store the sign-in."""
    auth = launch.server.auth
    key, store = SignInKey.of(launch.server), store_of(launch)
    async with AuthorizationRequests(launch.server) as requests:
        # What the config has for one authorization server is not for another that the server names one day.
        has_credentials = "client_secret" in auth or "private_key" in auth
        last = await in_daemon_thread(_stored, store, key, "") if has_credentials else None
        found = await discovered(requests, former=last.issuer if last else "")
        former = await in_daemon_thread(_stored, store, key, found.authorization_server.issuer)
        if former:  # an authorization server may repeat in an error what it knows
            launch.learn(former.secrets)
        granted = former.tokens.scopes if former and former.tokens else ()
        # In the order of MCP 2025-11-25, "Scope Selection Strategy", but those of the config come first. More
        # are added to what was granted before, so that nothing gets lost.
        usual = wanted_scopes(auth) or [*(found.challenged_scopes or found.scopes)]
        wanted = [*usual, *(granted if scopes else ()), *" ".join(scopes).split()]
        if wanted and "offline_access" in found.authorization_server.scopes_supported:
            wanted.append("offline_access")  # without it, some servers issue no refresh token
        unique = tuple(dict.fromkeys(wanted))
        attempt = _Attempt(launch=launch, person=person, requests=requests, found=found, scopes=unique)
        # Before the login: nobody should sign in for nothing if there is no room or permission.
        async with store.reserved(key, found.authorization_server.issuer):
            sign_in = await attempt.made(former.registration if former else None)
    launch.learn(sign_in.secrets)
    async with store.locked(key):
        replaced = await in_daemon_thread(_stored, store, key, sign_in.issuer)
        await in_daemon_thread(store.write, key, sign_in.without_configured_secret(auth))
    if replaced is not None and replaced.registration.client_id != sign_in.registration.client_id:
        # Not those of the same client: many authorization servers end all that it was ever granted, at once.
        await _why_not_revoked(launch.server, replaced)
    return sign_in


@attrs.frozen(kw_only=True)
class _Attempt:
    launch: Launch
    person: Person
    requests: AuthorizationRequests
    found: Discovery
    scopes: tuple[str, ...]

    async def made(self, stored: Registration | None) -> SignIn:
        """Choose a flow and log in, by the stored client if the authorization server still knows it."""
        known, auth = self.found.authorization_server, self.launch.server.auth
        only_device = bool(known.device_authorization_endpoint and not known.authorization_endpoint)
        is_device = auth.get("flow") == DEVICE or ("flow" not in auth and only_device)
        flow = self._by_device if is_device else self._by_code
        try:
            return await flow(stored)
        except TokenRefused as refusal:
            is_unknown, is_ours = refusal.code in CLIENT_UNKNOWN, "client_id" in auth
            if stored is not None and is_unknown and not is_ours:
                return await self.made(None)
            raise NoAccessToken(
                refusal.text, "credentials" if is_unknown and is_ours else "login"
            ) from refusal

    async def _by_code(self, stored: Registration | None) -> SignIn:
        known = self.found.authorization_server
        if not known.authorization_endpoint:
            missing = f"its authorization server {place(known.issuer)} has no authorization_endpoint"
            raise NoAccessToken(missing, "operator")
        # PKCE: MCP 2025-11-25, "Authorization Code Protection".
        if "S256" not in known.code_challenge_methods_supported:
            missing = "its code_challenge_methods_supported does not name S256"
            wrong = f"its authorization server {place(known.issuer)} is refused: {missing}"
            raise NoAccessToken(wrong, "operator")
        async with self._redirects(stored) as redirects:
            client = await self._client(stored, redirects.redirect_uri)
            sign_in = self._begun(client)
            is_stored = client is stored
            tokens = await code_tokens(self.requests, sign_in, self.person, redirects, is_stored=is_stored)
            name = self.launch.server.name
            redirects.tell("Signed in", f"pflow is signed in at {name}. You can close this page.")
        return attrs.evolve(sign_in, tokens=tokens)

    async def _by_device(self, stored: Registration | None) -> SignIn:
        known = self.found.authorization_server
        if not known.device_authorization_endpoint:
            missing = f"its authorization server {place(known.issuer)} has no device flow"
            raise NoAccessToken(f"{missing}: remove flow from auth", "credentials")
        sign_in = self._begun(await self._client(stored))
        tokens = await device_tokens(self.requests, sign_in, self.person.show)
        return attrs.evolve(sign_in, tokens=tokens)

    async def _client(self, stored: Registration | None, redirect_uri: str = "") -> Registration:
        """Return the client for a login, registered if necessary; without a redirect for the device flow."""
        auth, found = self.launch.server.auth, self.found.authorization_server
        redirect_uris = (redirect_uri,) if redirect_uri else ()
        known = registered_client(auth, found)
        if known is not None:
            return attrs.evolve(known, redirect_uris=redirect_uris)
        document = auth.get("client_metadata_url")
        if isinstance(document, str) and document and found.client_id_metadata_document_supported:
            return Registration(client_id=document, redirect_uris=redirect_uris)
        if stored is not None:
            expired = stored.expires_at is not None and stored.expires_at <= time.time()
            # The flow decides about the client's grants.
            same_flow = bool(redirect_uris) == bool(stored.redirect_uris)
            fits = same_flow and set(redirect_uris) <= set(stored.redirect_uris)
            # The id of a document is good only as long as the config names it.
            if fits and not expired and "://" not in stored.client_id:
                return stored
        if not found.registration_endpoint:
            wrong = f"its authorization server {place(found.issuer)} registers no clients"
            raise NoAccessToken(
                f"{wrong}: set client_id in auth to that of a client that it knows", "credentials"
            )
        # RFC 7591, section 2.
        methods = found.token_endpoint_auth_methods_supported
        asked: dict[str, Any] = {
            "client_name": "pflow",
            "application_type": "native",
            "grant_types": ["authorization_code" if redirect_uris else DEVICE_GRANT, "refresh_token"],
            "token_endpoint_auth_method": next((each for each in _METHODS if each in methods), _METHODS[0]),
        }
        if redirect_uris:
            asked |= {"redirect_uris": list(redirect_uris), "response_types": ["code"]}
        answer = await self.requests.post(found.registration_endpoint, {}, json=asked)
        return _registered(answer, asked, redirect_uris)

    def _begun(self, client: Registration) -> SignIn:
        self.launch.learn((client.client_secret,))
        begun = self.found.sign_in(client, Tokens(scopes=self.scopes))
        return attrs.evolve(begun, required_scopes=self.found.challenged_scopes)

    @asynccontextmanager
    async def _redirects(
        self, stored: Registration | None
    ) -> AsyncIterator[LoopbackListener | PastedRedirect]:
        configured = self.launch.server.auth.get("redirect_port")
        former = urlsplit(next(iter(stored.redirect_uris), "")).port if stored else None
        ports = [int(configured)] if isinstance(configured, int | float) else [former or 0, 0]
        if self.person.open_url is None:
            async with PastedRedirect(self.person, ports[0]) as pasted:
                yield pasted
            return
        failed: OSError | None = None
        async with AsyncExitStack() as stack:
            for port in ports:
                try:
                    listener = await stack.enter_async_context(LoopbackListener(port))
                except OSError as error:  # a client that registers itself does so again, with another port
                    failed = error
                    continue
                yield listener
                return
        why = os.strerror(failed.errno) if failed and failed.errno else failed
        reason = f"port {ports[-1]} of this machine cannot be listened on: {why}"
        step = "end the program that uses it, or change redirect_port"
        raise NoAccessToken(f"{reason}; {step}", "credentials")


def _stored(store: SignInStore, key: SignInKey, issuer: str) -> SignIn | None:
    try:
        return store.read(key, issuer)
    except (CorruptFile, StoreError):  # the new sign-in takes its place
        return None


def _registered(answer: Answer, asked: JSONObject, redirect_uris: tuple[str, ...]) -> Registration:
    content: JSONObject = answer.content or {}
    client_id, secret = content.get("client_id"), content.get("client_secret")
    where = place(answer.url)
    is_accepted = answer.status in (HTTPStatus.OK, HTTPStatus.CREATED)
    if not (is_accepted and isinstance(client_id, str) and client_id):
        _, text = error_of(content, f"HTTP {answer.status}")
        advice = "set client_id in auth to that of a client that it knows"
        raise NoAccessToken(f"{where} registered no client: it answered {text}; {advice}", "credentials")
    method = content.get("token_endpoint_auth_method", asked["token_endpoint_auth_method"])
    if method not in get_args(Method) or method == "private_key_jwt":
        raise NoAccessToken(f"{where} registered a client that must authenticate otherwise", "operator")
    if secret and "token_endpoint_auth_method" not in content and method == "none":
        method = "client_secret_basic"  # the default of RFC 7591
    return Registration(
        client_id=client_id,
        client_secret=secret if isinstance(secret, str) else "",
        method=cast("Method", method),
        redirect_uris=redirect_uris,
        expires_at=seconds_of(content.get("client_secret_expires_at")) or None,  # 0 is for ever
    )
