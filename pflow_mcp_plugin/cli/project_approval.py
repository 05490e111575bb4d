"""`pflow mcp approve --project`: shows every server of a project in full, and approves them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import click

from pflow_mcp_plugin.cli.dependencies import approve_launches
from pflow_mcp_plugin.cli.terminal import is_interactive, tell
from pflow_mcp_plugin.config import server_schema
from pflow_mcp_plugin.config.field_checks import refusal
from pflow_mcp_plugin.config.project_file import APPROVE, ProjectContent, ProjectFile, server_lines, variables
from pflow_mcp_plugin.contract import Host, PflowError, Problem, Report
from pflow_mcp_plugin.contract.json_types import JSONObject
from pflow_mcp_plugin.discovery.servers import servers
from pflow_mcp_plugin.terminal.human_units import count_text
from pflow_mcp_plugin.terminal.printable_text import one_line


@attrs.frozen(kw_only=True)
class ProjectApproval:
    """What an approval is about: a project's servers that can be approved, and what is wrong with others.

    Attributes:
        file: The project's file, by its real path.
        content: Its content.
        tables: The tables of the servers without errors, by name.
        problems: Errors and warnings; a server with an error is not approved.
        changed: Whether other bytes were approved before.
    """

    file: str
    content: ProjectContent
    tables: Mapping[str, JSONObject]
    problems: tuple[Problem, ...]
    changed: bool

    def lines(self) -> list[str]:
        """Return the lines that show people every server that can be approved, in full."""
        again = " changed since it was approved, and" if self.changed else ""
        shown = [f"{one_line(self.file)}{again} has {count_text(len(self.tables), 'server')}:"]
        for name, table in self.tables.items():
            shown += [f"  {line}" for line in server_lines(name, table)]
        return [*shown, *(one_line(f"  {problem.severity}: {problem}") for problem in self.problems)]

    def to_dict(self) -> dict[str, Any]:
        """Return in JSON form what an approval of the project is about."""
        shown = {
            name: {"shown": [*server_lines(name, table)], "receives": variables(dict(table))}
            for name, table in self.tables.items()
        }
        problems = [problem.to_dict() for problem in self.problems]
        return {
            "file": self.file,
            "sha256": self.content.digest,
            "changed": self.changed,
            "servers": shown,
            "problems": problems,
        }


def approve_project(host: Host, *, yes: bool) -> Report:
    """Show every server of the project in the current folder, and approve them if the user agrees.

    Args:
        host: The host; its `paths.project` is the folder, by default the current one.
        yes: Whether the user has agreed already.

    Returns:
        What was shown, and whether it was approved.

    Raises:
        PflowError: There is no file, it is not one of servers, or no server in it is without errors.
        PflowError: Nobody can be asked, and `yes` is not given.
        storage.StoreError: The approval could not be written.
    """
    store = servers(host.paths).store
    project = store.project or ProjectFile(host.paths)
    approval = _approval(project, store.raw().get(server_schema.DEFAULTS, {}))
    if not approval.tables:
        raise refusal(f"{approval.file} has no server that can be approved", approval.problems)
    if not yes:
        tell("\n".join(approval.lines()))
        if not is_interactive():
            raise PflowError(
                "Nothing was approved: there is no terminal to ask on",
                details=approval.to_dict(),
                suggestions=(f"If every line above is as you expect: {APPROVE} --yes",),
                kind="usage",
            )
        count = count_text(len(approval.tables), "server")
        if not click.confirm(f"Approve {count}?", default=False, err=True):
            return Report(data={**approval.to_dict(), "approved": False}, text="Nothing was approved")
    project.approve(approval.content, approval.tables.keys())
    approve_launches(host, store.project_folders())
    host.refresh("mcp")
    return Report(
        data={**approval.to_dict(), "approved": True},
        text="\n".join([*(approval.lines() if yes else ()), *_approved(approval)]),
    )


def _approval(project: ProjectFile, defaults: Any) -> ProjectApproval:
    content, reading = project.content(), project.reading()
    problems, tables = [*content.problems], {}
    for name, table in content.tables.items():
        found = server_schema.check_server(name, table, defaults)
        problems += found
        if isinstance(table, Mapping) and not any(problem.severity == "error" for problem in found):
            tables[name] = table
    return ProjectApproval(
        file=str(reading.path),
        content=content,
        tables=tables,
        problems=tuple(problems),
        changed=reading.state == "changed",
    )


def _approved(approval: ProjectApproval) -> list[str]:
    names = ", ".join(approval.tables)
    return [
        f"Approved {names}, until the file changes",
        "Next: pflow mcp sync",
    ]
