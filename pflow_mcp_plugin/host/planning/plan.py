"""A plan: a workflow for a task, how it was chosen, whose words are in it, and what is still wrong."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal

import attrs

from pflow_mcp_plugin.contract import Entry, Problem
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.contract.problems import errors_in
from pflow_mcp_plugin.host.workflow.findings import at, cut
from pflow_mcp_plugin.host.workflow.templates import parse
from pflow_mcp_plugin.host.workflow.workflow_document import strings_in
from pflow_mcp_plugin.host.workflow.workflow_reads import OWN
from pflow_mcp_plugin.schemas.schema_reader import list_of, table_of

if TYPE_CHECKING:
    from pflow_mcp_plugin.contract import Match
    from pflow_mcp_plugin.host.registry.discovery import FoundNode


PLANNER_VERSION = "1.0.0"
"""Recorded in the metadata of every workflow that a planner makes."""

_EFFECTS = {
    "shell": "runs a command",
    "python": "runs code",
    "http": "sends a request",
    "write-file": "writes a file",
    "copy-file": "writes files",
    "move-file": "moves files",
    "delete-file": "deletes files",
}


@attrs.frozen(kw_only=True)
class Selection:
    """Which nodes a plan uses, in the order in which they run, and why.

    `selection_type` is where its workflow comes from: the library, a language model, or words alone.
    `flow_structure` shows the steps at a glance, such as `search → summarize → notify`; `confidence`, from 0
    to 1, is how well the selection fits the task; `existing` is the name of the saved workflow, if the plan
    is one.
    """

    selection_type: Literal["found_existing", "new_composition", "offline"]
    reasoning: str = ""
    chosen_nodes: Sequence[str] = ()
    flow_structure: str = ""
    confidence: float = 0.0
    existing: str = ""

    def to_dict(self) -> dict[str, JSON]:
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

    The workflow is empty if a model returned none that could be read. `rounds` is how often a model was asked
    for it, `candidates` are the nodes that were considered, best first, `notes` are what the user should know
    about the plan, such as why no model was asked, and `missing` are the parts of the task that the workflow
    does not do.
    """

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
        return errors_in(self.problems)


def effect_notes(entries: Iterable[Entry]) -> tuple[str, ...]:
    """Return what the user should know about the effects of a plan's nodes before running it."""
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
    """Return the `metadata` that marks a workflow as a plan: the planner's version, the time and the task."""
    return {
        "planner_version": PLANNER_VERSION,
        "created_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "prompt": task,
    }


_ADDRESS = (
    r"[a-z][a-z0-9+.-]{1,20}://[^\s\"'<>`]{1,500}"
    r"|[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}"  # of a mailbox
)
_ADDRESSES = re.compile(_ADDRESS, re.IGNORECASE)
_PLACES = re.compile(
    _ADDRESS + r"|(?<![\w/.])(?:~|\.{1,2})?/[\w.-][\w./-]{1,300}"  # a path
    r"|\b[a-z]:\\[\w.\\-]{1,300}"  # on Windows
    r"|\b[\w-]{1,63}(?:\.[\w-]{1,63}){0,8}\.[a-z]{2,24}\b",  # a host or a file name
    re.IGNORECASE,
)
_WORDS = re.compile(r"\w+")
_RUN = 8
"""This many words in a row are a quotation."""
_LONGEST = 100_000
_FILES = ("file_path", "cwd", "folder", "source", "destination", "download")
"""The parameters of the host's own nodes that name files: those must be in the task."""


class Origin:
    """Whose words are in a plan: those of the task, or of the `entries` that the model was shown."""

    def __init__(self, task: str, entries: Sequence[Entry]) -> None:
        self._task = task.lower()
        self._entries = {entry.node: entry for entry in entries}
        texts = [entry.description for entry in entries]
        for entry in entries:
            texts += [field.description for field in (*entry.interface.params, *entry.interface.outputs)]
        described = [text[:_LONGEST].lower() for text in texts]
        self._places = {place for text in described for place in _places(text)} - _places(self._task)
        self._runs = {run for text in described for run in _runs(text)} - set(_runs(self._task))

    def foreign(self, text: str) -> str:
        """Return the words in a plan's text that come from nodes, not from the task; empty if none do."""
        literals = (part for part in parse(text[:_LONGEST]) if isinstance(part, str))
        lower = " ".join(literals).lower()  # without its templates
        place = next((found for found in self._places if found in lower), "")
        return place or next((" ".join(run) for run in _runs(lower) if run in self._runs), "")

    def cleaned(self, workflow: JSONObject) -> dict[str, JSON]:
        # Text that only descriptions of nodes have, prose and defaults, is not the user's.
        clean = dict(workflow)
        if self.foreign(str(workflow.get("description", ""))):
            clean["description"] = ""
        clean["nodes"] = [self._without(node, "purpose") for node in list_of(workflow.get("nodes"))]
        for table in ("inputs", "outputs"):
            if rows := table_of(workflow.get(table)):
                clean[table] = {name: self._declared(row) for name, row in rows.items()}
        return clean

    def _declared(self, row: JSON) -> JSON:
        described = table_of(row).get("description")
        if isinstance(described, str) and not self.is_harmless(described):
            row = {**table_of(row), "description": ""}
        return self._without(row, "default")

    def is_harmless(self, text: str) -> bool:
        # A description must not introduce an address that is not in the task.
        return all(found in self._task for found in _ADDRESSES.findall(text[:_LONGEST].lower()))

    def _without(self, item: JSON, key: str) -> JSON:
        if not isinstance(item, dict) or not any(map(self.foreign, strings_in(item.get(key)))):
            return item
        return {name: value for name, value in item.items() if name != key}

    def taken(self, nodes: JSON | None) -> Iterator[tuple[int, str, Problem]]:
        """Yield node, key and problem for each value in a plan with words that are not those of the task."""
        for index, node in enumerate(map(table_of, list_of(nodes))):
            entry = self._entries.get(str(node.get("type")))
            for key, value in table_of(node.get("params")).items():
                what = next((found for text in strings_in(value) if (found := self.foreign(text))), "")
                if not what and entry and entry.source == OWN and key in _FILES:
                    what = next((text for text in strings_in(value) if not self._is_in_task(text)), "")
                if what:
                    problem = Problem(
                        message=f"{key} is not from the task: {cut(what)}",
                        path=at(f"$.nodes[{index}].params", key),
                        suggestion="Declare an input for it, with a description",
                    )
                    yield index, key, problem

    def _is_in_task(self, text: str) -> bool:
        literals = (part.lower().strip(" ./") for part in parse(text) if isinstance(part, str))
        return all(literal in self._task for literal in literals)


def _places(text: str) -> set[str]:
    return {found.rstrip(".,;:)") for found in _PLACES.findall(text)}


def _runs(text: str) -> Iterable[tuple[str, ...]]:
    words = _WORDS.findall(text)
    return (tuple(words[start : start + _RUN]) for start in range(len(words) - _RUN + 1))
