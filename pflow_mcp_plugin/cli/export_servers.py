"""`pflow mcp export`: servers in the format of another client; nothing is started."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from pflow_mcp_plugin.cli import client_file
from pflow_mcp_plugin.cli.dependencies import server_store
from pflow_mcp_plugin.cli.known_names import clients, servers
from pflow_mcp_plugin.config import server_schema
from pflow_mcp_plugin.config.interchange import document_text, export_plan
from pflow_mcp_plugin.config.interchange.clients import CLIENTS, client, this_machine, written
from pflow_mcp_plugin.config.interchange.export_plan import ExportPlan
from pflow_mcp_plugin.config.server_store import ServerStore
from pflow_mcp_plugin.contract import Host, PflowError, Report
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject


@click.command(epilog=f"Clients: {', '.join(CLIENTS)}.")
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=servers)
@click.option(
    "--to",
    "client_name",
    required=True,
    metavar="CLIENT",
    shell_complete=clients,
    help="The client to write for.",
)
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Add the servers to this file and leave the rest of it; FILE.bak keeps the previous version.",
)
@click.pass_obj
def export_servers(host: Host, /, names: tuple[str, ...], *, client_name: str, output: Path | None) -> Report:
    """Print servers, all or those named, as the config of another client.

    Variables are written as references in the client's syntax, never as their values. What the client
    cannot say is listed.
    """
    chosen = client(client_name)
    plan = export_plan.plan(chosen, _tables(server_store(host), names))
    if all(server.writing.reason for server in plan.servers):
        raise PflowError(
            f"No server can be exported to {chosen.title}",
            problems=tuple(client_file.reasons(plan)),
            kind="config",
        )
    for problem in client_file.warnings(plan):
        host.report(problem)
    if output is None:
        text = document_text.dump(plan.document({}), chosen.form)
        return Report(data={**_data(plan), "text": text}, text=text.rstrip("\n"), is_data=True)
    return _written(host, plan, output)


def _tables(store: ServerStore, names: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """Return the tables of servers, checked, with the defaults filled in.

    Raises:
        PflowError: A server is not configured or has mistakes, or no server is configured.
    """
    chosen = dict.fromkeys(names or store.names())
    if not chosen:
        step = "Add one: pflow mcp add NAME -- COMMAND ARGS..."
        raise PflowError("No MCP server is configured", suggestions=(step,), kind="not_found")
    for name in chosen:
        store.get(name)  # raises the error about a server that is not there, or has mistakes
    defaults = store.raw().get(server_schema.DEFAULTS, {})
    return {name: _with_defaults(server_schema.clean(store.table(name)), defaults) for name in chosen}


def _with_defaults(table: JSON, defaults: JSONObject) -> dict[str, JSON]:
    if not isinstance(table, Mapping):
        return {}
    is_http = server_schema.transport_of(table) in ("http", "sse")
    used = {key: value for key, value in defaults.items() if is_http or key not in server_schema.HTTP}
    return {**used, **table}


def _written(host: Host, plan: ExportPlan, output: Path) -> Report:
    made, backup = client_file.put(host, plan, output)
    written = [server.name for server in plan.servers if not server.writing.reason]
    lines = [f"Wrote {', '.join(written)} to {output}"]
    lines += [f"Replaced there: {', '.join(made.replaced)}"] if made.replaced else []
    lines += [f"The previous file: {backup}"] if backup else []
    file = {"output": str(output), "replaced": [*made.replaced], "backup": str(backup) if backup else None}
    return Report(data={**_data(plan), **file}, text="\n".join(lines))


def _data(plan: ExportPlan) -> dict[str, Any]:
    place = written(plan.client, this_machine())
    return {
        "client": plan.client.name,
        "exported": [server.name for server in plan.servers if not server.writing.reason],
        "left_out": {server.name: server.writing.reason for server in plan.servers if server.writing.reason},
        "cannot_say": {server.name: [*server.writing.lost] for server in plan.servers if server.writing.lost},
        "literal_secrets": {server.name: [*server.literals] for server in plan.servers if server.literals},
        "client_file": str(place) if place else None,
    }
