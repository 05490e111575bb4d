"""Conversations of a client of the SDK with a server, in either protocol generation."""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
from mcp import Client

SECONDS = 60
"""No conversation of a test takes longer."""

Conversation = Callable[[Client], Awaitable[Any]]

MODES = ("auto", "legacy")
"""The current revision, and the handshake of earlier ones."""


def talk(
    server: Any, conversation: Callable[[Client], Awaitable[Any]], mode: str = "auto", **given: Any
) -> Any:
    """Let a conversation take place, and return what it returns.

    Args:
        server: A server of the SDK in this process, or how to reach one.
        conversation: What the client does.
        mode: One of `MODES`.
        given: Further arguments of the client.
    """

    async def main() -> Any:
        with anyio.fail_after(SECONDS):
            async with Client(server, mode=mode, **given) as client:
                return await conversation(client)

    return anyio.run(main)
