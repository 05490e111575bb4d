"""The end of a sign-in: it is removed from the store, and its tokens are revoked (RFC 7009)."""

from __future__ import annotations

import attrs

from pflow_mcp_plugin.client.oauth.daemon_thread import in_daemon_thread
from pflow_mcp_plugin.client.oauth.revocation import why_not_revoked
from pflow_mcp_plugin.client.oauth.sign_in_store import SignInBusy, SignInStore, StoredSignIn
from pflow_mcp_plugin.contract import PflowError
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

    Args:
        store: The store.
        entry: The sign-in, as the store lists it.
        server: The server that it is for, whose rules for the network, CAs and pins apply; None if these
            rules cannot be read, and nothing may be requested.

    Raises:
        PflowError: The sign-in could not be removed.
    """
    try:
        async with store.locked(entry):  # a refresh that is running would store it again
            sign_in = await in_daemon_thread(store.take_out, entry)
    except SignInBusy:
        raise PflowError(
            f"The sign-in at server {_name(entry)} was not removed: another process is using it",
            suggestions=("Try again later",),
        ) from None
    if entry.sign_in and entry.sign_in.tokens is None:
        return SignOut(entry=entry)
    reason = await why_not_revoked(server, sign_in)
    return SignOut(entry=entry, revoked=not reason, reason=reason)


def _name(entry: StoredSignIn) -> str:
    return entry.sign_in.server if entry.sign_in else entry.name
