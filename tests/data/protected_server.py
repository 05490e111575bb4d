"""An MCP server for tests that is protected with the SDK's own resource server, in a program of its own.

It believes an authorization server of `authorization_server.py`, which it asks about each token. Its tools
are `read_note`, and `write_note` and `delete_note`, which need the scopes `notes:write` and `notes:delete`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from authorization_server import AuthorizationServer
from certificates import Authority
from loopback_program import LoopbackProgram, loopback_certificate

_SCRIPT = Path(__file__).with_name("protected_program.py")


class ProtectedServer(LoopbackProgram):
    """One that runs. The endpoints in its log, and for `fail`, are `mcp` and `resource_metadata`."""

    @property
    def url(self) -> str:
        """The URL of the server, which is the resource too."""
        return f"{self.origin}/mcp"

    def calls(self) -> dict[str, int]:
        """Return how often each tool did its work."""
        calls: dict[str, int] = self.control("calls")
        return calls


@contextmanager
def protected_server(
    authority: Authority,
    issuer: AuthorizationServer,
    *,
    required_scopes: Sequence[str] = ("notes:read",),
    tls: bool = True,
    **switches: Any,
) -> Iterator[ProtectedServer]:
    """Serve one for the `with` block; any number can run at the same time.

    Args:
        authority: The CA of its certificate, which is for 127.0.0.1 and localhost.
        issuer: The authorization server whose tokens it takes.
        required_scopes: The scopes that every request needs, and that its metadata names.
        tls: Whether it is reached by https.
        switches: What it does at the start, and after `reset` (`protected_switches.py`).
    """
    certificate = loopback_certificate(authority) if tls else None
    settings = {
        "certificate": certificate,
        "ca_file": str(authority.file),
        "issuer": issuer.issuer,
        "introspection_url": issuer.url("introspect"),
        "secret": issuer.introspection_secret,
        "required_scopes": list(required_scopes),
        "switches": switches,
    }
    with ProtectedServer.start(_SCRIPT, authority.file, settings) as server:
        yield server
