"""Watches the saved workflows, and notifies clients when they change."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

from pflow_mcp_plugin.contract import Library, PflowError
from pflow_mcp_plugin.server.list_changes import Changed, ListChanges

INTERVAL = 1.0
"""Seconds between two looks at the library."""


@asynccontextmanager
async def watched(
    library: Library | None, changes: ListChanges, lists: Sequence[Changed], interval: float = INTERVAL
) -> AsyncIterator[None]:
    """Announce each change of the library inside the `async with` block, by one task of the event loop.

    Args:
        library: The saved workflows; None if there are none to watch.
        changes: Notifies the clients.
        lists: The lists that change with the library.
        interval: Seconds between two looks; nothing is read while no client would be notified.
    """
    if library is None or not lists:
        yield
        return
    task = asyncio.create_task(_watch(library, changes, lists, interval), name="watching the library")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


async def _watch(library: Library, changes: ListChanges, lists: Sequence[Changed], interval: float) -> None:
    # Not updated while nobody listens: a new client is notified once too often rather than not at all.
    known = _fingerprint(library, "")
    while True:
        await asyncio.sleep(interval)
        if not changes.has_audience:
            continue
        now = _fingerprint(library, known)
        if now != known:
            known = now
            for each in lists:
                await changes.announce(each)


def _fingerprint(library: Library, otherwise: str) -> str:
    with suppress(PflowError, OSError):  # the folder cannot be read at the moment
        return library.fingerprint()
    return otherwise
