"""Plain http reaches this machine only; hosts and addresses are judged by the rules of the config."""

import attrs
import pytest

from pflow_mcp_plugin.config import server_egress
from pflow_mcp_plugin.errors import McpError
from pflow_mcp_plugin.network import egress
from pflow_mcp_plugin.types import NetworkRules, Server


def web(url, **fields):
    return Server(name="web", transport="http", url=url, **fields)


@pytest.mark.parametrize(
    "url",
    ["https://example.com", "HTTP://LOCALHOST:8000/mcp", "http://mcp.localhost/", "http://127.1.2.3:80"],
)
def test_https_and_this_machine_are_fine(url):
    assert server_egress.advise(web(url)) is None
    server_egress.require_url(web(url), url)


@pytest.mark.parametrize(
    "url",
    ["http://0.0.0.0/", "http://127.0.0.1.example.com", "http://localhost@example.com", "http://[::2]/"],
)
def test_plain_http_to_another_machine_is_a_warning_first_and_an_error_at_connect(url):
    assert server_egress.advise(web(url)).severity == "warning"
    with pytest.raises(McpError) as caught:
        server_egress.require_url(web(url), url)
    assert caught.value.where.phase == "connect"
    assert "insecure = true" in caught.value.suggestions[0]
    assert server_egress.advise(web(url, insecure=True)) is None
    server_egress.require_url(web(url, insecure=True), url)


def test_an_invalid_url_is_refused_and_a_host_that_is_yet_to_be_expanded_not_judged():
    assert server_egress.advise(web("http://${HOST}/mcp")) is None
    url = "ftp://example.com"
    assert "is not an http or https address" in server_egress.advise(web("http://[::1")).message
    with pytest.raises(McpError, match="is not an http or https address"):
        server_egress.require_url(web(url, insecure=True), url)


def rules(**fields):
    return {"network": NetworkRules(**fields)}


def refused(server, url=""):
    refusal = egress.refusal_of_url(server, url or server.url)
    return "" if refusal is None else refusal.message


@pytest.mark.parametrize(
    ("host", "deny"),
    [
        ("api.example.com", "*.example.com"),
        ("API.Example.COM.", "api.EXAMPLE.com"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("203.0.113.7", "203.0.113.*"),
        ("203.0.113.7", "203.0.113.0/24"),
        ("[::ffff:8.8.8.8]", "8.8.8.8"),
        ("[2606:4700::1]", "2606:4700::/32"),
        ("localhost", "localhost"),
    ],
)
def test_deny_wins_over_everything(host, deny):
    server = web(f"https://{host}/mcp", insecure=True, **rules(allow=("*", host), deny=("other", deny)))
    assert f'deny = ["{deny}"]' in refused(server)
    assert refused(attrs.evolve(server, network=NetworkRules(allow=("*",)))) == ""


@pytest.mark.parametrize("host", ["api.example.com", "8.8.8.8", "localhost"])
def test_a_registered_host_is_that_of_a_configured_server_or_allowed(host):
    url = f"https://{host}/mcp"
    assert "is not registered" in refused(web(url, **rules(policy="registered", hosts=("example.net",))))
    assert refused(web(url, **rules(policy="registered", hosts=("example.net", host)))) == ""
    assert refused(web(url, **rules(policy="registered", allow=(host,)))) == ""


PRIVATE = {
    "loopback": ["127.9.9.9", "::1"],
    "unspecified": ["0.0.0.0", "::"],
    "private": [
        *("10.1.2.3", "172.16.0.1", "192.168.1.1", "100.64.0.1", "0.1.2.3", "192.0.0.1", "192.0.0.170"),
        *("192.0.2.1", "192.88.99.1", "198.18.0.1", "198.51.100.1", "203.0.113.1"),
        *("fc00::1", "fd12::1", "fec0::1", "2001::1", "2001:2::1", "2001:10::1", "2001:db8::1", "3fff::1"),
        *("::ffff:10.1.2.3", "64:ff9b::10.1.2.3", "2002:0a01:0203::1"),
        *("::ffff:192.88.99.1", "64:ff9b::192.88.99.1", "2002:c058:6301::1"),
    ],
    "link-local": ["169.254.1.1", "fe80::1", "fe80::1%eth0"],
    "cloud metadata": [
        *("169.254.169.254", "fd00:ec2::254", "100.100.100.200", "168.63.129.16"),
        *("::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe"),
    ],
    "multicast": ["224.0.0.1", "ff0e::1"],
    "reserved": [
        *("240.0.0.1", "255.255.255.255", "::127.0.0.1", "::ffff:0:127.0.0.1", "64:ff9b:1::1"),
        *("100::1", "100:0:0:1::1", "5f00::1"),
    ],
}
"""At least one address of each range of IANA's special-purpose registries that is not global."""


@pytest.mark.parametrize(("kind", "address"), [(kind, it) for kind, found in PRIVATE.items() for it in found])
def test_an_address_that_is_not_public_may_be_behind_a_name_only_if_the_config_names_it(address, kind):
    server = web("https://mcp.example.com")
    refusal = egress.refusal_of_address(server, "mcp.example.com", address)
    assert f"has the {kind} address" in refusal.message
    assert "the config does not name" in refusal.message
    by_name = attrs.evolve(server, network=NetworkRules(allow=("*", "mcp.example.com", "*.*", "10.*")))
    assert egress.refusal_of_address(by_name, "mcp.example.com", address) == refusal
    named = attrs.evolve(server, network=NetworkRules(allow=("0.0.0.0/0", "::/0")))
    assert egress.refusal_of_address(named, "mcp.example.com", address) is None


@pytest.mark.parametrize(
    "address", ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "3ffe:ffff::1"]
)
def test_a_public_address_may_be_behind_any_name(address):
    assert egress.refusal_of_address(web("https://mcp.example.com"), "mcp.example.com", address) is None


def test_an_address_is_named_where_it_is_written_as_the_host_of_a_server():
    own = web("https://10.1.2.3:8443/mcp")
    assert refused(own) == ""
    assert egress.refusal_of_address(own, "10.1.2.3", "10.1.2.3") is None
    assert "private address 10.1.2.4" in refused(own, "https://10.1.2.4/metadata")
    elsewhere = web("https://example.com", **rules(hosts=("example.com", "10.1.2.3")))
    assert refused(elsewhere, "https://10.1.2.3/metadata") == ""
    assert egress.refusal_of_address(elsewhere, "example.com", "10.1.2.3") is not None


def test_a_name_of_this_machine_leads_to_it_and_nowhere_else():
    local = web("http://localhost:8000")
    assert egress.refusal_of_address(local, "localhost", "127.0.0.1") is None
    assert egress.refusal_of_address(local, "localhost", "::1") is None
    refusal = egress.refusal_of_address(local, "localhost", "8.8.8.8")
    assert "does not belong to this machine" in refusal.message
    assert refused(local, "http://127.0.0.1:9000/authorize") == ""
    for allow, is_allowed in (("*", False), ("*.0.0.1", False), ("127.0.0.0/8", True), ("127.0.0.1", True)):
        server = web("https://example.com", **rules(allow=(allow,)))
        assert (refused(server, "http://127.0.0.1:9000/authorize") == "") is is_allowed


def test_of_several_addresses_those_that_are_allowed_are_left():
    server = web("https://example.com")
    allowed, refusal = egress.allowed_addresses(server, "example.com", ["10.0.0.1", "8.8.8.8", "bad"])
    assert allowed == ["8.8.8.8"]
    assert refusal.address == "10.0.0.1"
    denying = web("https://example.com", **rules(deny=("8.8.8.8",)))
    denied = egress.refusal_of_address(denying, "example.com", "8.8.8.8")
    assert (denied.host, denied.address) == ("example.com", "8.8.8.8")


@pytest.mark.parametrize(
    "url",
    [
        "http://auth.example.com/authorize",
        "https://localhost/authorize",
        "https://[::ffff:169.254.169.254]/latest/meta-data",
        "https://denied.example.com/authorize",
        "file:///etc/passwd",
    ],
)
def test_row_18_a_url_that_a_server_names_is_checked_like_its_own(url):
    server = web("https://mcp.example.com", insecure=True, **rules(deny=("denied.*",)))
    with pytest.raises(McpError) as caught:
        server_egress.require_url(server, url)
    assert caught.value.where.phase == "connect"
    assert caught.value.suggestions
    server_egress.require_url(server, "https://auth.example.com/authorize")


@pytest.mark.parametrize(
    "url", ["http://mcp.example.com", "HTTP://localhost", "http://127.0.0.1:1", "http://[::1]"]
)
def test_row_62_pins_cannot_be_checked_over_plain_http_so_that_it_is_refused(url):
    server = web(url, insecure=True, tls_pins=("x",))
    assert "cannot be checked against its tls_pins" in refused(server)
    assert "cannot be checked" in refused(attrs.evolve(server, url="https://mcp.example.com"), url)


@pytest.mark.parametrize("url", ["http://user:$${A}@example.com", "http://user:${A@example.com"])
def test_nothing_in_the_user_info_hides_that_http_is_plain(url):
    assert "uses plain http to example.com" in refused(web(url))


def test_insecure_is_for_the_servers_own_host():
    server = web("http://mcp.example.com", insecure=True)
    assert refused(server, "http://MCP.example.com/other") == ""
    assert "uses plain http to auth.example.com" in refused(server, "http://auth.example.com")
