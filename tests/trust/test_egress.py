"""Plain http reaches this machine only."""

from __future__ import annotations

import pytest

from pflow_mcp_plugin.errors import McpError
from pflow_mcp_plugin.trust import egress
from pflow_mcp_plugin.types import Server


def web(url, **fields):
    return Server(name="web", transport="http", url=url, **fields)


@pytest.mark.parametrize(
    "url",
    [
        "https://example.com",
        "http://localhost:8000/mcp",
        "HTTP://LOCALHOST",
        "http://mcp.localhost/",
        "http://127.0.0.1",
        "http://127.1.2.3:80",
        "http://[::1]:8000/",
        "",
    ],
)
def test_https_and_this_machine_are_fine(url):
    assert egress.advise(web(url)) is None
    egress.require_safe(web(url))


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com",
        "http://10.0.0.1/mcp",
        "http://0.0.0.0/",
        "http://localhost.example.com",
        "http://127.0.0.1.example.com",
        "http://localhost@example.com",
        "http://[::2]/",
    ],
)
def test_plain_http_to_another_machine_is_a_warning_first_and_an_error_at_connect(url):
    assert egress.advise(web(url)).severity == "warning"
    with pytest.raises(McpError) as caught:
        egress.require_safe(web(url))
    assert caught.value.where.phase == "connect"
    assert "insecure = true" in caught.value.suggestions[0]
    assert egress.advise(web(url, insecure=True)) is None
    egress.require_safe(web(url, insecure=True))


def test_a_host_that_is_yet_to_be_expanded_is_not_judged():
    assert egress.advise(web("http://${HOST}/mcp")) is None
