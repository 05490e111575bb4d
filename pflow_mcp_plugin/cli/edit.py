"""`pflow mcp edit`: opens a copy of the server config in an editor, and saves it once it is checked."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs
import click

from pflow_mcp_plugin import storage
from pflow_mcp_plugin.cli.terminal import is_interactive
from pflow_mcp_plugin.config.locations import server_file
from pflow_mcp_plugin.config.server_store import ServerStore
from pflow_mcp_plugin.contract import Host, PflowError, Problem, Report
from pflow_mcp_plugin.storage import toml_text


@click.command()
@click.pass_obj
def edit(host: Host) -> Report:
    """Open the server config in $VISUAL or $EDITOR, check it, and save it.

    Asks to edit again if it has mistakes. What is not valid TOML is never saved, nor is a change to a file
    that another program has changed meanwhile; what you wrote is then kept beside it.
    """
    return edit_config(host)


def edit_config(host: Host) -> Report:
    """Let the user edit the server config, and return the report of what is wrong with it.

    Raises:
        PflowError: There is no terminal, the editor failed, the config has mistakes or was changed meanwhile.
    """
    path = server_file(host.paths)
    if not is_interactive():
        raise PflowError("An editor needs a terminal", suggestions=(f"Edit the file: {path}",), kind="usage")
    before = storage.read_own(path)
    with _copy(path, before or b"") as copy:
        problems = _edited(copy, path)
        changed = _save(copy, path, before)
    if changed:
        host.refresh("mcp")
    if any(problem.severity == "error" for problem in problems):
        raise PflowError(f"{path} has mistakes", problems=tuple(problems), kind="config")
    for problem in problems:
        host.report(problem)
    return Report(
        data={"path": str(path), "changed": changed},
        text=f"Saved {path}\nNext, if servers changed: pflow mcp sync"
        if changed
        else "Nothing was changed\nAn editor with windows must be told to wait, as in EDITOR='code --wait'",
    )


@contextmanager
def _copy(path: Path, content: bytes) -> Iterator[Path]:
    """Write a copy to edit and yield its path; after a failure, a copy with changes stays."""
    copy = path.with_name(f"{path.stem}.edited-{os.getpid()}{path.suffix}")
    storage.write_atomic(copy, content)
    try:
        yield copy
    except BaseException:
        if storage.read_bytes(copy) in (content, None):
            copy.unlink(missing_ok=True)
        else:
            click.echo(f"What you wrote is kept in {copy}", err=True)
        raise
    copy.unlink(missing_ok=True)


def _edited(copy: Path, path: Path) -> list[Problem]:
    """Open the copy in an editor until it has no mistakes, or the user leaves them.

    Returns:
        What is wrong with it.

    Raises:
        PflowError: The editor failed, or the copy is left as something that is not TOML.
    """
    while True:
        _open(copy)
        try:
            toml_text.decode(path, storage.read_bytes(copy) or b"")
        except storage.CorruptFile as error:
            problems = [Problem(message=error.message, kind="config")]
            is_readable = False
        else:
            problems = [attrs.evolve(it, source=str(path)) for it in ServerStore(copy).check()]
            is_readable = True
        errors = [problem for problem in problems if problem.severity == "error"]
        for problem in errors:
            click.echo(str(problem), err=True)
        if not errors or not click.confirm("Edit again?", default=True, err=True):
            break
    if not is_readable:
        raise PflowError(f"{path} was not changed: what you wrote is not valid TOML", kind="config")
    return problems


def _save(copy: Path, path: Path, before: bytes | None) -> bool:
    """Put the copy in place of the config; return whether that changed it.

    Raises:
        PflowError: The config is no longer what it was.
    """
    written = storage.read_bytes(copy)
    if written is None or written == (before or b""):
        return False
    with storage.locked(path):
        if storage.read_own(path) != before:
            message = f"Another program changed {path} meanwhile, so nothing was saved"
            step = f"Compare them, then edit again: diff {path} {copy}"
            raise PflowError(message, suggestions=(step,), kind="config")
        storage.write_atomic(path, written)
    return True


def _open(copy: Path) -> None:
    try:
        click.edit(filename=str(copy))
    except click.ClickException as error:
        step = "Set VISUAL or EDITOR to the command of an editor"
        raise PflowError(error.format_message(), suggestions=(step,), kind="usage") from error
