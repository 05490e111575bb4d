"""Which proxy of the environment a URL gets, and which hosts are exempt."""

from __future__ import annotations

import httpx2
import pytest

from pflow_mcp_plugin.network.checked_connections import chosen_proxy

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
    ("url", "exempt"),
    [
        ("https://mcp.example.com", "*"),
        ("https://mcp.example.com", "other, mcp.example.com"),
        ("https://mcp.example.com", "EXAMPLE.com"),
        ("https://mcp.example.com", ".example.com"),
        ("https://mcp.example.com", "*.example.com"),
        ("https://example.com", "example.com"),
        ("https://mcp.example.com:8443", "mcp.example.com:8443"),
        ("https://mcp.example.com", "mcp.example.com:443"),
        ("http://mcp.example.com", "mcp.example.com:80"),
        ("https://mcp.example.com", "https://mcp.example.com"),
        ("https://mcp.example.com", "all://mcp.example.com"),
        ("https://10.1.2.3", "10.1.2.3"),
        ("https://10.1.2.3", "10.0.0.0/8"),
        ("https://[fd00::1]", "fd00::1"),
        ("https://[fd00::1]", "[fd00::]/8"),
    ],
)
def test_an_exempt_host_is_reached_directly(url, exempt):
    assert chosen_proxy(httpx2.URL(url), {**PROXIES, "no": exempt}) == ""


@pytest.mark.parametrize(
    ("url", "exempt"),
    [
        ("https://mcp.example.com", ""),
        ("https://mcp.example.com", " , "),
        ("https://mcp.example.com", "mcp"),
        ("https://notexample.com", "example.com"),
        ("https://example.com", ".example.com"),
        ("https://example.com", "*.example.com"),
        ("https://mcp.example.com", "mcp.example.com:8443"),
        ("https://mcp.example.com", "http://mcp.example.com"),
        ("https://11.1.2.3", "10.0.0.0/8"),
        ("https://10.1.2.3", "10.0.0.0/99"),
        ("https://[fe00::1]", "fd00::/8"),
    ],
)
def test_no_other_host_is_exempt(url, exempt):
    assert chosen_proxy(httpx2.URL(url), {**PROXIES, "no": exempt}) == PROXIES["https"]
