"""A limit on how often a server is started within some minutes."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from pflow_mcp_plugin.errors import ConnectionFailed, Where

STARTS = 5
SECONDS = 180.0


class RestartLimit:
    """The restart limit of one server: counts its starts, and allows 5 within 3 minutes.

    Args:
        clock: Returns the time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._starts: deque[float] = deque(maxlen=STARTS)

    def start(self, server: str) -> None:
        """Count a start towards the restart limit.

        Raises:
            ConnectionFailed: There were too many recent starts; the server must not be started now.
        """
        now = self._clock()
        if len(self._starts) == STARTS and now - self._starts[0] < SECONDS:
            raise ConnectionFailed(
                f"Server {server} ended {STARTS} times within {SECONDS / 60:g} minutes; "
                "it is not started again",
                where=Where(server=server, phase="start"),
                next_step=f"see why it ends: pflow mcp test {server}",
            )
        self._starts.append(now)
