"""The workflow of a task's steps: joins between them, and declared inputs for all that is left open."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from itertools import chain, count, pairwise
from typing import Any

import attrs

from pflow_mcp_plugin.contract import Entry, Field
from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.contract.validators import is_reserved
from pflow_mcp_plugin.host.matching.task_words import QUOTED
from pflow_mcp_plugin.host.planning.clause_steps import Step
from pflow_mcp_plugin.host.planning.joins import Output, join_by_name, join_by_type, outputs_of, result_of
from pflow_mcp_plugin.host.planning.key_names import (
    key_stems,
    name_words,
    names_main,
    names_place,
    template_name,
)
from pflow_mcp_plugin.host.planning.own_nodes_asked import MODEL
from pflow_mcp_plugin.host.planning.plan_prompt import visible
from pflow_mcp_plugin.host.workflow.coercion import is_type, type_name
from pflow_mcp_plugin.host.workflow.node_uses import reads
from pflow_mcp_plugin.host.workflow.templates import literal

Description = Callable[[str], str]
"""Returns what a workflow may repeat of a description."""
# Not the "it" of "is it late" and "it is late", nor the "this" of "this page".
_REFERS_BACK = re.compile(
    r"(?<!\bis )(?<!\bwas )(?<!\bbe )\bit\b(?!\s+(?:has|is|was|will)\b)|\bthis\b(?!\s+\w)"
    r"|\b(?:its|these|those|them|their|both|results?|output|answers?|findings)\b",
    re.IGNORECASE,
)
_MAKES = key_stems("append convert copy create download export move save write")
"""Words in the names of nodes that make a file or change one."""
_RESULT = "result"
_PROMPT = "prompt"
_RESULTS = 10
"""The most results that a language model is asked about."""
_PURPOSE = 200
_DESCRIPTION = 300
"""The most characters of a description."""
_CHOICES = 20
"""The most choices of a parameter that the description of its input lists."""


@attrs.frozen(kw_only=True)
class _Open:
    """A parameter whose value the task leaves open, or states: an input of the workflow.

    Attributes:
        field: Its declaration.
        family: The family of its node.
        default: The value that the task states.
        is_stated: Whether it states one.
    """

    field: Field
    family: str
    default: JSON = None
    is_stated: bool = False

    def is_same(self, other: _Open) -> bool:
        """Return whether one input can stand for two parameters."""
        one, two = self.field, other.field
        described = one.description.strip() == two.description.strip()
        related = self.family == other.family or one.description.strip() != ""
        agree = not (self.is_stated and other.is_stated) or self.default == other.default
        return (
            described
            and related
            and agree
            and (one.key, one.type, one.required) == (two.key, two.type, two.required)
        )

    def declared(self, node: str, about: Description) -> dict[str, JSON]:
        """Return the declaration of the input."""
        described = about(self.field.description).strip() or f"{self.field.key} of {node}"
        if self.field.choices:
            described += f"; one of {', '.join(map(str, self.field.choices[:_CHOICES]))}"
        data: dict[str, JSON] = {
            "type": _input_type(self.field),
            "description": visible(described, _DESCRIPTION),
        }
        if self.is_stated:
            return {**data, "default": self.default}
        return data if self.field.required else {**data, "required": False}


def _input_type(field: Field) -> str:
    # A string from an input is never parsed as a command line; the arguments of a program are a list.
    if field.shell_line and "list" in map(type_name, field.types):
        return "list"
    return field.type if is_type(field.type) else "any"


@attrs.define(kw_only=True)
class _Node:
    """A node of the workflow to be.

    Attributes:
        id: Its id.
        step: The step that it does.
        params: Its params that are known: joins and constants.
        open: Its params that become inputs, by key.
    """

    id: str
    step: Step
    params: dict[str, JSON] = attrs.field(factory=dict)
    open: dict[str, _Open] = attrs.field(factory=dict)

    @property
    def entry(self) -> Entry:
        return self.step.entry

    @property
    def family(self) -> str:
        return self.entry.family or self.entry.source

    def unset(self) -> set[str]:
        """Return the keys that the node would read from the root of the shared store."""
        return reads(self.entry) - {*self.params, *self.open}


def step_workflow(steps: Sequence[Step], about: Description = str) -> dict[str, Any]:
    """Return the workflow of some steps, without its metadata.

    Args:
        steps: The steps.
        about: Returns what the workflow may repeat of the description of a parameter or an output.
    """
    nodes: list[_Node] = []
    for step in steps:
        node_id = _unique(template_name(step.entry.node, "node"), {node.id for node in nodes}, "-")
        nodes.append(_Node(id=node_id, step=step))
    used = _filled(nodes)
    inputs = _Inputs(nodes, about)
    mappings = {node.id: {"input_mappings": found} for node in nodes if (found := inputs.mapped(node))}
    return {
        "inputs": inputs.declared,
        "nodes": [_raw(node, inputs) for node in nodes],
        "edges": [{"from": one.id, "to": other.id} for one, other in pairwise(nodes)],
        **({"mappings": mappings} if mappings else {}),
        "outputs": dict(_outputs(nodes, used, about)),
    }


def _raw(node: _Node, inputs: _Inputs) -> dict[str, JSON]:
    params = {**node.params, **inputs.params(node)}
    purpose = " ".join(node.step.clause.split())[:_PURPOSE]
    return {"id": node.id, "type": node.entry.node, "purpose": purpose, "params": params}


def _outputs(
    nodes: Sequence[_Node], used: Container[str], about: Description
) -> Iterator[tuple[str, dict[str, JSON]]]:
    """Yield the outputs of the workflow: the last node's result, and those that no later node uses."""
    for node in reversed(nodes):
        is_last = node is nodes[-1]
        if is_last or (node.id not in used and node.id != _RESULT):
            result = result_of(node.id, node.entry)
            description = visible(about(result.field.description), _DESCRIPTION) if result else ""
            source = result.template if result else f"${{{node.id}}}"
            known = {"description": description} if description else {}
            yield _RESULT if is_last else node.id, {"source": source, **known}


def _filled(nodes: Sequence[_Node]) -> set[str]:
    """Join nodes to earlier ones, and leave open what is not joined; return the ids of the nodes used."""
    used: set[str] = set()
    for number, node in enumerate(nodes):
        earlier = nodes[:number]
        if node.step.is_own and node.entry.node == MODEL:
            used |= _ask_model(node, [it for it in earlier if it.id not in used] or earlier[-1:])
        else:
            used |= _fill(node, earlier)
    return used


def _ask_model(node: _Node, earlier: Sequence[_Node]) -> set[str]:
    """Ask the language model what the clause says, about the results that no other node uses."""
    has_own = QUOTED.search(node.step.clause) and not _REFERS_BACK.search(node.step.clause)
    about = () if has_own else earlier[-_RESULTS:]
    results = [result for it in about if (result := result_of(it.id, it.entry))]
    if results:
        texts = [literal(node.step.clause), *(result.template for result in results)]
        node.params[_PROMPT] = "\n\n".join(texts)
    else:
        field = next(field for field in node.entry.interface.params if field.key == _PROMPT)
        node.open[_PROMPT] = _Open(field=field, family=node.family, default=node.step.clause, is_stated=True)
    return {result.node_id for result in results}


def _fill(node: _Node, earlier: Sequence[_Node]) -> set[str]:
    """Fill the params of a node; return the ids of the nodes whose outputs they take."""
    free = [output for it in reversed(earlier) for output in outputs_of(it.id, it.entry)]
    joined = dict(_joins_by_name(node, free))
    lacking = [it for it in _needed(node) if it.key not in joined and not is_reserved(it.key)]
    before = result_of(earlier[-1].id, earlier[-1].entry) if earlier else None
    if before and before not in joined.values():
        refers_back = _REFERS_BACK.search(node.step.clause) is not None
        wanted = join_by_type(lacking, before, refers_back=refers_back)
        piped = node.entry.interface.piped
        key = wanted.key if wanted else piped if piped not in (*node.step.given, *joined) else ""
        joined.update({key: before} if key else {})
    node.params |= {key: output.template for key, output in joined.items()}
    _leave_open(node)
    return {output.node_id for output in joined.values()}


def _needed(node: _Node) -> list[Field]:
    """Return the parameters that need a value and are not stated in the task."""
    fields = node.entry.interface.params
    return [it for it in fields if it.needs_value and it.key not in node.step.given]


def _joins_by_name(node: _Node, outputs: Iterable[Output]) -> Iterator[tuple[str, Output]]:
    free = list(outputs)
    # Where a node needs nothing, what it works on is optional.
    for field in _needed(node) or _main(node):
        must_ask = is_reserved(field.key) or (names_place(field.key) and _writes(node))
        found = None if must_ask else join_by_name(field, node.family, free)
        if found:
            free.remove(found)
            yield field.key, found


def _main(node: _Node) -> list[Field]:
    """Return the parameter that a node without required ones works on."""
    if node.step.given or any(field.required for field in node.entry.interface.params):
        return []
    return [field for field in node.entry.interface.params if names_main(field.key)][:1]


def _leave_open(node: _Node) -> None:
    """Make inputs of what the task states, and of what is still needed."""
    for field in node.entry.interface.params:
        value = node.step.given.get(field.key)
        if value is not None and field.shell_line:
            node.params[field.key] = literal(value)
        elif value is not None:
            node.open[field.key] = _Open(field=field, family=node.family, default=value, is_stated=True)
    for field in (*_needed(node), *_main(node)):
        if field.key not in node.params:
            node.open.setdefault(field.key, _Open(field=field, family=node.family))


class _Inputs:
    """The declared inputs of the workflow.

    Args:
        nodes: Its nodes, with their open params.
        about: As of `step_workflow`.

    Attributes:
        declared: The declaration of each input.
    """

    def __init__(self, nodes: Sequence[_Node], about: Description) -> None:
        self._about = about
        self.declared: dict[str, JSON] = {}
        self._known: list[tuple[str, _Open]] = []
        self._names: dict[tuple[str, str], str] = {}
        # A node would take an input of the name of a param that it leaves unset.
        self._taken = {node.id for node in nodes}.union(*(node.unset() for node in nodes))
        for node in nodes:
            for key, wanted in node.open.items():
                self._names[node.id, key] = self._name(node, key, wanted)

    def params(self, node: _Node) -> dict[str, JSON]:
        """Return those params of a node that are inputs."""
        return {key: f"${{{self._names[node.id, key]}}}" for key in node.open if not is_reserved(key)}

    def mapped(self, node: _Node) -> dict[str, JSON]:
        """Return the inputs for keys of a node that a param may not have."""
        return {key: self._names[node.id, key] for key in node.open if is_reserved(key)}

    def _name(self, node: _Node, key: str, wanted: _Open) -> str:
        """Return the name of an input, which several nodes may share."""
        for number, (name, known) in enumerate(self._known):
            if known.is_same(wanted) and not (names_place(key) and _writes(node)):
                if wanted.is_stated:
                    self._known[number] = (name, wanted)
                    self.declared[name] = wanted.declared(node.entry.node, self._about)
                return name
        name = template_name(key, "value")
        if name in self._taken:
            name = _unique(f"{node.id.replace('-', '_')}_{name}", self._taken, "_")
        self._taken.add(name)
        self._known.append((name, wanted))
        self.declared[name] = wanted.declared(node.entry.node, self._about)
        return name


def _writes(node: _Node) -> bool:
    """Return whether a node makes a file, so that it must not be one that another node reads."""
    return not _MAKES.isdisjoint(name_words(node.entry.local_name or node.entry.node))


def _unique(name: str, taken: Container[str], separator: str) -> str:
    numbered = (f"{name}{separator}{number}" for number in count(2))
    return next(it for it in chain([name], numbered) if it not in taken)
