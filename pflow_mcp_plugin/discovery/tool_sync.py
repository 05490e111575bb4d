"""Asks servers for their tools, concurrently, and stores the answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from fnmatch import fnmatchcase
from threading import Event
from time import perf_counter

import attrs

from pflow_mcp_plugin.catalog.tool_catalog import forget_failure, keep_failure
from pflow_mcp_plugin.catalog.tool_file import READ_RESOURCE, ToolFile
from pflow_mcp_plugin.config.expansion import Lookup
from pflow_mcp_plugin.config.server_schema import kept_program
from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.discovery.servers import Servers, launch
from pflow_mcp_plugin.errors import ConnectionFailed, McpError, Where
from pflow_mcp_plugin.exchange import Launch, Listing, setting
from pflow_mcp_plugin.redaction import Redactor
from pflow_mcp_plugin.trust import pins as approvals
from pflow_mcp_plugin.trust.launch_identity import completed, launch_identity
from pflow_mcp_plugin.trust.pins import NOTHING, Comparison, Pinned
from pflow_mcp_plugin.trust.tool_approval import task_only
from pflow_mcp_plugin.trust.tool_difference import Changes, compare
from pflow_mcp_plugin.types import plain_version

ListTools = Callable[[Launch], Listing]
"""Asks a server for its tools, and blocks until it has answered, as `client.Pool.list_tools` does."""


@attrs.frozen(kw_only=True)
class Synced:
    """The result of asking one server for its tools and storing the answer.

    If it failed, the tools of the previous sync are kept.
    """

    server: str
    tools_discovered: int = 0  # malformed ones included
    tools_registered: int = 0  # those that became nodes: well formed, and not excluded by the config
    changes: Changes = attrs.field(factory=Changes)  # from the previous sync, in the tools that are nodes
    versions: tuple[str, str] = ("", "")  # at the previous sync, and now; empty if unknown
    milliseconds: float = 0.0
    skipped: tuple[tuple[str, str], ...] = ()  # `(name, reason)`
    notes: tuple[str, ...] = ()
    is_first: bool = False  # nothing was approved before: the sync approves what it finds
    comparison: Comparison = NOTHING
    is_approved: bool = False  # the user has just approved the differences
    affected: tuple[str, ...] = ()  # saved workflows that use the server and no longer run as they are
    error: PflowError | None = None

    def to_dict(self) -> dict[str, object]:
        data: dict[str, object] = {
            "server": self.server,
            "tools_discovered": self.tools_discovered,
            "tools_registered": self.tools_registered,
            "changes": self.changes.to_dict(),
            "versions": [*self.versions],
            "milliseconds": round(self.milliseconds, 1),
            "skipped": [{"name": name, "reason": reason} for name, reason in self.skipped],
            "notes": list(self.notes),
            "first": self.is_first,
            "unapproved": self.comparison.unapproved,
            "withheld": {**self.comparison.withheld},
            "affected": [*self.affected],
            "to_approve": [tool.name for tool in (*self.comparison.tools, *self.comparison.new)],
            "comparison": self.comparison.to_dict(),
        }
        if self.error:
            data["error"] = self.error.to_dict()
        return data


def sync(
    names: Iterable[str],
    known: Servers,
    list_tools: ListTools,
    lookup: Lookup,
    *,
    on_done: Callable[[Synced], None] = lambda _: None,
    at_once: int = 8,
) -> list[Synced]:
    """Sync servers: ask them for their tools, concurrently, and store the answers.

    A server that fails neither stops the others nor loses the tools of its previous sync. What the first
    sync of a launch finds is approved; what differs from it later is stored beside the approved version,
    unless the config says `trust = "auto"`. `on_done` is called in the calling thread as each server is done;
    the results are in the order of the names.
    """
    wanted = list(dict.fromkeys(names))
    results: dict[str, Synced] = {}
    interrupted = Event()

    def one(name: str) -> Synced:
        synced = _sync_one(name, known, list_tools, lookup)
        if synced.error and not interrupted.is_set():
            with suppress(PflowError), known.catalog.locked(name) as path:
                known.store.table(name)  # nothing is kept of a server that was removed meanwhile
                keep_failure(path.parent, name, synced.error.message)
        return synced

    threads = ThreadPoolExecutor(max_workers=max(1, min(len(wanted), at_once)), thread_name_prefix="sync")
    try:
        tasks = [threads.submit(one, name) for name in wanted]
        for task in as_completed(tasks):
            synced = task.result()
            results[synced.server] = synced
            on_done(synced)
    except BaseException:
        interrupted.set()  # servers that it leaves behind did not fail
        raise
    finally:
        threads.shutdown(wait=False, cancel_futures=True)  # an interrupted sync does not wait
    return [results[name] for name in wanted]


def _sync_one(name: str, known: Servers, list_tools: ListTools, lookup: Lookup) -> Synced:
    started = perf_counter()
    redactor = Redactor()
    try:
        ready = attrs.evolve(launch(name, known.store, known.catalog, lookup), era=None)  # negotiated again
        approval = _Approval(ready, known)
        redactor.add(ready.secrets)
        known.pins.read(name)  # what cannot be compared is not started
        listing = list_tools(ready)
        before, found = known.catalog.save(name, listing, ready.fingerprint, approval.approve)
    except PflowError as error:
        return Synced(server=name, error=error, milliseconds=_since(started))
    except Exception as error:  # noqa: BLE001 - no failure of one server may stop the sync of the others
        from pflow_mcp_plugin.client.request_failures import in_words

        failure = ConnectionFailed(
            f"Unexpected error in the sync of server {name}: {in_words(error, redactor)}",
            where=Where(server=name, phase="list"),
            next_step="report this to the authors of pflow-mcp, together with the server's list of tools",
        )
        failure.__cause__ = error
        return Synced(server=name, error=failure, milliseconds=_since(started))
    forget_failure(known.catalog.folder_of(name), name)
    allows = ready.server.tools.allows
    nodes = [tool for tool in found.tools if allows(tool.name)]
    return Synced(
        server=name,
        tools_discovered=len(listing.tools) + len(listing.skipped),
        tools_registered=len(nodes),
        changes=compare((tool for tool in before.tools if allows(tool.name)) if before else (), nodes),
        versions=(plain_version((before or found).info.version), plain_version(found.info.version)),
        milliseconds=_since(started),
        skipped=listing.skipped,
        notes=tuple(_notes(ready, listing)),
        is_first=approval.is_first,
        comparison=approval.comparison,
    )


@attrs.define
class _Approval:
    launch: Launch
    known: Servers
    is_first: bool = False
    comparison: Comparison = NOTHING

    def approve(self, before: ToolFile | None, found: ToolFile) -> ToolFile:
        name = self.launch.server.name
        server = self.known.store.get(name)
        if self.known.store.fingerprint(name) != self.launch.fingerprint:  # another may now have its name
            raise McpError(
                f"The config of server {name} changed while it was synced, so nothing was stored",
                where=Where(server=name, phase="config"),
                next_step=f"Run again: pflow mcp sync {name}",
                kind="config",
            )
        found = attrs.evolve(
            found,
            launch=launch_identity(server, self.launch.variables),
            program=kept_program(self.launch.server, self.launch.program),
        )

        def pinned_now(pinned: Pinned | None) -> Pinned:
            if pinned:
                # The previous sync or a run may have noted the values of variables that older pins lack.
                values = completed(pinned.launch, (before.launch if before else None, found.launch))
                pinned = attrs.evolve(pinned, launch=values)
            pinned = pinned or approvals.older_pins(before, found)
            self.is_first = pinned is None
            if server.trust == "auto":
                return approvals.approved(found)
            return pinned or approvals.first_pins(found)

        pins = self.known.pins.update(name, pinned_now)
        self.comparison = approvals.compare(pins, found)
        return approvals.reviewed(found, pins, self.comparison)


def _notes(ready: Launch, listing: Listing) -> Iterator[str]:
    server = ready.server
    for variable in ready.unset:
        yield (
            f"Variable {variable} is not set: server {server.name} gets an empty string for it "
            f"(set it: {setting(variable)})"
        )
    yield from listing.notes
    for tool in listing.tools:
        if tool.task_support == "required" and server.tools.allows(tool.name):
            yield task_only(tool, server.name).message
    yield from _named_in_vain(ready, listing)


def _named_in_vain(ready: Launch, listing: Listing) -> Iterator[str]:
    """Yield what the config says of tools that the server does not have, or not as the config needs them."""
    server = ready.server
    # An unknown tool that the config names is most likely a misspelling.
    names = [tool.name for tool in listing.tools]
    if listing.has_resources:
        names.append(READ_RESOURCE.name)
    for field in ("rename", "idempotency_argument", "verify"):
        for raw in getattr(server, field):
            if raw not in names:
                yield f"`{field}` of server {server.name} names a tool that it does not have: {raw}"
    reading = {tool.name for tool in listing.tools if tool.annotations.get("readOnlyHint") is True}
    for asked in dict.fromkeys(table["tool"] for table in server.verify.values()):
        if asked not in reading:
            yield f"`verify` of server {server.name} needs a tool that says that it only reads: {asked}"
    for glob in (*server.tools.allow, *server.tools.deny):
        if not any(fnmatchcase(name, glob) for name in names):
            yield f"`tools` of server {server.name} matches none of its tools: {glob}"


def _since(started: float) -> float:
    return (perf_counter() - started) * 1000
