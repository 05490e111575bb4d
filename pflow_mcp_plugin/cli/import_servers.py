"""`pflow mcp import`: adds the servers of other clients; nothing is started."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from shlex import quote
from typing import Any

import attrs
import click

from pflow_mcp_plugin.cli.command_arguments import clients, clients_and_files
from pflow_mcp_plugin.cli.interaction import tell
from pflow_mcp_plugin.config import display, server_egress, server_schema
from pflow_mcp_plugin.config.field_checks import refusal
from pflow_mcp_plugin.config.interchange import client_documents, transfer_plans
from pflow_mcp_plugin.config.interchange.client_documents import FileContent
from pflow_mcp_plugin.config.interchange.clients import CLIENTS, client, found, places, this_machine
from pflow_mcp_plugin.config.interchange.transfer_plans import ImportPlan, PlannedServer
from pflow_mcp_plugin.config.server_store import ServerStore
from pflow_mcp_plugin.contract import Host, PflowError, Problem, Report
from pflow_mcp_plugin.contract.problems import advice
from pflow_mcp_plugin.discovery.servers import approve_launches, server_store
from pflow_mcp_plugin.terminal.human_units import count_text
from pflow_mcp_plugin.terminal.looks import one_line

_EPILOG = (
    f"Clients: {', '.join(CLIENTS)}. A FILE may also be a server.json of the MCP Registry, the "
    "manifest.json of an MCP bundle, or any JSON with mcpServers."
)
_ACTIONS = {
    "add": ("+", "added"),
    "replace": ("~", "replaced"),
    "same": ("=", "unchanged"),
    "skip": ("-", "skipped"),
    "refuse": ("!", "refused"),
}
"""The mark of what is done with a server, and the key in the report."""


@click.command(epilog=_EPILOG)
@click.argument("source", required=False, metavar="[CLIENT|FILE]", shell_complete=clients_and_files)
@click.option(
    "--as",
    "client_name",
    default="",
    metavar="CLIENT",
    shell_complete=clients,
    help="The client whose format FILE has.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be done; change nothing.")
@click.option("--force", is_flag=True, help="Replace configured servers of the same names.")
@click.option(
    "--secrets-to-settings/--keep-secrets",
    "move_secrets",
    default=None,
    help="Whether to move secrets that the files contain to pflow's settings and refer to them. "
    "By default, pflow asks on a terminal; otherwise it stores them in the config and warns.",
)
@click.pass_obj
def import_servers(
    host: Host,
    /,
    source: str | None,
    *,
    client_name: str,
    dry_run: bool,
    force: bool,
    move_secrets: bool | None,
) -> Report:
    """Add the servers of other clients to the config; starts none.

    Without CLIENT or FILE, every client's files on this machine are read. Configured servers are kept
    unless --force is given.
    """
    store = server_store(host)
    files = _read(source or "", client_name)
    store.names()  # raises the error about a config without a table of servers
    kept = set(host.settings.names()) if host.settings else set()
    plan = transfer_plans.plan_import(
        files,
        store.raw().get(server_schema.SERVERS, {}),
        force=force,
        check=lambda name, table: store.refused({name: table}).get(name, ()),
        is_taken=lambda name, value: _is_taken(host, name, value),
        origin=lambda name: "environment" if name in os.environ else "settings" if name in kept else "",
    )
    moved = bool(plan.secrets) and _decided(host, plan, wish=move_secrets, dry_run=dry_run)
    if not dry_run:
        _apply(host, store, plan, moved=moved)
    done: dict[str, list[str]] = {key: [] for _, key in _ACTIONS.values()}
    for each in plan.servers:
        done[_ACTIONS[each.action][1]].append(each.server.name)
    data = {
        "dry_run": dry_run,
        "config": str(store.path),
        "files": [
            {
                "client": file.client,
                "path": str(file.path),
                "project": file.is_project,
                "servers": len(file.servers),
                **({"error": file.error.to_dict()} if file.error else {}),
            }
            for file in plan.files
        ],
        **done,
        "servers": [_server_data(each, moved=moved) for each in plan.servers],
        "secrets": "settings" if moved else "kept" if plan.secrets else "none",
        # Variables that the servers need and that have no value.
        "variables_to_set": [
            name for name in dict.fromkeys(plan.variables()) if name not in os.environ and name not in kept
        ],
    }
    return Report(data=data, text=lambda: "\n".join(map(one_line, _lines(data, plan))), error=_error(plan))


def _read(source: str, client_name: str) -> list[FileContent]:
    machine = this_machine()
    if client_name and not source:
        raise PflowError("--as needs a FILE", suggestions=(f"pflow mcp import {client_name}",), kind="usage")
    if source in CLIENTS and CLIENTS[source].files and not client_name:
        files = found(machine, CLIENTS[source])
        if not files:
            looked = ", ".join(str(file.path) for file in places(CLIENTS[source], machine))
            step = f"Looked for {looked}. Name its file: pflow mcp import FILE --as {source}"
            message = f"{CLIENTS[source].title} has no config file here"
            raise PflowError(message, suggestions=(step,), kind="not_found")
        return [client_documents.read(file, machine) for file in files]
    if source:
        if not Path(source).exists() and "." not in source and "/" not in source:
            client(source)  # reports the closest name
        return [
            client_documents.read_any(Path(source), machine, client(client_name) if client_name else None)
        ]
    return [client_documents.read(file, machine) for file in found(machine)]


def _is_taken(host: Host, name: str, value: str) -> bool:
    """Whether `pflow mcp import` finds another value in a secret's variable, in environment or settings."""
    if name in os.environ:
        return os.environ[name] != value
    place = host.settings.names().get(name) if host.settings else None
    return place is not None and not (place == "file" and host.settings and host.settings.get(name) == value)


def _decided(host: Host, plan: ImportPlan, *, wish: bool | None, dry_run: bool) -> bool:
    if host.settings is None:
        return False
    if wish is not None or dry_run or not (sys.stdin and sys.stdin.isatty() and sys.stderr.isatty()):
        return bool(wish)
    for secret in plan.secrets:
        tell(f"  {secret.variable} ({secret.field})")
    question = f"Move {count_text(len(plan.secrets), 'secret')} to pflow's settings and refer to them?"
    return click.confirm(question, default=True, err=True)


def _apply(host: Host, store: ServerStore, plan: ImportPlan, *, moved: bool) -> None:
    tables = plan.tables(with_references=moved)
    if not tables:
        return
    if moved and host.settings:  # first: a reference without its value would lose the secret
        for secret in plan.secrets:
            host.settings.set(secret.variable, secret.value)
    change = store.add(tables)
    for warning in change.warnings:
        host.report(warning)
    approve_launches(host, tables, new=change.added)
    for name in tables:
        insecure = server_egress.advise(store.get(name))
        if insecure:
            host.report(insecure)
    host.refresh("mcp")
    for each in () if moved else plan.servers:
        for secret in each.secrets if each.is_stored else ():
            path = f"{server_schema.server_path(each.server.name)}.{secret.field}"
            message = f"{each.server.name} keeps the secret {secret.field} in the config in plain text"
            again = f"pflow mcp import {quote(str(each.file.path))}"
            again += f" --as {each.file.client}" if each.file.client in CLIENTS else ""
            own = f"write ${{{secret.variable}}} in its place, and: pflow settings set {secret.variable} -"
            step = f"Move the secrets of this file: {again} --secrets-to-settings --force; or {own}"
            host.report(advice(path, message, step))


def _error(plan: ImportPlan) -> PflowError | None:
    failures = [file.error for file in plan.files if file.error]
    problems = [Problem(message=failure.message, kind="config") for failure in failures]
    refused = [each for each in plan.servers if each.action == "refuse"]
    if refused:
        own = [attrs.evolve(it, source=str(each.file.path)) for each in refused for it in each.problems]
        names = ", ".join(each.server.name for each in refused)
        return refusal(f"Not imported: {names}", [*own, *problems])
    if len(failures) > 1:
        return refusal("Files could not be read", problems)
    return failures[0] if failures else None


def _server_data(each: PlannedServer, *, moved: bool) -> dict[str, Any]:
    data: dict[str, Any] = {
        "name": each.server.name,
        "given": each.server.given,
        "client": each.file.client,
        "file": str(each.file.path),
        "project": each.server.project or None,
        "action": each.action,
        "reason": each.reason or None,
        "no_equivalent": [*each.server.reading.lost],
        "secrets": [{"field": it.field, "variable": it.variable} for it in each.secrets],
        "problems": [problem.to_dict() for problem in each.problems],
    }
    if each.is_stored:
        # As it is stored, with secrets masked.
        table = each.table_with_references if moved else each.table
        data["config"] = display.shown(server_schema.build(each.server.name, table, {}))
    return data


def _lines(data: Mapping[str, Any], plan: ImportPlan) -> Iterator[str]:
    moved, dry_run = data["secrets"] == "settings", data["dry_run"]
    rows = list(zip(plan.servers, data["servers"], strict=True))
    for file in plan.files:
        yield f"{file.title}: {file.path}" + (" (project)" if file.is_project else "")
        if file.error is None and not file.servers:
            yield "  no servers"
        for each, row in rows:
            if each.file is file:
                yield from _server_lines(each, row.get("config"), moved=moved, dry_run=dry_run)
    if not plan.files:
        yield "No config file of another client was found. Name one: pflow mcp import FILE"
        return
    stored = [each.server.name for each in plan.servers if each.is_stored]
    left = f", left out {len(data['skipped'])}" if data["skipped"] else ""
    yield f"{'Would import' if dry_run else 'Imported'} {count_text(len(stored), 'server')}{left}"
    for name in data["variables_to_set"]:
        yield f"Set {name}: pflow settings set {name} -"
    if stored and not dry_run:
        yield f"Next: pflow mcp sync {stored[0] if len(stored) == 1 else '--all'}"


def _server_lines(
    each: PlannedServer, shown: Mapping[str, Any] | None, *, moved: bool, dry_run: bool
) -> Iterator[str]:
    renamed = f" (there {each.server.given!r})" if each.server.given != each.server.name else ""
    project = f" in project {each.server.project}" if each.server.project else ""
    reason = f": {each.reason}" if each.reason else ""
    yield f"  {_ACTIONS[each.action][0]} {each.server.name}{renamed}{project}{reason}"
    if each.action == "refuse":
        yield from (f"      {problem}" for problem in each.problems)
    if shown is None:
        return
    yield f"      {shown.get('runs') or shown.get('url') or shown.get('path')}"
    yield from (f"      env {name}={value}" for name, value in shown.get("env", {}).items())
    yield from (f"      header {name}: {value}" for name, value in shown.get("headers", {}).items())
    yield from (f"      {problem.message}" for problem in each.problems)
    if each.server.reading.lost:
        yield f"      no equivalent: {', '.join(each.server.reading.lost)}"
    for secret in each.secrets:
        kept = "kept in plain text" + ("; --secrets-to-settings moves it" if dry_run else "")
        yield f"      secret {secret.field}: {f'in the settings as {secret.variable}' if moved else kept}"
