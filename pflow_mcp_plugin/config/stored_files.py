"""The files of sign-ins, pins and tools, as a check of the config sees them: from outside."""

from __future__ import annotations

from collections.abc import Iterator

from pflow_mcp_plugin import storage
from pflow_mcp_plugin.config.locations import pin_folder, sign_in_folder, tool_folder
from pflow_mcp_plugin.contract import Paths, Problem


def check(paths: Paths) -> Iterator[Problem]:
    """Yield a warning for each sign-in that other users may read, and an error for what they may write."""
    for folder in (sign_in_folder(paths), pin_folder(paths), tool_folder(paths)):
        try:
            files = sorted(storage.files_in(folder, ".json"))
        except storage.StoreError as error:
            yield Problem(message=error.message, severity="warning", kind="config")
            continue
        refused: dict[str, Problem] = {}
        for file in files:
            try:
                storage.require_own(file)
            except storage.StoreError as error:  # of a folder, it is the same for all its files
                step = "".join(error.suggestions)
                source = str(error.path)
                refused[source] = Problem(
                    message=error.message, suggestion=step, kind="config", source=source
                )
            except OSError:  # removed just now
                continue
            if folder == sign_in_folder(paths) and storage.is_open_to_others(file):
                yield Problem(
                    message=f"{file} holds tokens and can be read by others",
                    suggestion=f"chmod 600 {file}",
                    severity="warning",
                    kind="config",
                    source=str(file),
                )
        yield from refused.values()
