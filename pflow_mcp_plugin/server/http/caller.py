"""Who sent a request over HTTP."""

from __future__ import annotations

from typing import Any

import attrs
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.context import ServerRequestContext

from pflow_mcp_plugin.contract import PflowError, RunOrigin
from pflow_mcp_plugin.server.serving_options import the_user


def http_caller(context: ServerRequestContext[Any, Any]) -> RunOrigin:
    """Return the origin of an HTTP request: `ISSUER SUBJECT` owns its runs, or the user.

    Whoever has the server's own bearer token is the user. The issuer is named because a subject is unique
    within its issuer only (RFC 7519, section 4.1.2).

    Raises:
        PflowError: The request has no token. Nobody is taken for the user by default.
    """
    token = get_access_token()
    if token is None:
        raise PflowError("The request has no token", kind="usage")
    issuer = (token.claims or {}).get("iss", "")
    return attrs.evolve(the_user(context), owner="" if token.subject is None else f"{issuer} {token.subject}")
