"""The handles that a host passes to its plugins.

A host extends `Host`, `Registry` and `Run`, and `Runner`, `Settings`, `Library` and `Traces` if it
has such a part. Members that a later 1.x adds to these classes have a default, so that a host written
for an earlier 1.x still works.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import pluggy

from pflow_mcp_plugin.contract.entries import Entry, Field, Interface
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.contract.outcomes import Outcome
from pflow_mcp_plugin.contract.problems import PflowError, Problem
from pflow_mcp_plugin.contract.run_requests import THE_USER, RunControl, RunOrigin
from pflow_mcp_plugin.contract.validators import each, is_a, items, text, valid_name

if TYPE_CHECKING:  # each class takes time to create, and most programs need none of these
    from pflow_mcp_plugin.contract.commands import Report, Suggestion
    from pflow_mcp_plugin.contract.matches import Discovery
    from pflow_mcp_plugin.contract.node_outcomes import NodeOutcome

API: tuple[int, int] = (1, 0)
"""Major and minor version of the contract in this package; see `docs/plugins.md`, "Versions"."""


@attrs.frozen(kw_only=True)
class Paths:
    """The folders that a host hands to its plugins; each may not exist yet.

    Attributes:
        config: Files that people edit or `settings` writes.
        data: Fetched or saved files that are kept.
        state: Traces and other files that runs leave behind.
        cache: Derived files; may be deleted at any time.
    """

    config: Path
    data: Path
    state: Path
    cache: Path


@attrs.frozen(kw_only=True, eq=False)
class NodeRef:
    """A compiled workflow's node, as any host hands it to plugins. It holds its host: it cannot be pickled.

    Attributes:
        id: The node's id in the workflow.
        type: The node type as the workflow wrote it (perhaps an alias).
        entry: The registry entry it was resolved to.
        host: The host that compiles or runs it.
        params: Its params as written, with unresolved templates.
        injected: The params that all plugins injected; empty while `pflow_inject_params` is being called.
    """

    id: str = attrs.field(validator=valid_name)
    type: str = attrs.field(validator=valid_name)
    entry: Entry = attrs.field(validator=is_a(Entry), repr=False)
    host: Host = attrs.field(repr=False)
    params: JSONObject = attrs.field(factory=dict, repr=False)
    injected: Mapping[str, object] = attrs.field(factory=dict, repr=False)


@attrs.frozen(kw_only=True)
class Workflow:
    """A compiled workflow, as any host shows it to plugins in a run.

    Attributes:
        name: Its name or file, for messages.
        nodes: Every node.
        certain: Ids of the nodes that run if every node takes its default action.
    """

    name: str = attrs.field(validator=text)
    nodes: tuple[NodeRef, ...] = attrs.field(converter=items, validator=each(NodeRef))
    certain: frozenset[str] = frozenset()


class Registry(ABC):
    """Base class of any host's registry: every node type that is known, from all sources."""

    @abstractmethod
    def get(self, node_type: str) -> Entry:
        """Any host's registry: return the entry of a node type or alias.

        Raises:
            PflowError: Kind `not_found`, with the nearest names and what provides the node.
        """

    @abstractmethod
    def entries(self, pattern: str = "") -> Iterator[Entry]:
        """Any host's registry: yield entries sorted by name, only those whose name contains `pattern`."""

    def find(self, node_type: str) -> Entry | None:
        """Any host's registry: return the entry of a node type or alias, None if it does not exist."""
        try:
            return self.get(node_type)
        except PflowError as error:
            if error.kind != "not_found":  # for example, a source that cannot be read
                raise
            return None

    def describe(self, node_types: Iterable[str]) -> list[Entry]:
        """Any host's registry: return the entries of several node types or aliases, in this order.

        Raises:
            PflowError: Kind `not_found`: names every unknown one as `get` does, with a problem for each;
                `details["entries"]` has the JSON form of the entries of the others.
        """
        known: list[Entry] = []
        unknown: list[PflowError] = []
        wanted = list(dict.fromkeys(node_types))
        for node_type in wanted:
            try:
                known.append(self.get(node_type))
            except PflowError as error:
                if error.kind != "not_found":
                    raise
                unknown.append(error)
        if unknown:
            raise unknown[0] if len(wanted) == 1 else _all_unknown(unknown, known)
        return known

    def search(self, words: str, limit: int = 20) -> Sequence[tuple[Entry, float]]:
        """Any host's registry: return entries that match, best first, each with its score (higher is better).

        By default, the score is the share of the words that occur in the name or the description.
        """
        wanted = words.lower().split()
        scored = ((entry, _share(wanted, entry)) for entry in self.entries())
        found = [(entry, score) for entry, score in scored if score]
        return sorted(found, key=lambda pair: (-pair[1], pair[0].node))[:limit]

    def discover(self, task: str, limit: int = 10) -> Discovery[Entry]:
        """Any host's registry: return the entries that a task in words needs, each complete.

        By default, those of `search`, with the share of the words that they contain as confidence.
        """
        from pflow_mcp_plugin.contract.matches import Discovery, Match, share_of_words

        entries = (entry for entry, _ in self.search(task, limit))
        ranked = ((entry, share_of_words(task, f"{entry.node} {entry.description}")) for entry in entries)
        return Discovery(
            matches=[Match(item=entry, confidence=share, reason=reason) for entry, (share, reason) in ranked]
        )


class Runner(ABC):
    """Base class of any host's runner, which checks and runs workflows."""

    @abstractmethod
    def validate(self, workflow: JSONObject) -> Sequence[Problem]:
        """Any host's runner: return every problem of a workflow; nothing runs."""

    @abstractmethod
    def run(
        self,
        workflow: JSONObject,
        inputs: Mapping[str, object],
        *,
        name: str = "",
        trace: bool = True,
        origin: RunOrigin = THE_USER,
        control: RunControl | None = None,
    ) -> Outcome:
        """Any host's runner: run a workflow to its end.

        Args:
            workflow: The workflow as loaded; the host normalises it.
            inputs: Values by input name.
            name: The workflow's name or file, for messages and the trace.
            trace: Whether to write a trace, if the host writes traces at all.
            origin: Who asked for the run, and through what.
            control: Receives the run's progress, and can cancel it from another thread.

        Raises:
            PflowError: Kind `validation`, `not_found` or `config`, before anything has run.
        """

    def run_node(
        self,
        node_type: str,
        params: JSONObject,
        *,
        origin: RunOrigin = THE_USER,
        control: RunControl | None = None,
    ) -> NodeOutcome:
        """Any host's runner: run a single node and describe what it wrote; by default, without structure.

        Args:
            node_type: The node type, or an alias.
            params: Its params as plain values: `${...}` in them is text, not a template.
            origin: Who asked for the run, and through what.
            control: Receives the run's progress, and can cancel it from another thread.

        Raises:
            PflowError: Kind `not_found`, `usage` or `validation`, with every problem of the params; nothing
                has run.
        """
        from pflow_mcp_plugin.contract.node_outcomes import NodeOutcome

        node: JSONObject = {"id": "node", "type": node_type, "params": _escaped(params)}
        outcome = self.run({"nodes": [node]}, {}, name=node_type, origin=origin, control=control)
        return NodeOutcome(node=node_type, outcome=outcome)

    def read(self, content: str, name: str) -> JSONObject:
        """Any host's runner: parse the text of a workflow.

        Args:
            content: The text.
            name: Its file or another name, for messages.

        Raises:
            PflowError: Kind `validation`: it is not a workflow in JSON.
        """
        try:
            workflow = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise PflowError(f"{name} is not valid JSON: {error}", kind="validation") from error
        if not isinstance(workflow, dict):
            raise PflowError(f"{name} is not a workflow: it must be a JSON object", kind="validation")
        return workflow

    def normalise(self, workflow: JSONObject) -> JSONObject:
        """Any host's runner: return a workflow in its normal form; by default, the same workflow."""
        return workflow

    def schema(self) -> JSONObject:
        """Any host's runner: return the JSON Schema of its workflows; by default, of any object."""
        return {"type": "object"}

    def interface(self, workflow: JSONObject) -> Interface:
        """Any host's runner: return the inputs and outputs of a valid workflow, with their types.

        By default the inputs have the types that the workflow declares, and its outputs any type.

        Args:
            workflow: The workflow as loaded.
        """
        inputs, outputs = (_declarations(workflow, key) for key in ("inputs", "outputs"))
        return Interface(
            params=tuple(_declared_input(name, declared) for name, declared in inputs.items()),
            outputs=tuple(Field(key=name) for name in outputs),
            inputs=tuple(inputs),
            open_outputs=not outputs,
        )


class Settings(ABC):
    """Base class of any host's settings: the user's saved keys and values, e.g. tokens."""

    @abstractmethod
    def get(self, key: str) -> str | None:
        """Any host's settings: return a value, or None if it is not set."""

    def names(self) -> Mapping[str, str]:
        """Any host's settings: return every key, with a word for where its value is stored, such as `file`.

        Empty by default: the host does not list its settings.
        """
        return {}

    def fingerprint(self) -> str:
        """Any host's settings: return a text that changes when a setting is saved, changed or deleted.

        Empty by default: the host cannot tell without reading them.
        """
        return ""

    def set(self, key: str, value: str) -> None:
        """Any host's settings: save a value.

        Raises:
            PflowError: Kind `usage` if `key` is invalid; or the value cannot be saved. Always raised by
                default.
        """
        raise PflowError(f"{key} cannot be set: this pflow does not save settings", kind="usage")

    def unset(self, key: str) -> bool:
        """Any host's settings: delete a value; return whether it was set. By default, False."""
        return False


@attrs.frozen(kw_only=True)
class SavedWorkflow:
    """A saved workflow, as any host's library describes it.

    Attributes:
        name: Its name in the library.
        description: Its description, possibly empty.
        version: Its version number, counted from 1.
        path: Its file.
        saved: When it was saved, as UTC time (ISO 8601); empty if the host does not know.
        inputs: Its declared inputs as in the workflow, by name.
        outputs: Its declared outputs as in the workflow, by name.
        problem: Why its file cannot be used; empty if it can.
    """

    name: str = attrs.field(validator=valid_name)
    description: str = attrs.field(default="", validator=text)
    version: int = 1
    path: Path
    saved: str = attrs.field(default="", validator=text)
    inputs: JSONObject = attrs.field(factory=dict)
    outputs: JSONObject = attrs.field(factory=dict)
    problem: str = attrs.field(default="", validator=text)

    def to_dict(self) -> dict[str, JSON]:
        """Return the JSON form of a saved workflow's description, for any host's lists."""
        return {**attrs.asdict(self, recurse=False), "path": str(self.path)}


class Library(ABC):
    """Base class of any host's library of saved workflows."""

    @abstractmethod
    def names(self) -> Sequence[str]:
        """Any host's library: return the names of the saved workflows, sorted."""

    @abstractmethod
    def get(self, name: str, version: int | None = None) -> JSONObject:
        """Any host's library: return a saved workflow as JSON, by default its current version.

        Raises:
            PflowError: Kind `not_found`, with the nearest name; or its file is corrupt.
        """

    @abstractmethod
    def describe(self, name: str) -> SavedWorkflow:
        """Any host's library: return a saved workflow's name, description, version, file and time.

        Raises:
            PflowError: As for `get`.
        """

    def saved(self, pattern: str = "") -> Sequence[SavedWorkflow]:
        """Any host's library: describe the saved workflows, sorted by name; broken ones with their problem.

        Args:
            pattern: Only those whose name or description contains it, in any case.
        """
        wanted = pattern.lower()
        every = map(self._described, self.names())
        return [saved for saved in every if wanted in f"{saved.name}\n{saved.description}".lower()]

    def _described(self, name: str) -> SavedWorkflow:
        try:
            return self.describe(name)
        except PflowError as error:
            return SavedWorkflow(name=name, path=Path(name), problem=error.message)

    def discover(self, task: str, limit: int = 10) -> Discovery[SavedWorkflow]:
        """Any host's library: return the saved workflows that do what a task in words asks for, best first.

        By default, those that contain words of the task, with their share as confidence.
        """
        from pflow_mcp_plugin.contract.matches import Discovery, Match, share_of_words

        usable = (saved for saved in self.saved() if not saved.problem)
        ranked = ((saved, share_of_words(task, f"{saved.name} {saved.description}")) for saved in usable)
        matches = [Match(item=saved, confidence=share, reason=reason) for saved, (share, reason) in ranked]
        found = [match for match in matches if match.confidence]
        return Discovery(matches=sorted(found, key=lambda match: -match.confidence)[:limit])

    def fingerprint(self) -> str:
        """Any host's library: return a text that changes when a workflow is saved, changed or deleted."""
        return repr([(saved.name, saved.version, saved.saved) for saved in self.saved()])

    @abstractmethod
    def save(self, name: str, workflow: JSONObject, description: str = "") -> SavedWorkflow:
        """Any host's library: save a workflow under a name; the one it replaces is kept as an older version.

        Args:
            name: Its name in the library.
            workflow: The workflow as loaded.
            description: What it is for; the workflow's own description when left empty.

        Raises:
            PflowError: Kind `usage` if the name is invalid; or it cannot be written.
        """

    @abstractmethod
    def delete(self, name: str) -> None:
        """Any host's library: delete a workflow with all its versions.

        Raises:
            PflowError: Kind `not_found`.
        """


class Traces(ABC):
    """Base class of any host's traces of earlier runs."""

    @abstractmethod
    def paths(self) -> Sequence[Path]:
        """Any host's traces: return the trace files, newest first."""

    @abstractmethod
    def find(self, run: str = "latest", *, owner: str | None = None) -> Path:
        """Any host's traces: return the trace of a run, by its id, the beginning of one, or `latest`.

        Args:
            run: The run. A path to one of the host's trace files stands for that file.
            owner: Only runs of this owner (see `RunOrigin`); of all by default.

        Raises:
            PflowError: Kind `not_found`: no run matches, or several do.
        """

    @abstractmethod
    def read(self, path: Path) -> JSONObject:
        """Any host's traces: return the `run_id`, `owner`, `success`, `error`, `steps` and more of one.

        Raises:
            PflowError: It cannot be read, or is not a trace.
        """


class Run(ABC):
    """Base class of any host's run of a workflow; a node reaches it as `shared["__run__"]`.

    Attributes:
        run_id: Unique; names the trace.
        workflow: The workflow that runs.
        host: The host it runs in.
        artifacts_dir: The folder for results that are too large or not text; created by whoever writes
            the first file.
        resources: Objects that plugins keep for the run, each under its own key.
        origin: Who asked for the run, and through what.
    """

    run_id: str
    workflow: Workflow
    host: Host
    artifacts_dir: Path
    resources: dict[str, Any]
    origin: RunOrigin = THE_USER

    @abstractmethod
    def add_secrets(self, values: Iterable[str]) -> None:
        """Any host's run: redact these values from the run's trace, logs and errors."""

    def cancelled(self) -> bool:
        """Any host's run: return whether the user has stopped it; by default, False."""
        return False

    def on_cancel(self, stop: Callable[[], object]) -> None:
        """Any host's run: call `stop` when the run is cancelled from another thread; by default, never.

        Args:
            stop: Ends what a node or plugin is waiting for; must return at once and not raise. Called
                immediately if the run is already cancelled.
        """
        return

    def annotate(self, node_id: str, details: JSONObject) -> None:
        """Add JSON values to the node's step in the trace; does nothing by default."""
        return

    def report_progress(
        self, node_id: str, done: float, total: float | None = None, message: str = ""
    ) -> None:
        """Report how far a node of any host's run has come; does nothing by default.

        Args:
            node_id: The node that runs.
            done: What it has done, in any unit.
            total: What it has to do in the same unit; None if unknown.
            message: What it does now, for people.
        """
        return


class Host(ABC):
    """Base class of any host, the handle on pflow core that every hook receives.

    Attributes:
        api: The version of the contract that the host was written for, such as `(1, 0)`. A plugin
            that needs a later addition checks it.
        paths: The folders to work in.
    """

    api: tuple[int, int]
    paths: Paths

    @property
    @abstractmethod
    def hook(self) -> pluggy.HookRelay:
        """Any host's hooks, for plugins that specify hooks of their own."""

    @property
    @abstractmethod
    def registry(self) -> Registry:
        """Any host's registry."""

    @property
    def runner(self) -> Runner | None:
        """Any host's runner; None if the host cannot run workflows."""
        return None

    @property
    def settings(self) -> Settings | None:
        """Any host's settings; None if the host saves none."""
        return None

    @property
    def library(self) -> Library | None:
        """Any host's library; None if the host saves no workflows."""
        return None

    @property
    def traces(self) -> Traces | None:
        """Any host's traces; None if the host writes none."""
        return None

    def save_workflow(
        self, workflow: JSONObject, name: str, description: str = ""
    ) -> tuple[SavedWorkflow, Sequence[Problem]]:
        """Any host: check a workflow and save it in the library, in its normal form.

        Args:
            workflow: The workflow as loaded.
            name: Its name in the library.
            description: What it is for; the workflow's own description when left empty.

        Returns:
            What was saved, and the problems that do not prevent saving: warnings, and node types that are
            not installed or synced yet.

        Raises:
            PflowError: Kind `validation` with every problem; or as for `Library.save`.
        """
        if self.library is None:
            raise PflowError("This pflow does not save workflows", kind="usage")
        problems = self.runner.validate(workflow) if self.runner else ()
        errors = [it for it in problems if it.severity == "error" and it.kind != "not_found"]
        if errors:
            only = attrs.evolve(errors[0], suggestion="")
            what = f": {only}" if len(errors) == 1 else f", it has {len(errors)} errors"
            raise PflowError(
                f"The workflow is not saved{what}",
                problems=tuple(errors),
                suggestions=(errors[0].suggestion,) if len(errors) == 1 and errors[0].suggestion else (),
                kind="validation",
            )
        normal = self.runner.normalise(workflow) if self.runner else workflow
        return self.library.save(name, normal, description), problems

    def run_chain(self, words: Sequence[str], prog_name: str) -> Report:
        """Any host: run nodes as typed on a command line, each with its flags, `then` between them.

        Args:
            words: The arguments, such as `["read-file", "--file-path", "a.txt", "then", "echo"]`.
            prog_name: The words before them, for messages.

        Raises:
            PflowError: Kind `usage` or `not_found`, before anything has run. Always raised by default.
        """
        raise PflowError("This pflow does not run nodes from the command line", kind="usage")

    def complete_chain(self, words: Sequence[str], incomplete: str) -> Sequence[Suggestion]:
        """Any host: return what may follow in a line for `run_chain`; none by default.

        Args:
            words: The arguments before the cursor's word.
            incomplete: What is typed of that word.
        """
        return ()

    @abstractmethod
    def report(self, problem: Problem) -> None:
        """Any host: show a warning to the user, once for each message."""

    def refresh(self, source: str) -> None:
        """Any host: rebuild what is derived from a node source, such as an index, after its entries changed.

        Does nothing by default.
        """
        return


def _all_unknown(errors: Sequence[PflowError], known: Sequence[Entry]) -> PflowError:
    """Return the errors of several unknown node types as one."""
    problems = tuple(
        Problem(message=error.message, suggestion=next(iter(error.suggestions), ""), kind="not_found")
        for error in errors
    )
    many = f"{len(errors)} node types are unknown"
    return PflowError(
        errors[0].message if len(errors) == 1 else many,
        details={"entries": [entry.to_dict() for entry in known]},
        suggestions=errors[0].suggestions if len(errors) == 1 else (),
        problems=problems,
        kind="not_found",
    )


def _share(wanted: Sequence[str], entry: Entry) -> float:
    where = f"{entry.node} {entry.description}".lower()
    return sum(word in where for word in wanted) / len(wanted) if wanted else 0.0


def _declarations(workflow: JSONObject, key: str) -> Mapping[str, Any]:
    declared = workflow.get(key)
    return declared if isinstance(declared, Mapping) else {}


def _declared_input(name: str, declared: Mapping[str, Any]) -> Field:
    return Field(
        key=name,
        type=declared.get("type") or "any",
        required="default" not in declared and declared.get("required") is not False,
        description=declared.get("description") or "",
        schema={"default": declared["default"]} if "default" in declared else None,
    )


def _escaped(value: JSON) -> JSON:
    """Return a value in which no text is a template."""
    if isinstance(value, str):
        return value.replace("${", "$${")
    if isinstance(value, dict):
        return {key: _escaped(item) for key, item in value.items()}
    return [_escaped(item) for item in value] if isinstance(value, list) else value
