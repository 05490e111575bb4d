"""How many servers are started at the same time."""

from __future__ import annotations

import os
from collections.abc import Callable

from pflow_mcp_plugin.contract import PflowError

SETTING = "PFLOW_MCP_STARTS"
"""The environment variable, or else the setting, with the most servers that are started at once."""
_FOR_EACH_CORE = 4
"""A server that starts mostly waits, for the disk or the network, so a core has time for several."""


def starts_at_once(lookup: Callable[[str], str | None]) -> int:
    """Return the most servers to start at once: as many as there are cores for, or as the user says."""
    given = lookup(SETTING)
    if not given:
        return _FOR_EACH_CORE * (os.cpu_count() or 1)
    if not given.isdecimal() or int(given) < 1:
        message = f"{SETTING} must be a whole number from 1, not {given!r}"
        raise PflowError(message, suggestions=(f"Run: pflow settings set {SETTING} 8",), kind="config")
    return int(given)
