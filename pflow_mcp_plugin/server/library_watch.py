"""Notices when the saved workflows change, and announces it to clients."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

from pflow_mcp_plugin.contract import Library, PflowError
from pflow_mcp_plugin.server.list_changes import Changed, ListChanges

SECONDS = 1.0
"""How often the library is looked at."""


@asynccontextmanager
async def watched(
    library: Library | None, changes: ListChanges, lists: Sequence[Changed], seconds: float = SECONDS
) -> AsyncIterator[None]:
    """Announce each change of the library inside the `async with` block, by one task of the event loop.

    Args:
        library: The saved workflows; None if there are none to watch.
        changes: The clients to announce it to.
        lists: The lists that change with the library.
        seconds: How often to look; nothing is read while no client would learn of a change.
    """
    if library is None or not lists:
        yield
        return
    task = asyncio.create_task(_watch(library, changes, lists, seconds), name="watching the library")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


async def _watch(library: Library, changes: ListChanges, lists: Sequence[Changed], seconds: float) -> None:
    # Kept while nobody listens: a client that comes then is told once too often rather than not at all.
    known = _fingerprint(library, "")
    while True:
        await asyncio.sleep(seconds)
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
