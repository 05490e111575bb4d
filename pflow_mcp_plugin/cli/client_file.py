"""Writes servers into the config file of another client, and warns of what is lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pflow_mcp_plugin import storage
from pflow_mcp_plugin.config import server_schema
from pflow_mcp_plugin.config.interchange import export_plan
from pflow_mcp_plugin.config.interchange.export_plan import ExportedFile, ExportPlan
from pflow_mcp_plugin.contract import Host, Problem


def put(host: Host, plan: ExportPlan, path: Path) -> tuple[ExportedFile, Path | None]:
    """Put the planned servers into a client's file; what else is in it stays.

    A file that has them already is not touched.

    Returns:
        The file as written, and the copy of the file as it was, if it has changed.

    Raises:
        PflowError: The file cannot be read or written, or is not one of the client's.
    """
    made = export_plan.merged(plan, path)
    if made.before == made.text.encode():
        return made, None
    backup = None if made.before is None else storage.keep_backup(path, made.before)
    storage.write_output(path, made.text.encode(), private=made.before is None)
    if made.loses_comments:
        message = f"{path} lost its comments; the previous file is {backup}"
        host.report(Problem(message=message, severity="warning", kind="config"))
    return made, backup


def warnings(plan: ExportPlan) -> Iterator[Problem]:
    """Yield what the file of a client will lack, and the secrets it will contain."""
    yield from reasons(plan)
    for server in plan.servers:
        path = server_schema.server_path(server.name)
        for lost in server.writing.lost:
            yield _warning(path, f"{plan.client.title} cannot say {server.name}.{lost}", "")
        for field in server.literals:
            step = "Keep it in a variable: pflow settings set NAME -"
            message = f"The secret {field} of {server.name} is exported in plain text, as it is in the config"
            yield _warning(f"{path}.{field}", message, step)


def reasons(plan: ExportPlan) -> Iterator[Problem]:
    """Yield why servers are left out of the file of a client."""
    for server in plan.servers:
        if server.writing.reason:
            message = (
                f"{server.name} is left out of the export to {plan.client.title}: {server.writing.reason}"
            )
            yield _warning(server_schema.server_path(server.name), message, "")


def _warning(path: str, message: str, suggestion: str) -> Problem:
    return Problem(path=path, message=message, suggestion=suggestion, severity="warning", kind="config")
