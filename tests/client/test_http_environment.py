"""Proxies and certificates that the environment names, and which hosts are reached without a proxy."""

from __future__ import annotations

from pathlib import Path

import httpx2
import pytest
from certificates import Authority
from http_server import always, well, with_status

from pflow_mcp_plugin.client import Pool
from pflow_mcp_plugin.errors import ConnectionFailed
from pflow_mcp_plugin.exchange import Launch, ToolCall
from pflow_mcp_plugin.network.checked_connections import chosen_proxy
from pflow_mcp_plugin.types import Server

ACT = ToolCall(server="web", tool="act")

pytestmark = pytest.mark.usefixtures("bare_network")


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """A CA that nobody trusts yet."""
    return Authority(tmp_path)


def launch(url: str) -> Launch:
    return Launch(server=Server(name="web", transport="http", url=url, insecure=True))


def called(pool: Pool, url: str) -> bool:
    return pool.call(launch(url), ACT).content[0]["text"] == "done"


def test_hosts_of_no_proxy_are_reached_directly(pool, serve, monkeypatch):
    server = serve(well)
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", "0.0.0.0")  # an address of this machine that is no loopback one
    assert called(pool, server.url("0.0.0.0"))


def test_a_proxy_that_refuses_is_named_as_the_cause(pool, serve, monkeypatch):
    proxy = serve(always(with_status(407)))
    monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy.port}")
    with pytest.raises(ConnectionFailed, match=r"the proxy for .* failed") as caught:
        called(pool, "https://mcp.example.invalid/mcp")
    assert "NO_PROXY" in caught.value.suggestions[0]


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
        ("http://mcp.example.com", "mcp.example.com:80", True),
        ("https://mcp.example.com", "https://mcp.example.com", True),
        ("https://10.1.2.3", "10.0.0.0/8", True),
        ("https://[fd00::1]", "[fd00::]/8", True),
        ("https://mcp.example.com", " , ", False),
        ("https://mcp.example.com", "mcp", False),
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
