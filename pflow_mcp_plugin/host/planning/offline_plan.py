"""Plans a workflow without a language model: nodes by the words of the task, joined where keys fit."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pflow_mcp_plugin.contract import Problem, Runner
from pflow_mcp_plugin.contract.json_types import JSONObject
from pflow_mcp_plugin.host.planning.clause_steps import Step, Steps, match_of, steps_of
from pflow_mcp_plugin.host.planning.plan import Plan, Selection, effect_notes, plan_metadata
from pflow_mcp_plugin.host.planning.plan_origin import Origin
from pflow_mcp_plugin.host.planning.plan_prompt import visible
from pflow_mcp_plugin.host.planning.step_workflow import step_workflow
from pflow_mcp_plugin.host.registry.node_registry import NodeRegistry
from pflow_mcp_plugin.host.workflow.findings import cut, errors_in

_NODE = re.compile(r"\$\.nodes\[(\d+)\]")
"""The path of a problem in a node."""
_LONGEST = 300
"""The most characters of the workflow's description."""
_NAME = 60
"""The most characters of a name in the steps at a glance."""
_PLACEHOLDER = "echo"
"""The node of the workflow for a task that nothing fits."""


def offline_plan(task: str, registry: NodeRegistry, runner: Runner, candidates: int = 26) -> Plan:
    """Plan a workflow from the words of a task alone; it always validates.

    Each clause gets the node that fits it best, in the order of the task. An output is joined to an input
    that it fits by name, or by type where only one could be meant; what is left open becomes a declared
    input, with a value that stands in the task as its default. No model is asked and nothing is run.

    Args:
        task: The task in words.
        registry: The node types that there are.
        runner: Validates the workflow.
        candidates: How many of the nodes that were considered the plan lists at most.
    """
    found = steps_of(task, registry)
    steps, workflow, problems = _valid(task, found.steps, runner)
    if not steps:
        steps = _placeholder(task, registry)
        workflow, problems = _checked(task, steps, runner)
    return Plan(
        task=task,
        workflow=workflow,
        selection=_selection(found, steps),
        problems=problems,
        candidates=found.considered[:candidates],
        notes=effect_notes(step.entry for step in steps),
    )


def _valid(
    task: str, steps: Sequence[Step], runner: Runner
) -> tuple[Sequence[Step], JSONObject, Sequence[Problem]]:
    """Return the steps whose workflow validates: those of nodes that no workflow can use are left out."""
    while steps:
        workflow, problems = _checked(task, steps, runner)
        errors = errors_in(problems)
        if not errors:
            return steps, workflow, problems
        places = {int(match[1]) for error in errors if (match := _NODE.match(error.path))}
        wrong = places or {len(steps) - 1}
        steps = [step for number, step in enumerate(steps) if number not in wrong]
    return (), {}, ()


def _checked(task: str, steps: Sequence[Step], runner: Runner) -> tuple[JSONObject, Sequence[Problem]]:
    origin = Origin(task, ())
    workflow = {
        "description": " ".join(task.split())[:_LONGEST],
        **step_workflow(steps, lambda text: text if origin.is_harmless(text) else ""),
        "metadata": plan_metadata(task),
    }
    return workflow, runner.validate(workflow)


def _placeholder(task: str, registry: NodeRegistry) -> list[Step]:
    """Return a step that only passes the task on, no step if the host has no node for that."""
    entry = registry.find(_PLACEHOLDER)
    if entry is None:
        return []
    given = {field.key: task for field in entry.interface.params}
    return [Step(match=match_of(entry, 0.0), clause=task, given=given)]


def _selection(found: Steps, steps: Sequence[Step]) -> Selection:
    fits = [step.match.confidence for step in steps]
    return Selection(
        selection_type="offline",
        reasoning=_reasoning(found, steps),
        chosen_nodes=tuple(dict.fromkeys(step.entry.node for step in steps)),
        flow_structure=" → ".join(visible(step.entry.local_name or step.entry.node, _NAME) for step in steps),
        confidence=sum(fits) / max(1, len(fits) + len(found.left_out)),
    )


def _reasoning(found: Steps, steps: Sequence[Step]) -> str:
    """Return why these nodes: the words of each clause, and the clauses that nothing fits."""
    if not any(step.match.confidence for step in steps):
        return "No installed node fits any part of the task; replace the placeholder."
    chosen = "; ".join(_reason(step) for step in steps)
    dropped = [step for step in found.steps if step not in steps]
    parts = [
        f"By the words of the task: {chosen}.",
        f"Nothing fits {_quoted(found.left_out)}." if found.left_out else "",
        f"{found.unread} further parts of the task were not read." if found.unread else "",
        f"Left out, as no workflow can use them: {_named(dropped)}." if dropped else "",
    ]
    return " ".join(part for part in parts if part)


def _reason(step: Step) -> str:
    why = f", {step.match.reason}" if step.match.reason else ""
    return f'{step.entry.node} for "{cut(step.clause)}" ({step.match.confidence:.2f}{why})'


def _quoted(clauses: Sequence[str]) -> str:
    return ", ".join(f'"{cut(clause)}"' for clause in clauses)


def _named(steps: Sequence[Step]) -> str:
    return ", ".join(step.entry.node for step in steps)
