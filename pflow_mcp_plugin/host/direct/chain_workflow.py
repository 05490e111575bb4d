"""The links of a chain as a workflow."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from pflow_mcp_plugin.contract import Entry, Field, Interface, Problem
from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.host.direct.link_words import Chain, flag_with, mistake, shown_flag
from pflow_mcp_plugin.host.direct.node_flags import STDIN, Given
from pflow_mcp_plugin.host.workflow.coercion import alternatives, is_type
from pflow_mcp_plugin.host.workflow.templates import literal, references
from pflow_mcp_plugin.host.workflow.workflow_document import EXTRA, IR_VERSION

_STDIN = "stdin"
_NAME = re.compile(r"(?!__)\w[\w-]*")
"""A valid name of an input, and of the first part of a template."""


@attrs.frozen(kw_only=True)
class NodeLink:
    """A link of a chain that becomes a workflow: its node type is known and its flags are read.

    `given` has the values of its flags by the key of the parameter, and `asked` the keys of those that become
    inputs of the workflow. Unless every flag could be read (`is_whole`), it is unknown what it lacks.
    """

    entry: Entry
    given: Mapping[str, Given]
    asked: tuple[str, ...] = ()
    is_whole: bool = True

    @property
    def interface(self) -> Interface:
        return self.entry.interface

    @property
    def valued(self) -> set[str]:
        """The parameters that the link sets in the chain's workflow, to a value or to one of its inputs."""
        return {*self.given, *self.asked}

    @property
    def outputs(self) -> set[str]:
        return {field.key for field in self.interface.outputs}

    def result_for(self, wanted: Field) -> str:
        """Return the output that this link of a chain passes to the next: the result, or its only text."""
        result = self.interface.result_key
        types = {field.key: {*field.types} for field in self.interface.outputs}
        texts = [key for key, found in types.items() if found == {"str"} and key not in (result, "error")]
        is_object = types.get(result) == {"dict"}
        return texts[0] if is_object and len(texts) == 1 and {*wanted.types} == {"str"} else result


@attrs.frozen(kw_only=True)
class ChainWorkflow:
    """The workflow that a chain stands for, what its nodes lack, and the flags that take what is piped in."""

    workflow: dict[str, JSON]
    problems: tuple[Problem, ...]
    piped: tuple[str, ...]


def chain_workflow(links: Sequence[NodeLink], chain: Chain, *, has_stdin: bool) -> ChainWorkflow:
    """Build the workflow that a chain of nodes stands for; one kept for later declares its output."""
    builder = _Builder(links, has_stdin=has_stdin)
    workflow: dict[str, Any] = {"ir_version": IR_VERSION}
    workflow |= {"description": chain.description} if chain.description else {}
    # Each node finds the outputs of earlier ones under the names that the user sees.
    workflow["enable_namespacing"] = False
    nodes = [node | ({EXTRA: True} if chain.allows_extra else {}) for node in builder.nodes()]
    workflow |= {"inputs": builder.inputs} if builder.inputs else {}
    workflow["nodes"] = nodes
    workflow |= {"mappings": builder.mappings} if builder.mappings else {}
    result = links[-1].interface.result_key
    if chain.is_kept and result:
        workflow["outputs"] = {result: builder.reference(len(links) - 1, result)}
    return ChainWorkflow(workflow=workflow, problems=tuple(builder.problems), piped=tuple(builder.piped))


class _Builder:
    def __init__(self, links: Sequence[NodeLink], *, has_stdin: bool) -> None:
        self._links = links
        self._has_stdin = has_stdin
        self._ids: list[str] = []
        for link in links:  # the id of a node is its type, with a number if that is repeated
            base = _as_name(link.entry.node)
            names = (base, *(f"{base}-{number}" for number in range(2, len(links) + 2)))
            self._ids.append(next(name for name in names if name not in self._ids))
        self.inputs: dict[str, dict[str, Any]] = {}
        self.mappings: dict[str, dict[str, dict[str, str]]] = {}
        self.problems: list[Problem] = []
        self.piped: list[str] = []

    def nodes(self) -> list[dict[str, Any]]:
        nodes: list[dict[str, Any]] = []
        for place, link in enumerate(self._links):
            params = {**self._params(place), **self._inputs_asked_for(place)}
            params |= self._piped(place, params)
            there = {*params, *link.valued, *self._known(place)}
            lacking = [
                field for field in link.interface.params if field.needs_value and field.key not in there
            ]
            if lacking and link.is_whole:
                flags = ", ".join(map(shown_flag, lacking))
                can_be_piped = place == 0 and link.interface.piped_key(link.valued) == lacking[0].key
                step = f"Write {flag_with(lacking[0], '...')}{', or pipe it in' if can_be_piped else ''}"
                message = f"{link.entry.node} needs {flags}"
                self.problems.append(mistake(message, step))
            self._note_stdin(place, params)
            node = {"id": self._ids[place], "type": link.entry.node}
            nodes.append({**node, "params": params} if params else node)
        return nodes

    def _params(self, place: int) -> dict[str, Any]:
        link = self._links[place]
        params: dict[str, Any] = {}
        for key, given in link.given.items():
            if key in link.asked:
                continue
            if self._is_data(place, key, given):
                self.inputs[key] = _declaration(given.field, given)
            else:
                params[key] = given.value if given.is_template else literal(given.value)
        return params

    def _is_data(self, place: int, key: str, given: Given) -> bool:
        link = self._links[place]
        if given.is_template or key not in link.interface.inputs or not is_type(given.field.type):
            return False
        if not _NAME.fullmatch(key):  # a tool's parameters may have any name
            return False
        if given.field.has_default:  # it overrides a value of the node
            return False
        if key in self.inputs and self.inputs[key].get("default") != given.value:
            return False
        # Data at the root of the shared store would be lost if an earlier node wrote there.
        return all(it.interface.open_outputs is False and key not in it.outputs for it in self._links[:place])

    def _inputs_asked_for(self, place: int) -> dict[str, Any]:
        """Declare inputs that the user wants of a chain's workflow; return the params that refer to them."""
        link = self._links[place]
        params: dict[str, Any] = {}
        for key in link.asked:
            field, given = _field(link.entry, key), link.given.get(key)
            refusal = _refusal_as_input(field, given)
            if refusal:
                self.problems.append(refusal)
                continue
            is_stdin = given is not None and given.value == STDIN
            name = key if _NAME.fullmatch(key) else _as_name(key)
            name = name if name not in self.inputs else f"{self._ids[place]}-{name}"
            self.inputs[name] = _declaration(field, None if is_stdin else given)
            is_piped = place == 0 and given is None and key == link.interface.piped_key(set(link.given))
            if is_stdin or is_piped:
                self.inputs[name]["stdin"] = True
            # Outputs of earlier nodes that would replace it are written elsewhere.
            for node_id, link_before in zip(self._ids, self._links[:place], strict=False):
                if name in link_before.outputs or link_before.interface.open_outputs is True:
                    mapping = self.mappings.setdefault(node_id, {"output_mappings": {}})
                    mapping["output_mappings"][name] = f"{node_id}-{name}"
            if name != key or key not in link.interface.inputs:
                params[key] = f"${{{name}}}"
        return params

    def _piped(self, place: int, params: Mapping[str, object]) -> dict[str, Any]:
        """Return the param of a chain's node that takes the previous result, or standard input."""
        link = self._links[place]
        # A parameter with a value in the shared store is filled, unless no other can take the pipe.
        key = link.interface.piped_key(link.valued) or link.interface.piped_key(
            {*link.valued, *self._known(place)}
        )
        if not key or key in params:
            return {}
        if place == 0:
            is_taken = any(given.is_template for given in link.given.values())  # the piped input, by a flag
            return {key: STDIN} if self._has_stdin and not is_taken else {}
        before = self._links[place - 1]
        # An output of the same name fits better than the result.
        source = key if key in before.outputs else before.result_for(_field(link.entry, key))
        return {key: self.reference(place - 1, source)} if source else {}

    def reference(self, place: int, key: str) -> str:
        if _NAME.fullmatch(key):
            return f"${{{key}}}"
        quoted = f"'{key}'" if '"' in key else f'"{key}"'
        return f"${{{self._ids[place]}[{quoted}]}}"

    def _known(self, place: int) -> set[str]:
        return set(self.inputs).union(*(link.outputs for link in self._links[:place]))

    def _note_stdin(self, place: int, params: Mapping[str, object]) -> None:
        """Declare the input `stdin` of a chain's workflow if a node refers to it, or reads its key."""
        link = self._links[place]
        for key, value in params.items():
            if any(part.text == STDIN for _, part in references(value)):
                self.piped.append(f"{shown_flag(_field(link.entry, key))} of {link.entry.node}")
                is_needed = key in link.given or _field(link.entry, key).required
                self._declare_stdin(_field(link.entry, key).type, is_needed=is_needed)
        if self._has_stdin and _STDIN in link.interface.inputs and _STDIN not in {*params, *link.valued}:
            self._declare_stdin("any", is_needed=False)

    def _declare_stdin(self, types: str, *, is_needed: bool) -> None:
        spec = self.inputs.setdefault(
            _STDIN, {"type": "str", "description": "What is piped in", "required": False, "stdin": True}
        )
        if "default" in spec:  # a flag of that name has given it a value
            return
        if is_needed:
            spec.pop("required", None)
        if {"str", "any"}.isdisjoint(alternatives(types)):
            spec["type"] = "any"


def _refusal_as_input(field: Field, given: Given | None) -> Problem | None:
    if given is not None and given.is_template and given.value != STDIN:
        reason = "a value with a template cannot be a default"
        step = f"Leave out {shown_flag(field)}, or --input"
    elif field.is_code:
        reason = f"{'a shell command' if field.shell_line else 'code'} cannot be an input"
        step = "Write a workflow, with inputs for the values in it"
    else:
        return None
    return mistake(f"--input {field.key}: {reason}", step)


def _declaration(field: Field, given: Given | None) -> dict[str, Any]:
    spec: dict[str, Any] = {"type": field.type if is_type(field.type) else "any"}
    if field.description:
        spec["description"] = field.description
    if given is not None:
        spec["default"] = given.value
    return spec


def _field(entry: Entry, key: str) -> Field:
    return next((field for field in entry.interface.params if field.key == key), Field(key=key))


def _as_name(text: str) -> str:
    return re.sub(r"[^\w-]", "-", text).lstrip("-_") or "node"
