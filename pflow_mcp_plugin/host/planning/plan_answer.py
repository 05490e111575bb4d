"""Reads what a language model answered: JSON in any wrapping, and a workflow in the planner's form."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, cast

from pflow_mcp_plugin.contract import Entry, Field, PflowError
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.host.planning.plan_prompt import seen, visible
from pflow_mcp_plugin.host.planning.plan_schema import MOST_NODES
from pflow_mcp_plugin.host.workflow.coercion import TypeMismatch, coerce, typed
from pflow_mcp_plugin.host.workflow.document_reader import is_deep
from pflow_mcp_plugin.host.workflow.templates import lone

_LONGEST = 400_000
"""Characters of an answer that are read."""
_ATTEMPTS = 200
"""How many braces of an answer are tried as the beginning of its JSON object."""
_SHOWN = 200
_PROSE = 1_000
"""Characters of a description that a model wrote."""

Find = Callable[[str], Entry | None]
"""Looks up a node type; returns None if it is unknown."""


class UnreadableAnswer(PflowError):
    """A language model's answer that holds no JSON object; asking once more may help."""


def json_object(text: str, key: str) -> JSONObject:
    """Return the JSON object in a language model's answer, also from prose or other JSON around it.

    Args:
        text: The answer.
        key: A key of the object: others are passed over.

    Raises:
        UnreadableAnswer: There is none.
    """
    for found in _objects(text[:_LONGEST]):
        if key in found:
            if is_deep(found):
                raise UnreadableAnswer("The model's answer is nested too deeply", kind="validation")
            return cast("JSONObject", seen(found))
    beginning = visible(text, _SHOWN)
    if not beginning:
        raise UnreadableAnswer("The model's answer is empty", kind="validation")
    what = f"holds no complete JSON object with {key}" if "{" in text else "is not JSON"
    raise UnreadableAnswer(f"The model's answer {what}: {beginning}", kind="validation")


def _objects(text: str) -> Iterator[dict[str, JSON]]:
    """Yield the objects that a text holds, outer ones before those inside them."""
    decoder = json.JSONDecoder(parse_constant=_not_json)
    start = text.find("{")
    for _ in range(_ATTEMPTS):
        if start < 0:
            return
        with suppress(ValueError, RecursionError):
            yield decoder.raw_decode(text, start)[0]
        start = text.find("{", start + 1)


def _not_json(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def answered_workflow(answer: JSONObject, find: Find) -> dict[str, JSON]:
    """Return the workflow in an answer as a workflow file has it; other keys are left out.

    Tables may be lists of pairs, as the schema has them, or objects, as workflow files have them. What is
    malformed stays so, for the check to find.

    Args:
        answer: The answer of a language model.
        find: Looks up node types, for the types of their parameters.
    """
    nodes = answer.get("nodes")
    workflow: dict[str, JSON] = {
        "description": _prose(answer.get("description")),
        "inputs": {name: _input(item) for name, item in _named(answer.get("inputs"), _without_name).items()},
        "nodes": [_node(node, find) for node in nodes[: MOST_NODES + 1]] if isinstance(nodes, list) else [],
        "edges": _edges(answer.get("edges")),
        "mappings": _mappings(answer.get("mappings")),
        "outputs": {
            name: item.get("source") if isinstance(item, dict) else item
            for name, item in _named(answer.get("outputs"), _value).items()
        },
    }
    return {key: value for key, value in workflow.items() if value or key in ("nodes", "edges")}


def _named(table: JSON | None, value: Callable[[JSONObject], JSON]) -> dict[str, JSON]:
    """Return a table that is an object, or a list of rows with a `name` each."""
    if isinstance(table, dict):
        return {str(name): item for name, item in table.items()}
    rows = [row for row in table if isinstance(row, dict)] if isinstance(table, list) else []
    return {row["name"]: value(row) for row in rows if isinstance(row.get("name"), str)}


def _value(row: JSONObject) -> JSON:
    return row["value"] if "value" in row else row.get("source")


def _without_name(row: JSONObject) -> JSON:
    return {key: value for key, value in row.items() if key != "name"}


def _input(item: JSON) -> JSON:
    declared: Mapping[str, JSON] = item if isinstance(item, dict) else {}
    kind = declared.get("type")
    read: dict[str, JSON] = {"type": kind if isinstance(kind, str) and kind else "any"}
    if description := _prose(declared.get("description")):
        read["description"] = description
    default = declared.get("default")
    if default in (None, ""):  # some providers make a model fill in every key
        return read
    return {**read, "default": _typed(default, Field(key="default", type=str(read["type"])))}


def _node(node: JSON, find: Find) -> JSON:
    if not isinstance(node, dict):
        return node
    read = {key: node[key] for key in ("id", "type") if key in node}
    if purpose := _prose(node.get("purpose")):
        read["purpose"] = purpose
    entry = find(node["type"]) if isinstance(node.get("type"), str) else None
    fields = {field.key: field for field in entry.interface.params} if entry else {}
    params = _named(node.get("params"), _value)
    read["params"] = {key: _typed(value, fields.get(key, Field(key="any"))) for key, value in params.items()}
    batch = node.get("batch")
    items = batch.get("items") if isinstance(batch, dict) else node.get("for_each")
    return {**read, "batch": {"items": items}} if items else read


def _typed(value: Any, field: Field) -> Any:
    """Return a value as its parameter takes it: numbers, lists and objects may be written as JSON text."""
    if not isinstance(value, str) or lone(value) or set(field.types) <= {"str", "any"}:
        return value
    try:
        return coerce(typed(value, field), field)
    except TypeMismatch:
        return value


def _edges(table: JSON | None) -> list[JSON]:
    return [_edge(edge) for edge in table] if isinstance(table, list) else []


def _edge(edge: JSON) -> JSON:
    if not isinstance(edge, dict):
        return edge
    read = {key: edge[key] for key in ("from", "to") if key in edge}
    action = edge.get("action")
    return read if action in (None, "", "default") else {**read, "action": action}


def _mappings(table: JSON | None) -> dict[str, JSON]:
    if isinstance(table, dict):
        return {node: _names_of(item) for node, item in table.items() if isinstance(item, dict)}
    read: dict[str, dict[str, JSON]] = {}
    for row in table if isinstance(table, list) else []:
        words = [row.get(key) for key in ("node", "key", "source")] if isinstance(row, dict) else []
        match words:
            case [str(node), str(key), str(source)]:
                reference = lone(source)
                read.setdefault(node, {})[key] = reference.text[2:-1] if reference else source
    return {node: {"input_mappings": sources} for node, sources in read.items()}


def _names_of(item: JSONObject) -> JSON:
    tables = {key: item.get(key) for key in ("input_mappings", "output_mappings")}
    return {
        key: {own: other for own, other in table.items() if isinstance(other, str)}
        for key, table in tables.items()
        if isinstance(table, dict)
    }


def _prose(text: JSON | None) -> str:
    return visible(text, _PROSE) if isinstance(text, str) else ""
