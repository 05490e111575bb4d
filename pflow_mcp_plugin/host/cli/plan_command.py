"""`pflow plan`."""

from __future__ import annotations

import sys
from typing import Any

import click

from pflow_mcp_plugin.contract import PflowError, Report
from pflow_mcp_plugin.host.cli.command_line_inputs import declared_inputs
from pflow_mcp_plugin.host.cli.command_parameters import time_limit
from pflow_mcp_plugin.host.cli.output import counted, problem_lines
from pflow_mcp_plugin.host.embedded_host import EmbeddedHost
from pflow_mcp_plugin.host.planning.plan import Plan
from pflow_mcp_plugin.host.planning.planner import Planner, PlanOptions
from pflow_mcp_plugin.host.standard_streams import is_terminal, to_json, write
from pflow_mcp_plugin.host.workflow_name import check_name
from pflow_mcp_plugin.terminal.human_units import count_text
from pflow_mcp_plugin.terminal.looks import Column, Table, columns_of

_SHOWN = 10
"""The maximum number of candidates that an explanation lists."""
_COLUMNS = (
    Column(title="CANDIDATE", whole=True),
    Column(title="CONFIDENCE", whole=True, right=True),
    Column(title="REASON"),
)


@click.command()
@click.argument("task", nargs=-1, required=True)
@click.option("--save", "name", metavar="NAME", help="Save the workflow under this name.")
@click.option("--model", default="", help="A model of the `llm` library; PFLOW_PLAN_MODEL by default.")
@click.option("--offline", is_flag=True, help="Use no model: join the nodes that discovery finds.")
@click.option("--new", is_flag=True, help="Make a new workflow even if a saved one fits.")
@click.option(
    "--max-rounds",
    type=click.IntRange(1, 10),
    default=3,
    show_default=True,
    help="How many times the model may write or correct the workflow.",
)
@click.option(
    "--timeout",
    "seconds",
    default="120s",
    show_default=True,
    callback=time_limit,
    metavar="TIME",
    help="How long the model may take to answer.",
)
@click.option("--explain", is_flag=True, help="Say on standard error how the workflow was chosen.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
@click.pass_obj
def plan(host: EmbeddedHost, /, task: tuple[str, ...], name: str | None, **given: Any) -> Report:
    """Make a workflow for TASK, a description in plain words, and print it; nothing is run.

    If a saved workflow fits, print that instead. Without a model, join the nodes whose words match.
    """
    explain, as_json = given.pop("explain"), given.pop("as_json")
    if name is not None:
        check_name(name)
    setting = host.settings.get
    planner = Planner(registry=host.registry, runner=host.runner, library=host.library, setting=setting)
    made = planner.plan(" ".join(task), PlanOptions(**given))
    lines = list(_explanation(made)) if explain else []
    lines += [f"Not planned: {part}" for part in made.missing]
    lines += [f"Note: {note}" for note in made.notes]
    lines += problem_lines(() if made.errors else made.problems)
    if name is not None and not made.errors:
        saved, _ = host.save_workflow(made.workflow, name)
        lines.append(f"Saved {name}, version {saved.version}; run it with: pflow run {name}")
    if lines and (explain or not as_json):
        width = columns_of(sys.stderr) if is_terminal(sys.stderr) else None
        write(sys.stderr, Report(text=tuple(lines)).render(width))
    data = {
        "workflow": made.workflow,
        "selection": made.selection.to_dict(),
        "problems": [problem.to_dict() for problem in made.problems],
        "rounds": made.rounds,
        "model": made.model,
        "candidates": [
            {"node": match.item.entry.node, "confidence": match.confidence, "reason": match.reason}
            for match in made.candidates
        ],
        "notes": list(made.notes),
        "missing": list(made.missing),
    }
    if made.errors:
        rounds = count_text(made.rounds, "round")
        message = f"The plan has {counted(made.problems)} after {rounds} with {made.model or 'no model'}"
        steps = ("Reword the task", "Plan without a model: --offline")
        error = PflowError(message, problems=tuple(made.problems), suggestions=steps, kind="validation")
        return Report(data=data, error=error)
    return Report(data=data, text=lambda: to_json(made.workflow), is_data=True)


def _explanation(made: Plan) -> list[str | Table]:
    selection = made.selection
    inputs = declared_inputs(made.workflow).values()
    lines = [
        f"Selection: {selection.selection_type.replace('_', ' ')}, confidence {selection.confidence:.2f}",
        f"Reason: {selection.reasoning}" if selection.reasoning else "",
        f"Steps: {selection.flow_structure}" if selection.flow_structure else "",
        f"Model: {made.model}, {count_text(made.rounds, 'round')}" if made.model else "",
        *(f"Input {it.name}: {it.description}" if it.description else f"Input {it.name}" for it in inputs),
    ]
    rows = [
        (match.item.entry.node, f"{match.confidence:.2f}", match.reason) for match in made.candidates[:_SHOWN]
    ]
    return [*filter(None, lines), *([Table(columns=_COLUMNS, rows=rows)] if rows else [])]
