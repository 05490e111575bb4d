"""Writes the pages that commands make: to a file, or to standard output, and opens them in the browser."""

from __future__ import annotations

from pathlib import Path

from pflow_mcp_plugin.contract import PflowError, Report
from pflow_mcp_plugin.contract.json_types import JSONObject
from pflow_mcp_plugin.storage import write_output

STDOUT = Path("-")
"""What stands for standard output where a file is named."""


def write_page(
    page: str, target: Path, data: JSONObject, *, private: bool = False, opened: bool = False
) -> Report:
    """Write a page and return the report.

    Args:
        page: The HTML page.
        target: The file, or `-` for standard output.
        data: What else the report has with `--json`.
        private: Whether only the owner may read the file.
        opened: Whether to open it in the browser.

    Raises:
        PflowError: It cannot be opened: standard output has no page to open.
    """
    if target == STDOUT:
        if opened:
            raise PflowError("--open needs a file, not standard output", kind="usage")
        return Report(data={**data, "html": page}, text=page, is_data=True)
    write_output(target, page.encode("utf-8", "replace"), private=private)
    told = f"Wrote {target}"
    if opened:
        told += _open(target)
    return Report(data={**data, "path": str(target)}, text=told)


def _open(target: Path) -> str:
    """Open a file in the browser and return what to say about it."""
    import webbrowser

    url = target.absolute().as_uri()
    return "" if webbrowser.open(url) else f"; no browser could be started, open it yourself: {url}"
