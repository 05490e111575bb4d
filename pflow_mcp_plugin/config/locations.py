"""Paths of the files of this plugin, and who else may read or write those with sign-ins, pins and tools."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pflow_mcp_plugin import storage
from pflow_mcp_plugin.contract import Problem
from pflow_mcp_plugin.contract.problems import advice, problem_of

if TYPE_CHECKING:
    from pflow_mcp_plugin.contract import Paths


def server_file(paths: Paths) -> Path:
    """Return the path of `mcp-servers.toml`."""
    return paths.config / "mcp-servers.toml"


def tool_folder(paths: Paths) -> Path:
    """Return the path of the folder with the tool files: one JSON file for each synced server."""
    return paths.data / "servers"


def pin_folder(paths: Paths) -> Path:
    """Return the location of the folder with what was approved: one JSON file for each server."""
    return paths.data / "pins"


def sign_in_folder(paths: Paths) -> Path:
    """Return the path of the folder with the sign-ins at servers, which only the user may read."""
    return paths.data / "oauth"


def project_file(paths: Paths) -> Path:
    """Return the location of a project's own file, `.mcp.json`: in the folder asked for or this one."""
    return (paths.project or Path()) / ".mcp.json"


def approvals_file(paths: Paths) -> Path:
    """Return the location of the file that says which projects' files the user has approved."""
    return paths.data / "approvals.json"


def stderr_folder(paths: Paths) -> Path:
    """Return the path of the folder with the stderr output of servers that failed."""
    return paths.state / "stderr"


def tool_files(folder: Path) -> list[tuple[str, int, int]]:
    """Of a location of files: return its tool files, with times of change (ns) and sizes (bytes)."""
    try:
        with os.scandir(folder) as found:
            files = [item for item in found if item.name.endswith(".json")]
            return [(item.name, item.stat().st_mtime_ns, item.stat().st_size) for item in files]
    except OSError:  # no such folder; whoever reads the files reports other errors
        return []


def check_stored(paths: Paths) -> Iterator[Problem]:
    """Of the locations of sign-ins, pins and tools: yield a problem where others may read or write."""
    for folder in (sign_in_folder(paths), pin_folder(paths), tool_folder(paths)):
        try:
            files = sorted(storage.json_files_in(folder))
        except storage.StoreError as error:
            yield problem_of(error, severity="warning")
            continue
        refused: dict[str, Problem] = {}
        for file in files:
            try:
                storage.require_own(file)
            except storage.StoreError as error:  # one about a folder is the same for all its files
                refused[str(error.path)] = problem_of(error, source=str(error.path))
            except OSError:  # removed just now
                continue
            if folder == sign_in_folder(paths) and storage.is_open_to_others(file):
                message = f"{file} holds tokens and can be read by others"
                yield advice("", message, f"chmod 600 {file}", source=str(file))
        yield from refused.values()
