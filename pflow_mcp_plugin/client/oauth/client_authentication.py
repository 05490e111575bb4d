"""How a client proves to a token endpoint who it is: with a secret, a signed assertion, or not at all."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from urllib.parse import quote

from pflow_mcp_plugin.client.oauth.client_assertion import TYPE, PrivateKey
from pflow_mcp_plugin.client.oauth.sign_in_state import AuthorizationServer, Method, Registration
from pflow_mcp_plugin.contract.json_types import JSONObject


def registered_client(auth: JSONObject, found: AuthorizationServer) -> Registration | None:
    """Return the client that the config names, None if it names none.

    Its authentication is the one that the authorization server knows; with a private key, an assertion.

    Args:
        auth: The server's `auth` table.
        found: The authorization server.
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
    client: Registration, found: AuthorizationServer, private_key: PrivateKey | None = None
) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Return the form fields and the headers with which a client authenticates.

    Args:
        client: The client.
        found: The authorization server.
        private_key: Its private key, for signed assertions.

    Raises:
        NoAccessToken: The private key cannot be read or used.
    """
    if client.method == "client_secret_basic":
        return {}, {"authorization": f"Basic {basic_pair(client.client_id, client.client_secret)}"}
    fields = {"client_id": client.client_id}
    if client.method == "client_secret_post":
        return {**fields, "client_secret": client.client_secret}, {}
    if client.method == "private_key_jwt" and private_key is not None:
        signed = private_key.assertion(client.client_id, found)
        return {**fields, "client_assertion_type": TYPE, "client_assertion": signed}, {}
    return fields, {}


def basic_pair(client_id: str, client_secret: str) -> str:
    """Return a client's id and secret as its authentication header contains them (RFC 6749, 2.3.1)."""
    pair = f"{quote(client_id, safe='')}:{quote(client_secret, safe='')}"
    return b64encode(pair.encode()).decode()
