"""`pflow mcp stubs`: writes the classes of all tools as a stub file."""

from __future__ import annotations

from pathlib import Path

import click

from pflow_mcp_plugin import storage
from pflow_mcp_plugin.cli.dependencies import catalog, server_store
from pflow_mcp_plugin.contract import Host, Report
from pflow_mcp_plugin.registration.class_signature import POCKETFLOW, stub
from pflow_mcp_plugin.registration.tool_source import ToolSource


@click.command()
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File to write; standard output by default.",
)
@click.pass_obj
def stubs(host: Host, output: Path | None) -> Report:
    """Write type stubs for `pflow_mcp_plugin.nodes`, with a class for every tool.

    Editors read it from typings/pflow_mcp_plugin/nodes.pyi in a project, mypy does with
    mypy_path = "typings".
    """
    return write_stubs(host, output)


def write_stubs(host: Host, output: Path | None) -> Report:
    """Write the stubs of all tools to a file, or return a report with their text.

    Raises:
        StoreError: The file cannot be written.
    """
    entries = list(ToolSource(catalog(host), server_store(host)).entries())
    text = stub(entries)
    if output is None:
        return Report(data={"classes": len(entries), "text": text}, text=text, is_data=True)
    storage.write_output(output, text.encode())
    _complete(output.parent)
    written = f"Wrote {len(entries)} class{'' if len(entries) == 1 else 'es'} to {output}"
    return Report(data={"classes": len(entries), "path": str(output)}, text=written)


def _complete(folder: Path) -> None:
    """Add what mypy needs to read stubs in a folder with the package's name, and pocketflow's beside it.

    mypy ignores a folder without `__init__.pyi`. The other modules are still found in the installed package.
    """
    if folder.name != "pflow_mcp_plugin":
        return
    if not any(folder.glob("__init__.py*")):
        storage.write_output(folder / "__init__.pyi", b"")
    if not any(folder.parent.glob("pocketflow*")):
        storage.write_output(folder.parent / POCKETFLOW.name, POCKETFLOW.read_bytes())
