"""Joins: which output of an earlier node fits which input of a later one, by name or by type."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from pflow_mcp_plugin.contract import Entry, Field
from pflow_mcp_plugin.host.planning.key_names import (
    is_same_name,
    is_synonym,
    is_vague,
    names_place,
    names_text,
)
from pflow_mcp_plugin.host.workflow.coercion import depends_on_text, may_become, type_name
from pflow_mcp_plugin.host.workflow.templates import lone


@attrs.frozen(kw_only=True)
class Output:
    """An output of a node of the workflow, which a later node can use.

    Attributes:
        node_id: The id of the node.
        family: The family of its type.
        field: The declaration of the output.
        template: The template that names it.
    """

    node_id: str
    family: str
    field: Field
    template: str

    @property
    def source(self) -> str:
        """The output as a mapping names it."""
        return self.template.removeprefix("${").removesuffix("}")


def outputs_of(node_id: str, entry: Entry) -> list[Output]:
    """Return the outputs of a node that templates can name, the one that stands for all first.

    Args:
        node_id: The id of the node in the workflow.
        entry: Its entry.
    """
    result = entry.interface.result_key
    fields = sorted(entry.interface.outputs, key=lambda field: field.key != result)
    named = ((field, template(node_id, field.key)) for field in fields if field.key != "error")
    return [
        Output(node_id=node_id, family=entry.family or entry.source, field=field, template=text)
        for field, text in named
        if text
    ]


def result_of(node_id: str, entry: Entry) -> Output | None:
    """Return the output of a node that stands for all, None if none does or no template can name it."""
    key = entry.interface.result_key or _only_key(entry)
    return next((output for output in outputs_of(node_id, entry) if output.field.key == key), None)


def _only_key(entry: Entry) -> str:
    keys = [field.key for field in entry.interface.outputs if field.key != "error"]
    return keys[0] if len(keys) == 1 else ""


def template(node_id: str, key: str) -> str:
    """Return the template that joins an output by its key, empty if none can name it."""
    spellings = (f"${{{node_id}.{key}}}", f'${{{node_id}["{key}"]}}', f"${{{node_id}['{key}']}}")
    found = ((text, lone(text)) for text in spellings)
    return next((text for text, named in found if named and named.path == (node_id, key)), "")


def join_by_name(wanted: Field, family: str, outputs: Sequence[Output]) -> Output | None:
    """Return the output that fits an input by its name: the same name, else a synonym; None if none does.

    Args:
        wanted: The declaration of the input.
        family: The family of the node that has it.
        outputs: The outputs of the earlier nodes, the nearest first.
    """
    named = [
        output for output in outputs if _fits(output.field, wanted) and _is_named(output, wanted, family)
    ]
    # The last text is the one to go on with, whatever its name is.
    same = (output for output in named if is_same_name(output.field.key, wanted.key))
    nearest = next(iter(named), None)
    return nearest if names_text(wanted.key) else next(same, nearest)


def _is_named(output: Output, wanted: Field, family: str) -> bool:
    if is_same_name(output.field.key, wanted.key):
        return output.family == family or not is_vague(wanted.key)
    return is_synonym(output.field.key, wanted.key) and not _is_loose(output.field, wanted)


def join_by_type(wanted: Iterable[Field], result: Output, *, refers_back: bool) -> Field | None:
    """Return the input that a node's result fits by its type: the only one, None if several could be meant.

    A string, or a value of any type, tells little: it fits only if the words refer to it, as in "send it",
    and it is no path.

    Args:
        wanted: The required inputs that have no value yet.
        result: The result of the node before.
        refers_back: Whether the words of the task refer to what was there before.
    """
    telling = _names(result.field) - {"str", "any", "None"}
    if not telling and not refers_back:
        return None
    fitting = [field for field in wanted if _fits(result.field, field) and not _is_loose(result.field, field)]
    found = fitting[0] if len(fitting) == 1 else None
    return None if found and not telling and names_place(found.key) else found


def _fits(given: Field, wanted: Field) -> bool:
    """Return whether a value may be passed on: a command line and a choice are never taken from a node."""
    if wanted.shell_line or wanted.choices:
        return False
    # A list or an object in place of a text would arrive as JSON, which is rarely what is meant.
    if _names(given) <= {"list", "dict", "None"} and _names(wanted).isdisjoint({"list", "dict", "any"}):
        return False
    # A list or an object in place of a text would arrive as JSON, which is rarely what is meant.
    if _names(given) <= {"list", "dict", "None"} and _names(wanted).isdisjoint({"list", "dict", "any"}):
        return False
    return may_become(given, wanted) and not depends_on_text(given, wanted)


def _is_loose(given: Field, wanted: Field) -> bool:
    """Return whether only the name could tell that a value of any type is of the wanted one."""
    return "any" in _names(given) and _names(wanted).isdisjoint({"str", "any"})


def _names(field: Field) -> set[str]:
    return {type_name(name) for name in field.types}
