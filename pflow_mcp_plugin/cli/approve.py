"""`pflow mcp approve --project`: approves the servers of a project."""

from __future__ import annotations

import click

from pflow_mcp_plugin.cli.project_approval import approve_project
from pflow_mcp_plugin.contract import Host, Report


@click.command()
@click.option("--project", is_flag=True, required=True, help="Approve the servers of ./.mcp.json.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.pass_obj
def approve(host: Host, *, project: bool, yes: bool) -> Report:  # noqa: ARG001 - there is nothing else yet
    """Approve the servers that the current folder's .mcp.json describes, after they were shown in full."""
    return approve_project(host, yes=yes)
