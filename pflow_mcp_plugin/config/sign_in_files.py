"""The files of sign-ins, as a check of the config sees them: from outside."""

from __future__ import annotations

from collections.abc import Iterator

from pflow_mcp_plugin import storage
from pflow_mcp_plugin.config.locations import sign_in_folder
from pflow_mcp_plugin.contract import Paths, Problem


def check(paths: Paths) -> Iterator[Problem]:
    """Yield a warning for each file of a sign-in that other users may read, and for an unreadable folder."""
    try:
        files = storage.files_in(sign_in_folder(paths), ".json")
    except storage.StoreError as error:
        yield Problem(message=error.message, severity="warning", kind="config")
        return
    for file in sorted(filter(storage.is_open_to_others, files)):
        yield Problem(
            message=f"{file} holds tokens and can be read by others",
            suggestion=f"chmod 600 {file}",
            severity="warning",
            kind="config",
            source=str(file),
        )
