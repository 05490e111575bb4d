"""Asking servers for their tools, all at once, and keeping what they answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from fnmatch import fnmatchcase
from time import perf_counter
from typing import Any, Protocol

import attrs

from pflow_mcp_plugin.config.expansion import Lookup
from pflow_mcp_plugin.config.server_store import ServerStore
from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.discovery.catalog import Catalog
from pflow_mcp_plugin.discovery.server_launch import launch
from pflow_mcp_plugin.discovery.tool_changes import Changes
from pflow_mcp_plugin.discovery.tool_filter import allows
from pflow_mcp_plugin.errors import ConnectionFailed, McpError, Where
from pflow_mcp_plugin.exchange import Launch, Listing, setting
from pflow_mcp_plugin.types import Server

_AT_ONCE = 32


class Lister(Protocol):
    """What can ask a server for its tools; `client.Pool` can."""

    def list_tools(self, launch: Launch) -> Listing:
        """Return what the server answers; blocks."""
        ...


@attrs.frozen(kw_only=True)
class Synced:
    """How the sync of one server went.

    Attributes:
        server: Its name.
        tools_discovered: How many tools it named, malformed ones too.
        tools_registered: How many became nodes: well formed, and not left out by the config.
        changes: What is different from the sync before.
        milliseconds: From the start to the tools being kept.
        skipped: `(name, reason)` of tools that were not taken.
        notes: What else is worth a line.
        error: Why it failed; the tools known before are still there then.
    """

    server: str
    tools_discovered: int = 0
    tools_registered: int = 0
    changes: Changes = attrs.field(factory=Changes)
    milliseconds: float = 0.0
    skipped: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    error: PflowError | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form of `sync --json`."""
        data: dict[str, Any] = {
            "server": self.server,
            "tools_discovered": self.tools_discovered,
            "tools_registered": self.tools_registered,
            "changes": self.changes.to_dict(),
            "milliseconds": round(self.milliseconds, 1),
            "skipped": [{"name": name, "reason": reason} for name, reason in self.skipped],
            "notes": list(self.notes),
        }
        if self.error:
            data["error"] = self.error.to_dict()
        return data


def sync(
    names: Iterable[str],
    store: ServerStore,
    catalog: Catalog,
    pool: Lister,
    lookup: Lookup,
    *,
    on_done: Callable[[Synced], None] = lambda _: None,
) -> list[Synced]:
    """Ask servers for their tools and keep them.

    One server that fails neither stops the others nor loses what was known of it.

    Args:
        names: The servers.
        store: Their config.
        catalog: Where tools are kept.
        pool: Talks to the servers.
        lookup: Gives the values of variables.
        on_done: Told of each server when it is done, in the calling thread.

    Returns:
        One result for each name, in the order given.
    """
    wanted = list(dict.fromkeys(names))
    results: dict[str, Synced] = {}
    threads = ThreadPoolExecutor(max_workers=max(1, min(len(wanted), _AT_ONCE)), thread_name_prefix="sync")
    try:
        tasks = [threads.submit(_sync_one, name, store, catalog, pool, lookup) for name in wanted]
        for task in as_completed(tasks):
            synced = task.result()
            results[synced.server] = synced
            on_done(synced)
    finally:
        threads.shutdown(wait=False, cancel_futures=True)  # an interrupted sync does not wait
    return [results[name] for name in wanted]


def _sync_one(name: str, store: ServerStore, catalog: Catalog, pool: Lister, lookup: Lookup) -> Synced:
    started = perf_counter()
    try:
        ready = attrs.evolve(launch(name, store, catalog, lookup), era=None)  # found out anew
        listing = pool.list_tools(ready)
        found = catalog.save(name, listing, ready.fingerprint)
    except PflowError as error:
        return Synced(server=name, error=error, milliseconds=_since(started))
    except Exception as error:  # noqa: BLE001 - whatever one server brings about, the others are synced
        return Synced(server=name, error=_unforeseen(name, error), milliseconds=_since(started))
    return Synced(
        server=name,
        tools_discovered=len(listing.tools) + len(listing.skipped),
        tools_registered=sum(allows(ready.server.tools, tool.name) for tool in listing.tools),
        changes=found,
        milliseconds=_since(started),
        skipped=listing.skipped,
        notes=(*_unset(ready), *listing.notes, *_unknown_names(ready.server, listing)),
    )


def _unforeseen(name: str, error: Exception) -> McpError:
    from pflow_mcp_plugin.client.exception_chain import in_words

    failure = ConnectionFailed(
        f"Something went wrong in the sync of server {name} that pflow does not know: {in_words(error)}",
        where=Where(server=name, phase="list"),
        next_step="report this to the authors of pflow-mcp, with what the server lists",
    )
    failure.__cause__ = error
    return failure


def _unset(ready: Launch) -> Iterator[str]:
    for variable in ready.unset:
        yield (
            f"Variable {variable} is not set: server {ready.server.name} is given an empty text for it "
            f"(set it: {setting(variable)})"
        )


def _unknown_names(server: Server, listing: Listing) -> Iterator[str]:
    """What the config says of tools that are not there is most likely a misspelling."""
    names = [tool.name for tool in listing.tools]
    for raw in server.rename:
        if raw not in names:
            yield f"`rename` of server {server.name} names a tool that it does not have: {raw}"
    for glob in (*server.tools.allow, *server.tools.deny):
        if not any(fnmatchcase(name, glob) for name in names):
            yield f"`tools` of server {server.name} fits none of its tools: {glob}"


def _since(started: float) -> float:
    return (perf_counter() - started) * 1000
