"""The program that a server's `command` names: found before a start, or reported as missing.

Importing this loads nothing that starts a process, so that lists and checks can use it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

from pflow_mcp_plugin.contract import Problem
from pflow_mcp_plugin.contract.problems import problem_of
from pflow_mcp_plugin.errors import ConnectionFailed, Where
from pflow_mcp_plugin.variable_references import VariableReference, substitute

if TYPE_CHECKING:
    from pflow_mcp_plugin.types import Server


def advise(server: Server, known: str = "") -> Problem | None:
    """Return a warning if the program of a server's `command`, or its `cwd`, would be missing at a start.

    `known` is where its last sync found the program.
    """
    # Nothing can be said of a server with a variable that is not in the environment.
    if not server.command:
        return None
    try:
        folder = None if server.cwd is None else _expanded(server.cwd)
        expanded = attrs.evolve(server, command=_expanded(server.command), cwd=folder)
        find_program(expanded, {"PATH": _expanded(server.env.get("PATH", "${PATH}"))}, known)
    except KeyError:
        return None
    except ConnectionFailed as error:
        return problem_of(error, severity="warning", kind="config", source="mcp")
    return None


def _expanded(text: str) -> str:

    def value(reference: VariableReference) -> str:
        found = os.environ.get(reference.name)
        if not (found or reference.default):
            raise KeyError(reference.name)
        return found or reference.default or ""

    return substitute(text, value)


def kept_program(server: Server, before: str) -> str:
    """Return where the program of a server's `command` is found now, for starts with a shorter `PATH`."""
    if not server.command or os.sep in server.command:
        return ""
    try:
        found = find_program(server, {"PATH": server.env.get("PATH", os.environ.get("PATH", ""))}, before)
        return str(Path(found).absolute())  # a relative folder in `PATH` means another folder elsewhere
    except ConnectionFailed:  # it was started with the `PATH` of another process
        return before


def find_program(server: Server, environment: Mapping[str, str], known: str = "") -> str:
    """Find the program that `command` in a server's config names, before a start, and return its path.

    What `PATH` lacks, as under cron, is looked for beside the running Python, and where it was `known` to be.
    Raises `ConnectionFailed` if its working folder or the program is missing, or may not be executed.
    """
    where = Where(server=server.name, phase="start")
    if server.cwd is not None and not _is_dir(server.cwd):
        wrong = "is not a folder" if os.path.exists(server.cwd) else "does not exist"  # noqa: PTH110
        message = f"The working folder of server {server.name} {wrong}: {server.cwd}"
        raise _lacking(server.cwd, message, f"Correct cwd of server {server.name}", where)
    if os.sep in server.command:
        path = Path(server.cwd or ".", server.command)
        if not os.path.exists(path):  # noqa: PTH110  # False, too, for a name that is too long
            message = f"Command not found: {server.command} (server {server.name})"
            raise _lacking(path, message, "Correct the path in command", where)
        if _is_dir(path) or not os.access(path, os.X_OK):
            raise _denied(server.command, server, where)
        return str(path.absolute())
    import shutil

    found = shutil.which(server.command, path=environment.get("PATH"))
    if found:
        return found
    not_executable = shutil.which(server.command, mode=os.F_OK, path=environment.get("PATH"))
    if not_executable is not None:
        raise _denied(not_executable, server, where)
    elsewhere = shutil.which(server.command, path=str(Path(sys.executable).parent)) or shutil.which(known)
    if elsewhere:
        return elsewhere
    from pflow_mcp_plugin.processes import missing_programs

    # The login shell is not asked: other servers' connections would wait for it.
    known = missing_programs.remedy(server.command, ask_shell=False)
    near = None if known else closest_program(server.command, environment.get("PATH", ""))
    otherwise = f"Did you mean {near}?" if near else "Install it, or give its full path as command"
    message = f"Command not found: {server.command} (server {server.name})"
    raise ConnectionFailed(message, where=where, next_step=known or otherwise, closest=near)


def _lacking(path: str | Path, message: str, step: str, where: Where) -> ConnectionFailed:
    """Return the error about a program or `cwd` in a server's config: missing, or below a closed folder."""
    for folder in reversed(Path(path).parents):
        try:
            os.stat(f"{folder}/.")  # noqa: PTH116 - a path has no such end
        except PermissionError:
            message = f"Permission denied: {folder} may not be entered (server {where.server})"
            step = f"Correct the permissions of {folder}"
            break
        except (OSError, ValueError):
            break
    return ConnectionFailed(message, where=where, next_step=step)


def _is_dir(path: str | Path) -> bool:
    return os.path.isdir(path)  # noqa: PTH112  # False, too, for a name that is too long or cannot be reached


def _denied(path: str, server: Server, where: Where) -> ConnectionFailed:
    message = f"Permission denied: {path} is not executable (server {server.name})"
    return ConnectionFailed(message, where=where, next_step=f"chmod +x {path}")


def closest_program(name: str, path: str) -> str | None:
    """Return the program on `path` that a server's configured `command` may mean; None if none."""
    import difflib

    names: set[str] = set()
    for folder in path.split(os.pathsep):
        with suppress(OSError):
            names.update(path.name for path in Path(folder).iterdir())
    return next(iter(difflib.get_close_matches(name, sorted(names), n=1, cutoff=0.75)), None)
