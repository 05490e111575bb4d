"""Plans a workflow without a language model: for each clause of the task the node that search finds."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, count, islice, pairwise
from typing import Literal

import attrs

from pflow_mcp_plugin.contract import Entry, Field, Match, PflowError, Problem, Runner
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.contract.validators import is_reserved
from pflow_mcp_plugin.host.matching.task_fit import meanings
from pflow_mcp_plugin.host.matching.task_words import QUOTED, clause_texts, split_name, stem, words
from pflow_mcp_plugin.host.planning.joins import (
    is_synonym,
    key_stems,
    name_words,
    names_place,
    result_of,
    template_name,
)
from pflow_mcp_plugin.host.planning.plan import SOURCE, Origin, Plan, Selection, effect_notes, plan_metadata
from pflow_mcp_plugin.host.planning.plan_prompt import visible
from pflow_mcp_plugin.host.planning.plan_repair import PlanRepair
from pflow_mcp_plugin.host.registry.discovery import FoundNode, described
from pflow_mcp_plugin.host.registry.node_registry import NodeRegistry
from pflow_mcp_plugin.host.workflow.coercion import type_name
from pflow_mcp_plugin.host.workflow.findings import cut, errors_in
from pflow_mcp_plugin.host.workflow.templates import literal

Kind = Literal["", "read", "think", "shape", "change", "write", "send", "remove", "run"]
"""What a verb asks for; empty if that is unknown."""
Shape = Literal["text", "url", "email", "path", "target"]
"""What a value looks like: `text` is only quoted, and something goes to a `target`, which is a path."""
_VERBS: dict[Kind, str] = {
    "read": "analyze browse calculate check compare convert crawl describe download draw explore extract "
    "fetch find gather generate get give how inspect list locate look lookup parse plot query read render "
    "retrieve scrape search see show tell transform turn view watch what where which who",
    "think": "classify digest paraphrase proofread rephrase rewrite summarise summarize summary translate",
    "shape": "aggregate average count filter flatten group rank sort sum tally total",
    "change": "add approve assign build change commit copy create draft edit fill fix insert invite "
    "make mark merge modify move register rename replace schedule set start update",
    "write": "append dump export keep persist put record save store write",
    "send": "announce email forward mail message notify post publish push reply send share submit upload",
    "remove": "abort cancel clear close delete destroy discard drop end erase forget kill purge quit remove "
    "reset revert revoke stop strip terminate truncate undo uninstall unstage wipe",
    "run": "evaluate exec execute launch run",
}
_KINDS = {stem(verb): kind for kind, verbs in _VERBS.items() for verb in verbs.split()}
_BEFORE_NOUNS = re.compile(
    r"a|an|by|for|from|her|his|in|its|my|of|on|our|the|their|this|that|which|with|your"
)
_FORMS = re.compile(r"\w+(?:ed|ing)", re.IGNORECASE)
_ALWAYS_REMOVES = frozenset({"delete", "destroy", "erase", "purge", "truncate", "wipe"})
"""A tool with one of these anywhere in its name removes something, as `find_and_delete` does."""
_ENDS = frozenset({"abort", "cancel", "close", "end", "quit", "stop", "strip", "terminate"})
"""Verbs that ask for removing, while a tool of that name only ends something."""
_OFTEN_NOUNS = frozenset({"email", "mail", "message", "record", "store"})
"""Verbs that are mostly nouns in the names of tools, as in `mail_search`."""
_HARMLESS: frozenset[Kind] = frozenset({"", "read", "think", "shape"})
_WORD = re.compile(r"[^\W_]+")
_CONDITION = re.compile(
    r"(?:\b(?:but|and|only) )*(?<!check )(?<!know )(?<!see )(?<!verify )"
    r"\b(?P<word>if|unless|when(?:ever)?(?! (?:are|can|did|do|does|is|was|were|will)\b)|in case"
    r"|provided(?= \w+ )|assuming|supposing|given that|as long as|on condition|otherwise"
    r"|depending on|except|until|before|should (?:any|it|the|there))\b[^.;!?\n]*",
    re.IGNORECASE,
)
_IMPERATIVES = ("send", "write", "remove")
_BEFORE_FIRST = re.compile(r"\bbefore (?:(?:i|we|you) )?([^,.;]+), ([^.;]+)", re.IGNORECASE)
_BEFORE = re.compile(r"(?<=\w) before (?:(?:i|we|you) |(?=\w+ing\b))", re.IGNORECASE)
_CONDITION_ENDS = re.compile(r",|\b(?:and|but|then)\b", re.IGNORECASE)
_BEYOND = re.compile(
    r"\b(?:per|each|every|only|most|least|fewest|top|unique|distinct|statistics|mean|median"
    r"|(?:amount|number)s? of|how (?:many|much|often)|(?:more|less|fewer) than|at (?:least|most)|one by one"
    rf"|(?:{_VERBS['shape'].replace(' ', '|')})(?:s|ed|ing|ted|ting)?)\b",
    re.IGNORECASE,
)


def kind_asked(clause: str) -> Kind:
    """Return the kind of the first verb of a clause that is known."""
    said = _WORD.findall(QUOTED.sub(" ", clause).lower())
    # "the list" is no verb, and "closing" is one only where a clause begins.
    pairs = zip(["", *said], said, strict=False)
    verbs = (
        word
        for before, word in pairs
        if not _BEFORE_NOUNS.fullmatch(before) and not (before and _FORMS.fullmatch(word))
    )
    return _first_kind(" ".join(verbs))


def kind_of(entry: Entry) -> Kind:
    """Return what a node does: by the first verb that is known of its name, else of its description."""
    name = split_name(entry.local_name or entry.node).lower()
    if not _ALWAYS_REMOVES.isdisjoint(_WORD.findall(name)):
        return "remove"
    verbs = " ".join(word for word in _WORD.findall(name) if word not in _OFTEN_NOUNS | _ENDS)
    kind = _first_kind(verbs) or _first_kind(" ".join(entry.description.split()[:2]))
    claims_to_read = "flow_safe" in (entry.purity, entry.claimed_purity)
    return "read" if claims_to_read and kind not in _HARMLESS else kind


def _first_kind(text: str) -> Kind:
    kinds = (_KINDS.get(stem(word)) for word in _WORD.findall(text.lower()))
    return next((kind for kind in kinds if kind), "")


def may_do(node: Kind, asked: Kind) -> bool:
    """Return whether a node of one kind may do what a verb of another asks for."""
    if node in ("remove", "run"):
        return node == asked
    if node in _HARMLESS:
        return asked not in ("write", "send", "remove") or not node
    return asked not in _HARMLESS or not asked


def is_harmless(kind: Kind) -> bool:
    """Return whether a node of this kind changes nothing."""
    return kind in _HARMLESS


def with_conditions_apart(task: str) -> tuple[str, list[str]]:
    """Return a task with each condition, such as "if there are rows", on a line of its own, and these."""
    conditions: list[str] = []
    rest = _BEFORE.sub(", then ", _BEFORE_FIRST.sub(r"\2, then \1", task))
    masked = QUOTED.sub(lambda quoted: "\0" * len(quoted[0]), rest)  # a value may hold any words
    while found := _CONDITION.search(masked):
        start, end = found.start(), _condition_end(masked, found)
        conditions.append(rest[start:end].strip(" ,"))
        rest = f"{rest[:start]}\n{rest[start:end]}\n{rest[end:]}"
        masked = f"{masked[:start]}\n{' ' * (end - start)}\n{masked[end:]}"
    return rest, conditions


def _condition_end(text: str, found: re.Match[str]) -> int:
    """Return where a condition ends: at a comma or a conjunction, else at the verb that depends on it."""
    inner = _CONDITION_ENDS.search(text, found.end("word"), found.end())
    if inner or found["word"].lower() == "otherwise":
        return inner.start() if inner else found.end()
    verbs = _WORD.finditer(text, found.end("word"), found.end())
    starts = (word.start() for word in verbs if _KINDS.get(stem(word[0].lower())) in _IMPERATIVES)
    return next(starts, found.end())


def beyond_a_node(clause: str) -> list[str]:
    """Return the words of a clause for what a single node rarely does: counting, repeating, choosing."""
    return [found[0].lower() for found in _BEYOND.finditer(QUOTED.sub(" ", clause))]


_STORES = re.compile(r"\b(?:dump|export|keep|put|sav|stor|writ)\w*", re.IGNORECASE)
_TOKEN = re.compile(rf"{QUOTED.pattern}|\S+")
_AROUND = "\"'`.,;:!?()[]{}<>\u201c\u201d\u00ab\u00bb\u3001\u3002"
_SHAPES: dict[Shape, re.Pattern[str]] = {
    "url": re.compile(r"(?:[a-zA-Z][a-zA-Z0-9+.-]{1,9}://|www\.)\S+"),
    "email": re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+"),
    "path": re.compile(
        r"(?:~|\.{1,2})?/\S+|[a-z]:[\\/]\S+|[\w-]+/|(?!(?:d3|next|node|three|vue)\.js)"
        r"[^\s@:]*\w\.(?!(?:com|dev|edu|gov|io|net|org)\b)[a-z][a-z0-9]{0,4}",
        re.IGNORECASE,
    ),
}
TAKES: dict[Shape, frozenset[str]] = {
    "url": key_stems("address href link page site source uri url website"),
    "email": key_stems("address email mail recipient to"),
    "path": key_stems("dir directory document file filename filepath folder image input path source uri"),
    "target": key_stems("destination file filename filepath location output path target"),
    "text": key_stems("content keyword message name phrase prompt q query search subject term text title"),
}
"""The words of keys, by the shape of the values that they take."""


_TEXT_FILE = re.compile(
    r".*\.(?:c|cfg|conf|cpp|css|csv|env|go|h|html?|ini|java|js|jsonl?|log|md|py|rb|rs|rst|sh|sql|tex|toml"
    r"|ts|tsv|txt|xml|ya?ml)",
    re.IGNORECASE,
)


@attrs.frozen
class Value:
    """A value that stands in the words of a task, such as a path."""

    text: str
    shape: Shape

    @property
    def is_text_file(self) -> bool:
        """Whether the value is the name of a text file."""
        return self.shape in ("path", "target") and _TEXT_FILE.fullmatch(self.text) is not None


def values_in(clause: str) -> Iterator[Value]:
    """Yield the values in a clause: quoted texts, addresses and paths."""
    before, places = "", ("as", "into", "to", *(("in",) if _STORES.search(clause) else ()))
    for token in _TOKEN.finditer(clause):
        quoted = next((text for text in token.groups() if text), "").strip()
        text = quoted or token[0].rstrip(_AROUND).lstrip(_AROUND.replace(".", ""))
        shape = next((shape for shape, known in _SHAPES.items() if known.fullmatch(text)), None)
        if shape == "path" and before in places:
            shape = "target"
        if shape or quoted:
            yield Value(text, shape or "text")
        before = token[0].lower()


_LEAST = 0.05
"""The least confidence of a node in its clause, tuned with `benchmarks/plan.py`; below, nothing fits."""
_SURE = 0.5
"""The confidence from which a tool does what an own node would do too, and that of an own node."""
_FAIR = 0.35
"""The confidence from which a tool writes what a clause says that names no file."""
_FAR = 3
"""The first node of a clause gives way to one that is this many times as sure."""
_CLAUSES = 50
"""The clauses of a task that are read."""
_LOOKED_AT = 30
"""The nodes of a clause that are looked at."""
_OWN: dict[Kind, str] = {"write": "write-file", "think": "llm"}
"""The host's own nodes, by the kind of verb that asks for them."""
_ASKED_BY_NAME = ("echo", "llm", "shell")
_NOT_SEARCHED = frozenset({*_OWN.values(), *_ASKED_BY_NAME, "read-file", "transform", "branch"})
_COMMAND = re.compile(r"`|\b(?:command|script|program|bash)\b", re.IGNORECASE)
_READ = re.compile(r"\b(?:cat|import|load|open|print|read|show)\b", re.IGNORECASE)
_FILE = re.compile(
    r"(?<!word )(?<!excel )(?<!pdf )(?<!audio )(?<!image )(?<!video )\b(?:disk|file)\b", re.IGNORECASE
)
_REFERS_BACK = re.compile(
    r"(?<!\bis )(?<!\bwas )\bit\b(?!\s+(?:has|is|was|will)\b)|\bthis\b(?!\s+\w)"
    r"|\b(?:its|these|those|them|their|both|results?|output|answers?|findings)\b",
    re.IGNORECASE,
)
_SUMMARY = re.compile(r"(?<!the )\b(?:summary|summaries|digest)\b", re.IGNORECASE)
_ANY_OBJECT = frozenset(
    {"content", "file", "files", "list", "listing", "output", "report", "result", "results", "table", "text"}
)
"""Words for what a node may work on that tell nothing of the node."""
_OUTPUTS = key_stems("destination output target")
_NODE = re.compile(r"\$\.nodes\[(\d+)\]")
"""The path of a problem in a node."""
_LONGEST = 300
"""The most characters of the workflow's description."""
_NAME = 60
"""The most characters of a name in the steps at a glance."""
_TELLING = 0.3
"""The least confidence of a node to which the first of a clause may give way."""
_RIVALS = 5
"""How many of the first nodes of a clause are compared."""
_LEAD_IN = re.compile(r"(?:for|from|given|here|take|use|with)\b", re.IGNORECASE)
"""A clause that begins so only names a value."""
_LEADING = re.compile(r"\A(?:(?:afterwards|and|but|finally|first|lastly|next|then)\b\W*)+", re.IGNORECASE)


@attrs.define(kw_only=True)
class Step:
    """A step of a plan: a node, and the clause of the task that it is for."""

    entry: Entry
    clause: str
    confidence: float
    reason: str = ""
    params: dict[str, JSON] = attrs.field(factory=dict)
    is_whole: bool = True

    @property
    def refers_back(self) -> bool:
        """Whether the clause works on what was there before, as "send it" does."""
        return _REFERS_BACK.search(self.clause) is not None

    @property
    def asks(self) -> list[str]:
        """The optional parameters that become inputs: what the node works on."""
        fields = self.entry.interface.params
        if self.params or any(field.required for field in fields):
            return []
        mains = (it.key for it in fields if is_synonym("text", it.key) or is_synonym("query", it.key))
        return list(islice(mains, 1))

    def repeats(self, earlier: Step) -> bool:
        """Return whether an earlier step of the same tool does this one too, with the same values."""
        same = self.entry.node == earlier.entry.node and self.entry.source != SOURCE
        return same and all(earlier.params.get(key, value) == value for key, value in self.params.items())

    def node(self, node_id: str, earlier: Mapping[str, Step]) -> dict[str, JSON]:
        """Return the step as a node; one of the host's own takes what the node before found."""
        params = dict(self.params)
        if self.entry.node == "llm":
            params["prompt"] = literal(self.clause)
        if earlier and self.entry.source == SOURCE and (piped := self.entry.interface.piped):
            *_, (name, before) = earlier.items()
            if result := result_of(name, before.entry):
                params.setdefault(piped, result.template)
        # A purpose must not claim what the node does not do.
        purpose = {"purpose": cut(self.clause)} if self.is_whole else {}
        return {"id": node_id, "type": self.entry.node, **purpose, "params": params}

    def take(self, value: Value) -> bool:
        """Give a value to the parameter that is obviously meant for it; return whether there is one."""
        free = [it for it in self.entry.interface.params if it.key not in self.params]
        fitting = [it for it in free if not is_reserved(it.key) and _fits(value, it, self.entry)]
        required = [it for it in fitting if it.required] or fitting
        # Paths fill parameters in order; which of several texts is meant must not be guessed.
        if not required or (len(required) > 1 and value.shape == "text"):
            return False
        types = {type_name(name) for name in required[0].types}
        text = literal(value.text)
        self.params[required[0].key] = text if types & {"str", "any"} else [text]
        return True


def _fits(value: Value, field: Field, entry: Entry) -> bool:
    if {"str", "any", "list"}.isdisjoint(type_name(name) for name in field.types):
        return False
    if field.choices or field.shell_line:
        return value.text in field.choices or (field.shell_line and value.shape == "text")
    named = set(name_words(field.key))
    is_output = not named.isdisjoint(_OUTPUTS)
    if value.shape == "target" and is_harmless(kind_of(entry)):
        return is_output
    if value.shape == "path" and (is_output or entry.node == "write-file"):
        return False
    return not TAKES[value.shape].isdisjoint(named)


def offline_plan(task: str, registry: NodeRegistry, runner: Runner, candidates: int = 26) -> Plan:
    """Plan a workflow from the words of a task alone; it always validates.

    Each clause gets the node that fits it best. An output is joined to a parameter that it fits by name, or
    by type if only one could be meant; what is left open becomes a declared input. The plan says which parts
    of the task the workflow does not do, and lists at most `candidates` of the nodes that were considered.
    """
    reading = _Reading(task, registry)
    steps = reading.steps
    workflow: JSONObject = {}
    problems: Sequence[Problem] = ()
    while steps:
        workflow, problems = _checked(task, steps, registry, runner)
        errors = list(errors_in(problems))
        if not errors:
            break
        places = {int(match[1]) for error in errors if (match := _NODE.match(error.path))}
        wrong = places or {len(steps) - 1}
        reading.missing += [
            f'"{steps[it].clause}": no workflow can use {steps[it].entry.node}' for it in wrong
        ]
        steps = [step for number, step in enumerate(steps) if number not in wrong]
    if not steps:
        raise PflowError(
            "No node fits any part of the task",
            suggestions=(
                "Use words from the descriptions of nodes; see: pflow registry list",
                "Let a language model plan it: --model NAME",
            ),
            problems=tuple(Problem(message=f"Not planned: {part}") for part in reading.missing),
            kind="not_found",
        )
    return Plan(
        task=task,
        workflow=workflow,
        selection=_selection(steps, len(reading.missing)),
        problems=problems,
        candidates=reading.considered[:candidates],
        notes=effect_notes(step.entry for step in steps),
        missing=reading.missing,
    )


def _selection(steps: Sequence[Step], missing: int) -> Selection:
    reasons = (f'{it.entry.node} for "{cut(it.clause)}" ({it.confidence:.2f}, {it.reason})' for it in steps)
    return Selection(
        selection_type="offline",
        reasoning=f"By the words of the task: {'; '.join(reasons)}.",
        chosen_nodes=tuple(dict.fromkeys(step.entry.node for step in steps)),
        flow_structure=" → ".join(visible(step.entry.local_name or step.entry.node, _NAME) for step in steps),
        confidence=sum(step.confidence for step in steps) / (len(steps) + missing),
    )


def _checked(
    task: str, steps: Sequence[Step], registry: NodeRegistry, runner: Runner
) -> tuple[JSONObject, Sequence[Problem]]:
    """Return the workflow of steps, and what is wrong with it."""
    named: dict[str, Step] = {}
    nodes: list[JSON] = []
    for step in steps:
        name = template_name(step.entry.node, "node")
        node_id = next(it for it in chain([name], (f"{name}-{n}" for n in count(2))) if it not in named)
        nodes.append(step.node(node_id, named))
        named[node_id] = step
    edges: list[JSON] = [{"from": one, "to": other} for one, other in pairwise(named)]
    repair = PlanRepair({"nodes": nodes, "edges": edges}, registry, Origin(task, ()))
    repair.map_lacking(lambda place, field: steps[place].refers_back and not names_place(field.key))
    repair.ask_for((place, key) for place, step in enumerate(steps) for key in step.asks)
    repair.ask_for_lacking()
    results = {it: result_of(it, step.entry) for it, step in named.items()}
    templates = {it: found.template if found else f"${{{it}}}" for it, found in results.items()}
    *others, last = named
    unused = [it for it in others if it not in repair.used() and it != "result"]
    workflow = {
        "description": " ".join(task.split())[:_LONGEST],
        **repair.workflow,
        "outputs": {"result": templates[last], **{it: templates[it] for it in unused}},
        "metadata": plan_metadata(task),
    }
    return workflow, runner.validate(workflow)


@attrs.frozen
class _Clause:
    """A clause of a task, as its words are understood."""

    text: str
    values: list[Value]
    asked: Kind
    said: list[str]
    """Its words, without values and the verb that it begins with."""

    @classmethod
    def of(cls, text: str, carried: Sequence[Value]) -> _Clause:
        """Read a clause, to which values of an earlier one belong that no node fits."""
        values, plain, asked = list(values_in(text)), text, kind_asked(text)
        for value in values:
            plain = plain.replace(value.text, " ")
        said = [it for it in words(plain) if not asked or kind_asked(it) != asked]
        return cls(text, [*carried, *values], asked, said)

    @property
    def objects(self) -> list[str]:
        """The words for what the clause is about."""
        return [word for word in self.said if word not in _ANY_OBJECT]

    @property
    def names_file(self) -> bool:
        """Whether the clause is about a file."""
        return bool(_FILE.search(self.text)) or any(it.shape in ("path", "target") for it in self.values)


class _Reading:
    """Reads a task.

    Attributes:
        steps: The steps, in the order of the task.
        missing: The parts that no step does, each with the reason.
        considered: The nodes that fit any clause, best first.
    """

    def __init__(self, task: str, registry: NodeRegistry) -> None:
        self._registry = registry
        rest, conditions = with_conditions_apart(task)
        clauses = registry.discovered_by_clause(rest, _CLAUSES, _LOOKED_AT)
        self.steps: list[Step] = []
        self.missing = [f'"{it}": steps run in any case; add `when`, or a branch' for it in conditions]
        matches = sorted((it for clause in clauses for it in clause.matches), key=lambda it: it.confidence)
        self.considered = list({it.item.entry.node: it for it in matches}.values())[::-1]
        said: list[str] = []
        carried: list[Value] = []
        for found in clauses:
            clause = _Clause.of(_LEADING.sub("", found.text), carried)
            is_lead_in = clause.values and _LEAD_IN.match(clause.text) and found is not clauses[-1]
            if not any(found.text in condition for condition in conditions) and not is_lead_in:
                said += self._read(clause, found.matches)
                carried = []
            elif is_lead_in:
                carried = clause.values
        if unread := len(clause_texts(rest)) - len(clauses):
            self.missing.append(f"{unread} further parts of the task, which were not read")
        known = [step.entry for step in self.steps]
        alone = [it for it in dict.fromkeys(said) if not any(_covers(entry, it) for entry in known)]
        if alone and self.steps:
            self.missing.append(f"no node accounts for {_quoted(alone)}")

    def _read(self, clause: _Clause, matches: Sequence[Match[FoundNode]]) -> list[str]:
        """Add the steps of a clause; return the words that its nodes should account for."""
        steps = self._steps(clause, [it for it in matches if it.item.entry.node not in _NOT_SEARCHED])
        if not steps:
            self.missing.append(f'"{cut(clause.text)}": no node fits')
            return [value.text for value in clause.values]
        said = [it for it in clause.objects if it in clause.text.lower()]
        for value in clause.values:
            if not any(step.take(value) for step in reversed(steps)):
                said += self._unplaced(value, clause, steps)
        self._note_what_is_beyond(clause, steps)
        self.steps += [it for it in steps if not any(it.repeats(earlier) for earlier in self.steps)]
        return said

    def _unplaced(self, value: Value, clause: _Clause, steps: list[Step]) -> list[str]:
        """Read or write the file that no node of a clause takes; return the value if it is no such file."""
        name = "write-file" if value.shape == "target" else "read-file"
        step = self._own(name, clause, value.text)
        if step is None or not value.is_text_file or not step.take(value):
            return [value.text]
        steps.insert(len(steps) if name == "write-file" else 0, step)
        return []

    def _note_what_is_beyond(self, clause: _Clause, steps: Sequence[Step]) -> None:
        """Note what a clause asks for and its nodes do not say they do."""
        if any(step.entry.node == "llm" for step in steps):  # is told the whole clause
            return
        gists = [described(step.entry) for step in steps]
        known = frozenset[str]().union(*(gist.gist | gist.places[0].roots for gist in gists))
        beyond = [it for it in beyond_a_node(clause.text) if known.isdisjoint(meanings(it.split()[-1]))]
        if beyond:
            nodes = ", ".join(step.entry.local_name or step.entry.node for step in steps)
            why = f"{nodes} may not do {_quoted(beyond)}; see transform and batch"
            self.missing.append(f'"{cut(clause.text)}": {why}')
            for step in steps:
                step.is_whole = False

    def _steps(self, clause: _Clause, tools: Sequence[Match[FoundNode]]) -> list[Step]:
        """Return the steps of a clause, in the order in which they run."""
        able = [it for it in tools if may_do(kind_of(it.item.entry), clause.asked)]
        if clause.asked == "send":  # other tools may send too, by another name
            able = [it for it in able if kind_of(it.item.entry) == "send"] or able
        best = _best(able[:_RIVALS])
        if best and not _covers_any(best.entry, clause.objects):
            best = _best([it for it in able[:_RIVALS] if _covers_any(it.item.entry, clause.objects)]) or best
        own = self._own_asked(clause)
        main = best if best and not (own and not _does(best, clause)) else own
        if main is best and best:
            best.clause = clause.text
        model = None
        if clause.asked != "think" and _SUMMARY.search(clause.text):
            model = None if main and _covers(main.entry, "summary") else self._own("llm", clause, "summary")
            if model and main and not _covers_any(main.entry, clause.said):
                main = None
        steps = [step for step in (model, main) if step]
        source = self._source(clause, steps, tools) if steps and not self.steps else None
        return [source, *steps] if source else steps

    def _source(
        self, clause: _Clause, steps: Sequence[Step], tools: Sequence[Match[FoundNode]]
    ) -> Step | None:
        """Return the node that finds what the first clause of a task works on, None if that needs none."""
        is_told = any(value.shape == "text" for value in clause.values)
        if is_told or clause.asked not in ("write", "send", "think", "shape"):
            return None
        best = _best([it for it in tools if is_harmless(kind_of(it.item.entry))])
        if best is None or best.entry in [step.entry for step in steps]:
            return None
        best.clause = clause.text
        others = [step.entry for step in steps if step.entry.source != SOURCE]
        left = [word for word in clause.said if not any(_covers(entry, word) for entry in others)]
        return best if _covers_any(best.entry, left) else None

    def _own_asked(self, clause: _Clause) -> Step | None:
        """Return the step of the host's own node that a clause asks for, None if it asks for none."""
        named = next((it for it in _ASKED_BY_NAME if re.search(rf"\b{it}\b", clause.text, re.IGNORECASE)), "")
        if named or (clause.asked == "run" and _COMMAND.search(clause.text)):
            return self._own(named or "shell", clause, named or "run")
        if clause.asked in _OWN:
            return self._own(_OWN[clause.asked], clause, clause.asked)
        reads = _READ.search(clause.text) and (
            _FILE.search(clause.text) or any(it.is_text_file and it.shape == "path" for it in clause.values)
        )
        return self._own("read-file", clause, "file") if reads else None

    def _own(self, name: str, clause: _Clause, word: str) -> Step | None:
        entry = self._registry.find(name)
        if entry is None or entry.source != SOURCE:
            return None
        return Step(entry=entry, clause=clause.text, confidence=_SURE, reason=f'"{word}" asks for it')


def _best(matches: Sequence[Match[FoundNode]]) -> Step | None:
    """Return a step with the node that fits a clause best, None if none does.

    The first is preferred for the other nodes of its family, unless its own words say far too little.
    """
    best = max(matches, key=lambda match: match.confidence, default=None)
    if best is None or best.confidence < _LEAST:
        return None
    far = best.confidence / _FAR if best.confidence >= _TELLING else 0
    best = matches[0] if matches[0].confidence >= max(_LEAST, far) else best
    return Step(entry=best.item.entry, clause="", confidence=best.confidence, reason=best.reason)


def _does(best: Step, clause: _Clause) -> bool:
    """Return whether a tool does what a clause asks one of the host's own nodes for."""
    covered = [word for word in clause.objects if _covers(best.entry, word)]
    if clause.asked == "write" and not clause.names_file:
        return best.confidence >= _FAIR and bool(covered)
    return best.confidence >= _SURE and bool(covered) and covered == clause.objects


def _covers(entry: Entry, word: str) -> bool:
    return not meanings(word).isdisjoint(described(entry).roots)


def _covers_any(entry: Entry, said: Iterable[str]) -> bool:
    return any(_covers(entry, word) for word in said)


def _quoted(texts: Iterable[str]) -> str:
    return ", ".join(f'"{cut(text)}"' for text in texts)
