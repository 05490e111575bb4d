"""Plans a workflow without a language model: search for each clause of the task, joins, declared inputs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, count

import attrs

from pflow_mcp_plugin.contract import Entry, Field, Match, PflowError, Problem, Runner
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.contract.problems import errors_in
from pflow_mcp_plugin.contract.validators import is_reserved
from pflow_mcp_plugin.host.matching.task_words import QUOTED, clause_texts, meanings, split_name, stem, words
from pflow_mcp_plugin.host.planning.joins import Output, key_stems, name_words, result_of, template_name
from pflow_mcp_plugin.host.planning.plan import Origin, Plan, Selection, effect_notes, plan_metadata
from pflow_mcp_plugin.host.planning.plan_prompt import visible
from pflow_mcp_plugin.host.planning.plan_repair import PlanRepair
from pflow_mcp_plugin.host.registry.discovery import FoundNode, described
from pflow_mcp_plugin.host.registry.node_registry import NodeRegistry
from pflow_mcp_plugin.host.workflow.coercion import type_names
from pflow_mcp_plugin.host.workflow.findings import cut
from pflow_mcp_plugin.host.workflow.templates import literal
from pflow_mcp_plugin.host.workflow.workflow_reads import OWN

# What a verb asks for. The first known verb of a clause, or of a tool's name, decides its kind.
_VERBS = {
    "read": "analyze browse calculate check compare convert crawl describe download draw explore extract "
    "fetch find gather generate get give how inspect list locate look lookup open parse plot query read "
    "render retrieve scrape search see show take tell transform turn view watch what where which who",
    "think": "classify digest paraphrase proofread rephrase rewrite summarise summarize translate",
    "shape": "aggregate average count filter flatten group rank sort sum tally total",
    "change": "add approve assign build change commit copy create draft edit fill fix insert invite make "
    "mark merge modify move register rename replace schedule set start update",
    "write": "append dump export keep persist put record save store write",
    "send": "announce email forward mail message notify post publish push reply send share submit upload",
    "remove": "abort cancel clear close delete destroy discard drop end erase forget kill purge quit remove "
    "reset revert revoke stop strip terminate truncate undo uninstall unstage wipe",
    "run": "evaluate exec execute launch run",
}
_KINDS = {stem(verb): kind for kind, verbs in _VERBS.items() for verb in verbs.split()}
_HARMLESS = ("", "read", "think", "shape")
_ALWAYS_REMOVES = frozenset({"delete", "destroy", "erase", "purge", "truncate", "wipe"})
_WORD = re.compile(r"[^\W_]+")
_NO_VERB = re.compile(
    r"\b((?:(?:an?|by|for|from|her|his|in|its|my|of|on|our|the|their|this|that|which|with|your)\s+)+)\w+"
    r"|(?<=\w)\W+\w+(?:ed|ing)\b"
)
_CONDITION = re.compile(
    r"(?is)\b(?:only )?(?:if|unless|in case|provided (?:that|there)|assuming|as long as|otherwise|else|until"
    r"|before|should there|when(?! (?:are|did|do|does|is|was|were|will)\b))\b.*"
)
# What a single node rarely does: counting, repeating, choosing.
_BEYOND = re.compile(
    r"\b(?:per|each|every|most|least|unique|(?:amount|number)s? of|how (?:many|much|often)"
    rf"|(?:more|less) than|(?:{_VERBS['shape'].replace(' ', '|')})(?:s|ed|ing|ted|ting)?)\b"
)
_TOKEN = re.compile(rf"{QUOTED.pattern}|\S+")
_AROUND = "\"'`.,;:!?()[]{}<>\u201c\u201d\u00ab\u00bb\u3001\u3002"
_SHAPES = {
    "url": r"(?:[a-zA-Z][a-zA-Z0-9+.-]{1,9}://|www\.)\S+",
    "email": r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+",
    "path": r"(?i)(?:~|\.{1,2}|[a-z]:)?[\\/]\S+|[\w-]+/"
    r"|[^\s@:]*\w\.(?!(?:com|dev|edu|gov|io|net|org)\b)[a-z][a-z0-9]{0,4}",
}
# The words of keys, by the form of their values.
_TAKES = {
    "url": key_stems("address href link site source uri url website"),
    "email": key_stems("address email mail recipient to"),
    "path": key_stems("dir directory document file filename filepath folder image path source uri"),
    "target": key_stems("destination file filename filepath output path target"),
    "text": key_stems("content keyword message name phrase prompt q query search subject term text title"),
}
_NOT_BY_WORDS = frozenset({"ask", "branch", "fail", "http", "transform", "workflow", "write-file"})
"""The host's own nodes that search never chooses; the others it may choose where no tool fits well."""
_BY_VERB = {"run": "shell", "think": "llm", "write": "write-file"}
"""The host's own nodes that do what a verb asks for, unless a tool does exactly that."""
_TELLS_NOTHING = key_stems("content file list listing output report result table text")
"""Words for what a node may work on that say nothing about the node."""
_LEAST, _TELLING, _FAIR, _SURE = 0.05, 0.3, 0.4, 0.5
"""The confidence of a node that may fit its clause, counts as evidence, fits fairly, and fits well."""
_CLAUSES, _LOOKED_AT, _RIVALS, _SHOWN = 50, 30, 5, 26
"""How many clauses are read; nodes of each are looked at, and compared; and nodes of all are shown."""


def _first_kind(text: str) -> str:
    return next(filter(None, (_KINDS.get(stem(word)) for word in _WORD.findall(text.lower()))), "")


def _kind_asked(clause: str) -> str:
    kind = _first_kind(_NO_VERB.sub(r"\1", QUOTED.sub(" ", clause).lower()))
    return "think" if "summary" in words(clause) and kind not in ("send", "write") else kind


def _kind_of(entry: Entry) -> str:
    name = split_name(entry.local_name or entry.node).lower()
    if not _ALWAYS_REMOVES.isdisjoint(_WORD.findall(name)):
        return "remove"
    return _first_kind(name) or _first_kind(" ".join(entry.description.split()[:2]))


def _may_do(node: str, asked: str) -> bool:
    """Return whether an offline plan may let a node of one kind do what a verb of another kind asks for."""
    if node in ("remove", "run"):
        return node == asked
    if node in ("write", "send"):
        return asked not in _HARMLESS[1:]
    return asked != "write" or node not in _HARMLESS[1:]


@attrs.frozen
class Value:
    """A value for a plan without a model, from the task: `text` is quoted, a `target` gets something."""

    text: str
    shape: str

    def fits(self, field: Field, entry: Entry) -> bool:
        if {"str", "any", "list"}.isdisjoint(type_names(field)) or is_reserved(field.key):
            return False
        if field.choices:
            return self.text in field.choices
        if field.is_code:
            return field.shell_line and self.shape == "text"
        named = set(name_words(field.key))
        is_output = not named.isdisjoint(_TAKES["target"] - _TAKES["path"])
        if self.shape == "target" and _kind_of(entry) in _HARMLESS:
            return is_output
        if self.shape == "path" and (is_output or entry.node == "write-file"):
            return False
        return not _TAKES[self.shape].isdisjoint(named)


@attrs.define
class Step:
    """A step of an offline plan: a node, and the clause of the task that it is for."""

    entry: Entry
    clause: str
    confidence: float
    reason: str
    params: dict[str, JSON] = attrs.field(factory=dict, kw_only=True)

    def take(self, value: Value) -> bool:
        """Give a value in the task to the parameter that is clearly intended; return whether there is one."""
        fields = self.entry.interface.params
        fitting = [it for it in fields if it.key not in self.params and value.fits(it, self.entry)]
        fitting = [it for it in fitting if it.required] or fitting
        # Paths fill parameters in order; which of several texts is intended must not be guessed.
        if not fitting or (len(fitting) > 1 and value.shape == "text"):
            return False
        text = literal(value.text)
        self.params[fitting[0].key] = text if {"str", "any"} & type_names(fitting[0]) else [text]
        return True


class _Clause:
    def __init__(self, text: str) -> None:
        self.text = text
        self.asked = _kind_asked(text)
        self.values = list(self._values())
        given = {word for value in self.values for word in words(value.text)}
        said = [word for word in words(text) if word not in given]
        self.said = [word for word in said if not self.asked or _kind_asked(word) != self.asked]
        self.about = [word for word in self.said if stem(word) not in _TELLS_NOTHING]

    def _values(self) -> Iterator[Value]:
        before, places = "", ("as", "into", "to", *(("in",) if self.asked == "write" else ()))
        for token in _TOKEN.finditer(self.text):
            quoted = next((text for text in token.groups() if text), "").strip()
            text = quoted or token[0].rstrip(_AROUND).lstrip(_AROUND.replace(".", ""))
            shape = next((shape for shape, known in _SHAPES.items() if re.fullmatch(known, text)), "")
            if shape or quoted:
                yield Value(text, "target" if shape == "path" and before in places else shape or "text")
            before = token[0].lower()

    def is_done_by(self, best: Step, own: str) -> bool:
        """Return whether a tool does what the clause asks one of the host's own nodes for in a plan."""
        if own == "http":
            fields = best.entry.interface.params
            return any(it.fits(field, best.entry) for it in self.values for field in fields)
        covered = [word for word in self.about if _covers(best.entry, word)]
        if own != "llm" and not self.values:  # it names no file and no command
            return covered != [] and best.confidence >= _FAIR
        return covered == self.about != [] and best.confidence >= _SURE

    def best(self, tools: Sequence[Match[FoundNode]], asked: str) -> Step | None:
        able = [it for it in tools if _may_do(_kind_of(it.item.entry), asked)]
        # Others may also read, or send, without saying so in their names.
        wanted = (asked,) if asked == "send" else _HARMLESS if asked in _HARMLESS[1:] else ()
        able = ([it for it in able if _kind_of(it.item.entry) in wanted] or able)[:_RIVALS]
        able = [it for it in able if any(_covers(it.item.entry, word) for word in self.about)] or able
        # A much surer sibling named so points to the family: "get the commits", besides `git-commit`.
        sure = max(tools, key=lambda match: match.confidence, default=None)
        if sure and all(sure.confidence > it.confidence + 0.1 for it in able):
            named = described(sure.item.entry).places[0].roots
            if any(not meanings(word).isdisjoint(named) for word in self.about):
                able = [it for it in able if it.item.entry.family == sure.item.entry.family] or able
        surest = max(able, key=lambda match: match.confidence, default=None)
        if surest is None or surest.confidence < _LEAST:
            return None
        # The first is preferred, because of the other nodes of its family, unless the surest is twice as
        # sure.
        least = surest.confidence / 2 if surest.confidence >= _TELLING else _LEAST
        best = able[0] if able[0].confidence >= least else surest
        return Step(best.item.entry, self.text, best.confidence, best.reason)


def offline_plan(task: str, registry: NodeRegistry, runner: Runner) -> Plan:
    """Plan a workflow from the words of a task alone; it is always valid, and says what it lacks."""
    reading = _Reading(task, registry)
    while steps := reading.steps:
        workflow = _workflow(task, steps, registry)
        problems = runner.validate(workflow)
        if not errors_in(problems):
            break
        reading.missing.append(f'"{cut(steps.pop().clause)}": no valid workflow ends with it')
    else:
        raise PflowError(
            "No node fits any part of the task",
            suggestions=(
                "Use words from the descriptions of nodes; see: pflow registry list",
                "Let a language model plan it: --model NAME",
            ),
            problems=tuple(Problem(message=f"Not planned: {part}") for part in reading.missing),
            kind="not_found",
        )
    reasons = (f'{it.entry.node} for "{cut(it.clause)}" ({it.confidence:.2f}, {it.reason})' for it in steps)
    selection = Selection(
        selection_type="offline",
        reasoning=f"By the words of the task: {'; '.join(reasons)}.",
        chosen_nodes=tuple(dict.fromkeys(step.entry.node for step in steps)),
        flow_structure=" → ".join(visible(step.entry.local_name or step.entry.node, 60) for step in steps),
        confidence=sum(step.confidence for step in steps) / (len(steps) + len(reading.missing)),
    )
    return Plan(
        workflow=workflow,
        selection=selection,
        problems=problems,
        candidates=reading.considered[:_SHOWN],
        notes=effect_notes(step.entry for step in steps),
        missing=reading.missing,
    )


def _workflow(task: str, steps: Sequence[Step], registry: NodeRegistry) -> JSONObject:
    results: dict[str, str] = {}
    nodes: list[JSON] = []
    before: Output | None = None
    for step in steps:
        name = template_name(step.entry.node, "node")
        node_id = next(it for it in chain([name], (f"{name}-{n}" for n in count(2))) if it not in results)
        params = dict(step.params)
        if step.entry.node == "llm":
            params["prompt"] = literal(step.clause)
        if before and step.entry.source == OWN and (piped := step.entry.interface.piped):
            params.setdefault(piped, before.template)
        # A purpose must not claim what the node does not do.
        purpose = {"purpose": cut(step.clause)} if not _beyond(step.clause, step.entry) else {}
        nodes.append({"id": node_id, "type": step.entry.node, **purpose, "params": params})
        before = result_of(node_id, step.entry)
        results[node_id] = before.template if before else f"${{{node_id}}}"
    repair = PlanRepair({"nodes": nodes}, registry, Origin(task, ()))
    repair.map_lacking(pipes=False)
    repair.ask_for_lacking()
    last = list(results)[-1]
    joined = {*repair.used(), "result", last}
    unused = {it: results[it] for it in results if it not in joined}
    return {
        "description": " ".join(task.split())[:300],
        **repair.workflow,
        "outputs": {"result": results[last], **unused},
        "metadata": plan_metadata(task),
    }


class _Reading:
    """Reads a task to plan it offline: its `steps`, and as `missing` what none of them does, with reasons."""

    def __init__(self, task: str, registry: NodeRegistry) -> None:
        self._registry = registry
        self.steps: list[Step] = []
        self.missing: list[str] = []
        clauses = registry.discovered_by_clause(task, _CLAUSES, _LOOKED_AT)
        matches = sorted((it for _, found in clauses for it in found), key=lambda it: it.confidence)
        self.considered = list({it.item.entry.node: it for it in matches}.values())[::-1]
        asked = [word for text, found in clauses for word in self._read(text, found)]
        if unread := len(clause_texts(task)) - len(clauses):
            self.missing.append(f"{unread} further parts of the task, which were not read")
        alone = [it for it in dict.fromkeys(asked) if not any(_covers(step.entry, it) for step in self.steps)]
        if alone and self.steps:
            self.missing.append(f"no node accounts for {_quoted(alone)}")

    def _read(self, text: str, matches: Sequence[Match[FoundNode]]) -> list[str]:
        """Add the steps of a clause to the plan; return the words that its nodes should account for."""
        if condition := _CONDITION.search(QUOTED.sub(lambda quoted: "\0" * len(quoted[0]), text)):
            self.missing.append(f'"{cut(condition[0])}": the plan has no conditions; add `when`, or a branch')
            text = text[: condition.start()].strip()
            if not words(text):
                return []
        clause = _Clause(text)
        steps = self._steps(clause, matches)
        if not steps:
            self.missing.append(f'"{cut(text)}": no node fits')
            return [value.text for value in clause.values]
        unsaid = [it for it in clause.about if it in text.lower()]
        unsaid += [it.text for it in clause.values if not any(step.take(it) for step in reversed(steps))]
        if beyond := _beyond(text, *(step.entry for step in steps)):
            self.missing.append(f'"{cut(text)}": its nodes may not do {beyond}; see transform and batch')
        done = [step.entry for step in self.steps if step.entry.source != OWN]
        self.steps += [step for step in steps if step.params or step.entry not in done]
        return unsaid

    def _steps(self, clause: _Clause, matches: Sequence[Match[FoundNode]]) -> list[Step]:
        tools = [it for it in matches if it.item.entry.source != OWN]
        others = [it for it in matches if it not in tools and it.item.entry.node not in _NOT_BY_WORDS]
        main, other = clause.best(tools, clause.asked), clause.best(others, clause.asked)
        has_address = any(value.shape == "url" for value in clause.values)
        own = "http" if clause.asked == "read" and has_address else _BY_VERB.get(clause.asked, "")
        if entry := self._registry.find(own):
            if main is None or not clause.is_done_by(main, own):
                main = Step(entry, clause.text, _SURE, "the task asks for it")
        elif other and (main is None or main.confidence < _SURE <= other.confidence):
            main = other
        if main and not self.steps and clause.asked in ("send", "think", "write"):
            # The first clause may also say what must be found first: "write a list of the files".
            source = clause.best([it for it in tools if _kind_of(it.item.entry) in _HARMLESS], "read")
            left = [it for it in clause.said if main.entry.source == OWN or not _covers(main.entry, it)]
            if source and source.entry != main.entry and any(_covers(source.entry, it) for it in left):
                return [source, main]
        return [main] if main else []


def _beyond(text: str, *entries: Entry) -> str:
    """Return what a clause asks for that the nodes planned for it do not claim to do."""
    known = {root for it in map(described, entries) for root in it.gist | it.places[0].roots}
    asked = _BEYOND.findall(QUOTED.sub(" ", text).lower())
    return _quoted(it for it in asked if known.isdisjoint(meanings(it.split()[-1])))


def _covers(entry: Entry, word: str) -> bool:
    return not meanings(word).isdisjoint(described(entry).roots)


def _quoted(texts: Iterable[str]) -> str:
    return ", ".join(f'"{cut(text)}"' for text in texts)
