"""What both HTTP transports share: address and proxy, certificates, redirects, and when it goes again."""

from collections.abc import Awaitable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import anyio
import httpcore2
import httpx2
import pytest
from http_server import FaultServer, Reply, Request, always, handshake, well, with_status

from pflow_mcp_plugin.client import Pool
from pflow_mcp_plugin.client.failures import Evidence, explain
from pflow_mcp_plugin.client.request_failures import Exchange, RequestFailed
from pflow_mcp_plugin.config.auth import with_header
from pflow_mcp_plugin.errors import ConnectionFailed
from pflow_mcp_plugin.exchange import Launch, ToolCall
from pflow_mcp_plugin.network.checked_connections import _first, chosen_proxy
from pflow_mcp_plugin.network.egress import is_same_origin
from pflow_mcp_plugin.network.http_headers import retry_after
from pflow_mcp_plugin.types import Server

pytestmark = pytest.mark.usefixtures("bare_network")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("https://Example.com/sse", "https://example.com/messages", True),
        ("https://example.com", "https://example.com:443/messages", True),
        ("http://example.com:80", "http://example.com", True),
        ("http://example.com", "https://example.com", False),
        ("http://example.com", "http://example.com:8080", False),
        ("http://example.com", "http://example.org", False),
    ],
)
def test_an_origin_is_scheme_host_and_port(one, other, same):
    assert is_same_origin(one, other) is same


@pytest.mark.parametrize(
    "location", ["/elsewhere", "http://someone@{host}/mcp", "http://{host}/mcp", "https://{host}/mcp"]
)
def test_a_redirect_leads_three_times_at_most_and_never_with_another_name(pool, location):
    def lead(request: Request, reply: Reply) -> Awaitable[None]:
        return reply.status(307, location=location.format(host=f"127.0.0.1:{server.port}"))

    with FaultServer(always(lead)) as server:
        launch = Launch(server=Server(name="web", transport="http", url=server.url(), protocol="handshake"))
        with pytest.raises(ConnectionFailed, match="redirects to"):
            pool.info(launch)
    followed = location == "/elsewhere" or location.startswith("http://{")
    assert len(server.requests) == (4 if followed else 1)
    assert not any("authorization" in request.headers for request in server.requests)


@pytest.mark.parametrize(
    ("auth", "header"),
    [
        ({"type": "bearer", "token": "t"}, {"Authorization": "Bearer t"}),
        ({"type": "api_key", "key": "k"}, {"X-API-Key": "k"}),
        ({"type": "api_key", "key": "k", "header": "X-Mine"}, {"X-Mine": "k"}),
        ({"type": "basic", "username": "u", "password": "p"}, {"Authorization": "Basic dTpw"}),
        ({}, {}),
    ],
)
def test_auth_becomes_a_header(auth, header):
    server = Server(name="web", transport="http", url="https://example.com", auth=auth, headers={"X-A": "1"})
    assert with_header(server.headers, server.auth) == {"X-A": "1", **header}


def test_a_failure_that_was_handled_before_is_not_told_as_the_cause():
    earlier, later = RequestFailed(Exchange()), httpx2.ReadError("reset")
    earlier.__cause__, later.__context__ = ConnectionRefusedError(), earlier
    exchange = Exchange(error=later)
    server = Server(name="web", transport="http", url="http://127.0.0.1/mcp")
    evidence = Evidence(server=server, phase="handshake", exchange=exchange)
    assert "broke off: ReadError reset" in str(explain(RequestFailed(exchange), evidence))


def with_cookies(cookies: dict[str, str]):
    """Return a script that sets a cookie with the answer to each of these JSON-RPC methods."""

    async def script(request: Request, reply: Reply) -> bool:
        if request.rpc not in cookies:
            return False
        result = handshake() if request.rpc == "initialize" else {"tools": []}
        await reply.result(result, set_cookie=cookies[request.rpc])
        return True

    return script


@pytest.mark.parametrize("auth", [{}, {"type": "bearer", "token": "planted"}])
def test_a_cookie_is_sent_back_to_the_server_that_set_it_and_to_no_other(pool, auth):
    script = with_cookies({"initialize": "route=a1; Path=/", "tools/list": "odd=\u00fc"})
    with FaultServer(script) as server, FaultServer(with_cookies({})) as other:
        launches = [
            Launch(server=Server(name=name, transport="http", url=each.url(), auth=auth))
            for name, each in (("one", server), ("two", other))
        ]
        for launch in (*launches, *launches):
            pool.list_tools(launch)
            pool.call(launch, ToolCall(server=launch.server.name, tool="act"))
    first = next(i for i, request in enumerate(server.requests) if request.rpc == "initialize")
    later = [request for request in server.requests[first + 1 :] if request.method == "POST"]
    assert len(later) >= 4
    assert {request.headers.get("cookie") for request in later} == {"route=a1"}
    assert not any("cookie" in request.headers for request in other.requests)


class Stream(httpcore2.AsyncNetworkStream):
    """Stands for a connection to an address."""

    def __init__(self, address):
        self.address = address

    async def aclose(self):
        """Close it."""


def reached(addresses, refusing):
    async def connected(address):
        if address in refusing:
            raise httpcore2.ConnectError(f"{address} refused")
        return Stream(address)

    return anyio.run(_first, addresses, connected).address


@pytest.mark.parametrize("number", [1, 2, 3])
def test_the_first_address_that_answers_is_used_wherever_it_stands(number):
    addresses = [f"192.0.2.{each}" for each in range(number)]
    for answering in addresses:
        before = addresses[: addresses.index(answering)]
        assert reached(addresses, before) == answering
    with pytest.raises((OSError, httpcore2.ConnectError), match=f"{addresses[-1]} refused"):
        reached(addresses, addresses)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("7", 7.0), (" 0 ", 0.0), ("", None), ("soon", None), ("-3", None), ("9" * 30, None)],
)
def test_seconds_are_read_and_nothing_is_made_of_nonsense(header, seconds):
    assert retry_after(header) == seconds


def test_a_date_is_read_as_the_time_until_then():
    then = datetime.now(UTC) + timedelta(seconds=60)
    assert retry_after(format_datetime(then, usegmt=True)) == pytest.approx(60, abs=10)
    assert retry_after(format_datetime(then - timedelta(days=1))) == 0


def test_auth_replaces_a_header_whose_name_differs_only_in_case():
    auth = {"type": "bearer", "token": "t"}
    assert with_header({"authorization": "Token a"}, auth) == {"Authorization": "Bearer t"}


ACT = ToolCall(server="web", tool="act")


def launch(url: str) -> Launch:
    return Launch(server=Server(name="web", transport="http", url=url, insecure=True))


def called(pool: Pool, url: str) -> bool:
    return pool.call(launch(url), ACT).content[0]["text"] == "done"


def test_hosts_of_no_proxy_are_reached_directly(pool, serve, monkeypatch):
    server = serve(well)
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", "0.0.0.0")  # an address of this machine that is no loopback one
    assert called(pool, server.url("0.0.0.0"))


@pytest.mark.parametrize(
    ("variable", "folder"),
    [
        ("SSL_CERT_FILE", False),
        ("REQUESTS_CA_BUNDLE", False),
        ("CURL_CA_BUNDLE", False),
        ("SSL_CERT_DIR", True),
        ("REQUESTS_CA_BUNDLE", True),
    ],
)
def test_a_file_or_folder_of_certificates_is_trusted(pool, serve, monkeypatch, authority, variable, folder):
    server = serve(well, tls=authority.server_context("localhost"))
    monkeypatch.setenv(variable, str(authority.hashed_folder() if folder else authority.file))
    assert called(pool, server.url("localhost"))


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_a_file_that_cannot_be_read_is_named(pool, monkeypatch, tmp_path, content):
    file = tmp_path / "roots.pem"
    if content is not None:
        file.write_text(content)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    with pytest.raises(ConnectionFailed, match=f"Server web: certificates to trust cannot be read: {file}"):
        called(pool, "https://localhost/mcp")


PROXIES = {"http": "http://plain:1", "https": "http://secure:1", "all": "http://any:1"}


@pytest.mark.parametrize(
    ("proxies", "expected"),
    [
        (PROXIES, "http://secure:1"),
        ({"all": "http://any:1"}, "http://any:1"),
        ({"https": "secure:8080"}, "http://secure:8080"),
        ({"http": "http://plain:1"}, ""),
        ({}, ""),
    ],
)
def test_the_proxy_of_the_scheme_comes_before_that_of_all(proxies, expected):
    assert chosen_proxy(httpx2.URL("https://mcp.example.com/mcp"), proxies) == expected


@pytest.mark.parametrize(
    ("url", "exempt", "direct"),
    [
        ("https://mcp.example.com", "*", True),
        ("https://mcp.example.com", "other, MCP.example.com", True),
        ("https://mcp.example.com", ".example.com", True),
        ("https://mcp.example.com", "*.example.com", True),
        ("https://mcp.example.com", "mcp.example.com:443", True),
        ("https://mcp.example.com", "https://mcp.example.com", True),
        ("https://10.1.2.3", "10.0.0.0/8", True),
        ("https://[fd00::1]", "[fd00::]/8", True),
        ("https://mcp.example.com", " , ", False),
        ("https://notexample.com", "example.com", False),
        ("https://example.com", "*.example.com", False),
        ("https://mcp.example.com", "mcp.example.com:8443", False),
        ("https://mcp.example.com", "http://mcp.example.com", False),
        ("https://10.1.2.3", "10.0.0.0/99", False),
        ("https://[fe00::1]", "fd00::/8", False),
    ],
)
def test_an_exempt_host_and_no_other_is_reached_directly(url, exempt, direct):
    expected = "" if direct else PROXIES["https"]
    assert chosen_proxy(httpx2.URL(url), {**PROXIES, "no": exempt}) == expected


@pytest.mark.parametrize(
    ("url", "variable", "proxy", "words"),
    [
        ("https", "HTTPS_PROXY", "http://user:SECRET/part2@127.0.0.1:1", "HTTPS_PROXY is not a valid URL"),
        ("https", "ALL_PROXY", "http://user:12#SECRET@127.0.0.1:1", "ALL_PROXY is not a valid URL"),
        ("https", "HTTPS_PROXY", "SECRET://127.0.0.1", "HTTPS_PROXY is not a valid URL"),
        ("https", "HTTPS_PROXY", "http://127.0.0.1:1", "no connection to the address in HTTPS_PROXY"),
        ("http", "ALL_PROXY", "http://127.0.0.1:1", "no connection to the address in ALL_PROXY"),
        ("http", "HTTP_PROXY", "", "the proxy for .* refused it"),
    ],
)
def test_what_is_wrong_with_a_proxy_is_said_with_its_variable(
    pool, serve, monkeypatch, url, variable, proxy, words
):
    monkeypatch.setenv(variable, proxy or serve(always(with_status(407))).url())
    with pytest.raises(ConnectionFailed, match=words) as caught:
        called(pool, f"{url}://mcp.example.invalid/mcp")
    assert "check HTTP_PROXY" in caught.value.suggestions[0]
    assert "SECRET" not in f"{caught.value} {caught.value.details}"
