"""The threats to sign-ins, each played under its number: metadata of an attacker's, and tokens led astray.

A second server, the trap, counts what reaches it.
"""

import json
import os

import attrs
import pytest
from http_server import FaultServer

from pflow_mcp_plugin.client import Pool
from pflow_mcp_plugin.errors import McpError
from pflow_mcp_plugin.exchange import ToolCall
from pflow_mcp_plugin.types import NetworkRules

ACT = ToolCall(server="web", tool="act")
ELSEWHERE = "127.0.0.3"
RESOURCE = "/.well-known/oauth-protected-resource/mcp"
ISSUER = "/.well-known/oauth-authorization-server"

pytestmark = [pytest.mark.timeout(40), pytest.mark.usefixtures("bare_network", "no_leftovers")]


@pytest.fixture
def trap(realm):
    """A server of the attacker's, whose metadata would be right for anybody."""

    async def lure(request, reply):
        if request.target.startswith("/.well-known/oauth-protected-resource"):
            await reply.json({"resource": realm.server.url(), "authorization_servers": [there("")]})
        elif request.target.startswith("/.well-known/"):
            await reply.json({"issuer": there(""), "token_endpoint": there("/token")})
        else:
            return False
        return True

    def there(path):
        return running.url(ELSEWHERE, path)

    with FaultServer(lure, host=ELSEWHERE) as running:
        yield running


@pytest.fixture
def refused(realm, trap):
    """Call the tool of a server, which fails with these words; neither the trap nor a token is asked for."""

    def made(words, launch):
        with Pool(pytest.fail, sign_in_folder=realm.folder) as pool, pytest.raises(McpError) as failure:
            pool.call(launch, ACT)
        assert words in failure.value.message
        assert "planted" not in repr(failure.value.to_dict())
        assert trap.connections == 0
        assert realm.forms == []
        return failure.value

    return made


def answering(status, **headers):
    async def answer(request, reply):
        await reply.status(status, **headers)

    return answer


def test_row_18_a_challenge_that_names_metadata_elsewhere_is_refused(realm, trap, refused):
    url = trap.url(ELSEWHERE, RESOURCE)
    realm.scripts["/mcp"] = answering(401, www_authenticate=f'Bearer resource_metadata="{url}"')
    refused(f"it names metadata on another host, {url}; refused", realm.machine())


@pytest.mark.parametrize("path", [RESOURCE, ISSUER])
def test_row_18_metadata_that_redirect_elsewhere_are_refused(realm, trap, refused, path):
    url = trap.url(ELSEWHERE, path)
    realm.scripts[path] = answering(302, location=url)
    refused(f"redirects to another host, {url}; refused", realm.machine())


def test_row_18_metadata_for_another_resource_are_refused(realm, refused):
    """Confused deputy: the token would be good for a server of somebody else."""
    realm.resource = {"resource": "https://bank.example/mcp"}
    refused("its metadata is for another resource, https://bank.example/mcp; refused", realm.machine())


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://login.example.com/token", "must be an https URL: http://login.example.com/token"),
        ("https://me:pass@login.example.com/", "must be an https URL: https://login.example.com/"),
        ("javascript:alert(1)", "must be an https URL: javascript:alert(1)"),
        ("https://169.254.169.254/token", "169.254.169.254"),
        ("https://denied.example.com/token", 'is denied by deny = ["denied.*"]'),
    ],
)
@pytest.mark.parametrize("name", ["token_endpoint", "authorization_endpoint"])
def test_row_18_endpoints_on_other_schemes_and_forbidden_hosts_are_refused(realm, refused, name, url, words):
    launch = realm.machine()
    rules = NetworkRules(deny=("denied.*", "169.254.*"))
    launch = attrs.evolve(launch, server=attrs.evolve(launch.server, network=rules))
    realm.metadata = {name: url}
    refused(words, launch)


def test_row_21_every_token_is_requested_for_the_one_server_that_it_is_sent_to(realm):
    with Pool(pytest.fail, sign_in_folder=realm.folder) as pool:
        pool.call(realm.machine(), ACT)
        realm.valid.clear()
        pool.call(realm.machine(), ACT)
    assert [form["grant_type"] for form in realm.forms] == ["client_credentials", "refresh_token"]
    assert {form["resource"] for form in realm.forms} == {realm.server.url()}


def test_row_21_neither_the_token_nor_headers_of_the_server_reach_the_authorization_server(realm):
    realm.sign_in(expires_in=-1)
    launch = realm.launch(headers={"X-Key": "planted-header"})
    with Pool(pytest.fail, sign_in_folder=realm.folder) as pool:
        pool.call(launch, ACT)
    others = [request for request in realm.server.requests if request.target != "/mcp"]
    assert others
    assert "planted-access" not in str([request.headers for request in others])
    assert "planted-header" not in str(others)


@pytest.mark.parametrize("umask", [0o000, 0o777])
def test_row_23_sign_ins_are_private_under_any_umask(realm, umask):
    before = os.umask(umask)
    try:
        with Pool(pytest.fail, sign_in_folder=realm.folder) as pool:
            pool.call(realm.machine(), ACT)
            realm.valid.clear()
            pool.call(realm.machine(), ACT)
    finally:
        os.umask(before)
    modes = {path.suffix: path.stat().st_mode & 0o777 for path in realm.folder.iterdir()}
    assert modes == {".json": 0o600, ".lock": 0o600}
    assert realm.folder.stat().st_mode & 0o777 == 0o700
    (file,) = realm.folder.glob("*.json")
    assert json.loads(file.read_text())["secrets"]["access"] == "planted-access-2"
