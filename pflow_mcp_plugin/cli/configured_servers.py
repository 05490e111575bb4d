"""`pflow mcp enable | disable | remove | edit`: change the servers that are configured."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import click

from pflow_mcp_plugin import storage
from pflow_mcp_plugin.cli import command_arguments
from pflow_mcp_plugin.cli.interaction import is_interactive
from pflow_mcp_plugin.config.locations import server_file, sign_in_folder
from pflow_mcp_plugin.config.server_store import ServerStore
from pflow_mcp_plugin.contract import Host, PflowError, Problem, Report
from pflow_mcp_plugin.contract.problems import advice, errors_in
from pflow_mcp_plugin.discovery.servers import catalog, forget_stderr, server_store, servers
from pflow_mcp_plugin.errors import McpError
from pflow_mcp_plugin.storage.json_and_toml import decode_toml

if TYPE_CHECKING:
    from pflow_mcp_plugin.cli.auth import StoredSignIns
    from pflow_mcp_plugin.cli.login import EndedSignIn


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=command_arguments.servers)
@click.pass_obj
def enable(host: Host, names: tuple[str, ...]) -> Report:
    """Enable servers that were disabled."""
    return switch(host, names, disabled=False)


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=command_arguments.servers)
@click.pass_obj
def disable(host: Host, names: tuple[str, ...]) -> Report:
    """Disable servers: their tools are not available until they are enabled again. Nothing is removed."""
    return switch(host, names, disabled=True)


def switch(host: Host, names: Sequence[str], *, disabled: bool) -> Report:
    """Do `pflow mcp enable` or `disable`: all of these servers or none; a project's cannot be switched."""
    store = server_store(host)
    changed = store.switch(names, disabled=disabled)
    if changed.replaced:
        host.refresh("mcp")
    for warning in changed.warnings:
        host.report(warning)
    state, named = "disabled" if disabled else "enabled", list(dict.fromkeys(names))
    lines = [
        f"{state.capitalize()} server {it}" if it in changed.replaced else f"Server {it} is already {state}"
        for it in named
    ]
    data = {"disabled": disabled, "servers": named, "changed": list(changed.replaced)}
    return Report(data=data, text="\n".join(lines))


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=command_arguments.servers)
@click.pass_obj
def remove(host: Host, names: tuple[str, ...]) -> Report:
    """Remove servers: their config, their synced tools, what was approved of them, and their sign-ins."""
    wanted, store = list(dict.fromkeys(names)), server_store(host)
    for name in wanted:  # if one of them is not there, or is that of a project, none is removed
        # A server that was deleted from the config by hand still has its tool file.
        if name not in catalog(host).servers() or name in store.project_folders():
            store.require_own(name)
    reports = [_removed(host, name) for name in wanted]
    if len(reports) == 1:
        return reports[0]
    return Report(
        data={"servers": [report.data for report in reports]},
        text="\n".join(report.render() for report in reports),
        error=next((report.error for report in reports if report.error), None),
    )


def _removed(host: Host, name: str) -> Report:
    """For `pflow mcp remove`: remove one server's config, tool file, pins and, unless shared, its sign-in."""
    store = server_store(host)
    sign_ins = _sign_ins(host)  # before the removal: the config says which are its sign-ins
    warnings: list[Problem] = []

    def unconfigure() -> bool:
        with suppress(McpError):  # only its tool file is left
            warnings.extend(store.remove(name).warnings)
        return True

    before = {(it.server, it.found.name): it.node for it in catalog(host).records()}
    synced = servers(host.paths).forget(name, unconfigure)
    forget_stderr(host, name)
    host.refresh("mcp")
    for it in catalog(host).records():
        if before.get((it.server, it.found.name), it.node) != it.node:  # it shared the name
            message = f"{it.node}, a name that {name} claimed too, is now {it.tool.name} of {it.server}"
            warnings.append(advice("", message, "Check the workflows that use it"))
    for warning in warnings:
        host.report(warning)
    sign_ins = _sign_ins(host, sign_ins)  # a login may have ended meanwhile
    ended: list[EndedSignIn] = []
    failures: list[PflowError] = []
    kept_for: list[str] = []
    if sign_ins:
        from pflow_mcp_plugin.cli.login import sign_out_of

        users = {entry: sign_ins.users(entry) for entry in sign_ins.of_name(name)}
        own = [entry for entry, names in users.items() if set(names) <= {name}]
        others = (names for entry, names in users.items() if entry not in own)
        kept_for = [user for names in others for user in names if user != name]
        ended, failures = sign_out_of(host, sign_ins, own)
    data: dict[str, Any] = {"removed": name, "forgot_tools": synced}
    if ended:
        data["sign_ins"] = [each.to_dict() for each in ended]
    data["warnings"] = [warning.to_dict() for warning in warnings]
    text = f"Removed server {name}" + (" and its tools" if synced else "")
    lines = [text, *(line for each in ended for line in each.lines())]
    if kept_for:
        lines.append(f"Its sign-in stays, as server {', '.join(kept_for)} uses it")
    return Report(data=data, text="\n".join(lines), error=failures[0] if failures else None)


def _sign_ins(host: Host, before: StoredSignIns | None = None) -> StoredSignIns | None:
    if not sign_in_folder(host.paths).is_dir():  # most users have none, and the import takes a while
        return None
    from pflow_mcp_plugin.cli.auth import stored_sign_ins

    now = stored_sign_ins(host)
    # A removed server is no longer among those that are configured.
    return now if before is None else attrs.evolve(now, servers=before.servers)


@click.command()
@click.pass_obj
def edit(host: Host) -> Report:
    """Open the server config in $VISUAL or $EDITOR, check it, and save it.

    Asks to edit again if it has mistakes. What is not valid TOML is never saved, nor is a change to a file
    that another program has changed meanwhile; what you wrote is then kept beside it.
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
    if errors_in(problems):
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
    """Open the config's copy in an editor until it has no mistakes; return those that the user leaves."""
    while True:
        try:
            click.edit(filename=str(copy))
        except click.ClickException as error:
            step = "Set VISUAL or EDITOR to the command of an editor"
            raise PflowError(error.format_message(), suggestions=(step,), kind="usage") from error
        corrupt = None
        try:
            decode_toml(path, storage.read_bytes(copy) or b"")
            problems = [attrs.evolve(it, source=str(path)) for it in ServerStore(copy).check()]
        except storage.CorruptFile as error:
            corrupt = PflowError(f"{path} was not changed: what you wrote is not valid TOML", kind="config")
            problems = [Problem(message=error.message, kind="config")]
        errors = errors_in(problems)
        for problem in errors:
            click.echo(str(problem), err=True)
        if errors and click.confirm("Edit again?", default=True, err=True):
            continue
        if corrupt:
            raise corrupt
        return problems


def _save(copy: Path, path: Path, before: bytes | None) -> bool:
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
