"""The JSON Schemas of what a language model answers while it plans.

They are small, for the providers that accept few: no `anyOf`, no free objects, at most six levels, and no
enum of more names than there are candidates. Hence values are strings, and tables are lists of pairs.
"""

from __future__ import annotations

from collections.abc import Sequence

from pflow_mcp_plugin.contract.json_types import JSON, JSONObject

MOST_NODES = 100
"""The most nodes of a planned workflow."""
INPUT_TYPES = ("any", "str", "int", "float", "bool", "list", "dict")
_TEXT: JSONObject = {"type": "string"}


def selection_schema(candidates: Sequence[str], saved: Sequence[str]) -> JSONObject:
    """Return the schema of a selection: which of the candidates, or which saved workflow.

    Args:
        candidates: The node types to choose from.
        saved: The names of the saved workflows to choose from; may be empty.
    """
    kinds = ["new_composition", *(["found_existing"] if saved else [])]
    existing = (
        {"existing": _one_of(["", *saved], "With found_existing, the saved workflow.")} if saved else {}
    )
    return _table(
        {
            "reasoning": _described("Why these, in one or two sentences."),
            "selection_type": _one_of(kinds),
            **existing,
            "chosen_nodes": {"type": "array", "items": _one_of(candidates)},
            "flow_structure": _described("The steps at a glance: search → summarize → notify"),
        }
    )


def workflow_schema(node_types: Sequence[str]) -> JSONObject:
    """Return the schema of a workflow whose nodes are of these types.

    Args:
        node_types: The node types that may occur.
    """
    node = {
        "id": _described("Letters, digits, _ and -; different for each node."),
        "type": _one_of(node_types),
        "purpose": _described("What it does here, in a few words."),
        "params": _pairs("Its parameters; lists, objects and numbers as JSON."),
        "for_each": _described("A template of a list to run it for each `${item}` of; usually left out."),
    }
    return _table(
        {
            "description": _described("What the workflow does, in one sentence."),
            "inputs": _rows(
                {
                    "name": _TEXT,
                    "type": _one_of(INPUT_TYPES),
                    "description": _TEXT,
                    "default": _described("As JSON; left out if the input is required."),
                },
                required=("name", "type", "description"),
            ),
            "nodes": _rows(node, required=("id", "type", "params")),
            "edges": _rows(
                {"from": _TEXT, "to": _TEXT, "action": _described("default unless it handles a failure")},
                required=("from", "to"),
            ),
            "mappings": _rows(
                {
                    "node": _TEXT,
                    "key": _described("The parameter that the node reads."),
                    "source": _described("Where its value is: an input, or node.output"),
                },
                required=("node", "key", "source"),
            ),
            "outputs": _pairs("The results, each a template."),
        },
        required=("description", "inputs", "nodes", "edges"),
    )


def _table(properties: JSONObject, required: Sequence[str] | None = None) -> JSONObject:
    needed = list(properties if required is None else required)
    return {
        "type": "object",
        "properties": properties,
        "required": list[JSON](needed),
        "additionalProperties": False,
    }


def _rows(properties: JSONObject, required: Sequence[str]) -> JSONObject:
    return {"type": "array", "items": _table(properties, required)}


def _pairs(description: str) -> JSONObject:
    return {**_rows({"name": _TEXT, "value": _TEXT}, ("name", "value")), "description": description}


def _described(description: str) -> JSONObject:
    return {"type": "string", "description": description}


def _one_of(names: Sequence[str], description: str = "") -> JSONObject:
    schema: dict[str, JSON] = {"type": "string", "enum": list[JSON](names)}
    return {**schema, "description": description} if description else schema
