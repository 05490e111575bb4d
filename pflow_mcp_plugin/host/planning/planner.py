"""Plans a workflow for a task: a saved one, one that a language model writes, or one made from words."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import attrs

from pflow_mcp_plugin.contract import Entry, Library, Match, PflowError, Problem, Runner, SavedWorkflow
from pflow_mcp_plugin.contract.json_types import JSONObject
from pflow_mcp_plugin.contract.problems import errors_in, problem_of
from pflow_mcp_plugin.host.language_model import llm_library
from pflow_mcp_plugin.host.planning.plan import Origin, Plan, Selection, effect_notes, plan_metadata
from pflow_mcp_plugin.host.planning.plan_answer import PlanModel, UnreadableAnswer, answered_workflow, prose
from pflow_mcp_plugin.host.planning.plan_prompt import (
    MOST_NODES,
    SELECTION_SYSTEM,
    WORKFLOW_SYSTEM,
    is_plain,
    selection_prompt,
    selection_schema,
    visible,
    workflow_prompt,
    workflow_schema,
)
from pflow_mcp_plugin.host.planning.plan_repair import PlanRepair
from pflow_mcp_plugin.schemas.schema_reader import list_of, table_of
from pflow_mcp_plugin.storage.json_and_toml import is_too_deep

if TYPE_CHECKING:
    from pflow_mcp_plugin.host.registry.discovery import FoundNode
    from pflow_mcp_plugin.host.registry.node_registry import NodeRegistry


SETTING = "PFLOW_PLAN_MODEL"
"""The variable or setting that names the model that plans, which the `llm` library runs."""
EXISTING = 0.9
"""From this confidence on, a saved workflow is the plan."""
_CANDIDATES = 26
"""With the nodes that are always candidates, these are the 30 that a model is shown."""

_LONGEST = 8_000
"""The most characters of a task."""


@attrs.frozen(kw_only=True)
class PlanOptions:
    """How to plan: `offline` uses no model, and `new` no saved workflow, even if one fits.

    The model is by default the one that `PFLOW_PLAN_MODEL` names. It may write or correct the workflow
    `max_rounds` times, and take `seconds` per answer.
    """

    model: str = ""
    offline: bool = False
    new: bool = False
    max_rounds: int = 3
    seconds: float = 120


@attrs.frozen(kw_only=True)
class Planner:
    """Plans workflows; it runs none of their nodes and starts no server. `setting` looks up a setting."""

    registry: NodeRegistry
    runner: Runner
    library: Library
    setting: Callable[[str], str | None]

    def plan(self, task: str, options: PlanOptions) -> Plan:
        task = task.strip()
        if not task or len(task) > _LONGEST:
            what = f"has {len(task):,} characters, more than {_LONGEST:,}" if task else "is empty"
            raise PflowError(f"The task {what}", kind="usage")
        saved = [] if options.new else self._saved(task)
        if saved and saved[0].confidence >= EXISTING:
            return self._existing(saved[0])
        model, notes = self._model(options)
        if model is None:
            from pflow_mcp_plugin.host.planning.offline_plan import offline_plan

            plan: Plan = offline_plan(task, self.registry, self.runner)
            if (sure := plan.selection.confidence) < 0.3:
                notes += (f"No node fits the task well (confidence {sure:.2f}): the workflow is a guess",)
            return attrs.evolve(plan, notes=(*notes, *plan.notes))
        found = self.registry.discovered(task, _CANDIDATES).matches
        dialogue = PlanDialogue(task, model, found, self.registry, self.runner)
        selection = dialogue.select(saved)
        chosen = next((match for match in saved if match.item.name == selection.existing), None)
        if chosen is None:
            return dialogue.compose(selection, options.max_rounds)
        return attrs.evolve(self._existing(chosen), model=model.name, candidates=found)

    def _saved(self, task: str) -> list[Match[SavedWorkflow]]:
        """Return the saved workflows the planner may take: they fit the task and could run, best first."""
        found = (match for match in self.library.discover(task, 5).matches if not match.item.problem)
        library, check = self.library, self.runner.validate
        sound = [match for match in found if not errors_in(check(library.get(match.item.name)))]
        return sorted(sound, key=lambda match: -match.confidence)

    def _existing(self, match: Match[SavedWorkflow]) -> Plan:
        name = match.item.name
        workflow = self.library.get(name)
        nodes = map(table_of, list_of(workflow.get("nodes")))
        types = [str(node.get("type") or node.get("id")) for node in nodes]
        selection = Selection(
            selection_type="found_existing",
            reasoning=f"The saved workflow {name} fits the task: {match.reason}",
            chosen_nodes=tuple(dict.fromkeys(types)),
            flow_structure=" → ".join(types),
            confidence=match.confidence,
            existing=name,
        )
        return Plan(
            workflow=workflow,
            selection=selection,
            problems=tuple(self.runner.validate(workflow)),
            notes=(f"The saved workflow {name} fits the task; for a new one: --new",),
        )

    def _model(self, options: PlanOptions) -> tuple[PlanModel | None, tuple[str, ...]]:
        name = options.model or os.environ.get(SETTING) or self.setting(SETTING) or ""
        if options.offline:
            return None, ()
        if not name:
            return None, (f"No model was asked: name one with --model, or in {SETTING}",)
        try:
            llm_library()
        except PflowError as error:
            if options.model:
                error.suggestions = (*error.suggestions, "Plan without a model: --offline")
                raise
            return None, (f"The model {name} was not asked: {error}",)
        return PlanModel(name, self.setting, options.seconds), ()


_GLUE = ("read-file", "write-file", "http", "llm")
"""The host's own nodes that join others are always candidates; `shell` is one if discovery finds it."""
_NAME = 100


@attrs.frozen(kw_only=True)
class _Draft:
    """The result of the rounds with a planning model: the last workflow, and why the last round gave none."""

    workflow: JSONObject = attrs.field(factory=dict)
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()
    failure: Problem | None = None

    @property
    def is_sound(self) -> bool:
        return bool(self.workflow) and all(it.severity == "warning" for it in self.problems)

    @property
    def open(self) -> tuple[Problem, ...]:
        """The problems of a draft for which the planner asks its model again, warnings included."""
        return (*((self.failure,) if self.failure else ()), *self.problems)


class PlanDialogue:
    """The planner's dialogue with a language model about one plan, on what discovery found, best first."""

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
        """Let the model choose nodes to plan with, or a saved workflow; all nodes if it is not understood."""
        names = [match.item.name for match in saved]
        prompt = selection_prompt(self._task, list(self._candidates.values()), saved)
        schema = selection_schema(list(self._candidates), names)
        try:
            answer = self._model.ask(SELECTION_SYSTEM, prompt, schema, "chosen_nodes")
        except UnreadableAnswer:
            return Selection(selection_type="new_composition")
        existing = answer.get("existing") if answer.get("selection_type") == "found_existing" else ""
        chosen = (name for name in list_of(answer.get("chosen_nodes")) if isinstance(name, str))
        return Selection(
            selection_type="new_composition",
            reasoning=prose(answer.get("reasoning")),
            chosen_nodes=tuple(name for name in chosen if name in self._candidates),
            flow_structure=prose(answer.get("flow_structure")),
            existing=str(existing) if existing in names else "",
        )

    def compose(self, selection: Selection, max_rounds: int) -> Plan:
        """Let the model write the workflow; return the plan, with the problems left after `max_rounds`."""
        # The workflow may have the chosen nodes, and those that join others.
        names = dict.fromkeys((*selection.chosen_nodes, *_GLUE)) if selection.chosen_nodes else None
        candidates = self._candidates
        offered = [candidates[name] for name in names or candidates if name in candidates]
        origin = Origin(self._task, list(self._candidates.values()))
        known = {entry.node: entry for entry in offered}
        draft, best, rounds = _Draft(), _Draft(), 0
        while rounds < max_rounds and (draft.open or not draft.workflow):
            rounds += 1
            try:
                prompt = workflow_prompt(self._task, offered, draft.workflow, draft.open)
                answer = self._model.ask(WORKFLOW_SYSTEM, prompt, workflow_schema([*known]), "nodes")
            except UnreadableAnswer as error:
                draft = attrs.evolve(draft, failure=problem_of(error))
            except PflowError as error:
                if not draft.workflow:
                    raise
                draft = attrs.evolve(draft, failure=problem_of(error))
                break
            else:
                draft = self._draft(answer, known, origin, is_last=rounds == max_rounds)
            # A workflow with only warnings is kept unless the model makes a better one.
            best = draft if draft.is_sound or not best.is_sound else best
        draft = best if best.is_sound else draft
        types = list(_types(draft.workflow))
        sure = {match.item.entry.node: match.confidence for match in self._found}
        matched = [sure[name] for name in dict.fromkeys(types) if name in sure]
        failure = () if draft.is_sound or draft.failure is None else (draft.failure,)
        workflow = {**draft.workflow, "metadata": plan_metadata(self._task)} if draft.workflow else {}
        chosen = attrs.evolve(
            selection,
            reasoning="" if origin.foreign(selection.reasoning) else selection.reasoning,
            chosen_nodes=tuple(dict.fromkeys(types)),
            flow_structure="" if origin.foreign(selection.flow_structure) else selection.flow_structure,
            # The mean confidence with which discovery found the nodes of the workflow.
            confidence=sum(matched) / len(matched) if matched else 0.0,
        )
        return Plan(
            workflow=workflow,
            selection=chosen,
            problems=(*failure, *draft.problems),
            rounds=rounds,
            candidates=self._found,
            model=self._model.name,
            notes=(*draft.notes, *effect_notes(filter(None, map(self._registry.find, types)))),
        )

    def _draft(
        self, answer: JSONObject, known: Mapping[str, Entry], origin: Origin, *, is_last: bool
    ) -> _Draft:
        read = answered_workflow(answer, known.get)
        if len(list(_types(read))) > MOST_NODES:
            message = f"The workflow has more than the {MOST_NODES} nodes that a plan may have"
            return _Draft(failure=Problem(message=message, path="$.nodes", suggestion="Use for_each"))
        if is_too_deep(read):  # JSON in the text of a parameter
            return _Draft(
                failure=Problem(message="The workflow is nested too deeply", suggestion="Flatten it")
            )
        repair = PlanRepair(origin.cleaned(read), self._registry, origin)
        repair.join()
        repair.map_lacking()
        notes: list[str] = []
        if is_last:
            repair.ask_for_lacking()
            repair.ask_for([(node, key) for node, key, _ in origin.taken(repair.workflow["nodes"])])
            notes = repair.drop_dead_edges()
        repair.describe_inputs()
        workflow = self._runner.normalise(repair.workflow)
        problems = (
            *self._runner.validate(workflow),
            # Whether such a type exists or not, the model was not offered it.
            *(
                Problem(
                    message=f"The node type {visible(name, _NAME)} is not among the nodes to choose from",
                    path=f"$.nodes[{index}].type",
                    suggestion="Use only types in nodes",
                )
                for index, name in enumerate(_types(workflow))
                if name not in known
            ),
            *(problem for _, _, problem in origin.taken(workflow.get("nodes"))),
        )
        return _Draft(workflow=workflow, problems=problems, notes=tuple(notes))


def _types(workflow: JSONObject) -> Iterator[str]:
    for node in list_of(workflow.get("nodes")):
        found = table_of(node).get("type")
        yield found if isinstance(found, str) else ""
