"""The limit on the memory that a server's processes may use together."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress

from pflow_mcp_plugin.client.process.memory import used_by
from pflow_mcp_plugin.client.process.spawning import ServerProcess

_POLL_SECONDS = 0.2
"""How often the memory is looked at. A look takes a few milliseconds."""


async def enforce(process: ServerProcess, limit_mb: float, note: Callable[[float], None]) -> None:
    """Wait until the processes of a server exceed its memory limit, then kill them.

    They get no time to exit by themselves, in which they could use much more.

    Args:
        process: The server's process; its descendants count too.
        limit_mb: In MiB.
        note: Called before they are killed, with what they use, in MiB.
    """
    found, used = used_by(process.pid)
    while used <= limit_mb:
        await asyncio.sleep(_POLL_SECONDS)
        found, used = used_by(process.pid)
    note(used)
    process.signal_group(signal.SIGKILL)
    for pid in found:  # those that left the group
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)
