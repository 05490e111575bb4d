"""The private members of the SDK that this package uses: all of them, and what each is used for.

A test pins their signatures, so that a new version of the SDK that moves one is noticed at once.
Imported on the event loop's thread only, as `session` is.
"""

from __future__ import annotations

from typing import Any

from mcp.client.session import ClientSession
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp_types import ClientCapabilities, Implementation, JSONRPCNotification, ListToolsResult


class OpenSession(ClientSession):
    """A session whose handshake and tool lists can be done by another class."""

    @property
    def client_info(self) -> Implementation:
        """What the client says of itself: `initialize` with a version of our choice needs it."""
        return self._client_info

    def capabilities(self, version: str) -> ClientCapabilities:
        """Return what the client can do in a protocol version, for the same reason."""
        return self._build_capabilities(version)

    def absorb(self, page: ListToolsResult, *, complete: bool) -> None:
        """Learn from a page of tools which arguments belong into HTTP headers.

        `ClientSession.list_tools` does so too, but drops the raw page.
        """
        self._absorb_tool_listing(page, complete=complete)


class ScreeningDispatcher(JSONRPCDispatcher):
    """A dispatcher that can leave out notifications, as none that the SDK offers can."""

    def accepts(self, notification: JSONRPCNotification) -> bool:
        """Whether a notification is dispatched."""
        del notification
        return True

    def _dispatch_notification(self, msg: JSONRPCNotification, *args: Any) -> None:
        if self.accepts(msg):
            super()._dispatch_notification(msg, *args)
