"""Which authorization server a server uses, and what it offers: metadata in the order of the specification.

MCP 2025-11-25, "Authorization Server Discovery" (RFC 9728, RFC 8414). All of it comes from others, so every
URL in it is checked before it is used.
"""

from __future__ import annotations

import re
import time
from http import HTTPStatus
from urllib.parse import SplitResult, urlsplit, urlunsplit

import attrs

from pflow_mcp_plugin.client.oauth.authorization_requests import AuthorizationRequests, place, require_allowed
from pflow_mcp_plugin.client.oauth.sign_in_state import (
    AuthorizationServer,
    Registration,
    SignIn,
    Tokens,
    built,
)
from pflow_mcp_plugin.client.request_failures import NoAccessToken, challenge_parameters
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.network.egress import is_loopback, is_same_origin
from pflow_mcp_plugin.types import Server

_PRINTABLE = re.compile(r"[\x21-\x7e]+")


@attrs.frozen(kw_only=True)
class Discovery:
    """What the metadata of a server and its authorization server say, and the refusal of a request."""

    server: Server
    resource: str
    scopes: tuple[str, ...]
    challenged_scopes: tuple[str, ...]
    authorization_server: AuthorizationServer

    def sign_in(self, client: Registration, tokens: Tokens | None = None) -> SignIn:
        return SignIn(
            server=self.server.name,
            server_url=resource_of(self.server.url),
            resource=self.resource,
            authorization_server=self.authorization_server,
            registration=client,
            tokens=tokens,
            signed_in_at=time.time(),
        )


async def discovered(
    requests: AuthorizationRequests, challenge: str | None = None, *, former: str = ""
) -> Discovery:
    """Find which authorization server a server uses and what it offers, by the metadata of both.

    Where the config names no issuer, `former` is the only one that may have the credentials, if it is given.
    """
    from mcp.client.auth.utils import build_oauth_authorization_server_metadata_discovery_urls

    server = requests.server
    header = await requests.challenge() if challenge is None else challenge
    found = await _protected_resource(requests, header)
    issuer = _chosen_issuer(server, found, former)
    require_url(server, "the issuer of its authorization server", issuer)
    for url in build_oauth_authorization_server_metadata_discovery_urls(issuer, server.url):
        answer = await requests.get(url)
        if answer.status == HTTPStatus.OK and answer.content is not None and "issuer" in answer.content:
            return Discovery(
                server=server,
                resource=str(found["resource"]) if found else resource_of(server.url),
                scopes=_words(found.get("scopes_supported")) if found else (),
                challenged_scopes=challenged_scopes(header),
                authorization_server=_checked(server, issuer, answer.content),
            )
    raise NoAccessToken(f"its authorization server {place(issuer)} has no metadata", "operator")


def challenged_scopes(challenge: str) -> tuple[str, ...]:
    """Return the scopes in the challenge by which a server also says where its metadata is."""
    return _words(challenge_parameters(challenge).get("scope", "").split())


def resource_of(url: str) -> str:
    """Return what tokens for a server's URL are requested for, if its metadata names nothing (RFC 8707).

    User info and query may contain secrets, and stay here.
    """
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2].lower()
    return urlunsplit(SplitResult(parts.scheme.lower(), host, parts.path, "", ""))


def require_url(server: Server, what: str, url: str) -> None:
    """Refuse a URL in metadata that is not https, or http to this machine, or that the rules do not allow."""
    try:
        parts = urlsplit(url)
        fits = bool(_PRINTABLE.fullmatch(url) and parts.hostname and parts.port != 0)
        fits = fits and "@" not in parts.netloc and not parts.fragment
        secure = parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))
    except ValueError:
        fits = False
    if not (fits and secure):
        raise NoAccessToken(f"{what} is refused, as it must be an https URL: {place(url)}", "operator")
    require_allowed(server, url)


async def _protected_resource(requests: AuthorizationRequests, challenge: str) -> JSONObject | None:
    """Return the metadata of the server itself (RFC 9728), None if it has none."""
    from mcp.client.auth.utils import build_protected_resource_metadata_discovery_urls

    server = requests.server
    named = challenge_parameters(challenge).get("resource_metadata", "")
    try:
        is_foreign = bool(named) and not is_same_origin(server.url.lower(), named.lower())
    except ValueError:
        is_foreign = True
    if is_foreign:
        raise NoAccessToken(f"it names metadata on another host, {place(named)}; refused", "operator")
    for url in dict.fromkeys(build_protected_resource_metadata_discovery_urls(named or None, server.url)):
        answer = await requests.get(url, own=True)
        content = answer.content if answer.status == HTTPStatus.OK else None
        if content is not None and "resource" in content:
            resource = content["resource"]
            if not isinstance(resource, str) or not covers(resource, server.url):
                shown = place(str(resource))
                raise NoAccessToken(f"its metadata is for another resource, {shown}; refused", "operator")
            return content
    return None


def covers(resource: str, url: str) -> bool:
    """Whether the resource in a server's metadata is its URL, or a folder above it on the same origin."""
    try:
        if not is_same_origin(resource.lower(), url.lower()):
            return False
        parent, path = urlsplit(resource).path, urlsplit(url).path
    except ValueError:
        return False
    return f"{path.rstrip('/')}/".startswith(f"{parent.rstrip('/')}/")


def same_issuer(one: str, other: str) -> bool:
    """Whether the metadata's issuer is the expected one; only the slash of an empty path may differ."""
    are_roots = all(urlsplit(issuer).path in ("", "/") for issuer in (one, other))
    return one == other or (are_roots and one.rstrip("/") == other.rstrip("/"))


def _chosen_issuer(server: Server, found: JSONObject | None, former: str) -> str:
    configured = str(server.auth.get("issuer", ""))
    wanted = configured or former
    named = _words(found.get("authorization_servers")) if found else ()
    if found is None:  # servers of protocol 2025-03-26 are their own authorization server
        parts = urlsplit(resource_of(server.url))
        return wanted or f"{parts.scheme}://{parts.netloc}"
    if not named:
        raise NoAccessToken("its metadata names no authorization server", "operator")
    if not wanted:
        return named[0]
    fitting = next((issuer for issuer in named if same_issuer(issuer, wanted)), None)
    if fitting is None:
        others = ", ".join(map(place, named[:3]))
        whose, step = "which issuer in auth names", ""
        if not configured:
            whose = "with which the last login was made"
            step = f"if that is intended, add issuer to auth, or run: pflow mcp logout {server.name}"
        raise NoAccessToken(
            f"it uses the authorization server {others}, not {place(wanted)}, {whose}; "
            "nothing was sent there",
            "credentials",
            step=step,
        )
    return fitting


def _checked(server: Server, issuer: str, content: JSONObject) -> AuthorizationServer:
    where = f"the metadata of its authorization server {place(issuer)}"
    stated = content["issuer"]
    if not isinstance(stated, str) or not same_issuer(stated, issuer):
        raise NoAccessToken(f"{where} is that of another issuer, {place(str(stated))}; refused", "operator")
    names = [field.name for field in attrs.fields(AuthorizationServer) if field.name.endswith("_endpoint")]
    urls = {name: str(content.get(name) or "") for name in names}
    for name, url in urls.items():
        if url:
            require_url(server, f"{name} in {where}", url)
    if not urls["token_endpoint"]:
        raise NoAccessToken(f"{where} has no token_endpoint", "operator")
    words = {name: _words(item) for name, item in content.items() if isinstance(item, list)}
    checked: AuthorizationServer = built(AuthorizationServer, {**content, **words}, issuer=stated, **urls)
    return checked


def _words(value: JSON) -> tuple[str, ...]:
    found = value if isinstance(value, list) else ()
    return tuple(item for item in found if isinstance(item, str) and _PRINTABLE.fullmatch(item))
