"""Plans a workflow for a task: a saved one, one that a language model writes, or one made from words."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import attrs

from pflow_mcp_plugin.contract import Library, PflowError, Runner
from pflow_mcp_plugin.host.planning.plan import Plan, Selection
from pflow_mcp_plugin.host.workflow.findings import errors_in

if TYPE_CHECKING:
    from pflow_mcp_plugin.contract import Match, SavedWorkflow
    from pflow_mcp_plugin.host.planning.plan_model import PlanModel
    from pflow_mcp_plugin.host.registry.node_registry import NodeRegistry

SETTING = "PFLOW_PLAN_MODEL"
"""The variable or setting that names the model that plans, which the `llm` library runs."""
EXISTING = 0.9
"""The confidence from which a saved workflow is the plan."""
_CANDIDATES = 26
"""With the nodes that are always among them, these are the 30 that a model is shown."""
_GUESS = 0.3
"""The confidence below which a plan from words alone is said to be a guess."""
_SAVED = 5
"""How many saved workflows a model may choose from."""
_LONGEST = 8_000
"""Characters of a task."""


@attrs.frozen(kw_only=True)
class PlanOptions:
    """How to plan.

    Attributes:
        model: The language model; by default the one that `PFLOW_PLAN_MODEL` names.
        offline: Whether to ask none.
        new: Whether to make a new workflow even if a saved one fits.
        max_rounds: How many times the model may write or correct the workflow.
        seconds: How long the model may take for an answer.
    """

    model: str = ""
    offline: bool = False
    new: bool = False
    max_rounds: int = 3
    seconds: float = 120


@attrs.frozen(kw_only=True)
class Planner:
    """Plans workflows; it runs none of their nodes and starts no server.

    Attributes:
        registry: The nodes to plan with.
        runner: Checks the workflows.
        library: The saved workflows.
        setting: Returns one of the user's settings.
    """

    registry: NodeRegistry
    runner: Runner
    library: Library
    setting: Callable[[str], str | None]

    def plan(self, task: str, options: PlanOptions) -> Plan:
        """Have the planner make a workflow for a task in words, or find one.

        Args:
            task: The task.
            options: How to plan.

        Raises:
            PflowError: The task is empty or too long, or the language model cannot be asked.
            PflowError: No model is asked, and no node fits any part of the task.
        """
        task = task.strip()
        if not task or len(task) > _LONGEST:
            what = f"has {len(task):,} characters, more than {_LONGEST:,}" if task else "is empty"
            raise PflowError(f"The task {what}", kind="usage")
        saved = [] if options.new else self._saved(task)
        if saved and saved[0].confidence >= EXISTING:
            return self._existing(task, saved[0])
        model, notes = self._model(options)
        return self._composed(task, model, saved, options.max_rounds) if model else self._offline(task, notes)

    def _composed(
        self, task: str, model: PlanModel, saved: Sequence[Match[SavedWorkflow]], max_rounds: int
    ) -> Plan:
        from pflow_mcp_plugin.host.planning.plan_dialogue import PlanDialogue

        found = self.registry.discovered(task, _CANDIDATES).matches
        dialogue = PlanDialogue(task, model, found, self.registry, self.runner)
        selection = dialogue.select(saved)
        chosen = next((match for match in saved if match.item.name == selection.existing), None)
        if chosen is None:
            return dialogue.compose(selection, max_rounds)
        return attrs.evolve(self._existing(task, chosen), model=model.name, candidates=found)

    def _saved(self, task: str) -> list[Match[SavedWorkflow]]:
        """Return the saved workflows that fit a task and could run, best first."""
        found = (match for match in self.library.discover(task, _SAVED).matches if not match.item.problem)
        sound = [match for match in found if not self._has_errors(match.item.name)]
        return sorted(sound, key=lambda match: -match.confidence)

    def _has_errors(self, name: str) -> bool:
        return bool(errors_in(self.runner.validate(self.library.get(name))))

    def _existing(self, task: str, match: Match[SavedWorkflow]) -> Plan:
        name = match.item.name
        workflow = self.library.get(name)
        nodes = workflow.get("nodes")
        listed = nodes if isinstance(nodes, list) else ()
        types = [str(node.get("type") or node.get("id")) for node in listed if isinstance(node, dict)]
        selection = Selection(
            selection_type="found_existing",
            reasoning=f"The saved workflow {name} fits the task: {match.reason}",
            chosen_nodes=tuple(dict.fromkeys(types)),
            flow_structure=" → ".join(types),
            confidence=match.confidence,
            existing=name,
        )
        problems = self.runner.validate(workflow)
        note = f"The saved workflow {name} fits the task; for a new one: --new"
        found = Plan(task=task, workflow=workflow, selection=selection, problems=tuple(problems))
        return attrs.evolve(found, notes=(note,))

    def _model(self, options: PlanOptions) -> tuple[PlanModel | None, tuple[str, ...]]:
        """Return the model to ask, None to do without; and why.

        Raises:
            PflowError: The model is unknown or lacks a key; or it was named on the command line, and `llm` is
                not installed.
        """
        name = options.model or os.environ.get(SETTING) or self.setting(SETTING) or ""
        if options.offline:
            return None, ()
        if not name:
            note = f"No model was asked: name one with --model, or in {SETTING}"
            return None, (note,)
        from pflow_mcp_plugin.host.language_model import llm_library
        from pflow_mcp_plugin.host.planning.plan_model import PlanModel

        try:
            llm_library()
        except PflowError as error:
            if options.model:
                error.suggestions = (*error.suggestions, "Plan without a model: --offline")
                raise
            return None, (f"The model {name} was not asked: {error}",)
        return PlanModel(name, self.setting, options.seconds), ()

    def _offline(self, task: str, notes: Sequence[str]) -> Plan:
        from pflow_mcp_plugin.host.planning.offline_plan import offline_plan

        plan: Plan = offline_plan(task, self.registry, self.runner)
        confidence = plan.selection.confidence
        guess = (f"No node fits the task well (confidence {confidence:.2f}): the workflow is a guess",)
        return attrs.evolve(plan, notes=(*notes, *(guess if confidence < _GUESS else ()), *plan.notes))
