"""The login page of the authorization server of the tests in a real browser."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import SimpleQueue
from urllib.parse import parse_qsl, urlencode, urlsplit

import pytest
from authorization_requests import authorization_fields, redeem, registered
from browser import browsing


@pytest.fixture
def arrivals():
    """A listener as a client has one: the URL to redirect to, and what arrived there."""
    came = SimpleQueue()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            where = urlsplit(self.path)
            if where.path == "/callback":  # a browser asks for an icon too
                came.put(dict(parse_qsl(where.query)))
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<title>Signed in</title><p>You can close this page.")

        def log_message(self, *_arguments):
            pass

    listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=listener.serve_forever, args=(0.02,))
    thread.start()
    yield f"http://127.0.0.1:{listener.server_port}/callback", came
    listener.shutdown()
    listener.server_close()
    thread.join()


def page(server, redirect_uri):
    """Return the URL of the login page for a new client, and the client's id."""
    client_id = registered(server, client_name="a test", redirect_uris=[redirect_uri])
    fields = authorization_fields(client_id, redirect_uri=redirect_uri, scope="notes:read notes:write")
    return f"{server.url('authorize')}?{urlencode(fields)}", client_id


@pytest.mark.slow
def test_a_person_approves_or_denies_with_the_mouse(authorization_server, arrivals, chromium, tmp_path):
    redirect_uri, came = arrivals
    authorization_server.switch(consent="page")
    url, client_id = page(authorization_server, redirect_uri)
    with browsing(chromium, tmp_path / "profile") as browser:
        browser.open(url)
        assert "Sign in to a test" in browser.text
        assert "notes:read notes:write" in browser.text
        assert came.empty()
        browser.click("#approve")
        assert browser.text == "You can close this page."
        assert browser.url.startswith(redirect_uri)
        browser.open(url)
        browser.click("#deny")
    approved, denied = came.get(timeout=20), came.get(timeout=20)
    assert (approved["iss"], approved["state"]) == (authorization_server.issuer, "state-of-the-tests")
    answer = redeem(authorization_server, client_id, approved["code"], redirect_uri=redirect_uri)
    assert answer.json()["scope"] == "notes:read notes:write"
    assert denied["error"] == "access_denied"
