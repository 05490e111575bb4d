"""Compares servers with a lock file: as they are configured and synced, or as they answer now."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from pflow_mcp_plugin import naming, storage
from pflow_mcp_plugin.catalog.tool_file import READ_RESOURCE
from pflow_mcp_plugin.config.field_checks import refusal
from pflow_mcp_plugin.contract import PflowError, Problem
from pflow_mcp_plugin.contract.problems import problem_of
from pflow_mcp_plugin.discovery import lock_file
from pflow_mcp_plugin.discovery.lock_file import (
    LAUNCH,
    LockedServer,
    LockedServers,
    LockFile,
    locked_server,
    place,
)
from pflow_mcp_plugin.discovery.servers import Servers
from pflow_mcp_plugin.errors import McpError, Where
from pflow_mcp_plugin.terminal.looks import abbreviated, one_line
from pflow_mcp_plugin.types import plain_version

if TYPE_CHECKING:
    from pflow_mcp_plugin.catalog.tool_catalog import Catalog
    from pflow_mcp_plugin.config.server_store import ServerStore
    from pflow_mcp_plugin.discovery.tool_sync import ListTools
    from pflow_mcp_plugin.exchange import Launch, Listing
    from pflow_mcp_plugin.types import Server, Tool


_Value = str | tuple[str, ...]


def differences(lock: LockFile, present: LockedServers, *, whole: bool = False) -> Iterator[Problem]:
    """Yield an error for each launch, version and hash of a tool that is not as a lock file has it.

    With `whole`, every locked tool of these servers must still be there, not only those in `present`.
    """
    for name in sorted(present):
        locked = lock.servers.get(name)
        of_server = place("servers", name)
        if locked is None:
            yield _problem(lock, of_server, f"Server {name} is not in {lock.path.name}")
            continue
        now = present[name]
        parts = [*_launch_parts(locked.launch, now.launch)]
        if locked.version != now.version:
            shown = plain_version(now.version) or (now.version and "another")
            parts.append(f"the version it reports: {_change(locked.version, shown)}")
        why = "; ".join(parts)
        if parts:
            yield _problem(lock, of_server, f"Server {name} differs from {lock.path.name}: {why}")
        why = why or "its launch and version are as locked"
        for tool in sorted({*now.tools, *(locked.tools if whole else ())}):
            path = place(place(of_server, "tools"), tool)
            told = f"Tool {one_line(tool)} of server {name}"
            before, after = locked.tools.get(tool), now.tools.get(tool)
            if before is None:
                yield _problem(lock, path, f"{told} is not in {lock.path.name}: it is {after}; {why}")
            elif after is None:
                yield _problem(lock, path, f"{told} is locked ({before}) but no longer exists; {why}")
            elif before != after:
                yield _problem(lock, path, f"{told} differs from the locked one: {before} → {after}; {why}")


def _launch_parts(old: Mapping[str, _Value], new: Mapping[str, _Value]) -> Iterator[str]:
    for key in LAUNCH:
        before, after = old.get(key, ""), new.get(key, "")
        if before == after:
            continue
        same_length = isinstance(before, tuple) and isinstance(after, tuple) and len(before) == len(after)
        if key == "args" and same_length:
            for index, (was, now) in enumerate(zip(before, after, strict=True)):
                if was != now:
                    yield f"{key}[{index}]: {_change(was, now)}"
        else:
            yield f"{key}: {_change(before, after)}"


def _change(old: _Value, new: _Value) -> str:
    # ASCII only: what is hidden in a value must become visible.
    shown = (abbreviated(json.dumps(value) if value else "none", 200) for value in (old, new))
    return " → ".join(shown)


def _problem(lock: LockFile, path: str, message: str) -> Problem:
    step = "If the change is wanted, run pflow mcp lock again and commit the file"
    return Problem(path=path, message=message, suggestion=step, source=str(lock.path))


def read_lock(path: Path) -> LockFile:
    """Read the lock file to compare servers with; without one, raise a `PflowError` with the next step."""
    content = storage.read_bytes(path, 16 << 20)
    if content is None:
        where = f"{lock_file.NAME} in the current folder" if path == Path(lock_file.NAME) else path
        raise _no_lock(f"No lock file {where}")
    return lock_file.decode(path, content)


def _no_lock(message: str) -> PflowError:
    step = "Get your team's lock file, or write one: pflow mcp lock"
    return PflowError(message, suggestions=(step,), kind="not_found")


def present_server(known: Servers, name: str, tools: Collection[str]) -> LockedServer:
    """Return a server as configured now and last synced, with these tools, to compare with a lock file.

    Raises `McpError` if it is not configured, has mistakes, or is not synced.
    """
    server = known.store.get(name)
    head = known.catalog.head(name)
    if head is None:
        raise McpError(
            f"Server {name} is not synced",
            where=Where(server=name, phase="config"),
            next_step=f"Run: pflow mcp sync {name}",
            kind="not_found",
        )
    return locked_server(server, head.info.version, _tools(known.catalog, name, tools))


def _tools(catalog: Catalog, server: str, wanted: Collection[str]) -> Iterator[Tool]:
    names = frozenset(wanted)
    # A few are looked up one by one.
    if len(names) > 20 and (content := catalog.file(server)):
        found = {tool.name: tool for tool in content.tools}
        if content.has_resources:
            found.setdefault(READ_RESOURCE.name, READ_RESOURCE)
        shown = {name: naming.tool_part(name) if name in content.new else name for name in found}
        for name, tool in found.items():
            if not names.isdisjoint((name, shown[name])):
                yield tool if name in names else attrs.evolve(tool, name=shown[name])
        return
    for record in (catalog.tool(server, name) for name in names):
        # A workflow names a tool that nobody approved by the name under which it is shown.
        if record and not names.isdisjoint((record.found.name, record.tool.name)):
            name = record.found.name if record.found.name in names else record.tool.name
            yield attrs.evolve(record.found, name=name)


def compare_used(lock: LockFile, known: Servers, used: Mapping[str, Collection[str]]) -> Iterator[Problem]:
    """Compare the tools that workflows use with a lock file; yield an error for each difference."""
    return differences(lock, {name: present_server(known, name, tools) for name, tools in used.items()})


def compare_workflow(
    known: Servers, used: Mapping[str, Collection[str]], folder: Path | None
) -> Iterator[Problem]:
    """Compare the tools that a workflow uses with its lock file; yield its problems and each difference.

    A missing or unreadable lock file is such a problem.
    """
    try:
        beside, path = folder and folder / lock_file.NAME, Path(lock_file.NAME)
        path = beside if beside and beside.exists() else path
        if folder and not path.exists():
            raise _no_lock(f"No lock file {path} beside the workflow or in the current folder")
        lock = read_lock(path)
        yield from lock.warnings
        yield from compare_used(lock, known, used)
    except PflowError as error:
        yield from error.problems or [problem_of(error, kind="validation")]


def compare_whole(lock: LockFile, known: Servers) -> Iterator[Problem]:
    """Compare everything in a lock file with the servers; yield an error for each difference."""
    for name, locked in lock.servers.items():
        try:
            present = present_server(known, name, locked.tools)
        except PflowError as error:
            path = place("servers", name)
            yield problem_of(error, path=path, kind="validation", source=str(lock.path))
        else:
            yield from differences(lock, {name: present}, whole=True)


def launch_refusal(lock: LockFile, server: Server) -> McpError | None:
    """Return an error if a server must not be started, because its launch is not the locked one.

    Takes the config as written: the lock file has no values of variables.
    """
    locked = lock.servers.get(server.name)
    # The version is known only once the server has been started.
    here = locked_server(server, locked.version if locked else "", ())
    return _refusal(server.name, differences(lock, {server.name: here}))


def _refusal(server: str, found: Iterator[Problem]) -> McpError | None:
    problems = list(found)
    if not problems:
        return None
    subject = f"Server {server} differs from the lock file, so nothing was stored for it"
    return refusal(subject, problems, server=server, kind="validation")


def list_locked(list_tools: ListTools, lock: LockFile, store: ServerStore, launch: Launch) -> Listing:
    """Compare a server as it answers now with the lock file; return its tools, or raise an error.

    A server whose launch differs is not even started.
    """
    name = launch.server.name
    server, locked = store.get(name), lock.servers.get(name)
    if error := launch_refusal(lock, server):
        raise error
    listing = list_tools(launch)
    listed = (*listing.tools, *((READ_RESOURCE,) if listing.has_resources else ()))
    tools = [tool for tool in listed if locked and tool.name in locked.tools]
    now = locked_server(server, listing.info.version, tools)
    if error := _refusal(name, differences(lock, {name: now}, whole=True)):
        raise error
    return listing
