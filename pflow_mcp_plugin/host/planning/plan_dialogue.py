"""Asks a language model for a plan: which nodes first, then the workflow, round by round."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import attrs

from pflow_mcp_plugin.contract import Entry, PflowError, Problem, Runner
from pflow_mcp_plugin.contract.json_types import JSONObject
from pflow_mcp_plugin.host.planning.plan import Plan, Selection, effect_notes, plan_metadata
from pflow_mcp_plugin.host.planning.plan_answer import UnreadableAnswer, answered_workflow
from pflow_mcp_plugin.host.planning.plan_origin import Origin
from pflow_mcp_plugin.host.planning.plan_prompt import (
    SELECTION_SYSTEM,
    WORKFLOW_SYSTEM,
    is_plain,
    selection_prompt,
    visible,
    workflow_prompt,
)
from pflow_mcp_plugin.host.planning.plan_repair import PlanRepair
from pflow_mcp_plugin.host.planning.plan_schema import MOST_NODES, selection_schema, workflow_schema
from pflow_mcp_plugin.host.workflow.document_reader import is_deep

if TYPE_CHECKING:
    from pflow_mcp_plugin.contract import Match, SavedWorkflow
    from pflow_mcp_plugin.host.planning.plan_model import PlanModel
    from pflow_mcp_plugin.host.registry.discovery import FoundNode
    from pflow_mcp_plugin.host.registry.node_registry import NodeRegistry

_GLUE = ("read-file", "write-file", "llm")
"""The host's own nodes that join others are always candidates; `shell` is one if discovery finds it."""
_PROSE = 1_000
_NAME = 100


@attrs.frozen(kw_only=True)
class _Draft:
    """What the rounds came to.

    Attributes:
        workflow: The last workflow; empty if there is none.
        problems: What is wrong with it.
        notes: What was changed in it.
        failure: Why the last round gave none.
    """

    workflow: JSONObject = attrs.field(factory=dict)
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()
    failure: Problem | None = None

    @property
    def is_sound(self) -> bool:
        return bool(self.workflow) and all(it.severity == "warning" for it in self.problems)

    @property
    def open(self) -> tuple[Problem, ...]:
        """What the model is to change; warnings too."""
        return (*((self.failure,) if self.failure else ()), *self.problems)


class PlanDialogue:
    """The dialogue with a language model about one plan.

    Args:
        task: The task in words.
        model: The model.
        found: What discovery found for the task, best first.
        registry: Looks up node types.
        runner: Checks workflows.
    """

    def __init__(
        self,
        task: str,
        model: PlanModel,
        found: Sequence[Match[FoundNode]],
        registry: NodeRegistry,
        runner: Runner,
    ) -> None:
        self._task = task
        self._model = model
        self._found = found
        self._registry = registry
        self._runner = runner
        glue = [entry for entry in map(registry.find, _GLUE) if entry]
        entries = {entry.node: entry for entry in [*(match.item.entry for match in found), *glue]}
        self._candidates = {name: entry for name, entry in entries.items() if is_plain(name)}

    def select(self, saved: Sequence[Match[SavedWorkflow]]) -> Selection:
        """Let the model of the dialogue choose among the candidates; all of them if its answer is unreadable.

        Args:
            saved: Saved workflows that it may choose instead.
        """
        names = [match.item.name for match in saved]
        prompt = selection_prompt(self._task, list(self._candidates.values()), saved)
        schema = selection_schema(list(self._candidates), names)
        try:
            answer = self._model.ask(SELECTION_SYSTEM, prompt, schema, "chosen_nodes")
        except UnreadableAnswer:
            return Selection(selection_type="new_composition")
        existing = answer.get("existing") if answer.get("selection_type") == "found_existing" else ""
        listed = answer.get("chosen_nodes")
        chosen = [name for name in listed if isinstance(name, str)] if isinstance(listed, list) else []
        return Selection(
            selection_type="new_composition",
            reasoning=_said(answer, "reasoning"),
            chosen_nodes=tuple(name for name in chosen if name in self._candidates),
            flow_structure=_said(answer, "flow_structure"),
            existing=str(existing) if existing in names else "",
        )

    def compose(self, selection: Selection, max_rounds: int) -> Plan:
        """Let the model of the dialogue write the workflow; return it with the problems that are left.

        Args:
            selection: What it chose.
            max_rounds: How often it may try.

        Raises:
            PflowError: It cannot be asked, or does not answer in time, before it has written any workflow.
        """
        offered = self._offered(selection)
        origin = Origin(self._task, list(self._candidates.values()))
        known = {entry.node: entry for entry in offered}
        draft, best, rounds = _Draft(), _Draft(), 0
        while rounds < max_rounds and (draft.open or not draft.workflow):
            rounds += 1
            try:
                answer = self._answer(offered, draft)
            except UnreadableAnswer as error:
                draft = attrs.evolve(draft, failure=_problem(error))
            except PflowError as error:
                if not draft.workflow:
                    raise
                draft = attrs.evolve(draft, failure=_problem(error))
                break
            else:
                draft = self._draft(answer, known, origin, is_last=rounds == max_rounds)
            # A workflow with warnings only stands if the model makes none that is better.
            best = draft if draft.is_sound or not best.is_sound else best
        return self._plan(selection, best if best.is_sound else draft, rounds, origin)

    def _offered(self, selection: Selection) -> list[Entry]:
        """Return the nodes that the workflow may have: those chosen, and those that join others."""
        if not selection.chosen_nodes:
            return list(self._candidates.values())
        names = dict.fromkeys((*selection.chosen_nodes, *_GLUE))
        return [self._candidates[name] for name in names if name in self._candidates]

    def _answer(self, offered: Sequence[Entry], draft: _Draft) -> JSONObject:
        prompt = workflow_prompt(self._task, offered, draft.workflow, draft.open)
        schema = workflow_schema([entry.node for entry in offered])
        return self._model.ask(WORKFLOW_SYSTEM, prompt, schema, "nodes")

    def _draft(
        self, answer: JSONObject, known: Mapping[str, Entry], origin: Origin, *, is_last: bool
    ) -> _Draft:
        """Return the workflow of an answer, repaired, with what is wrong with it."""
        read = answered_workflow(answer, known.get)
        excess = _excess(read)
        if excess:
            return _Draft(failure=excess)
        repair = PlanRepair(origin.cleaned(read), self._registry, origin)
        repair.join()
        repair.map_lacking()
        notes: list[str] = []
        if is_last:
            repair.ask_for_lacking()
            repair.ask_for([(it.node, it.key) for it in origin.taken(repair.workflow["nodes"])])
            notes = repair.drop_dead_edges()
        repair.describe_inputs()
        workflow = self._runner.normalise(repair.workflow)
        problems = (
            *self._runner.validate(workflow),
            *_not_offered(workflow, known),
            *(taken.problem for taken in origin.taken(workflow.get("nodes"))),
        )
        return _Draft(workflow=workflow, problems=problems, notes=tuple(notes))

    def _plan(self, selection: Selection, draft: _Draft, rounds: int, origin: Origin) -> Plan:
        types = list(_types(draft.workflow))
        failure = () if draft.is_sound or draft.failure is None else (draft.failure,)
        workflow = {**draft.workflow, "metadata": plan_metadata(self._task)} if draft.workflow else {}
        chosen = attrs.evolve(
            selection,
            reasoning="" if origin.foreign(selection.reasoning) else selection.reasoning,
            chosen_nodes=tuple(dict.fromkeys(types)),
            flow_structure="" if origin.foreign(selection.flow_structure) else selection.flow_structure,
            confidence=self._confidence(types),
        )
        return Plan(
            task=self._task,
            workflow=workflow,
            selection=chosen,
            problems=(*failure, *draft.problems),
            rounds=rounds,
            candidates=self._found,
            model=self._model.name,
            notes=(*draft.notes, *effect_notes(filter(None, map(self._registry.find, types)))),
        )

    def _confidence(self, types: Sequence[str]) -> float:
        """Return the mean confidence with which discovery found the nodes of a workflow."""
        found = {match.item.entry.node: match.confidence for match in self._found}
        known = [found[name] for name in dict.fromkeys(types) if name in found]
        return sum(known) / len(known) if known else 0.0


def _excess(workflow: JSONObject) -> Problem | None:
    """Return why a workflow is too large to be looked at, None if it is not."""
    if len(list(_types(workflow))) > MOST_NODES:
        message = f"The workflow has more than the {MOST_NODES} nodes that a plan may have"
        return Problem(message=message, path="$.nodes", suggestion="Use for_each")
    if is_deep(workflow):  # JSON in the text of a parameter
        return Problem(message="The workflow is nested too deeply", suggestion="Flatten it")
    return None


def _not_offered(workflow: JSONObject, known: Container[str]) -> Iterator[Problem]:
    """Yield a problem for each node of a type that exists, or not, but was not offered to the model."""
    for index, name in enumerate(_types(workflow)):
        if name not in known:
            message = f"The node type {visible(name, _NAME)} is not among the nodes to choose from"
            yield Problem(
                message=message, path=f"$.nodes[{index}].type", suggestion="Use only types in nodes"
            )


def _types(workflow: JSONObject) -> Iterator[str]:
    """Yield the type of each node of a workflow, an empty string for a malformed one."""
    nodes = workflow.get("nodes")
    for node in nodes if isinstance(nodes, list) else ():
        found = node.get("type") if isinstance(node, dict) else ""
        yield found if isinstance(found, str) else ""


def _problem(error: PflowError) -> Problem:
    return Problem(message=error.message, suggestion=next(iter(error.suggestions), ""), kind=error.kind)


def _said(answer: JSONObject, key: str) -> str:
    text = answer.get(key)
    return visible(text, _PROSE) if isinstance(text, str) else ""
