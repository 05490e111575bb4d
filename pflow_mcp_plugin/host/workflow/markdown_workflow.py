"""Converts pflow-cli's Markdown workflows to documents; what has no equivalent is reported.

A finding of the conversion has the line and column in the Markdown; one of a later check of the document gets
them from `Converted.places`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import attrs

from pflow_mcp_plugin.contract import PflowError, Problem
from pflow_mcp_plugin.contract.json_types import FRIENDLY_NAMES, JSON
from pflow_mcp_plugin.contract.problems import problem_of
from pflow_mcp_plugin.host.workflow.findings import TooManyProblems, at, cut, shown
from pflow_mcp_plugin.host.workflow.markdown_sections import (
    MarkdownEntry,
    MarkdownParts,
    PlacedFindings,
    markdown_parts,
)
from pflow_mcp_plugin.host.workflow.templates import lone, with_strings
from pflow_mcp_plugin.host.workflow.workflow_document import WORKFLOW_NODE
from pflow_mcp_plugin.host.workflow.workflow_text import Place

MOST_MARKDOWN = 1 << 19
"""The most characters of a workflow in Markdown; the parser takes seconds for that many."""
_KEY = re.compile(r"""\$(?:\.[\w-]+|\["[^"]*"\])""")
_REFERENCE = re.compile(
    r"(?<!\$)(\$\{\s*)([\w-]+)((?:\.(?:results|items)\[-?\d+\](?:\.result)?)?)(\.[\w-]+)?"
)
"""A template's name, the item of a batch that it leads into, and the output that it names."""
_MARKDOWN = (".pflow.md", ".md", ".markdown")


@attrs.frozen(kw_only=True)
class _NodeType:
    """What a node type of pflow-cli's Markdown is called here, and its params and outputs that differ.

    The `unneeded` params say what is always the case here. A param inside another one has a dot in its name.
    """

    name: str
    params: Mapping[str, str] = attrs.field(factory=dict)
    outputs: Mapping[str, str] = attrs.field(factory=dict)
    unneeded: frozenset[str] = frozenset()


_ENDS = {
    **dict.fromkeys(("source_path", "src", "src_path"), "source"),
    **dict.fromkeys(("dest", "dest_path", "destination_path"), "destination"),
}
_TYPES = {
    "code": _NodeType(name="python"),
    "copy-file": _NodeType(name="copy-file", params=_ENDS),
    "delete-file": _NodeType(
        name="delete-file", params={"path": "file_path"}, unneeded=frozenset({"confirm_delete"})
    ),
    "http": _NodeType(
        name="http",
        params={"params": "query"},
        outputs={"response": "body", "response_headers": "headers", "status_code": "status"},
    ),
    "llm": _NodeType(name="llm", params={"max_tokens": "options.max_tokens"}, outputs={"llm_usage": "usage"}),
    "move-file": _NodeType(name="move-file", params=_ENDS),
    "workflow": _NodeType(name=WORKFLOW_NODE, params={"workflow_ref": WORKFLOW_NODE}),
}
"""The node types that differ; all others have the same name here and there."""
_MISSING = {"claude-code": "Ask a model with llm, or run the program with shell: command: claude -p ..."}
"""The node types without an equivalent, each with what to do instead."""


@attrs.frozen(kw_only=True)
class Converted:
    """The document that a workflow in Markdown was converted to, and where in the Markdown its parts are.

    `problems` are about what has no equivalent or is malformed.
    """

    workflow: dict[str, JSON]
    problems: Sequence[Problem]
    places: Mapping[str, Place]


def convert_markdown(text: str, origin: str) -> Converted:
    """Convert a workflow in Markdown to a document; raise PflowError if the text is too long for one."""
    if len(text) > MOST_MARKDOWN:
        message = f"{origin}: the text is longer than {MOST_MARKDOWN:,} characters, too long for a workflow"
        step = "Keep large data in files that nodes read"
        raise PflowError(message, suggestions=(step,), kind="validation")
    findings = PlacedFindings()
    conversion = _Conversion(findings)
    workflow: dict[str, JSON] = {}
    try:
        workflow = conversion.document(markdown_parts(text, origin, findings))
    except TooManyProblems as error:
        findings.problems.append(problem_of(error))
    return Converted(workflow=workflow, problems=findings.problems, places=conversion.places)


class _Conversion:
    def __init__(self, findings: PlacedFindings) -> None:
        self.places: dict[str, Place] = {"$": (1, 1)}
        self._findings = findings
        # By the id of a step: their names of its outputs to ours.
        self._outputs: dict[str, Mapping[str, str]] = {}
        # Names that steps gave to the outputs of workflows, each with what it stands for here.
        self._names: dict[str, str] = {}

    def document(self, parts: MarkdownParts) -> dict[str, JSON]:
        if "steps" not in parts.sections:
            step = "Write # TITLE, then ## Steps with a heading ### NAME for each step"
            self._findings.found((1, 1), "There is no section ## Steps", step)
        for section, key in (("inputs", "inputs"), ("steps", "nodes"), ("outputs", "outputs")):
            if section in parts.sections:
                self.places[f"$.{key}"] = parts.sections[section][0]
        inputs = dict(self._named(parts, "inputs", self._input))
        nodes = self._nodes(parts.sections["steps"][1] if "steps" in parts.sections else ())
        taken = {*inputs, *self._outputs}
        self._names = {name: ours for name, ours in self._names.items() if name not in taken}
        outputs = dict(self._named(parts, "outputs", self._output))
        document: dict[str, JSON] = {
            "name": parts.title,
            "description": _joined(parts.prose),
            "inputs": inputs,
            "nodes": [
                {key: self._renamed(it) if key in ("params", "batch") else it for key, it in node.items()}
                for node in nodes
            ],
            "outputs": self._renamed(outputs),
        }
        return {key: value for key, value in document.items() if value or key == "nodes"}

    def _named(
        self, parts: MarkdownParts, section: str, convert: Callable[[MarkdownEntry], dict[str, JSON]]
    ) -> Iterator[tuple[str, dict[str, JSON]]]:
        known: dict[str, Place] = {}
        for entry in parts.sections[section][1] if section in parts.sections else ():
            if entry.name in known:
                message = f"{cut(entry.name)} is there twice, first in line {known[entry.name][0]}"
                self._findings.found(entry.place, message, "Rename or remove one of them")
                continue
            known[entry.name] = entry.place
            path = at(f"$.{section}", entry.name)
            self.places[path] = entry.place
            self._keep_places(entry, {}, path)
            yield entry.name, convert(entry)

    def _input(self, entry: MarkdownEntry) -> dict[str, JSON]:
        kind = entry.fields.get("type")
        if isinstance(kind, str):
            names = (name.strip() for name in kind.split("|"))
            entry.fields["type"] = " | ".join(FRIENDLY_NAMES.get(name.lower(), name) for name in names)
        return _described(entry)

    def _output(self, entry: MarkdownEntry) -> dict[str, JSON]:
        source = entry.fields.get("source")
        if isinstance(source, str) and "$" not in source:
            reference = lone(f"${{{source}}}")
            if reference and (reference.root in self._outputs or source in self._names):
                entry.fields["source"] = reference.text
        return _described(entry)

    def _nodes(self, entries: Sequence[MarkdownEntry]) -> list[dict[str, JSON]]:
        nodes: list[dict[str, JSON]] = []
        for entry in entries:
            kind = entry.fields.pop("type", None)
            place = entry.place_of("type")
            if not isinstance(kind, str) or not kind:
                if entry.is_whole:
                    given = "no type" if kind is None else f"a type that is {shown(kind)}"
                    step = "Write - type: NODE under its heading, such as - type: shell"
                    self._findings.found(place, f"Step {cut(entry.name)} has {given}", step)
            elif kind in _MISSING:
                message = f"Step {cut(entry.name)}: {kind} has no equivalent"
                self._findings.found(place, message, _MISSING[kind])
            else:
                nodes.append(self._node(entry, _TYPES.get(kind, _NodeType(name=kind)), len(nodes)))
                continue
            self._outputs.setdefault(entry.name, {})
        return nodes

    def _node(self, entry: MarkdownEntry, kind: _NodeType, index: int) -> dict[str, JSON]:
        path = f"$.nodes[{index}]"
        self.places |= {path: entry.place, f"{path}.id": entry.place, f"{path}.type": entry.place_of("type")}
        self.places[f"{path}.params"] = entry.place
        batch = entry.fields.pop("batch", None)
        mapped = self._mapped_params(entry) if kind.name == WORKFLOW_NODE else {}
        params: dict[str, JSON] = {}
        targets = {at("$", "batch"): f"{path}.batch", at("$", "param_mapping"): f"{path}.params"}
        for key, value in entry.fields.items():
            if key in kind.unneeded:
                message = f"{key} of step {cut(entry.name)} is left out: it is not needed here"
                self._findings.found(entry.place_of(key), message, severity="warning")
                continue
            *outer, last = kind.params[key].split(".") if key in kind.params else [key]
            holder: object = params
            target = f"{path}.params"
            for part in outer:
                target = at(target, part)
                holder = holder.setdefault(part, {}) if isinstance(holder, dict) else None
            if isinstance(holder, dict) and last not in holder:
                holder[last] = value
                targets[at("$", key)] = at(target, last)
            else:
                message = f"{key} is given twice, also as {kind.params.get(key, 'part of another field')}"
                self._findings.found(entry.place_of(key), message, "Remove one of them")
        self._keep_places(entry, targets, path)
        if WORKFLOW_NODE in params and kind.name == WORKFLOW_NODE:
            params[WORKFLOW_NODE] = self._workflow_name(entry, params[WORKFLOW_NODE])
        for name in mapped.keys() & params.keys():
            message = f"Input {cut(name)} is also a field of step {cut(entry.name)}"
            self._findings.found(entry.place_of("param_mapping"), message, "Rename it in that workflow")
        self._outputs.setdefault(entry.name, kind.outputs)
        purpose = _joined(entry.prose)
        return {
            "id": entry.name,
            "type": kind.name,
            **({"purpose": purpose} if purpose else {}),
            "params": {**params, **mapped},
            **({} if batch is None else {"batch": batch}),
        }

    def _mapped_params(self, entry: MarkdownEntry) -> Mapping[str, JSON]:
        """Convert the params with which Markdown passes values to a workflow, and note its outputs' names."""
        for key in ("param_mapping", "output_mapping"):
            if not isinstance(entry.fields.get(key, {}), Mapping):
                message = f"{key} of step {cut(entry.name)} must be an object"
                self._findings.found(entry.place_of(key), message, "Write key: value, indented, below it")
        mapped, named = (entry.fields.pop(key, None) for key in ("param_mapping", "output_mapping"))
        names = {str(other): own for own, other in named.items()} if isinstance(named, Mapping) else {}
        self._outputs.setdefault(entry.name, names)
        self._names |= {other: f"{entry.name}.{own}" for other, own in names.items()}
        return mapped if isinstance(mapped, Mapping) else {}

    def _workflow_name(self, entry: MarkdownEntry, name: JSON) -> JSON:
        """Return the name of a Markdown step's workflow: for one in Markdown, the converted file."""
        suffix = next((it for it in _MARKDOWN if isinstance(name, str) and name.endswith(it)), "")
        if not suffix or not isinstance(name, str):
            return name
        ours = f"{name.removesuffix(suffix)}.json"
        message = f"Step {cut(entry.name)} runs {cut(name)}, which has to be converted too, to {cut(ours)}"
        step = f"pflow workflow import {Path(name)} --output {Path(ours)}"
        self._findings.found(entry.place_of("workflow_ref"), message, step, "warning")
        return ours

    def _keep_places(self, entry: MarkdownEntry, targets: Mapping[str, str], path: str) -> None:
        """Note where in the Markdown an entry's fields are, by the target that each was converted to."""
        for where, place in entry.places.items():
            key = _KEY.match(where)
            if key:
                target = targets.get(key[0], f"{path}{key[0].removeprefix('$')}")
                self.places.setdefault(f"{target}{where.removeprefix(key[0])}", place)

    def _renamed(self, value: JSON) -> JSON:
        renamed: JSON = with_strings(value, partial(_REFERENCE.sub, self._ours))
        return renamed

    def _ours(self, match: re.Match[str]) -> str:
        """Return a template of the Markdown workflow with our names in it."""
        begin, root, item, output = match.groups()
        if root in self._names:
            return f"{begin}{self._names[root]}{item}{output or ''}"
        name = (output or "").removeprefix(".")
        ours = self._outputs.get(root, {}).get(name)
        return f"{begin}{root}{item}.{ours}" if ours else match[0]


def _described(entry: MarkdownEntry) -> dict[str, JSON]:
    """Convert an input or output of a Markdown workflow, with its prose as the description."""
    given = entry.fields.get("description")
    prose = [*entry.prose, *([given] if isinstance(given, str) else [])]
    return {**entry.fields, **({"description": _joined(prose)} if entry.prose else {})}


def _joined(prose: Sequence[str]) -> str:
    return "\n\n".join(it.strip() for it in prose if it.strip())
