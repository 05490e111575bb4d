"""Package runners such as npx, which download a server before they start it and need more time.

A runner that is killed during an installation can leave a broken cache that makes later starts fail.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from pflow_mcp_plugin.client.deadlines import Deadline
from pflow_mcp_plugin.types import Server

START_SECONDS = 30.0
INSTALL_SECONDS = 300.0
"""How long a package runner may take to install and start a server, unless the config sets a limit."""
_POLL_SECONDS = 0.2


def start_deadline(server: Server) -> Deadline:
    """Return the deadline of a start; it is extended while a package runner installs the server."""
    seconds = server.startup_timeout
    return Deadline(START_SECONDS if seconds is None else seconds, "startup_timeout")


def longest_start(server: Server) -> Deadline:
    """Return the deadline of a start that includes an installation."""
    seconds = server.startup_timeout
    return Deadline(INSTALL_SECONDS if seconds is None else seconds, "startup_timeout")


async def extend(
    deadline: asyncio.Timeout,
    installing: Callable[[], bool],
    warn: Callable[[], None],
    *,
    is_fixed: bool = False,
) -> bool:
    """Extend a start deadline while a package runner is still installing the server.

    Args:
        deadline: Set to `START_SECONDS`; it is extended to `START_SECONDS` from the moment at which the
            server runs, but to no more than `INSTALL_SECONDS` in total.
        installing: Returns whether the installation may still be running.
        warn: Called once the start takes longer than `START_SECONDS`.
        is_fixed: Whether the user chose the deadline: then it is left as it is.

    Returns:
        Whether the server was still being installed when the deadline passed.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()
    warned = False
    while not deadline.expired():
        if not installing():
            return False
        now = loop.time()
        if not is_fixed:
            deadline.reschedule(min(now + START_SECONDS, began + INSTALL_SECONDS))
        if not warned and now > began + START_SECONDS:
            warned = True
            warn()
        await asyncio.sleep(_POLL_SECONDS)
    return True
