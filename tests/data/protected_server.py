"""An MCP server for tests that is protected with the SDK's own resource server, in a program of its own.

It believes an authorization server of `authorization_server.py`, which it asks about each token. Its tools
are `read_note`, and `write_note` and `delete_note`, which need the scopes `notes:write` and `notes:delete`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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
def protected_server(authority: Authority, issuer: AuthorizationServer) -> Iterator[ProtectedServer]:
    """Serve one that takes the tokens of an issuer for the `with` block; any number can run at once."""
    settings = {
        "certificate": loopback_certificate(authority),
        "ca_file": str(authority.file),
        "issuer": issuer.issuer,
        "introspection_url": issuer.url("introspect"),
        "secret": issuer.introspection_secret,
    }
    with ProtectedServer.start(_SCRIPT, authority.file, settings) as server:
        yield server
