"""`pflow mcp new-preset`: writes a package with a preset, to begin with."""

from __future__ import annotations

import keyword
import re
from pathlib import Path

import click

from pflow_mcp_plugin import storage
from pflow_mcp_plugin.cli.known_names import folders
from pflow_mcp_plugin.cli.presets import collected
from pflow_mcp_plugin.contract import Host, PflowError, Report
from pflow_mcp_plugin.presets.package_template import package_files

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


@click.command("new-preset")
@click.argument("name")
@click.argument("folder", required=False, type=click.Path(path_type=Path), shell_complete=folders)
@click.pass_obj
def new_preset(host: Host, name: str, folder: Path | None) -> Report:
    """Write a Python package with a preset, a server and tests to FOLDER, by default ./NAME."""
    return write_package(host, name, folder or Path(name))


def write_package(host: Host, name: str, folder: Path) -> Report:
    """Write a package with a preset, as `pflow mcp new-preset` does.

    Args:
        host: Its plugins may offer a preset of this name already.
        name: The name of the package and of its preset.
        folder: Where to write it; it must be empty, or not exist.

    Raises:
        PflowError: The name is invalid or taken, or the folder is not empty.
        StoreError: A file cannot be written.
    """
    _check(host, name)
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise PflowError(
            f"{folder} exists and is not empty", suggestions=("Name another folder",), kind="usage"
        )
    files = package_files(name)
    for path, text in files.items():
        storage.write_output(folder / path, text.encode())
    following = f"pip install --editable {folder} pytest && pytest {folder}"
    return Report(
        data={"folder": str(folder), "files": [*files], "next": following},
        text="\n".join([f"Wrote {folder}:", *(f"  {path}" for path in files), f"Next: {following}"]),
    )


def _check(host: Host, name: str) -> None:
    if not _NAME.fullmatch(name) or keyword.iskeyword(name):
        step = "Use a-z, 0-9 and hyphens, beginning with a letter, such as acme-tickets"
        raise PflowError(f"Invalid package name {name!r}", suggestions=(step,), kind="usage")
    collection = collected(host)
    if name in collection.offered or name in collection.clashes:
        step = f"Choose another name; see: pflow mcp presets show {name}"
        raise PflowError(f"A preset named {name} already exists", suggestions=(step,), kind="usage")
