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
    ("url", "exempt", "direct"),
    [
        ("https://mcp.example.com", "*", True),
        ("https://mcp.example.com", "other, mcp.example.com", True),
        ("https://mcp.example.com", "EXAMPLE.com", True),
        ("https://mcp.example.com", ".example.com", True),
        ("https://mcp.example.com", "*.example.com", True),
        ("https://example.com", "example.com", True),
        ("https://mcp.example.com:8443", "mcp.example.com:8443", True),
        ("https://mcp.example.com", "mcp.example.com:443", True),
        ("http://mcp.example.com", "mcp.example.com:80", True),
        ("https://mcp.example.com", "https://mcp.example.com", True),
        ("https://mcp.example.com", "all://mcp.example.com", True),
        ("https://10.1.2.3", "10.1.2.3", True),
        ("https://10.1.2.3", "10.0.0.0/8", True),
        ("https://[fd00::1]", "fd00::1", True),
        ("https://[fd00::1]", "[fd00::]/8", True),
        ("https://mcp.example.com", "", False),
        ("https://mcp.example.com", " , ", False),
        ("https://mcp.example.com", "mcp", False),
        ("https://notexample.com", "example.com", False),
        ("https://example.com", ".example.com", False),
        ("https://example.com", "*.example.com", False),
        ("https://mcp.example.com", "mcp.example.com:8443", False),
        ("https://mcp.example.com", "http://mcp.example.com", False),
        ("https://11.1.2.3", "10.0.0.0/8", False),
        ("https://10.1.2.3", "10.0.0.0/99", False),
        ("https://[fe00::1]", "fd00::/8", False),
    ],
)
def test_an_exempt_host_and_no_other_is_reached_directly(url, exempt, direct):
    expected = "" if direct else PROXIES["https"]
    assert chosen_proxy(httpx2.URL(url), {**PROXIES, "no": exempt}) == expected
