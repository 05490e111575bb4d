"""A server's process: started without the SDK in a group of its own, perhaps by a package runner such as npx.

It has few of the user's environment variables, and its own. Its stderr is kept in a file if an error shows
only a part of it.

npm undoes an unfinished installation when it is asked to end, but cannot when it is killed. What is left then
passes for installed, and every later start fails. Such a folder in npx's cache is removed, so that it is
installed anew.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import subprocess
import sys
import time
from hashlib import sha256
from pathlib import Path, PurePath

from pflow_mcp_plugin import naming, storage
from pflow_mcp_plugin.config.server_schema import find_program
from pflow_mcp_plugin.errors import ConnectionFailed, Where
from pflow_mcp_plugin.processes.process_group import ProcessGroup, Reaper, child_environment
from pflow_mcp_plugin.processes.system_calls import enlarge_pipe, has_process_groups, too_long
from pflow_mcp_plugin.types import Server

ROLL_BACK_SECONDS = 10.0
"""How long a package runner has after SIGTERM to remove what it has installed so far."""
ROLL_BACK_NOTICE = f"was still being installed: that has {ROLL_BACK_SECONDS:g} s to be undone"
_RUNNERS = {"npx", "npm", "pnpm", "yarn", "bun", "bunx", "deno", "uv", "uvx", "pipx", "docker", "podman"}
_SOMETHING_MISSING = re.compile(
    r"Cannot find (?:module|package) |npm (?:error|ERR!) code E(?:NOENT|NOTEMPTY|NOTDIR)"
)
_FOLDER = re.compile(r"/[^\n'\"]*?/_npx/[0-9a-f]{16}(?=/)")


def require_processes(server: Server) -> None:
    """Raise ConnectionFailed if this platform does not let us watch and end a server's process."""
    if has_process_groups():
        return
    raise ConnectionFailed(
        f"Server {server.name} cannot be started: pflow starts servers on Linux, "
        "and on macOS with Python 3.13 or later",
        where=Where(server=server.name, phase="start"),
        next_step=f"run it elsewhere, and set type http and its url for server {server.name}",
        platform=sys.platform,
    )


def spawn(server: Server, marker: str, reaper: Reaper, known_program: str = "") -> ProcessGroup:
    """Start a server as a process: its command, in its folder, with the few variables that it gets."""
    environment = child_environment(server.env, marker)
    program = find_program(server, environment, known_program)
    folder, path = os.path.dirname(program), environment.get("PATH", "")  # noqa: PTH120 - an entry of PATH
    if os.sep not in server.command and folder not in path.split(os.pathsep):
        # It was found elsewhere, and may need what lies beside it, as npx needs node.
        environment["PATH"] = os.pathsep.join(filter(None, (folder, path)))
    try:
        popen = subprocess.Popen(  # noqa: S603 - the command is the user's own config
            [program, *server.args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=server.cwd,
            env=environment,
            bufsize=0,
            start_new_session=True,  # one group to signal, and Ctrl-C in the terminal reaches pflow only
        )
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno == errno.E2BIG:
            ours = {name: value for name, value in environment.items() if name not in server.env}
            place = "the environment of pflow"
            what = too_long(
                {
                    "command": {"command": server.command},
                    "args": {f"args[{index}]": text for index, text in enumerate(server.args)},
                    "env": {f"env.{name}": f"{name}={value}" for name, value in server.env.items()},
                    place: {f"{name} in {place}": f"{name}={value}" for name, value in ours.items()},
                }
            )
            raise ConnectionFailed(
                f"Server {server.name} could not be started: {what}",
                where=Where(server=server.name, phase="start"),
                next_step="shorten it, or write the value to a file that the server can read",
            ) from error
        from pflow_mcp_plugin.config.display import command_line

        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ConnectionFailed(
            f"Server {server.name} could not be started: {reason}: {server.command}",
            where=Where(server=server.name, phase="start"),
            next_step=f"run the command by itself to see why: {command_line(server)}",
        ) from error
    enlarge_pipe(popen.stdout)
    return ProcessGroup(popen, reaper, ROLL_BACK_SECONDS if runner(server) else None)


def keep_stderr(folder: Path, server: str, text: str) -> Path | None:
    """Keep the stderr of a server's process in a log file, and return its path; None if that failed."""
    content = text.encode("utf-8", "replace")
    # Named by content: a server that fails the same way in every run keeps one file.
    path = folder / naming.server_name(server) / f"{sha256(content).hexdigest()[:16]}.log"
    try:
        storage.write_atomic(path, content)
        others = [each for each in path.parent.glob("*.log") if each != path]
        others.sort(key=lambda other: other.stat().st_mtime_ns, reverse=True)
        for older in others[4:]:  # the newest five are kept
            older.unlink(missing_ok=True)
    except (storage.StoreError, OSError):  # must not hide the failure that is being reported
        return path if path.exists() else None
    return path


def runner(server: Server) -> str:
    """Return the package runner, such as npx, that starts a server's process; empty if none does."""
    name = PurePath(server.command).stem
    return name if name in _RUNNERS else ""


def incomplete_folder(server: Server, stderr: str) -> Path | None:
    """Return the unfinished installation in npx's cache that made a server's process fail, by its stderr."""
    named = _FOLDER.search(stderr)
    if runner(server) not in ("npx", "npm") or named is None or not _SOMETHING_MISSING.search(stderr):
        return None
    folder = Path(named[0])
    try:
        if not stat.S_ISDIR((folder / "node_modules").lstat().st_mode):
            return None
    except OSError:
        return None
    try:  # another npx touches its lock every second; npm ignores one that was not touched for a minute
        is_locked = time.time() - (folder / "concurrency.lock").stat().st_mtime < 60.0
    except OSError:
        is_locked = False
    return None if is_locked else folder


def remove_folder(folder: Path) -> bool:
    """Remove what an npx that was killed left in its cache, as a whole; return whether it is gone."""
    import shutil

    aside = folder.with_name(f"{folder.name}.incomplete-{time.time_ns()}")
    try:
        folder.rename(aside)  # at once, for an npx that installs it again meanwhile
    except OSError:
        return False
    shutil.rmtree(aside, ignore_errors=True)
    return True
