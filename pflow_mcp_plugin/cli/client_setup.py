"""Servers in the config of other clients: `pflow mcp export`, `serve --print-config` and `serve --install`.

Nothing is started.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from pflow_mcp_plugin import storage
from pflow_mcp_plugin.cli import command_arguments
from pflow_mcp_plugin.cli.command_arguments import TOKEN_VARIABLE
from pflow_mcp_plugin.cli.interaction import tell
from pflow_mcp_plugin.config import document_text, server_schema
from pflow_mcp_plugin.config.interchange import client_documents, clients, server_translation, transfer_plans
from pflow_mcp_plugin.config.interchange.clients import CLIENTS, Client, client
from pflow_mcp_plugin.config.interchange.transfer_plans import ExportedFile, ExportPlan
from pflow_mcp_plugin.config.server_store import ServerStore
from pflow_mcp_plugin.contract import Host, PflowError, Problem, Report
from pflow_mcp_plugin.contract.problems import advice
from pflow_mcp_plugin.discovery.servers import server_store
from pflow_mcp_plugin.server.http.listening_address import ENDPOINT

_NOT_PASSED_ON = ("print_config", "install", "name", "force", "as_json")
_EVERYWHERE = ("", "0.0.0.0", "::", "*")  # noqa: S104 - addresses to listen at, not to connect to


@click.command(epilog=f"Clients: {', '.join(CLIENTS)}.")
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=command_arguments.servers)
@click.option(
    "--to",
    "client_name",
    required=True,
    metavar="CLIENT",
    shell_complete=command_arguments.clients,
    help="The client to write for.",
)
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Add the servers to this file and keep the rest of it; FILE.bak keeps the previous version.",
)
@click.pass_obj
def export_servers(host: Host, /, names: tuple[str, ...], *, client_name: str, output: Path | None) -> Report:
    """Print servers, all or those named, as the config of another client.

    Variables are written as references in the client's syntax, never as their values. What the client's
    format cannot express is listed.
    """
    chosen = client(client_name)
    plan = transfer_plans.plan_export(chosen, _tables(server_store(host), names))
    if not plan.written:
        raise PflowError(
            f"No server can be exported to {chosen.title}",
            problems=tuple(_reasons(plan)),
            kind="config",
        )
    _warn(host, plan)
    if output in (None, Path("-")):
        text = document_text.dump(plan.document({}), chosen.form)
        return Report(data={**_data(plan), "text": text}, text=text.rstrip("\n"), is_data=True)
    made, backup = _put(host, plan, output)
    lines = [f"Wrote {', '.join(plan.written)} to {output}"]
    lines += [f"Replaced there: {', '.join(made.replaced)}"] if made.replaced else []
    lines += [f"The previous file: {backup}"] if backup else []
    file = {"output": str(output), "replaced": [*made.replaced], "backup": str(backup) if backup else None}
    return Report(data={**_data(plan), **file}, text="\n".join(lines))


def _tables(store: ServerStore, names: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    chosen = dict.fromkeys(names or store.names())
    if not chosen:
        step = "Add one: pflow mcp add NAME -- COMMAND ARGS..."
        raise PflowError("No MCP server is configured", suggestions=(step,), kind="not_found")
    defaults = store.raw().get(server_schema.DEFAULTS, {})
    tables: dict[str, dict[str, Any]] = {}
    for name in chosen:
        remote = store.get(name).is_remote  # raises the error about one with mistakes
        used = {key: value for key, value in defaults.items() if remote or key not in server_schema.HTTP}
        tables[name] = {**used, **server_schema.mapping(server_schema.clean(store.table(name)))}
    return tables


def _data(plan: ExportPlan) -> dict[str, Any]:
    place = clients.written(plan.client, clients.this_machine())
    return {
        "client": plan.client.name,
        "exported": [*plan.written],
        "left_out": {server.name: server.reason for server in plan.servers if server.reason},
        "cannot_say": {server.name: [*server.lost] for server in plan.servers if server.lost},
        "literal_secrets": {server.name: [*server.literals] for server in plan.servers if server.literals},
        "client_file": str(place) if place else None,
    }


def _put(host: Host, plan: ExportPlan, path: Path) -> tuple[ExportedFile, Path | None]:
    made = transfer_plans.merged(plan, path)
    if made.before == made.text.encode():
        return made, None
    backup = None if made.before is None else storage.keep_backup(path, made.before)
    storage.write_output(path, made.text.encode(), private=made.before is None)
    if made.loses_comments:
        host.report(advice("", f"{path} lost its comments; the previous file is {backup}"))
    return made, backup


def _warn(host: Host, plan: ExportPlan) -> None:
    for problem in _reasons(plan):
        host.report(problem)
    for server in plan.servers:
        path = server_schema.server_path(server.name)
        for lost in server.lost:
            host.report(advice(path, f"{plan.client.title} cannot express {server.name}.{lost}"))
        for field in server.literals:
            step = "Keep it in a variable: pflow settings set NAME -"
            message = f"The secret {field} of {server.name} is exported in plain text, as it is in the config"
            host.report(advice(f"{path}.{field}", message, step))


def _reasons(plan: ExportPlan) -> Iterator[Problem]:
    for server in plan.servers:
        if server.reason:
            message = f"{server.name} is left out of the export to {plan.client.title}: {server.reason}"
            yield advice(server_schema.server_path(server.name), message)


def set_up_client(
    context: click.Context, *, print_config: str, install: str, name: str, force: bool, quiet: bool
) -> Report:
    """Set up a client for the server that a command line of `pflow mcp serve` describes.

    What belongs in the client's config is returned, or with `install` put there; with `force`, even in
    place of another server. Where it belongs goes to stderr, unless `quiet`.
    """
    host: Host = context.obj
    chosen = client(print_config or install)
    plan = setup_plan(chosen, name, context)
    path = clients.written(chosen, clients.this_machine())
    text = document_text.dump(plan.document({}), chosen.form)
    next_steps = [f"Then restart {chosen.title}."]
    if TOKEN_VARIABLE in json.dumps(plan.document({})):
        next_steps.insert(0, f"Set {TOKEN_VARIABLE} where {chosen.title} runs, to the token of the server.")
    data: dict[str, Any] = {
        "client": chosen.name,
        "name": name,
        "path": str(path) if path else None,
        "cannot_say": list(plan.servers[0].lost),
        "text": text,
    }
    if install:
        return _installed(host, plan, path, data, next_steps, force=force)
    _warn(host, plan)
    if not quiet and path is None:
        tell(f"For any client that reads {chosen.title}.")
    elif not quiet and path:
        verb = "Merge this into" if path.exists() else "Put this into a new file,"
        tell("\n".join([f"{verb} {path}", *next_steps]))
    return Report(data=data, text=text.rstrip("\n"), is_data=True)


def setup_plan(chosen: Client, name: str, context: click.Context) -> ExportPlan:
    """Return what a client's config will say of the `pflow mcp serve` that a command line describes."""
    plan = transfer_plans.plan_export(chosen, {name: _server(context)})
    if any(_reasons(plan)):
        step = "Leave out --http: the client then starts pflow itself"
        message = f"{chosen.title} cannot use this server: {plan.servers[0].reason}"
        raise PflowError(message, suggestions=(step,), kind="usage")
    return plan


def _installed(
    host: Host,
    plan: ExportPlan,
    path: Path | None,
    data: Mapping[str, Any],
    next_steps: Sequence[str],
    *,
    force: bool,
) -> Report:
    name = data["name"]
    if path is None:
        step = f"Print it instead: pflow mcp serve --print-config {plan.client.name}"
        message = f"{plan.client.title} has no config file of its own"
        raise PflowError(message, suggestions=(step,), kind="usage")
    document = {} if force else document_text.load(path)
    there = client_documents.table_in(document, plan.client, name) if isinstance(document, Mapping) else None
    if there is not None and not _is_pflow(there, plan.client):
        raise PflowError(
            f"{path} has a server named {name} that is not pflow",
            suggestions=("Choose another name: --name NAME", "Or replace it: --force"),
            kind="config",
            details={"path": str(path)},
        )
    made, backup = _put(host, plan, path)
    _warn(host, plan)
    changed = made.before != made.text.encode()
    lines = [f"{'Wrote' if changed else 'Already there:'} {name} in {path}"]
    lines += [f"The previous file: {backup}"] if backup else []
    lines += next_steps if changed else []
    done = {"changed": changed, "replaced": [*made.replaced], "backup": str(backup) if backup else None}
    return Report(data={**data, **done}, text="\n".join(lines))


def _server(context: click.Context) -> dict[str, Any]:
    """Return the server that a `pflow mcp serve` with these options is, in the fields of our own config."""
    given = context.params
    if given["http_address"]:
        host, _, port = given["http_address"].rpartition(":")
        if port == "0":
            step = "Name one: --http HOST:PORT"
            raise PflowError("A client needs to know the port", kind="usage", suggestions=(step,))
        scheme = "https" if given["tls_cert"] else "http"
        reached = "127.0.0.1" if host.strip("[]") in _EVERYWHERE else host
        table: dict[str, Any] = {"type": "http", "url": f"{scheme}://{reached}:{port}{ENDPOINT}"}
        if not given["issuer"]:
            table["headers"] = {"Authorization": f"Bearer ${{{TOKEN_VARIABLE}}}"}
        return table
    # A desktop application may have no PATH, so the program is named in full.
    script = Path(sys.executable).with_name("pflow-mcp.exe" if sys.platform == "win32" else "pflow-mcp")
    # -P: modules in the folder in which the client starts it must not shadow ours.
    module = (sys.executable, "-P", "-m", "pflow_mcp_plugin")
    program = (str(script),) if os.access(script, os.X_OK) else module
    words = (*program, "mcp", "serve", *_words(context))
    command, *args = (word.replace("${", "$${") for word in words)
    # Its PATH would be short too: a server that npx starts needs node, and shell nodes may need any program.
    folders = [path for path in dict.fromkeys(os.get_exec_path()) if Path(path).is_absolute()]
    env = {"PATH": os.pathsep.join(filter(os.path.isdir, folders))}
    home = os.environ.get("PFLOW_HOME")
    if home:
        env["PFLOW_HOME"] = str(Path(home).absolute())
    return {
        "command": command,
        "args": args,
        "env": {name: value.replace("${", "$${") for name, value in env.items()},
    }


def _words(context: click.Context) -> Iterator[str]:
    """Yield the options with which a client is to start `pflow mcp serve`; paths are absolute."""
    for parameter in context.command.params:
        name = parameter.name or ""
        given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if name in _NOT_PASSED_ON or not given:
            continue
        value = context.params[name]
        for each in value if isinstance(value, tuple | list) else (value,):
            yield parameter.opts[-1] if each is not False else parameter.secondary_opts[-1]
            if not isinstance(each, bool):
                yield str(each.resolve()) if isinstance(each, Path) else str(each)


def _is_pflow(given: object, client: Client) -> bool:
    table = server_translation.read_server("", given, client.format, {}).table
    if "url" in table:
        return TOKEN_VARIABLE.lower() in json.dumps(given, default=str).lower().replace("-", "_")
    args = table.get("args")
    words = [str(table.get("command")), *map(str, args if isinstance(args, list) else ())]
    program = Path(words[0].replace("\\", "/")).stem
    pairs = {*itertools.pairwise(words)}
    serves = bool(pairs & {("mcp", "serve"), ("serve", "mcp")})
    return serves and (program in ("pflow", "pflow-mcp") or "pflow_mcp_plugin" in words)
