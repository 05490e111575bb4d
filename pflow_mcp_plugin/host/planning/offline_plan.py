"""Plans a workflow without a language model: search for each clause of the task, joins, declared inputs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, count, pairwise

import attrs

from pflow_mcp_plugin.contract import Entry, Field, Match, PflowError, Problem, Runner
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.contract.problems import errors_in
from pflow_mcp_plugin.contract.validators import is_reserved
from pflow_mcp_plugin.host.matching.task_words import QUOTED, clause_texts, meanings, split_name, stem, words
from pflow_mcp_plugin.host.planning.joins import (
    is_synonym,
    key_stems,
    name_words,
    names_place,
    result_of,
    template_name,
)
from pflow_mcp_plugin.host.planning.plan import Origin, Plan, Selection, effect_notes, plan_metadata
from pflow_mcp_plugin.host.planning.plan_prompt import visible
from pflow_mcp_plugin.host.planning.plan_repair import PlanRepair
from pflow_mcp_plugin.host.registry.discovery import FoundNode, described
from pflow_mcp_plugin.host.registry.node_registry import NodeRegistry
from pflow_mcp_plugin.host.workflow.coercion import type_names
from pflow_mcp_plugin.host.workflow.findings import cut
from pflow_mcp_plugin.host.workflow.templates import literal
from pflow_mcp_plugin.host.workflow.workflow_reads import OWN

# What a verb asks for. A clause, and the name of a tool, are of the kind of their first known verb.
_VERBS = {
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
_HARMLESS = ("", "read", "think", "shape")
_ALWAYS_REMOVES = frozenset({"delete", "destroy", "erase", "purge", "truncate", "wipe"})
_NO_VERBS_OF_TOOLS = key_stems(
    "abort cancel close email end mail message quit record stop store strip terminate"
)
"""In the name of a tool, these are mostly nouns, or end something without removing it."""
_WORD = re.compile(r"[^\W_]+")
_NO_VERB = re.compile(
    r"\b((?:(?:an?|by|for|from|her|his|in|its|my|of|on|our|the|their|this|that|which|with|your)\s+)+)\w+"
    r"|(?<=\w)\W+\w+(?:ed|ing)\b"
)
_DEPENDING = " ".join(_VERBS[kind] for kind in ("send", "write", "remove")).replace(" ", "|")
_CONDITION = re.compile(
    r"(?:\b(?:but|and|only) )*(?<!check )(?<!know )(?<!see )(?<!verify )\b(?:otherwise\b[^.;!?\n]*"
    r"|(?:if|unless|when(?:ever)?(?! (?:are|can|did|do|does|is|was|were|will)\b)|in case|provided(?= \w+ )"
    r"|assuming|supposing|given that|as long as|on condition|depending on|except|until|before"
    r"|should (?:any|it|the|there))\b[^.;,!?\n]*?(?=[.;,!?\n]|$| (?:and|but|then)\b"
    rf"| (?:{_DEPENDING})\b))",
    re.IGNORECASE,
)
# What a single node rarely does: counting, repeating, choosing.
_BEYOND = re.compile(
    r"\b(?:per|each|every|only|most|least|fewest|top|unique|distinct|statistics|mean|median"
    r"|(?:amount|number)s? of|how (?:many|much|often)|(?:more|less|fewer) than|at (?:least|most)|one by one"
    rf"|(?:{_VERBS['shape'].replace(' ', '|')})(?:s|ed|ing|ted|ting)?)\b",
    re.IGNORECASE,
)
_BEFORE_FIRST = re.compile(r"\bbefore (?:(?:i|we|you) )?([^,.;]+), ([^.;]+)", re.IGNORECASE)
_BEFORE = re.compile(r"(?<=\w) before (?:(?:i|we|you) |(?=\w+ing\b))", re.IGNORECASE)
_LEAD_IN = re.compile(
    r"(\b(?:for|from|given|here|take|use|with)\b[^,;\n]*(?:[\"'`/]|\w\.\w)[^,;\n]*),", re.IGNORECASE
)
_LEADING = re.compile(r"(?:(?:afterwards|and|but|finally|first|lastly|next|then)\b\W*)+", re.IGNORECASE)
_TOKEN = re.compile(rf"{QUOTED.pattern}|\S+")
_AROUND = "\"'`.,;:!?()[]{}<>\u201c\u201d\u00ab\u00bb\u3001\u3002"
_SHAPES = {
    "url": re.compile(r"(?:[a-zA-Z][a-zA-Z0-9+.-]{1,9}://|www\.)\S+"),
    "email": re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+"),
    "path": re.compile(
        r"(?:~|\.{1,2})?/\S+|[a-z]:[\\/]\S+|[\w-]+/|(?!(?:d3|next|node|three|vue)\.js)"
        r"[^\s@:]*\w\.(?!(?:com|dev|edu|gov|io|net|org)\b)[a-z][a-z0-9]{0,4}",
        re.IGNORECASE,
    ),
}
# The words of keys, by the shape of the values that they take.
_TAKES = {
    "url": key_stems("address href link page site source uri url website"),
    "email": key_stems("address email mail recipient to"),
    "path": key_stems("dir directory document file filename filepath folder image input path source uri"),
    "target": key_stems("destination file filename filepath location output path target"),
    "text": key_stems("content keyword message name phrase prompt q query search subject term text title"),
}
_OUTPUTS = key_stems("destination output target")
_TEXT_FILE = re.compile(
    r".*\.(?:c|cfg|conf|cpp|css|csv|env|go|h|html?|ini|java|js|jsonl?|log|md|py|rb|rs|rst|sh|sql|tex|toml"
    r"|ts|tsv|txt|xml|ya?ml)",
    re.IGNORECASE,
)
_BY_NAME = {
    "echo": re.compile(r"\becho\b", re.IGNORECASE),
    "llm": re.compile(r"\bllm\b", re.IGNORECASE),
    "shell": re.compile(
        r"\bshell\b|\b(?:run|execute|launch)\b.*(?:`|\b(?:command|script|program|bash)\b)", re.IGNORECASE
    ),
}
"""The host's own nodes that are asked for by name, or by other words."""
_LESS_SURE = {
    "python": re.compile(r"\b(?:in|with|run|some) python\b", re.IGNORECASE),
    "copy-file": re.compile(r"\bcopy\b.*\bfile\b", re.IGNORECASE),
    "move-file": re.compile(r"\b(?:move|rename)\b.*\bfile\b", re.IGNORECASE),
    "delete-file": re.compile(r"\b(?:delete|erase|remove)\b.*\bfile\b", re.IGNORECASE),
    "list-files": re.compile(r"\blist\b.*\bfiles\b", re.IGNORECASE),
}
"""Those that a tool does too if it fits fairly well."""
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
_TELLS_NOTHING = frozenset(
    {"content", "file", "files", "list", "listing", "output", "report", "result", "results", "table", "text"}
)
"""Words for what a node may work on that tell nothing of the node."""
_LEAST = 0.05
"""The least confidence of a node in its clause, tuned with `benchmarks/plan.py`; below, nothing fits."""
_SURE = 0.5
"""The confidence from which a tool does what an own node would do too, and that of an own node."""
_FAIR = 0.35
_FAR, _TELLING = 2, 0.3
_CLAUSES, _LOOKED_AT, _RIVALS = 50, 30, 5
"""How many clauses are read, nodes of each looked at, and compared."""
_SHOWN = 26
"""How many of the nodes that were considered are listed."""
_NODE = re.compile(r"\$\.nodes\[(\d+)\]")


def _first_kind(text: str) -> str:
    kinds = (_KINDS.get(stem(word)) for word in _WORD.findall(text.lower()))
    return next((kind for kind in kinds if kind), "")


def _kind_asked(clause: str) -> str:
    return _first_kind(_NO_VERB.sub(r"\1", QUOTED.sub(" ", clause).lower()))


def _kind_of(entry: Entry) -> str:
    name = _WORD.findall(split_name(entry.local_name or entry.node).lower())
    if not _ALWAYS_REMOVES.isdisjoint(name):
        return "remove"
    kind = _first_kind(" ".join(word for word in name if stem(word) not in _NO_VERBS_OF_TOOLS))
    kind = kind or _first_kind(" ".join(entry.description.split()[:2]))
    claims_to_read = "flow_safe" in (entry.purity, entry.claimed_purity)
    return "read" if claims_to_read and kind not in _HARMLESS else kind


def _may_do(node: str, asked: str) -> bool:
    """Return whether a node of one kind may do, in an offline plan, what a verb of another kind asks for."""
    if node in ("remove", "run"):
        return node == asked
    if node in ("write", "send"):
        return asked not in _HARMLESS or not asked
    return asked != "write" or node not in _HARMLESS[1:]


@attrs.frozen
class Value:
    """A value for a plan without a model, from the task: a `text` is quoted, a `target` gets something."""

    text: str
    shape: str

    @property
    def is_text_file(self) -> bool:
        return self.shape in ("path", "target") and _TEXT_FILE.fullmatch(self.text) is not None

    def fits(self, field: Field, entry: Entry) -> bool:
        """Return whether a plan without a model may give this value to a parameter."""
        if {"str", "any", "list"}.isdisjoint(type_names(field)) or is_reserved(field.key):
            return False
        if field.choices:
            return self.text in field.choices
        if field.is_code:
            return field.shell_line and self.shape == "text"
        named = set(name_words(field.key))
        is_output = not named.isdisjoint(_OUTPUTS)
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
    reason: str = ""
    params: dict[str, JSON] = attrs.field(factory=dict, kw_only=True)
    is_whole: bool = attrs.field(default=True, kw_only=True)

    def take(self, value: Value) -> bool:
        """Give a value in the task to the parameter that is clearly meant; return whether there is one."""
        fields = self.entry.interface.params
        fitting = [it for it in fields if it.key not in self.params and value.fits(it, self.entry)]
        required = [it for it in fitting if it.required] or fitting
        # Paths fill parameters in order; which of several texts is meant must not be guessed.
        if not required or (len(required) > 1 and value.shape == "text"):
            return False
        text = literal(value.text)
        is_text = {"str", "any"} & type_names(required[0])
        self.params[required[0].key] = text if is_text else [text]
        return True

    def repeats(self, earlier: Step) -> bool:
        """Return whether an earlier step of the plan does this one too: with the same tool and values."""
        same = self.entry.node == earlier.entry.node and self.entry.source != OWN
        return same and all(earlier.params.get(key, value) == value for key, value in self.params.items())


class _Clause:
    """A clause of a task, as an offline plan understands its words."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.asked = _kind_asked(text)
        self.values = list(self._values())
        plain = text
        for value in self.values:
            plain = plain.replace(value.text, " ")
        self.said = [it for it in words(plain) if not self.asked or _kind_asked(it) != self.asked]
        self.about = [it for it in self.said if it not in _TELLS_NOTHING]
        self.has_summary = self.asked != "think" and _SUMMARY.search(text) is not None
        if self.has_summary and self.asked not in ("send", "write"):  # "create a summary"
            self.asked, self.has_summary = "think", False

    def _values(self) -> Iterator[Value]:
        before, places = "", ("as", "into", "to", *(("in",) if self.asked == "write" else ()))
        for token in _TOKEN.finditer(self.text):
            quoted = next((text for text in token.groups() if text), "").strip()
            text = quoted or token[0].rstrip(_AROUND).lstrip(_AROUND.replace(".", ""))
            shape = next((shape for shape, known in _SHAPES.items() if known.fullmatch(text)), "")
            if shape or quoted:
                yield Value(text, "target" if shape == "path" and before in places else shape or "text")
            before = token[0].lower()

    @property
    def own_node(self) -> str:
        """The host's own node that a clause to plan asks for; empty if it asks for none."""
        named = next((name for name, asking in _BY_NAME.items() if asking.search(self.text)), "")
        if named or self.asked in ("write", "think"):
            return named or ("write-file" if self.asked == "write" else "llm")
        if self.asked == "read" and any(it.shape == "url" for it in self.values):
            return "http"
        if named := next((name for name, asking in _LESS_SURE.items() if asking.search(self.text)), ""):
            return named
        is_file = _FILE.search(self.text) or any(it.is_text_file and it.shape == "path" for it in self.values)
        return "read-file" if is_file and _READ.search(self.text) else ""

    def is_done_by(self, best: Step) -> bool:
        """Return whether the plan can do with a tool what the clause asks one of the host's own nodes for."""
        if self.own_node == "http":
            addresses = [it for it in self.values if it.shape == "url"]
            return any(
                it.fits(field, best.entry) for it in addresses for field in best.entry.interface.params
            )
        if self.own_node in _LESS_SURE:
            return best.confidence >= _FAIR
        covered = [word for word in self.about if _covers(best.entry, word)]
        names_file = _FILE.search(self.text) or any(it.shape in ("path", "target") for it in self.values)
        if self.asked == "write" and not names_file:
            return bool(covered) and best.confidence >= _FAIR
        return bool(covered) and best.confidence >= _SURE and covered == self.about

    def best(self, tools: Sequence[Match[FoundNode]], asked: str = "") -> Step | None:
        asked = asked or self.asked
        able = [it for it in tools if _may_do(_kind_of(it.item.entry), asked)]
        # Others may also read, or send, without saying so in their names.
        wanted = (asked,) if asked == "send" else _HARMLESS if asked in _HARMLESS[1:] else ()
        able = ([it for it in able if _kind_of(it.item.entry) in wanted] or able)[:_RIVALS]
        able = [it for it in able if any(_covers(it.item.entry, word) for word in self.about)] or able
        # A sibling that is named so, and far surer, tells the family: "get the commits", beside `git-commit`.
        sure = max(tools, key=lambda match: match.confidence, default=None)
        if sure and all(sure.confidence > it.confidence + 0.1 for it in able):
            named = described(sure.item.entry).places[0].roots
            if any(not meanings(word).isdisjoint(named) for word in self.about):
                able = [it for it in able if it.item.entry.family == sure.item.entry.family] or able
        surest = max(able, key=lambda match: match.confidence, default=None)
        if surest is None or surest.confidence < _LEAST:
            return None
        # The first is preferred for the other nodes of its family, unless its own words say far too little.
        least = surest.confidence / _FAR if surest.confidence >= _TELLING else _LEAST
        best = able[0] if able[0].confidence >= least else surest
        return Step(best.item.entry, self.text, best.confidence, best.reason)


def offline_plan(task: str, registry: NodeRegistry, runner: Runner) -> Plan:
    """Plan a workflow from the words of a task alone; it always validates.

    Each clause gets the node that fits it best. An output is joined to a parameter that it fits by name, or
    by type if only one could be meant; what is left open becomes a declared input. The plan says which parts
    of the task the workflow does not do, and lists some of the nodes that were considered.
    """
    reading = _Reading(task, registry)
    steps, missing = reading.steps, reading.missing
    workflow: JSONObject = {}
    problems: Sequence[Problem] = ()
    while steps:
        workflow = _workflow(task, steps, registry)
        problems = runner.validate(workflow)
        errors = errors_in(problems)
        if not errors:
            break
        places = {int(match[1]) for error in errors if (match := _NODE.match(error.path))}
        wrong = places or {len(steps) - 1}
        missing += [f'"{steps[it].clause}": no workflow can use {steps[it].entry.node}' for it in wrong]
        steps = [step for number, step in enumerate(steps) if number not in wrong]
    if not steps:
        raise PflowError(
            "No node fits any part of the task",
            suggestions=(
                "Use words from the descriptions of nodes; see: pflow registry list",
                "Let a language model plan it: --model NAME",
            ),
            problems=tuple(Problem(message=f"Not planned: {part}") for part in missing),
            kind="not_found",
        )
    reasons = (f'{it.entry.node} for "{cut(it.clause)}" ({it.confidence:.2f}, {it.reason})' for it in steps)
    selection = Selection(
        selection_type="offline",
        reasoning=f"By the words of the task: {'; '.join(reasons)}.",
        chosen_nodes=tuple(dict.fromkeys(step.entry.node for step in steps)),
        flow_structure=" → ".join(visible(step.entry.local_name or step.entry.node, 60) for step in steps),
        confidence=sum(step.confidence for step in steps) / (len(steps) + len(missing)),
    )
    return Plan(
        task=task,
        workflow=workflow,
        selection=selection,
        problems=problems,
        candidates=reading.considered[:_SHOWN],
        notes=effect_notes(step.entry for step in steps),
        missing=missing,
    )


def _workflow(task: str, steps: Sequence[Step], registry: NodeRegistry) -> JSONObject:
    named: dict[str, Step] = {}
    results: dict[str, str] = {}
    nodes: list[JSON] = []
    for step in steps:
        name = template_name(step.entry.node, "node")
        node_id = next(it for it in chain([name], (f"{name}-{n}" for n in count(2))) if it not in named)
        params = dict(step.params)
        if step.entry.node == "llm":
            params["prompt"] = literal(step.clause)
        if named and step.entry.source == OWN and (piped := step.entry.interface.piped):
            *_, (before, other) = named.items()
            if result := result_of(before, other.entry):
                params.setdefault(piped, result.template)
        # A purpose must not claim what the node does not do.
        purpose = {"purpose": cut(step.clause)} if step.is_whole else {}
        nodes.append({"id": node_id, "type": step.entry.node, **purpose, "params": params})
        found = result_of(node_id, step.entry)
        named[node_id], results[node_id] = step, found.template if found else f"${{{node_id}}}"
    edges: list[JSON] = [{"from": one, "to": other} for one, other in pairwise(named)]
    repair = PlanRepair({"nodes": nodes, "edges": edges}, registry, Origin(task, ()))
    backs = [_REFERS_BACK.search(step.clause) for step in steps]
    repair.map_lacking(lambda place, field: bool(backs[place]) and not names_place(field.key))
    for place, step in enumerate(steps):
        fields = step.entry.interface.params
        if not step.params and not any(field.required for field in fields):
            # Of optional parameters, the one that says what the node works on becomes an input.
            mains = (it.key for it in fields if is_synonym("text", it.key) or is_synonym("query", it.key))
            repair.ask_for((place, key) for key in [*mains][:1])
    repair.ask_for_lacking()
    last = list(results)[-1]
    used = repair.used()
    unused = {it: results[it] for it in results if it not in used and it not in ("result", last)}
    return {
        "description": " ".join(task.split())[:300],
        **repair.workflow,
        "outputs": {"result": results[last], **unused},
        "metadata": plan_metadata(task),
    }


class _Reading:
    """Reads a task to plan it offline: its `steps`, and as `missing` the parts that none does, with reasons.

    `considered` are the nodes that fit any clause, best first.
    """

    def __init__(self, task: str, registry: NodeRegistry) -> None:
        self._registry = registry
        self.steps: list[Step] = []
        task = _BEFORE.sub(", then ", _BEFORE_FIRST.sub(r"\2, then \1", task))
        masked = QUOTED.sub(lambda quoted: "\0" * len(quoted[0]), task)  # a value may hold any words
        conditions = [(found.start(), found.end()) for found in _CONDITION.finditer(masked)]
        ends = [(0, 0), *conditions, (len(task), len(task))]
        said = [task[start:end].strip(" ,") for start, end in conditions]
        # They stay, as clauses of their own: their words help to find the nodes of the others.
        parts = zip((task[end:start] for (_, end), (start, _) in pairwise(ends)), [*said, ""], strict=True)
        rest = _LEAD_IN.sub(r"\1", "\n".join(chain.from_iterable(parts)))
        self.missing = [f'"{it}": steps run in any case; add `when`, or a branch' for it in said]
        clauses = registry.discovered_by_clause(rest, _CLAUSES, _LOOKED_AT)
        matches = sorted((it for clause in clauses for it in clause.matches), key=lambda it: it.confidence)
        self.considered = list({it.item.entry.node: it for it in matches}.values())[::-1]
        read = [it for it in clauses if not any(it.text in condition for condition in said)]
        found = [word for it in read for word in self._read(_LEADING.sub("", it.text, 1), it.matches)]
        if unread := len(clause_texts(rest)) - len(clauses):
            self.missing.append(f"{unread} further parts of the task, which were not read")
        alone = [it for it in dict.fromkeys(found) if not any(_covers(step.entry, it) for step in self.steps)]
        if alone and self.steps:
            self.missing.append(f"no node accounts for {_quoted(alone)}")

    def _read(self, text: str, matches: Sequence[Match[FoundNode]]) -> list[str]:
        """Add the steps of a clause to the plan; return the words that its nodes should account for."""
        clause = _Clause(text)
        steps = self._steps(clause, [it for it in matches if it.item.entry.source != OWN])
        if not steps:
            self.missing.append(f'"{cut(text)}": no node fits')
            return [value.text for value in clause.values]
        said = [it for it in clause.about if it in text.lower()]
        for value in clause.values:
            if any(step.take(value) for step in reversed(steps)):
                continue
            # A text file that no tool takes is read before, or written afterwards.
            is_target = value.shape == "target"
            step = self._own("write-file" if is_target else "read-file", text)
            if step and value.is_text_file and step.take(value):
                steps.insert(len(steps) if is_target else 0, step)
            else:
                said.append(value.text)
        self._note_what_is_beyond(text, steps)
        self.steps += [it for it in steps if not any(it.repeats(earlier) for earlier in self.steps)]
        return said

    def _steps(self, clause: _Clause, tools: Sequence[Match[FoundNode]]) -> list[Step]:
        best, own = clause.best(tools), self._own(clause.own_node, clause.text)
        main = own if own and not (best and clause.is_done_by(best)) else best
        steps = [main] if main else []
        if clause.has_summary and not (main and _covers(main.entry, "summary")):
            steps = [*filter(None, [self._own("llm", clause.text)]), *steps]
        if steps and not self.steps and clause.asked in ("write", "send", "think", "shape"):
            # The first clause may also say what is to be found first: "write a list of the files".
            source = clause.best([it for it in tools if _kind_of(it.item.entry) in _HARMLESS], "read")
            others = [step.entry for step in steps if step.entry.source != OWN]
            left = [it for it in clause.said if not any(_covers(entry, it) for entry in others)]
            is_other = source and source.entry not in [step.entry for step in steps]
            if source and is_other and any(_covers(source.entry, word) for word in left):
                steps.insert(0, source)
        return steps

    def _own(self, name: str, text: str) -> Step | None:
        entry = self._registry.find(name) if name else None
        return Step(entry, text, _SURE, "the task asks for it") if entry and entry.source == OWN else None

    def _note_what_is_beyond(self, text: str, steps: Sequence[Step]) -> None:
        """Note as missing in the plan what a clause asks for and its nodes do not say they do."""
        if any(step.entry.node == "llm" for step in steps):  # is told the whole clause
            return
        gists = [described(step.entry) for step in steps]
        known = frozenset[str]().union(*(gist.gist | gist.places[0].roots for gist in gists))
        asked = [found[0].lower() for found in _BEYOND.finditer(QUOTED.sub(" ", text))]
        beyond = [it for it in asked if known.isdisjoint(meanings(it.split()[-1]))]
        if beyond:
            nodes = ", ".join(step.entry.local_name or step.entry.node for step in steps)
            why = f"{nodes} may not do {_quoted(beyond)}; see transform and batch"
            self.missing.append(f'"{cut(text)}": {why}')
            for step in steps:
                step.is_whole = False


def _covers(entry: Entry, word: str) -> bool:
    return not meanings(word).isdisjoint(described(entry).roots)


def _quoted(texts: Iterable[str]) -> str:
    return ", ".join(f'"{cut(text)}"' for text in texts)
