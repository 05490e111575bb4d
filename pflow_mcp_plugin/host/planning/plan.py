"""A plan: a workflow for a task in words, how it was chosen, and what is still wrong with it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal

import attrs

from pflow_mcp_plugin.contract import Problem
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.host.workflow.findings import errors_in

if TYPE_CHECKING:
    from pflow_mcp_plugin.contract import Entry, Match
    from pflow_mcp_plugin.host.registry.discovery import FoundNode

PLANNER_VERSION = "1.0.0"
"""Recorded in the metadata of every workflow that a planner makes."""

SOURCE = "pflow"
"""The source of the host's own nodes."""
_EFFECTS = {"shell": "runs a command", "write-file": "writes a file"}

SelectionType = Literal["found_existing", "new_composition", "offline"]
"""Where a plan's workflow comes from: the library, a language model, or words alone."""


@attrs.frozen(kw_only=True)
class Selection:
    """Which nodes a plan uses, and why.

    Attributes:
        selection_type: Where the workflow comes from.
        reasoning: Why these nodes, in a sentence or two.
        chosen_nodes: The node types, in the order in which they run.
        flow_structure: The steps at a glance, such as `search → summarize → notify`.
        confidence: How well the selection fits the task, from 0 to 1.
        existing: The name of the saved workflow, if it is one.
    """

    selection_type: SelectionType
    reasoning: str = ""
    chosen_nodes: Sequence[str] = ()
    flow_structure: str = ""
    confidence: float = 0.0
    existing: str = ""

    def to_dict(self) -> dict[str, JSON]:
        """Return the selection in JSON form."""
        return {
            "reasoning": self.reasoning,
            "selection_type": self.selection_type,
            "chosen_nodes": list(self.chosen_nodes),
            "flow_structure": self.flow_structure,
            "confidence": round(self.confidence, 2),
            **({"existing": self.existing} if self.existing else {}),
        }


@attrs.frozen(kw_only=True)
class Plan:
    """A workflow for a task in words; nothing of it has run.

    Attributes:
        task: The task.
        workflow: The workflow; empty if a model gave none that could be read.
        selection: Which nodes it uses, and why.
        problems: What is wrong with the workflow, warnings included.
        rounds: How often a model was asked for the workflow.
        candidates: The nodes that were considered, best first.
        model: The language model; empty if none was asked.
        notes: What a person should know about the plan, such as why no model was asked.
        missing: The parts of the task that the workflow does not do.
    """

    task: str
    workflow: JSONObject
    selection: Selection
    problems: Sequence[Problem] = ()
    rounds: int = 0
    candidates: Sequence[Match[FoundNode]] = ()
    model: str = ""
    notes: Sequence[str] = ()
    missing: Sequence[str] = ()

    @property
    def errors(self) -> list[Problem]:
        """The problems that keep the plan's workflow from running."""
        return list(errors_in(self.problems))


def effect_notes(entries: Iterable[Entry]) -> tuple[str, ...]:
    """Return what a person should know of the effects of a planned workflow before it is run.

    Args:
        entries: The entries of its nodes.
    """
    used = {entry.node: entry for entry in entries}
    own = (
        f"The node {name} {does}: check it before you run the workflow"
        for name, does in _EFFECTS.items()
        if name in used
    )
    others = [name for name, it in used.items() if name not in _EFFECTS and "destructive" in it.effects]
    if not others:
        return tuple(own)
    return *own, f"May change or delete something: {', '.join(others)}; check it before you run it"


def plan_metadata(task: str) -> dict[str, JSON]:
    """Return the `metadata` of a workflow that is planned now.

    Args:
        task: The task in words.
    """
    return {
        "planner_version": PLANNER_VERSION,
        "created_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "prompt": task,
    }
