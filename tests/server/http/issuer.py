"""An authorization server for tests: metadata and keys on this machine, and tokens."""

import json
import ssl
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

KINDS: dict[str, tuple[str, Callable[[], Any]]] = {
    "RS256": ("RSA", lambda: rsa.generate_private_key(65537, 2048)),
    "PS256": ("RSA", lambda: rsa.generate_private_key(65537, 2048)),
    "ES256": ("EC", lambda: ec.generate_private_key(ec.SECP256R1())),
    "EdDSA": ("OKP", ed25519.Ed25519PrivateKey.generate),
}
AUDIENCE = "https://pflow.example/mcp"


class Issuer:
    """An authorization server; `with` it, it answers.

    Args:
        tls: Its TLS context, if it is reached by https.
        path: The path of its issuer identifier.

    Attributes:
        pages: What it answers with, by path: bytes, or a function that answers itself.
        asked: The paths that were asked for.
        keys: Its private keys by id.
    """

    def __init__(self, *, tls: ssl.SSLContext | None = None, path: str = "") -> None:
        self.pages: dict[str, bytes | Callable[[BaseHTTPRequestHandler], None]] = {}
        self.asked: list[str] = []
        self.keys: dict[str, Any] = {}
        self._public: list[dict[str, Any]] = []
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._http.daemon_threads = True
        if tls is not None:
            self._http.socket = tls.wrap_socket(self._http.socket, server_side=True)
        scheme = "http" if tls is None else "https"
        self.url = f"{scheme}://127.0.0.1:{self._http.server_port}{path}"
        self.pages[f"/.well-known/oauth-authorization-server{path}"] = self.metadata()
        self.add_key("one")

    def metadata(self, **changes: Any) -> bytes:
        """Return its metadata."""
        origin = self.url.split("/", 3)
        keys = f"{origin[0]}//{origin[2]}/keys"
        return json.dumps({"issuer": self.url, "jwks_uri": keys, **changes}).encode()

    def add_key(self, key_id: str, algorithm: str = "ES256", key: Any = None) -> None:
        """Make a key, and publish it."""
        self.keys[key_id] = key or KINDS[algorithm][1]()
        public = self.keys[key_id].public_key()
        known = jwt.get_algorithm_by_name(algorithm)
        entry = known.to_jwk(public, as_dict=True)
        self._public.append({**entry, "kid": key_id, "alg": algorithm, "use": "sig"})
        self.publish()

    def publish(self, **more: Any) -> None:
        """Publish its keys."""
        self.pages["/keys"] = json.dumps({"keys": self._public, **more}).encode()

    def forget_keys(self) -> None:
        """Publish none of its keys any more."""
        self._public.clear()
        self.publish()

    def token(
        self, key_id: str = "one", algorithm: str = "ES256", headers: dict | None = None, **claims: Any
    ) -> str:
        """Return a token; a claim that is None is left out."""
        now = int(time.time())
        whole = {"iss": self.url, "aud": AUDIENCE, "sub": "alice", "iat": now, "exp": now + 300, **claims}
        kept = {name: value for name, value in whole.items() if value is not None}
        marks = {"kid": key_id, "typ": "at+jwt", **(headers or {})}
        return jwt.encode(kept, self.keys[key_id], algorithm, headers=marks)

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,))
        self._thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.asked.append(self.path)
                page = issuer.pages.get(self.path)
                if callable(page):
                    page(self)
                    return
                self.send_response(404 if page is None else 200)
                self.send_header("Content-Length", str(len(page or b"")))
                self.end_headers()
                self.wfile.write(page or b"")

            def log_message(self, *_arguments: object) -> None:
                """Say nothing."""

        return Handler
