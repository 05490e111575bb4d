"""The threats of the network, each played under its number with real servers on loopback.

Names are looked up by a resolver of the test's own, and what must not be reached counts its connections.
Two addresses of loopback stand for two machines; the config names one of them.
"""

import asyncio
import base64
import hashlib
import os
import socket
import ssl
import subprocess
import threading
import tomllib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from shutil import which

import pytest
from certificates import Authority
from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from http_server import FaultServer, Proxy, Reply, Request, well
from resolver import Names

from pflow_mcp_plugin.client import Pool
from pflow_mcp_plugin.client.transport.http_requests import make_client
from pflow_mcp_plugin.errors import CallFailed, ConnectionFailed, McpError
from pflow_mcp_plugin.exchange import Launch, ToolCall
from pflow_mcp_plugin.network.egress import HostRefused
from pflow_mcp_plugin.types import NetworkRules, Server

ACT = ToolCall(server="web", tool="act")
NAME = "mcp.example.com"
HERE, ELSEWHERE = "127.0.0.2", "127.0.0.3"
"""The address that the config names, and one that it does not."""
RULES = NetworkRules(allow=(HERE,))
OTHER_PIN = base64.b64encode(bytes(32)).decode()
"""The pin of no key that a server here has."""

pytestmark = [pytest.mark.timeout(40), pytest.mark.usefixtures("bare_network")]


@pytest.fixture
def run(no_leftovers) -> Iterator[Callable]:
    """Start servers and proxies."""
    with ExitStack() as stack:
        yield stack.enter_context


@pytest.fixture
def pool(run) -> Iterator[Pool]:
    """A pool that is closed while the servers are still there."""
    with Pool(lambda _: None) as pool:
        yield pool


@pytest.fixture
def names(monkeypatch) -> Names:
    """The resolver of this test."""
    made = Names()
    monkeypatch.setattr(socket, "getaddrinfo", made)
    return made


@pytest.fixture
def server(run, names) -> FaultServer:
    """A server at the address that the config names; the name leads to it."""
    names.answers[NAME] = [[HERE]]
    return run(FaultServer(well, host=HERE))


@pytest.fixture
def trap(run, server) -> FaultServer:
    """A server on the same port of the other address."""
    return run(FaultServer(well, host=ELSEWHERE, port=server.port))


def launch(url, **fields):
    return Launch(server=Server(name="web", url=url, **{"transport": "http", "network": RULES, **fields}))


def plain(server, host=NAME, **fields):
    return launch(server.url(host), insecure=True, **fields)


def called(pool, there):
    return pool.call(there, ACT).content[0]["text"] == "done"


def fails(pool, there, match, kind=ConnectionFailed):
    with pytest.raises(kind, match=match) as caught:
        pool.call(there, ACT)
    assert caught.value.ran == "not ran"
    assert caught.value.message.startswith("Server web")
    assert caught.value.suggestions
    return caught.value


def test_row_16_plain_http_to_another_machine_gets_no_byte_and_no_look_up(pool, server, names):
    error = fails(pool, launch(server.url(NAME)), "uses plain http to mcp.example.com", McpError)
    assert error.kind == "config"
    assert (names.asked, server.connections) == ([], 0)


@pytest.mark.parametrize(
    "place", ["http://127.0.0.3:{port}/", "http://localhost:{port}/", "https://mcp.example.com:{port}/"]
)
def test_row_17_neither_a_redirect_nor_an_endpoint_leads_to_another_origin(pool, run, names, place):
    trap = run(FaultServer(well, host=ELSEWHERE))
    location = place.format(port=trap.port)

    async def lead(request: Request, reply: Reply) -> bool:
        if request.method == "GET":
            await reply.events(f"event: endpoint\ndata: {location}")
        else:
            await reply.status(307, location=location)
        return True

    server = run(FaultServer(lead, host=HERE))
    names.answers |= {NAME: [[HERE]], "localhost": [[ELSEWHERE]]}
    secret = {"auth": {"type": "bearer", "token": "s3cret-token"}}
    fails(pool, plain(server, **secret), "redirects to")
    fails(pool, plain(server, transport="sse", **secret), "names another host for its messages")
    assert server.requests
    assert trap.connections == 0


@pytest.mark.parametrize("url", ["http://auth.example.com:{port}/", "https://localhost:{port}/"])
@pytest.mark.parametrize("proxied", [False, True])
def test_row_18_a_url_that_a_server_names_is_checked_before_it_is_connected_to(
    run, names, monkeypatch, url, proxied
):
    trap = run(FaultServer(well))
    if proxied:
        monkeypatch.setenv("ALL_PROXY", f"http://127.0.0.1:{trap.port}")
    names.answers["auth.example.com"] = [["127.0.0.1"]]
    server = launch(f"https://{NAME}").server

    async def ask() -> None:
        async with make_client(server) as client:
            await client.get(url.format(port=trap.port))

    with pytest.raises(HostRefused, match="Server web"):
        asyncio.run(ask())
    assert trap.connections == 0


def test_row_19_a_name_that_changes_after_the_look_up_leads_nowhere_else(pool, run, names):
    async def hang_up(request: Request, reply: Reply) -> bool:
        if request.rpc != "tools/call":
            return False
        await reply.result({"content": [{"type": "text", "text": "done"}]}, connection="close")
        reply.close()
        return True

    server = run(FaultServer(hang_up, host=HERE))
    trap = run(FaultServer(well, host=ELSEWHERE, port=server.port))
    names.answers[NAME] = [[HERE], [ELSEWHERE]]
    assert called(pool, plain(server))
    assert (len(names.asked), server.connections) == (1, 1)
    error = fails(pool, plain(server), f"has the loopback address {ELSEWHERE}", CallFailed)
    assert ELSEWHERE in error.suggestions[0]
    assert trap.connections == 0


def test_row_19_the_server_of_a_rebound_name_still_has_to_prove_the_name(pool, run, names, tmp_path):
    authority = Authority(tmp_path)
    server = run(FaultServer(well, authority.server_context(NAME), host=HERE))
    names.answers |= {NAME: [[HERE]], "other.example.com": [[HERE]]}
    assert called(pool, launch(server.url(NAME), ca_bundle=str(authority.file)))
    wrong = launch(server.url("other.example.com"), ca_bundle=str(authority.file))
    fails(pool, wrong, "the certificate of other.example.com is for another host name")


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "0.0.0.0", "10.0.0.1", "100.64.0.1", "169.254.169.254", "100.100.100.200"),
        *("::1", "::", "fd00:ec2::254", "fe80::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::"),
        *("3fff::1", "192.88.99.1"),
    ],
)
@pytest.mark.parametrize("insecure", [False, True])
def test_row_19_an_address_that_is_not_public_gets_no_byte(pool, run, names, address, insecure):
    trap = run(FaultServer(well))
    names.answers[NAME] = [[address]]
    url = trap.url(NAME) if insecure else trap.url(NAME).replace("http:", "https:")
    there = launch(url, insecure=insecure, network=NetworkRules())
    error = fails(pool, there, f"host {NAME} has the .* which the config does not name; nothing was sent")
    assert error.details["host"] == NAME
    assert trap.connections == 0


@pytest.mark.parametrize("host", ["2130706433", "0x7f.1", "0177.0.0.1", "127.1"])
def test_row_19_no_other_spelling_of_an_address_gets_around_the_rules(pool, run, host):
    trap = run(FaultServer(well))
    there = launch(trap.url(host), insecure=True, network=NetworkRules())
    fails(pool, there, "has the loopback address|was not found|Invalid IPv4 address")
    assert trap.connections == 0


def test_row_19_of_two_addresses_only_the_one_that_is_allowed_is_connected_to(pool, server, trap, names):
    names.answers[NAME] = [[ELSEWHERE, HERE]]
    assert called(pool, plain(server))
    assert trap.connections == 0


def test_two_addresses_of_this_machine_that_refuse_are_reported_as_one_that_does(pool, names):
    names.answers["localhost"] = [["::1", "127.0.0.1"]]
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: nobody else gets the port
        there = launch(f"http://localhost:{taken.getsockname()[1]}/mcp")
        fails(pool, there, "connection refused by http://localhost")


@pytest.mark.parametrize("proxy", ["socks5://127.0.0.1:1", "ftp://127.0.0.1:1"])
def test_row_22_a_proxy_that_cannot_be_used_is_reported(pool, run, monkeypatch, proxy):
    monkeypatch.setenv("ALL_PROXY", proxy)
    fails(pool, launch(f"https://{NAME}/mcp"), "the proxy for .* failed")


@pytest.mark.parametrize(
    ("rules", "match"),
    [
        (NetworkRules(deny=("*.example.com",), allow=(NAME, HERE)), "is denied by deny"),
        (NetworkRules(policy="registered", allow=(HERE,)), "is not registered"),
    ],
)
def test_row_19_a_host_outside_the_rules_gets_no_byte_and_no_look_up(pool, server, names, rules, match):
    error = fails(pool, plain(server, network=rules), match, McpError)
    assert error.kind == "config"
    assert (names.asked, server.connections) == ([], 0)
    by_address = plain(server, network=NetworkRules(allow=(HERE,), deny=("127.0.0.0/30",)))
    fails(pool, by_address, f"has the address {HERE}, denied by deny")
    assert server.connections == 0


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """A CA that only `ca_bundle` makes trusted."""
    return Authority(tmp_path)


@pytest.fixture
def secure(run, authority) -> FaultServer:
    """A server with a certificate of that CA for `localhost`."""
    return run(FaultServer(well, authority.server_context("localhost")))


@pytest.fixture
def trusting(authority) -> Callable[..., Launch]:
    """Return a launch of a server on `localhost` that trusts the CA."""
    bundle = str(authority.file)
    return lambda port, **fields: launch(f"https://localhost:{port}/mcp", ca_bundle=bundle, **fields)


def pin(folder: Path) -> str:
    """Return the pin of the server's key, computed by another implementation than ours."""
    certificate = x509.load_pem_x509_certificate((folder / "server.pem").read_bytes())
    key = certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return base64.b64encode(hashlib.sha256(key).digest()).decode()


@pytest.mark.skipif(not which("openssl"), reason="needs openssl")
def test_row_20_the_steps_in_the_error_let_one_self_signed_certificate_be_trusted_and_no_other(
    pool, run, authority, tmp_path, monkeypatch
):
    def signed_by_itself(host="localhost"):
        return run(FaultServer(well, authority.server_context(host, self_signed=True))).url(host)

    save, then = fails(pool, launch(url := signed_by_itself()), "is self-signed").suggestions
    monkeypatch.setenv("HOME", str(tmp_path))
    subprocess.run(save.partition(": ")[2], shell=True, check=True, capture_output=True, timeout=30)
    table, _, field = then.partition(": ")
    assert table == "Then set in [mcpServers.web]"
    assert called(pool, launch(url, **tomllib.loads(field)))
    fails(pool, launch(signed_by_itself(), **tomllib.loads(field)), "is self-signed")


def test_row_20_a_key_that_is_not_pinned_gets_no_request(pool, secure, trusting, tmp_path):
    known = pin(tmp_path)
    there = trusting(secure.port, tls_pins=(OTHER_PIN,))
    error = fails(pool, there, "the public key of localhost is not one of its tls_pins")
    assert error.details["pin"] == known
    uncertified = launch(secure.url("localhost"), tls_pins=(known,))
    fails(pool, uncertified, "signed by a CA that is not trusted")
    assert secure.requests == []
    assert called(pool, trusting(secure.port, tls_pins=(OTHER_PIN, known)))
    assert called(pool, trusting(secure.port, tls_pins=(f"sha256//{known}",)))


@pytest.mark.parametrize(("kind", "host"), [("http", "localhost"), ("sse", "127.0.0.1"), ("http", NAME)])
def test_row_62_no_byte_is_sent_without_tls_for_a_server_with_pins(pool, run, names, kind, host):
    names.answers[NAME] = [["127.0.0.1"]]
    server = run(FaultServer(well, host="127.0.0.1"))
    pinned = {"tls_pins": (OTHER_PIN,), "insecure": True, "transport": kind}
    there = launch(server.url(host), headers={"Authorization": "Bearer s3cret"}, **pinned)
    error = fails(pool, there, f"plain http to {host} cannot be checked against its tls_pins", McpError)
    assert error.kind == "config"
    assert server.connections == 0


@pytest.mark.parametrize("field", ["ca_bundle", "tls_pins", "client_cert"])
def test_row_20_no_connection_waits_for_a_pipe_in_place_of_a_file(pool, tmp_path, field):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    value = (str(pipe),) if field == "client_cert" else str(pipe)
    error = fails(pool, launch("https://localhost:1/", **{field: value}), "it is a named pipe, not a regular")
    assert f"{field} of server web" in error.suggestions[0]


def test_row_20_pins_may_be_in_a_file(pool, secure, trusting, tmp_path):
    file = tmp_path / "pins"

    def there(text):
        file.write_text(text)
        own = {"X-Key": str(len(text))}  # makes it a server of its own
        return trusting(secure.port, tls_pins=str(file), headers=own)

    fails(pool, there("no pin\n"), f"pins cannot be read: {file}: line 1 is not a SHA-256 hash in base64")
    fails(pool, there("# none yet\n"), "it has no pin")
    assert called(pool, there(f"# the key of 2026\n\n{pin(tmp_path)}  # in use\n"))
    file.unlink()
    fails(pool, launch(secure.url("localhost"), tls_pins=str(file)), "pins cannot be read: .*No such file")


@pytest.fixture
def strict(authority: Authority) -> ssl.SSLContext:
    """The TLS side of a server that requires a client certificate."""
    context = authority.server_context("localhost")
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(authority.file)
    return context


@pytest.fixture
def certificate(tmp_path: Path, strict: ssl.SSLContext, authority: Authority) -> Path:
    """A client certificate of the CA, with its key."""
    authority.server_context("client")
    return (tmp_path / "server.pem").rename(tmp_path / "client.pem")


def test_row_20_a_client_certificate_is_presented(pool, run, trusting, strict, certificate, tmp_path):
    server = run(FaultServer(well, strict))

    def there(*files):
        return trusting(server.port, client_cert=tuple(map(str, files)))

    assert called(pool, there(certificate))
    assert called(pool, there(certificate, certificate))
    known = len(server.requests)
    fails(pool, there(tmp_path / "none.pem"), "the client certificate cannot be read: .*none.pem")
    error = fails(pool, there(encrypted(certificate)), "the client certificate cannot be read")
    assert "must not be encrypted" in error.suggestions[0]
    with pytest.raises(ConnectionFailed):
        pool.info(there())
    assert len(server.requests) == known


def test_row_20_the_alert_about_a_missing_or_foreign_client_certificate_is_explained(
    pool, run, trusting, strict, tmp_path
):
    strangers = tmp_path / "strangers"
    strangers.mkdir()
    Authority(strangers).server_context("client")
    port = run(alerting(strict))

    def there(*files):
        return trusting(port, client_cert=tuple(map(str, files)))

    fails(pool, there(), "localhost wants a client certificate .*CERTIFICATE_REQUIRED")
    fails(pool, there(strangers / "server.pem"), "localhost does not accept the client certificate")


@contextmanager
def alerting(context: ssl.SSLContext) -> Iterator[int]:
    """Shake hands with whoever connects, and let each read the alert before hanging up; yields the port."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listening.accept()
                copy = socket.socket(fileno=os.dup(connection.fileno()))  # which the failure leaves open
                copy.settimeout(10)
                with connection, copy, suppress(OSError):
                    with suppress(ssl.SSLError):
                        context.wrap_socket(connection, server_side=True)
                    while copy.recv(1 << 16):
                        pass

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join(10)


def encrypted(file: Path) -> Path:
    """Return a copy of a key and certificate of which the key has a password."""
    content = file.read_bytes()
    key = load_pem_private_key(content, None)
    locked = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
    copy = file.with_suffix(".locked")
    copy.write_bytes(locked + content[content.index(b"-----BEGIN CERTIFICATE") :])
    return copy


def test_row_22_the_proxy_of_the_environment_may_be_anywhere_and_looks_the_host_up(
    pool, run, server, names, monkeypatch
):
    proxy = run(Proxy(server.port, server.host))
    names.answers |= {NAME: [[ELSEWHERE]], "proxy.example.com": [["127.0.0.1"]]}
    monkeypatch.setenv("HTTP_PROXY", f"http://proxy.example.com:{proxy.port}")
    assert called(pool, plain(server, network=NetworkRules()))
    assert set(names.asked) == {"proxy.example.com"}
    assert proxy.asked[0].startswith(f"POST http://{NAME}:{server.port}/mcp ")


def test_row_22_through_a_proxy_the_key_is_pinned_and_the_certificate_verified(
    pool, run, authority, monkeypatch, tmp_path
):
    server = run(FaultServer(well, authority.server_context(NAME)))
    proxy = run(Proxy(server.port))
    monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy.port}")
    url, trusted = f"https://{NAME}/mcp", {"ca_bundle": str(authority.file)}
    fails(pool, launch(url), "signed by a CA that is not trusted")
    fails(pool, launch(url, tls_pins=(OTHER_PIN,), **trusted), "is not one of its tls_pins")
    assert server.requests == []
    assert called(pool, launch(url, tls_pins=(pin(tmp_path),), **trusted))


def test_row_22_a_host_outside_the_rules_is_not_asked_for_at_a_proxy_either(pool, run, monkeypatch):
    proxy = run(Proxy(1))
    monkeypatch.setenv("ALL_PROXY", f"http://127.0.0.1:{proxy.port}")
    rules = NetworkRules(deny=("*.example.com",))
    fails(pool, launch(f"https://{NAME}/mcp", network=rules), "is denied by deny", McpError)
    assert proxy.connections == 0


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_row_22_no_proxy_is_asked_for_this_machine(pool, run, monkeypatch, host):
    server = run(FaultServer(well))
    for variable in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(variable, "http://127.0.0.1:1")
    assert called(pool, launch(server.url(host)))
