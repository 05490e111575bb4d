"""Metadata is found in the order of the specification, and everything in it is checked before it is used."""

import asyncio

import attrs
import pytest
from http_server import with_status
from scripted_realm import ACT, refused

from pflow_mcp_plugin.client.oauth import metadata
from pflow_mcp_plugin.client.oauth.authorization_requests import AuthorizationRequests
from pflow_mcp_plugin.client.oauth.sign_in_store import SignInKey
from pflow_mcp_plugin.errors import McpError

RESOURCE = "/.well-known/oauth-protected-resource"
SERVER = "/.well-known/oauth-authorization-server"
OPENID = "/.well-known/openid-configuration"


missing = with_status(404)


def test_the_address_in_the_challenge_is_asked_first_and_then_the_usual_ones(realm, call):
    url = realm.server.url(path="/named")

    async def challenge(request, reply):
        if "authorization" in request.headers:
            del realm.scripts["/mcp"]
            return await realm._script(request, reply) or await realm.server._answer(request, reply)
        return await reply.status(401, www_authenticate=f'Bearer resource_metadata="{url}", scope="read"')

    realm.scripts = {"/mcp": challenge, **dict.fromkeys(("/named", f"{RESOURCE}/mcp", SERVER), missing)}
    assert call(realm.machine()) == "done"
    assert realm.paths == ["/named", f"{RESOURCE}/mcp", RESOURCE, SERVER, OPENID, "/odd/token"]


def test_a_server_without_metadata_is_its_own_authorization_server(realm, call):
    realm.scripts = dict.fromkeys((f"{RESOURCE}/mcp", RESOURCE), missing)
    assert call(realm.machine()) == "done"
    assert realm.forms[0]["resource"] == realm.server.url()


def test_a_page_where_metadata_should_be_is_no_metadata(realm, call):
    page = with_status(200, b"<html>", content_type="text/html")
    realm.scripts = {f"{RESOURCE}/mcp": page, SERVER: page}
    assert call(realm.machine()) == "done"


@pytest.mark.parametrize(
    ("whose", "name", "value", "words"),
    [
        ("resource", "resource", "{origin}/mcp2", "for another resource"),
        ("resource", "resource", 3, "for another resource"),
        ("resource", "authorization_servers", [], "names no authorization server"),
        ("metadata", "token_endpoint", 1, "must be an https URL"),
        ("metadata", "token_endpoint", "", "has no token_endpoint"),
    ],
)
def test_metadata_that_do_not_fit_are_refused(realm, pool, whose, name, value, words):
    getattr(realm, whose)[name] = value.format(origin=realm.issuer) if isinstance(value, str) else value
    failure = refused(pool, realm.machine())
    assert words in failure.message
    assert (failure.exit_code, failure.ran) == (3, "not ran")
    assert realm.forms == []


def test_a_redirect_on_the_same_origin_is_followed_and_not_for_ever(realm, pool):
    realm.scripts |= {SERVER: with_status(307, location="/there"), "/there": missing}
    assert "has no metadata" not in str(pool.call(realm.machine(), ACT))
    realm.scripts["/there"] = with_status(307, location=SERVER)
    with pytest.raises(McpError, match="redirects too often"):
        pool.call(realm.machine(client_id="other"), ACT)


def test_a_failing_authorization_server_is_told_as_something_that_may_pass(realm, pool):
    realm.scripts[SERVER] = with_status(503)
    failure = refused(pool, realm.machine())
    assert f"{realm.issuer}{SERVER} answered HTTP 503" in failure.message
    assert failure.retryable
    assert failure.suggestions == ("try again later",)


def test_the_servers_headers_go_to_its_own_metadata_and_nowhere_else(realm, call):
    launch = realm.machine()
    headers = {"X-Gateway-Key": "planted-gateway", "Authorization": "Bearer planted-header"}
    launch = attrs.evolve(launch, server=attrs.evolve(launch.server, headers=headers))
    assert call(launch) == "done"
    own = [request for request in realm.server.requests if request.target in ("/mcp", f"{RESOURCE}/mcp")]
    others = [request for request in realm.server.requests if request not in own]
    assert len(others) == 2
    assert "planted-gateway" not in str(others)
    assert {request.headers["x-gateway-key"] for request in own} == {"planted-gateway"}
    assert "planted-header" not in str(realm.server.requests)
    assert realm.server.requests[-1].headers["x-gateway-key"] == "planted-gateway"


@pytest.mark.parametrize(
    ("resource", "url", "fits"),
    [
        ("https://a.example/mcp/", "https://a.example/mcp", True),
        ("https://A.example:443", "https://a.example/mcp", True),
        ("https://a.example/", "https://a.example/mcp?x=1", True),
        ("https://a.example/mc", "https://a.example/mcp", False),
        ("http://a.example/mcp", "https://a.example/mcp", False),
        ("https://a.example:8443/mcp", "https://a.example/mcp", False),
        ("https://[::1/mcp", "https://a.example/mcp", False),
    ],
)
def test_a_resource_covers_its_own_url_and_those_below(resource, url, fits):
    assert metadata.covers(resource, url) is fits


def test_issuers_are_compared_as_strings_but_for_a_root_slash():
    assert metadata.same_issuer("https://a.example", "https://a.example/")
    assert not metadata.same_issuer("https://a.example/x", "https://a.example/x/")
    assert not metadata.same_issuer("https://a.example", "https://A.example")


def test_the_issuer_is_written_as_its_own_metadata_has_it(realm, call):
    realm.metadata = {"issuer": f"{realm.issuer}/"}
    assert call(realm.machine()) == "done"
    found = realm.store.read(SignInKey(realm.server.url(), "me"), realm.issuer)
    assert found.issuer == f"{realm.issuer}/"


def test_a_resource_has_neither_query_nor_user_info_of_the_url():
    assert metadata.resource_of("https://me:pass@A.example/Mcp?key=secret#x") == "https://a.example/Mcp"


@pytest.mark.parametrize(
    ("parameters", "scopes"),
    [
        ('error="x", scope="read write"', ("read", "write")),
        ("scope=read", ("read",)),
        ('scope="", x="scope"', ()),
        ("", ()),
    ],
)
def test_the_scopes_of_a_challenge_are_those_that_a_request_needs(realm, parameters, scopes):
    async def found():
        async with AuthorizationRequests(realm.launch().server) as requests:
            return await metadata.discovered(requests, f"Bearer {parameters}")

    realm.resource = {"scopes_supported": ["all"]}
    discovery = asyncio.run(found())
    assert (discovery.challenged_scopes, discovery.scopes) == (scopes, ("all",))
