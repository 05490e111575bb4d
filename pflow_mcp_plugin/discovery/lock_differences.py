"""What differs between a lock file and the servers as they are now: pure, from the content of both."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from pflow_mcp_plugin.contract import Problem
from pflow_mcp_plugin.discovery.lock_file import LAUNCH, LockedServer, LockedServers, LockFile, place
from pflow_mcp_plugin.terminal.printable_text import one_line
from pflow_mcp_plugin.types import plain_version

_LONGEST = 200
"""Characters of a value that a difference shows."""
_STEP = "If the change is wanted, run pflow mcp lock again and commit the file"

_Value = str | tuple[str, ...]


def differences(lock: LockFile, present: LockedServers, *, whole: bool = False) -> Iterator[Problem]:
    """Yield an error for each difference.

    Args:
        lock: The lock file.
        present: The servers and tools that must be locked, as they are now.
        whole: Whether tools that are locked must be among those of their server in `present`.
    """
    for name in sorted(present):
        locked = lock.servers.get(name)
        if locked is None:
            yield _problem(lock, place("servers", name), f"Server {name} is not in {lock.path.name}")
        else:
            yield from _of_server(lock, name, locked, present[name], whole=whole)


def launch_differences(lock: LockFile, name: str, present: LockedServer) -> Iterator[Problem]:
    """Yield an error if the launch of a server differs from the locked one; its version does not matter.

    Args:
        lock: The lock file.
        name: The server.
        present: The server as it is now.
    """
    locked = lock.servers[name]
    if parts := list(_launch_parts(locked.launch, present.launch)):
        yield _not_as_locked(lock, name, parts)


def _of_server(
    lock: LockFile, name: str, locked: LockedServer, now: LockedServer, *, whole: bool
) -> Iterator[Problem]:
    parts = [*_launch_parts(locked.launch, now.launch)]
    if locked.version != now.version:
        shown = plain_version(now.version) or (now.version and "another")
        parts.append(f"the version it reports: {_change(locked.version, shown)}")
    if parts:
        yield _not_as_locked(lock, name, parts)
    why = "; ".join(parts) or "its launch and version are as locked"
    for tool in sorted({*now.tools, *(locked.tools if whole else ())}):
        path = place(place(place("servers", name), "tools"), tool)
        told = f"Tool {one_line(tool)} of server {name}"
        before, after = locked.tools.get(tool), now.tools.get(tool)
        if before is None:
            yield _problem(lock, path, f"{told} is not in {lock.path.name}: it is {after}; {why}")
        elif after is None:
            yield _problem(lock, path, f"{told} is locked ({before}) but no longer exists; {why}")
        elif before != after:
            yield _problem(lock, path, f"{told} differs from the locked one: {before} → {after}; {why}")


def _not_as_locked(lock: LockFile, name: str, parts: list[str]) -> Problem:
    message = f"Server {name} differs from {lock.path.name}: {'; '.join(parts)}"
    return _problem(lock, place("servers", name), message)


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
    return f"{_shown(old)} → {_shown(new)}"


def _shown(value: _Value) -> str:
    # ASCII only: what is hidden in a value must be seen.
    text = json.dumps(value) if value else "none"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _problem(lock: LockFile, path: str, message: str) -> Problem:
    return Problem(path=path, message=message, suggestion=_STEP, source=str(lock.path))
