"""The address to listen on, as people write it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.server.http.listening_address import ListeningAddress, parse_address


@pytest.mark.parametrize(
    ("text", "url", "loopback"),
    [
        (":8000", "http://127.0.0.1:8000/mcp", True),
        ("localhost:8000", "http://localhost:8000/mcp", True),
        ("[::1]:8000", "http://[::1]:8000/mcp", True),
        ("0.0.0.0:1", "http://0.0.0.0:1/mcp", False),
        ("[::]:1", "http://[::]:1/mcp", False),
        ("pflow.example:443", "http://pflow.example:443/mcp", False),
    ],
)
def test_an_address_has_a_url(text, url, loopback):
    address = parse_address(text)
    assert address.url() == url
    assert address.is_loopback == loopback
    assert address.is_wildcard == (address.host in {"0.0.0.0", "::"})


@pytest.mark.parametrize(
    "text", ["", "8000", "localhost", "::1:8000", "a:b", "a:-1", "a:65536", "http://a:1", "a b:1"]
)
def test_what_is_no_address_is_refused(text):
    with pytest.raises(PflowError, match="is not an address to listen on") as refused:
        parse_address(text)
    assert refused.value.kind == "usage"


@given(st.text())
def test_any_text_is_an_address_or_refused(text):
    try:
        address = parse_address(text)
    except PflowError:
        return
    assert isinstance(address, ListeningAddress)
    assert 0 <= address.port <= 65535
