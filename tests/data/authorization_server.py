"""An OAuth authorization server for tests: a program of its own on loopback, with TLS by a test's CA.

Its grants are Authlib's. What it does is switched, by `Switches` in `authorization_records.py`, and it
tells what it was asked, secrets and all.
"""

import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from certificates import Authority
from loopback_program import LoopbackProgram, Recorded, loopback_certificate

_SCRIPT = Path(__file__).with_name("authorization_program.py")


class AuthorizationServer(LoopbackProgram):
    """One that runs. The endpoints in its log, and for `fail`, are `metadata`, `authorize`, `token`,
    `register`, `device`, `verify`, `introspect`, `revoke` and `documents`.

    Attributes:
        issuer: Its issuer identifier.
        introspection_secret: With which the client `resource-server` asks about tokens.
    """

    def __init__(self, process: subprocess.Popen[str], origin: str, ca_file: Path) -> None:
        super().__init__(process, origin, ca_file)
        self.issuer = origin
        self.introspection_secret = ""

    def url(self, endpoint: str) -> str:
        """Return the URL of an endpoint, such as `token`."""
        return f"{self.issuer}/login/{endpoint}"

    def add_client(self, client_id: str, client_secret: str = "", **metadata: Any) -> None:
        """Know a client beforehand; its metadata are those of a registration (RFC 7591)."""
        self.control("add_client", client_id=client_id, client_secret=client_secret, metadata=metadata)

    def forget_clients(self) -> None:
        """Forget every client that registered."""
        self.control("forget_clients")

    def publish(self, name: str, **document: Any) -> str:
        """Publish a client metadata document, and return its URL, which is the client's id.

        Any other JSON can be published too; a `client_id` that is None is left out.
        """
        url: str = self.control("publish", name=name, document=document)
        return url

    def tokens(self) -> list[dict[str, Any]]:
        """Return the tokens issued so far, with `access`, `refresh`, `scope`, `resource`, `family` and
        whether they are `revoked` and `spent`.
        """
        tokens: list[dict[str, Any]] = self.control("tokens")
        return tokens

    def introspect(self, token: str) -> dict[str, Any]:
        """Return what it says about an access token."""
        auth = ("resource-server", self.introspection_secret)
        with self.client() as client:
            answer = client.post(self.url("introspect"), data={"token": token}, auth=auth)
        assert answer.status_code == 200, answer.text
        said: dict[str, Any] = answer.json()
        return said

    def secrets(self) -> list[str]:
        """Return what nobody may see: what was issued, and what clients have sent to show who they are."""
        sent = [
            entry.form[field]
            for entry in self.requests()
            for field in ("code_verifier", "client_secret", "client_assertion")
            if field in entry.form
        ]
        known = {*self.control("issued"), *self.control("client_secrets"), *sent}
        return sorted(known - {"", self.introspection_secret})

    def refreshes(self, status: int = 200) -> list[Recorded]:
        """Return the requests to redeem a refresh token that were answered with a status."""
        asked = self.requests("token", grant_type="refresh_token")
        return [entry for entry in asked if entry.status == status]

    def expire_access_tokens(self) -> None:
        """Let every access token end now, whatever its client was told."""
        self.control("expire_access_tokens")

    def revoke_tokens(self) -> None:
        """Revoke every token."""
        self.control("revoke")

    def expire_devices(self) -> None:
        """Let the codes of every device end now."""
        self.control("expire_devices")

    def decide(self, *, approved: bool, user_code: str | None = None) -> None:
        """Approve or deny a device, or all that wait."""
        self.control("decide", user_code=user_code, approved=approved)


@contextmanager
def authorization_server(authority: Authority) -> Iterator[AuthorizationServer]:
    """Serve one for the `with` block, with a certificate of the authority; any number can run at once."""
    introspection_secret = secrets.token_hex(16)
    settings = {
        "certificate": loopback_certificate(authority),
        "ca_file": str(authority.file),
        "introspection_secret": introspection_secret,
    }
    with AuthorizationServer.start(_SCRIPT, authority.file, settings) as server:
        server.introspection_secret = introspection_secret
        yield server
