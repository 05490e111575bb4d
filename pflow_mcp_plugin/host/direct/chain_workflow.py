"""The links of a chain as a workflow."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import attrs

from pflow_mcp_plugin.contract import Entry, Field, Problem
from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.host.direct.node_flags import STDIN, Given, flag_of
from pflow_mcp_plugin.host.workflow.coercion import is_type
from pflow_mcp_plugin.host.workflow.templates import literal, references
from pflow_mcp_plugin.host.workflow.workflow_document import IR_VERSION

_STDIN = "stdin"


@attrs.frozen(kw_only=True)
class NodeLink:
    """A link whose node type is known and whose flags are read."""

    entry: Entry
    given: Mapping[str, Given]


class ChainWorkflow:
    """Builds the workflow that a chain of nodes stands for.

    Without namespacing, so that what one node writes is what the next one reads under the same name. A
    flag that names a key of the shared store is data, an input whose default is the value; any other sets
    a param of its node. What a node needs and no flag gives is the result of the node before it.

    Args:
        links: The nodes with the values of their flags.
        inputs: The flags that become inputs of the workflow, by the place of the link.
        has_stdin: Whether something is piped in, or may be when the workflow runs later.
        is_kept: Whether the workflow is for later: it then declares its output.

    Attributes:
        problems: What the nodes lack.
    """

    def __init__(
        self,
        links: Sequence[NodeLink],
        inputs: Collection[tuple[int, str]] = (),
        *,
        has_stdin: bool = False,
        is_kept: bool = False,
    ) -> None:
        self._links = links
        self._asked = inputs
        self._has_stdin = has_stdin
        self._is_kept = is_kept
        self._inputs: dict[str, dict[str, JSON]] = {}
        self.problems: list[Problem] = []

    def build(self, description: str = "") -> dict[str, JSON]:
        """Return the workflow; what its nodes lack is then in `problems`."""
        ids = _ids([link.entry.node for link in self._links])
        params = [self._params(place) for place in range(len(self._links))]
        if self._needs_stdin(params):
            self._inputs[_STDIN] = self._stdin_input()
        workflow: dict[str, Any] = {"ir_version": IR_VERSION}
        if description:
            workflow["description"] = description
        workflow["enable_namespacing"] = False
        if self._inputs:
            workflow["inputs"] = self._inputs
        pairs = zip(ids, self._links, params, strict=True)
        workflow["nodes"] = [
            {"id": node_id, "type": link.entry.node, **({"params": given} if given else {})}
            for node_id, link, given in pairs
        ]
        result = self._links[-1].entry.interface.result_key
        if self._is_kept and result:
            workflow["outputs"] = {result: f"${{{result}}}"}
        return workflow

    def _params(self, place: int) -> dict[str, JSON]:
        """Return the params of a node; the flags that are data become inputs of the workflow."""
        link = self._links[place]
        params: dict[str, JSON] = {}
        for key, given in link.given.items():
            if (place, key) in self._asked:
                self._declare(given.field, given)
            elif self._is_data(place, key, given):
                self._declare(given.field, given)
                continue
            else:
                params[key] = given.value if given.is_template else literal(given.value)
                continue
            params |= self._reference(place, key)
        for key in (key for asked, key in self._asked if asked == place and key not in link.given):
            self._declare(_field(link.entry, key), None)
            params |= self._reference(place, key)
        piped = self._piped(place, params)
        params |= piped
        self._check_required(place, params)
        return params

    def _reference(self, place: int, key: str) -> dict[str, JSON]:
        """Return the param that refers to an input; none if the node reads the input by itself."""
        if key in self._links[place].entry.interface.inputs and not self._may_be_written(place, key):
            return {}
        return {key: f"${{{key}}}"}

    def _is_data(self, place: int, key: str, given: Given) -> bool:
        if given.is_template or key not in self._links[place].entry.interface.inputs:
            return False
        if key in self._inputs and self._inputs[key].get("default") != given.value:
            return False
        return not self._may_be_written(place, key)

    def _may_be_written(self, place: int, key: str) -> bool:
        """Return whether an earlier node may write a key, so that what a flag put there would be lost."""
        earlier = (link.entry.interface for link in self._links[:place])
        return any(it.open_outputs is not False or key in _outputs(it) for it in earlier)

    def _declare(self, field: Field, given: Given | None) -> None:
        spec: dict[str, JSON] = {"type": field.type if is_type(field.type) else "any"}
        if field.description:
            spec["description"] = field.description
        if given is not None and not given.is_template:
            spec["default"] = given.value
        self._inputs[field.key] = spec

    def _piped(self, place: int, params: Mapping[str, JSON]) -> dict[str, JSON]:
        """Return the param of a node that takes what the node before it, or standard input, gives."""
        key = self.piped_key(place)
        if not key or key in params:
            return {}
        if place == 0:
            return {key: STDIN} if self._has_stdin else {}
        before = self._links[place - 1].entry.interface
        # An output of the same name fits better than the result.
        source = key if key in _outputs(before) else before.result_key
        return {key: f"${{{source}}}"} if source else {}

    def piped_key(self, place: int) -> str:
        """Return the parameter of a link's node that takes what is piped into it; empty if none does."""
        link = self._links[place]
        given = {*link.given, *(key for asked, key in self._asked if asked == place)}
        interface = link.entry.interface
        return interface.piped_key(given) or interface.piped_key({*given, *self._known(place)})

    def _known(self, place: int) -> set[str]:
        """Return the keys that a node finds in the shared store."""
        earlier = (link.entry.interface for link in self._links[:place])
        written = {key for interface in earlier for key in _outputs(interface)}
        return {*self._inputs, *written}

    def _check_required(self, place: int, params: Mapping[str, JSON]) -> None:
        link = self._links[place]
        there = {*params, *self._known(place)}
        lacking = [
            field
            for field in link.entry.interface.params
            if field.required and not field.has_default and field.key not in there
        ]
        if not lacking:
            return
        flags = ", ".join(map(flag_of, lacking))
        key = self.piped_key(place)
        step = f"Pipe it in, or write {flags} ..." if key and place == 0 else f"Write {flags} ..."
        self.problems.append(
            Problem(message=f"{link.entry.node} needs {flags}", suggestion=step, kind="usage")
        )

    def _needs_stdin(self, params: Sequence[Mapping[str, JSON]]) -> bool:
        if _STDIN in self._inputs:
            return False
        if self._has_stdin and any(_STDIN in link.entry.interface.inputs for link in self._links):
            return True
        return any(part.text == STDIN for value in params for _, part in references(dict(value)))

    def _stdin_input(self) -> dict[str, JSON]:
        return {"type": "str", "stdin": True, "description": "What is piped in"}


def reads_stdin(links: Sequence[NodeLink]) -> Iterator[str]:
    """Yield what of a chain refers to standard input: flags, and nodes that read the key `stdin`."""
    for link in links:
        for given in link.given.values():
            if given.is_template and any(part.text == STDIN for _, part in references(given.value)):
                yield flag_of(given.field)
        if _STDIN in link.entry.interface.inputs and _STDIN not in link.given:
            yield link.entry.node


def _field(entry: Entry, key: str) -> Field:
    return next((field for field in entry.interface.params if field.key == key), Field(key=key))


def _outputs(interface: Any) -> set[str]:
    return {field.key for field in interface.outputs}


def _ids(types: Sequence[str]) -> list[str]:
    """Return an id for each node: its type, with a number if it is repeated."""
    ids: list[str] = []
    for node_type in types:
        base = re.sub(r"[^\w-]", "-", node_type).lstrip("-") or "node"
        numbered = (f"{base}-{number}" for number in range(2, len(types) + 2))
        ids.append(next(name for name in (base, *numbered) if name not in ids))
    return ids
