"""A server's process: started without the SDK, and released with its whole process group."""

from __future__ import annotations

import difflib
import errno
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from pflow_mcp_plugin.argument_sizes import too_long
from pflow_mcp_plugin.client.process.environment import child_environment
from pflow_mcp_plugin.client.process.reaper import Reaper
from pflow_mcp_plugin.config.display import command_line
from pflow_mcp_plugin.errors import ConnectionFailed, Where
from pflow_mcp_plugin.presets import missing_programs
from pflow_mcp_plugin.types import Server

_PIPE_SIZE = 1 << 20
"""Bytes of a spawned server's stdout pipe: Linux's default maximum, as a larger pipe needs fewer reads."""
_NEEDED = ("waitid", "killpg")
"""Functions of `os` that spawning needs: Windows has neither, macOS the first since Python 3.13."""


class ServerProcess:
    """The process that was spawned for a server: its pipes, its process group, and its exit code.

    Attributes:
        started: `time.perf_counter()` when it was started.
    """

    def __init__(self, popen: subprocess.Popen[bytes], reaper: Reaper) -> None:
        self.popen = popen
        self.started = time.perf_counter()
        self._reaper = reaper
        reaper.register(popen.pid)

    @property
    def pid(self) -> int:
        """The id of the spawned process and, since it leads its session, of its process group."""
        return self.popen.pid

    @property
    def returncode(self) -> int | None:
        """The spawned process's exit code, the negative signal number if it was killed, None while it runs.

        Reading it does not reap the process: until `release`, the id cannot be reused.
        """
        if self.popen.returncode is not None:
            return self.popen.returncode
        state = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if state is None:
            return None
        return state.si_status if state.si_code == os.CLD_EXITED else -state.si_status

    def signal_group(self, number: int) -> None:
        """Send a signal to the spawned process and its children."""
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):  # macOS denies signals to a group of zombies
            return

    def release(self) -> None:
        """Kill the rest of the spawned process's group, unregister the group, and reap the process."""
        self.signal_group(signal.SIGKILL)
        self._reaper.unregister(self.pid)
        self.popen.wait()
        for pipe in (self.popen.stdin, self.popen.stdout, self.popen.stderr):
            if pipe is not None:
                pipe.close()


def require_processes(server: Server) -> None:
    """Refuse to spawn a server on platforms where a process group cannot be watched and ended.

    Raises:
        ConnectionFailed: On Windows, and on macOS before Python 3.13.
    """
    if all(hasattr(os, name) for name in _NEEDED):
        return
    raise ConnectionFailed(
        f"Server {server.name} cannot be started: pflow starts servers on Linux, "
        "and on macOS with Python 3.13 or later",
        where=Where(server=server.name, phase="start"),
        next_step=f"run it elsewhere, and set type http and its url for server {server.name}",
        platform=sys.platform,
    )


def spawn(server: Server, marker: str, reaper: Reaper) -> ServerProcess:
    """Spawn the process of a server in a session of its own.

    Args:
        server: The server, with expanded values.
        marker: Set in its environment.
        reaper: Registers its process group.

    Raises:
        ConnectionFailed: `Command not found: X`, a missing working folder, no permission.
    """
    environment = child_environment(server.env, marker)
    program = _program(server, environment)
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
            raise _too_long(server, environment) from error
        raise _not_started(server, error) from error
    _widen(popen)
    return ServerProcess(popen, reaper)


def _program(server: Server, environment: dict[str, str]) -> str:
    where = Where(server=server.name, phase="start")
    if server.cwd is not None and not _is_dir(server.cwd):
        wrong = "is not a folder" if _exists(server.cwd) else "does not exist"
        message = f"The working folder of server {server.name} {wrong}: {server.cwd}"
        raise ConnectionFailed(message, where=where, next_step=f"correct cwd of server {server.name}")
    if os.sep in server.command:
        return _named_file(server, where)
    found = shutil.which(server.command, path=environment.get("PATH"))
    if found is None:
        _refuse_not_executable(server, environment, where)
        # The login shell is not asked: other servers' connections would wait for it.
        known = missing_programs.remedy(server.command, ask_shell=False)
        near = None if known else closest_program(server.command, environment.get("PATH", ""))
        otherwise = f"did you mean {near}?" if near else "install it, or give its full path as command"
        raise ConnectionFailed(
            f"Command not found: {server.command} (server {server.name})",
            where=where,
            next_step=known or otherwise,
            closest=near,
        )
    return found


def _exists(path: str | Path) -> bool:
    return os.path.exists(path)  # noqa: PTH110  # False, too, for a name that is too long or cannot be reached


def _is_dir(path: str | Path) -> bool:
    return os.path.isdir(path)  # noqa: PTH112  # likewise


def _refuse_not_executable(server: Server, environment: dict[str, str], where: Where) -> None:
    """Raise if the program is on PATH but not executable; return if it is not there at all."""
    there = shutil.which(server.command, mode=os.F_OK, path=environment.get("PATH"))
    if there is not None:
        raise _denied(there, server, where)


def _denied(path: str, server: Server, where: Where) -> ConnectionFailed:
    message = f"Permission denied: {path} is not executable (server {server.name})"
    return ConnectionFailed(message, where=where, next_step=f"chmod +x {path}")


def _named_file(server: Server, where: Where) -> str:
    path = Path(server.cwd or ".", server.command)
    if not _exists(path):
        message = f"Command not found: {server.command} (server {server.name})"
        raise ConnectionFailed(message, where=where, next_step="correct the path in command")
    if _is_dir(path) or not os.access(path, os.X_OK):
        raise _denied(server.command, server, where)
    return str(path.absolute())


def _too_long(server: Server, environment: dict[str, str]) -> ConnectionFailed:
    inherited = {name: value for name, value in environment.items() if name not in server.env}
    what = too_long(
        {
            "command": {"command": server.command},
            "args": {f"args[{index}]": text for index, text in enumerate(server.args)},
            "env": {f"env.{name}": f"{name}={value}" for name, value in server.env.items()},
            "the environment of pflow": {
                f"{name} in the environment of pflow": f"{name}={value}" for name, value in inherited.items()
            },
        }
    )
    return ConnectionFailed(
        f"Server {server.name} could not be started: {what}",
        where=Where(server=server.name, phase="start"),
        next_step="shorten it, or write the value to a file that the server can read",
    )


def _not_started(server: Server, error: Exception) -> ConnectionFailed:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return ConnectionFailed(
        f"Server {server.name} could not be started: {reason}: {server.command}",
        where=Where(server=server.name, phase="start"),
        next_step=f"run the command by itself to see why: {command_line(server)}",
    )


def closest_program(name: str, path: str) -> str | None:
    """Return the program on `path` to suggest when spawning finds none of that name: the most similar one."""
    return next(iter(difflib.get_close_matches(name, _programs(path), n=1, cutoff=0.75)), None)


def _programs(path: str) -> Iterable[str]:
    names: set[str] = set()
    for folder in path.split(os.pathsep):
        try:
            names.update(path.name for path in Path(folder).iterdir())
        except OSError:
            continue
    return sorted(names)


def _widen(popen: subprocess.Popen[bytes]) -> None:
    """Enlarge the stdout pipe if the system allows it."""
    try:
        import fcntl

        fcntl.fcntl(popen.stdout, fcntl.F_SETPIPE_SZ, _PIPE_SIZE)  # type: ignore[arg-type]  # spawned with a pipe for stdout
    except (ImportError, AttributeError, OSError):
        return
