"""All private members of the SDK that this package uses, and the purpose of each.

A test pins their signatures, so that it fails when a new version of the SDK changes one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from mcp.client.session import ClientSession
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp_types import ClientCapabilities, ErrorData, JSONRPCNotification, ListToolsResult


class OpenSession(ClientSession):
    """The SDK's session, with access to the private members that a subclass needs."""

    def capabilities(self, version: str) -> ClientCapabilities:
        """Return the capabilities that the SDK's session declares, needed to send `initialize` ourselves."""
        return self._build_capabilities(version)

    def absorb(self, page: ListToolsResult, *, complete: bool) -> None:
        """Let the SDK's session learn from a page of tools which arguments are sent as HTTP headers.

        `ClientSession.list_tools` does so too, but drops the raw page.
        """
        self._absorb_tool_listing(page, complete=complete)


class ScreeningDispatcher(JSONRPCDispatcher):
    """The SDK's dispatcher, able to drop notifications, redact errors and bound the work for requests.

    No public class of the SDK can. It reads on only while few of the server's requests are unanswered:
    each is a task that holds the answer until the server takes it.
    """

    # For the message of an error that a server sends: the SDK writes it into its spans.
    redact: Callable[[str], str] = staticmethod(str)

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._unanswered = asyncio.Semaphore(32)  # requests of the server that are being answered

    def accepts(self, notification: JSONRPCNotification) -> bool:
        """Whether the SDK's dispatcher takes a notification; a subclass overrides this to drop some."""
        del notification
        return True

    def _dispatch_notification(self, msg: JSONRPCNotification, *args: Any) -> None:
        if self.accepts(msg):
            super()._dispatch_notification(msg, *args)

    async def _dispatch_request(self, *args: Any) -> None:
        await self._unanswered.acquire()
        await super()._dispatch_request(*args)

    async def _handle_request(self, *args: Any) -> None:
        try:
            await super()._handle_request(*args)
        finally:
            self._unanswered.release()

    def _resolve_pending(self, request_id: Any, outcome: dict[str, Any] | ErrorData) -> None:
        if isinstance(outcome, ErrorData):
            outcome = outcome.model_copy(update={"message": self.redact(outcome.message)})
        super()._resolve_pending(request_id, outcome)
