"""Whose request over HTTP it is."""

from __future__ import annotations

from typing import Any

import attrs
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.context import ServerRequestContext

from pflow_mcp_plugin.contract import PflowError, RunOrigin
from pflow_mcp_plugin.server.serving_options import the_user


def http_caller(context: ServerRequestContext[Any, Any]) -> RunOrigin:
    """Return the origin of an HTTP request: `ISSUER SUBJECT` owns its runs, or the user.

    The user is who has the server's own bearer token. A subject is unique for its issuer only
    (RFC 7519, section 4.1.2).

    Raises:
        PflowError: Nobody is known: never taken for the user.
    """
    token = get_access_token()
    if token is None:
        raise PflowError("The request has no token", kind="usage")
    issuer = (token.claims or {}).get("iss", "")
    return attrs.evolve(the_user(context), owner="" if token.subject is None else f"{issuer} {token.subject}")
