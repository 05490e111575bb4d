"""The current host of this process: the one that configured the plugin, else an installed one, opened here.

In a plain Python program no host is running, yet a call needs one for the settings and for the plugins
that change, veto or answer calls. It is found through the entry-point group `pflow.hosts`, opened once,
when it is first needed, and closed when the program exits.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import TYPE_CHECKING, cast

from pflow_mcp_plugin import storage
from pflow_mcp_plugin.contract import HOST_ENTRY_POINT_GROUP, Host
from pflow_mcp_plugin.mcp_hookspecs import HOSTS

if TYPE_CHECKING:
    from pflow_mcp_plugin.contract import Paths


_lock = threading.RLock()
"""Held while the current host is opened. Reentrant: opening a host configures the plugin."""
_opened: dict[Paths, Host] = {}
"""The installed host that was opened here, at most one, by the folders of pflow at that time."""
_closing = ExitStack()


def _replace_lock() -> None:
    """Replace the lock of the current host in a forked child, as a thread of the parent may have held it."""
    global _lock  # noqa: PLW0603 - one lock for the process
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_replace_lock)


def current_host() -> Host:
    """Return the current host: the one that configured the plugin last, otherwise an installed one.

    The installed one is opened here once, and again if `PFLOW_HOME` has changed since.
    """
    with _lock:
        own = next(iter(_opened.values()), None)
        others = [host for host in HOSTS if host is not own]
        if others:
            return others[-1]
        paths = storage.default_paths()
        if paths not in _opened:
            _close()
            _opened[paths] = _closing.enter_context(_provider()())
        return _opened[paths]


def _provider() -> Callable[[], AbstractContextManager[Host]]:
    from importlib.metadata import entry_points

    from pflow_mcp_plugin.errors import McpError, Where

    points = entry_points(group=HOST_ENTRY_POINT_GROUP)
    # The host of another core, or else the embedded one.
    point = min(points, key=lambda it: (it.module.startswith("pflow_mcp_plugin."), it.name), default=None)
    cause: Exception | None = None
    message = "No pflow host is installed; calling a tool needs its settings and plugins"
    if point is not None:
        try:
            return cast(Callable[[], AbstractContextManager[Host]], point.load())
        except (ImportError, AttributeError) as error:
            cause, message = error, f"The host {point.name} cannot be loaded: {error}"
    step = "Reinstall pflow-mcp, which includes a host: pip install --force-reinstall --no-deps pflow-mcp"
    raise McpError(message, where=Where(phase="config"), next_step=step, kind="config") from cause


@atexit.register
def _close() -> None:
    _opened.clear()
    _closing.close()
