"""The end of a sign-in: it is removed from the store, and its tokens are revoked (RFC 7009)."""

from __future__ import annotations

import time
from http import HTTPStatus

import attrs

from pflow_mcp_plugin.client.oauth.authorization_requests import AuthorizationRequests, place
from pflow_mcp_plugin.client.oauth.sign_in_state import SignIn, Tokens
from pflow_mcp_plugin.client.oauth.sign_in_store import SignInBusy, SignInStore, StoredSignIn
from pflow_mcp_plugin.client.oauth.token_endpoint import (
    authentication,
    refusal,
    registered_client,
)
from pflow_mcp_plugin.client.request_failures import NoAccessToken
from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.daemon_threads import in_daemon_thread
from pflow_mcp_plugin.network.certificates import CertificatesUnreadable, KeyNotPinned
from pflow_mcp_plugin.network.egress import HostRefused
from pflow_mcp_plugin.types import Server


@attrs.frozen(kw_only=True)
class SignOut:
    """A sign-in that was removed.

    Attributes:
        entry: What the store said of it.
        revoked: Whether its tokens were revoked.
        reason: Why they were not; empty if there were none.
    """

    entry: StoredSignIn
    revoked: bool = False
    reason: str = ""


async def sign_out(store: SignInStore, entry: StoredSignIn, server: Server | None) -> SignOut:
    """Remove a sign-in from its store, then revoke its tokens if the authorization server can.

    What goes wrong with the revocation is told in the result: the sign-in is gone by then.
    """
    name = entry.sign_in.server if entry.sign_in else entry.name
    try:
        async with store.locked(entry):  # a refresh that is running would store it again
            sign_in = await in_daemon_thread(store.take_out, entry)
    except SignInBusy:
        raise PflowError(
            f"The sign-in at server {name} was not removed: another process is using it",
            suggestions=("Try again later",),
        ) from None
    if entry.sign_in and entry.sign_in.tokens is None:
        return SignOut(entry=entry)
    reason = await why_not_revoked(server, sign_in)
    return SignOut(entry=entry, revoked=not reason, reason=reason)


async def why_not_revoked(server: Server | None, sign_in: SignIn | None) -> str:
    """Revoke the tokens of a sign-in; return why that failed, `""` if it did not."""
    if sign_in is None or sign_in.tokens is None or not sign_in.tokens.access:
        return "they could not be read"
    if server is None:
        return "the rules for the network cannot be read from the config"
    try:
        await _revoke(server, sign_in, sign_in.tokens)
    except (NoAccessToken, HostRefused) as failure:
        return str(failure)
    except KeyNotPinned as failure:
        return f"{failure.host} has none of the keys in tls_pins"
    except CertificatesUnreadable as failure:
        return f"{failure.what} cannot be read: {failure.reason}"
    return ""


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
            answer = await requests.post(found.revocation_endpoint, form, headers)
            if answer.status == HTTPStatus.OK:
                continue
            refused = refusal(answer, "revocation endpoint", form)
            # An access token for which there is no other way ends with its refresh token, or soon after.
            if refused.code != "unsupported_token_type" or token != tokens.access or not tokens.refresh:
                raise NoAccessToken(refused.text, "operator") from refused
