"""A runner as any host offers it: it checks and runs workflows, or a single node."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from pflow_mcp_plugin.contract.entries import Field, Interface
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.contract.problems import PflowError, Problem
from pflow_mcp_plugin.contract.run_requests import (
    THE_USER,
    USUAL_OPTIONS,
    Decision,
    Outcome,
    RunControl,
    RunOptions,
    RunOrigin,
)
from pflow_mcp_plugin.contract.validators import each, items, text, valid_name


class Runner(ABC):
    """Base class of any host's runner, which checks and runs workflows."""

    @abstractmethod
    def validate(self, workflow: JSONObject) -> Sequence[Problem]:
        """Check a workflow: return every problem that the runner of any host finds in it; nothing runs."""

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
        """Run a workflow in any host to its end.

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

    def resume(
        self,
        run_id: str | None,
        inputs: Mapping[str, object],
        *,
        decisions: Mapping[str, Decision] | None = None,
        origin: RunOrigin | None = None,
        control: RunControl | None = None,
    ) -> Outcome:
        """Go on with a run in any host that failed or was killed; by default, no run can be resumed.

        Args:
            run_id: The run; None is the last one that did not end well.
            inputs: Values by input name, besides those that the run had.
            decisions: What became of steps whose outcome is unknown, by the names of the steps.
            origin: Who asks, for a run that they started; None for the user, who may resume any.
            control: Receives the run's progress, and can cancel it from another thread.

        Raises:
            PflowError: Nothing has run: there is no such run, or somebody has to decide about steps first;
                these are in `details["undecided"]`.
        """
        raise PflowError("This host cannot resume runs", kind="usage")

    def with_options(self, options: RunOptions) -> Runner:
        """Return a runner whose checks and runs have these options; by default, only the usual ones work.

        Args:
            options: What the user asked for.

        Raises:
            PflowError: The host does not have one of them.
        """
        if options != USUAL_OPTIONS:
            raise PflowError("This host has no options for runs", kind="usage")
        return self

    def run_node(
        self,
        node_type: str,
        params: JSONObject,
        *,
        origin: RunOrigin = THE_USER,
        control: RunControl | None = None,
    ) -> NodeOutcome:
        """Run a single node in any host and describe what it wrote; by default, without structure.

        Args:
            node_type: The node type, or an alias.
            params: Its params as plain values: `${...}` in them is text, not a template.
            origin: Who asked for the run, and through what.
            control: Receives the run's progress, and can cancel it from another thread.

        Raises:
            PflowError: Kind `not_found`, `usage` or `validation`, with every problem of the params; nothing
                has run.
        """
        node: JSONObject = {"id": "node", "type": node_type, "params": _escaped(params)}
        outcome = self.run({"nodes": [node]}, {}, name=node_type, origin=origin, control=control)
        return NodeOutcome(node=node_type, outcome=outcome)

    def read(self, content: str, name: str) -> JSONObject:
        """Return a workflow parsed from text in a form that the host's runner reads; by default, JSON only.

        Args:
            content: The text.
            name: Its file or another name, for messages; its suffix says in which format it is.

        Raises:
            PflowError: Kind `validation`: it is not a workflow in a form that the host reads.
        """
        try:
            workflow = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise PflowError(f"{name} is not valid JSON: {error}", kind="validation") from error
        if not isinstance(workflow, dict):
            raise PflowError(f"{name} is not a workflow: it must be a JSON object", kind="validation")
        return workflow

    def read_file(self, path: Path) -> JSONObject:
        """Return a file's workflow for the runner to check or run, with what it refers to beside it.

        Args:
            path: The file.

        Raises:
            PflowError: Kind `not_found`: it cannot be read. Kind `validation`: it is not a workflow.
        """
        try:
            return self.read(path.read_text(encoding="utf-8"), str(path))
        except (OSError, UnicodeDecodeError) as error:
            raise PflowError(f"{path} cannot be read: {error}", kind="not_found") from error

    def normalise(self, workflow: JSONObject) -> JSONObject:
        """Return a workflow in the normal form of any host's runner; by default, the same workflow."""
        return workflow

    def schema(self) -> JSONObject:
        """Return the JSON Schema of the workflows of any host's runner; by default, that of any object."""
        return {"type": "object"}

    def interface(self, workflow: JSONObject) -> Interface:
        """Return the inputs and outputs of a valid workflow with their types, as any host's runner does.

        By default the inputs have the types that the workflow declares, and its outputs any type.

        Args:
            workflow: The workflow as loaded.
        """
        tables: tuple[Any, ...] = (workflow.get("inputs"), workflow.get("outputs"))
        inputs, outputs = (table if isinstance(table, Mapping) else {} for table in tables)
        params = [
            Field(
                key=name,
                type=declared.get("type") or "any",
                required="default" not in declared and declared.get("required") is not False,
                description=declared.get("description") or "",
                schema={"default": declared["default"]} if "default" in declared else None,
            )
            for name, declared in inputs.items()
        ]
        fields = [Field(key=name) for name in outputs]
        return Interface(params=params, outputs=fields, inputs=inputs, open_outputs=not outputs)


def _escaped(value: JSON) -> JSON:
    if isinstance(value, str):
        return value.replace("${", "$${")
    if isinstance(value, dict):
        return {key: _escaped(item) for key, item in value.items()}
    return [_escaped(item) for item in value] if isinstance(value, list) else value


@attrs.frozen(kw_only=True)
class ValuePath:
    """A path inside a value that a single node wrote, as any host's runner describes it.

    Attributes:
        path: The path as a template spells it after the node's id: `result.items[0].name`.
        type: The type of the value there: `str`, `int`, `float`, `bool`, `dict`, `list` or `None`.
        sample: The value there, shortened; None for objects and lists, whose members have paths of their own.
    """

    path: str = attrs.field(validator=text)
    type: str = attrs.field(validator=valid_name)
    sample: JSON = None


@attrs.frozen(kw_only=True)
class NodeOutcome:
    """What the contract's runner returns for a single node that it ran without a workflow.

    Attributes:
        node: The node type that ran, even if it was named by an alias.
        outcome: The outcome of the run.
        structure: Every path in the outputs, with type and sample; outermost first.
    """

    node: str = attrs.field(validator=valid_name)
    outcome: Outcome
    structure: tuple[ValuePath, ...] = attrs.field(default=(), converter=items, validator=each(ValuePath))
