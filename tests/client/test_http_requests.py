"""What both HTTP transports share: where a request may be led, and how much of an answer is read."""

from __future__ import annotations

import pytest

from pflow_mcp_plugin.client.http_requests import is_same_origin


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
