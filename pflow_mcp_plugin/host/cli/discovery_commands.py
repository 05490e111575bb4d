"""`pflow registry discover` and `pflow workflow discover`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import click

from pflow_mcp_plugin.contract import Discovery, Report, SavedWorkflow
from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.host.embedded_host import EmbeddedHost
from pflow_mcp_plugin.host.registry.discovery import FoundNode
from pflow_mcp_plugin.terminal.tables import Column, Table

_Found = TypeVar("_Found")
_NODE = Column(title="NODE", whole=True)
_NAME = Column(title="NAME", whole=True)
_CONFIDENCE = Column(title="CONFIDENCE", whole=True, right=True)


def _command_on_a_task(discover: Callable[..., Report]) -> click.Command:
    """Make a command of a function of the host, the words of a task and the number of results."""
    limit = click.Option(
        ("--limit",),
        type=click.IntRange(min=1),
        default=10,
        show_default=True,
        help="Maximum number of results.",
    )
    task = click.Argument(("task",), nargs=-1, required=True)
    return click.command(params=[task, limit])(click.pass_obj(discover))


@_command_on_a_task
def discover_nodes(host: EmbeddedHost, task: tuple[str, ...], limit: int) -> Report:
    """Find the registry's node types for each part of TASK, a description in plain words.

    Set PFLOW_DISCOVER_MODEL to a model of the `llm` library to let it choose among them.
    """
    text = " ".join(task)
    found = host.registry.discovered(text, limit)
    columns = (
        _NODE,
        _CONFIDENCE,
        Column(title="SOURCE", spare=True, look="dim"),
        Column(title="DESCRIPTION"),
    )
    return _report(found, text, FoundNode.to_dict, columns, _node_cells)


@_command_on_a_task
def discover_workflows(host: EmbeddedHost, task: tuple[str, ...], limit: int) -> Report:
    """Find the saved workflows that do TASK, a description in plain words; best first.

    Set PFLOW_DISCOVER_MODEL to a model of the `llm` library to let it choose among them.
    """
    text = " ".join(task)
    found = host.library.discover(text, limit)
    columns = (_NAME, _CONFIDENCE, Column(title="DESCRIPTION"))
    return _report(found, text, SavedWorkflow.to_dict, columns, _workflow_cells)


def _report(
    found: Discovery[_Found],
    task: str,
    to_dict: Callable[[_Found], Mapping[str, JSON]],
    columns: Sequence[Column],
    cells: Callable[[_Found, str], Sequence[str]],
) -> Report:
    """Return the report on what was discovered for a task, with the cells of each match for people."""
    rows = [cells(match.item, f"{match.confidence:.2f}") for match in found.matches]
    note = (f"Ranked by matching {found.ranked_by}: {found.note}",) if found.note else ()
    return Report(
        data=found.to_list(to_dict),
        text=lambda: (Table(columns=columns, rows=rows) if rows else f"Nothing matches {task!r}", *note),
        beside={"ranked_by": found.ranked_by, **({"note": found.note} if found.note else {})},
    )


def _node_cells(found: FoundNode, confidence: str) -> Sequence[str]:
    return found.row.node, confidence, found.row.source, found.row.description


def _workflow_cells(saved: SavedWorkflow, confidence: str) -> Sequence[str]:
    return saved.name, confidence, saved.description
