"""Runs what a command does about a sign-in to its end, and explains its failures as those of a server."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from pflow_mcp_plugin.exchange import Launch

T = TypeVar("T")


def run_sign_in(launch: Launch, action: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run something about the sign-in at a server, such as a login, in an event loop of its own.

    Args:
        launch: The server.
        action: Returns what is to be run; its exceptions are those of `client/oauth/`.

    Raises:
        McpError: It failed.
        StoreError: The store of sign-ins could not be used.
    """
    from asyncio import run

    from pflow_mcp_plugin.client.failures import Evidence, explain
    from pflow_mcp_plugin.client.request_failures import (
        CertificatesUnreadable,
        Exchange,
        HostRefused,
        KeyNotPinned,
        NoAccessToken,
    )

    try:
        return run(action())
    except (NoAccessToken, HostRefused, KeyNotPinned, CertificatesUnreadable) as error:
        evidence = Evidence(
            server=launch.server,
            phase="connect",
            exchange=Exchange(error=error, unsent=True),
            blanks=launch.blanks,
            redactor=launch.redactor,
        )
        raise explain(error, evidence) from error
