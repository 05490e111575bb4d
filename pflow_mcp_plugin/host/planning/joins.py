"""Joins: which output of an earlier node fits which parameter of a later one, by name or by type."""

from __future__ import annotations

import re
from collections.abc import Iterable

import attrs

from pflow_mcp_plugin.contract import Entry, Field
from pflow_mcp_plugin.host.matching.task_words import split_name, stem
from pflow_mcp_plugin.host.workflow.coercion import depends_on_text, may_become, type_names
from pflow_mcp_plugin.host.workflow.templates import lone

_WORD = re.compile(r"[^\W_]+")
_UNNAMED = re.compile(r"[^\w-]+")
_LONGEST = 200
_LONGEST_NAME = 100
"""The most characters of a name in a template."""


def key_stems(names: str) -> frozenset[str]:
    """Return the words, separated by spaces, without endings, as joins compare them."""
    return frozenset(map(stem, names.split()))


_TEXTS = key_stems(
    "answer article body caption comment content html markdown message response result snippet stdout "
    "summary text transcript"
)
_SYNONYMS = (
    _TEXTS,
    key_stems("keyword phrase q query search searchquery searchterm term"),
    key_stems("file filename filepath path"),
    key_stems("href link uri url website"),
    key_stems("data entry item record result row"),
    key_stems("email mail recipient to"),
    key_stems("headline heading subject title"),
)
"""Keys that mean the same, by group."""
_PLACES = key_stems(
    "destination dir directory file filename filepath folder location output path source target"
)
_HEADS = key_stems("body content html markdown text")
"""As the last word of a longer name, such as `page_content`, these say what the value is."""
_VAGUE = key_stems(
    "action code count data date description error format id index key kind label language limit mode model "
    "name number offset page position size source state status success title total type user value version"
)
"""Keys that nodes of different families share by chance."""


@attrs.frozen(kw_only=True)
class Output:
    """An output of a node that can be joined to a parameter of a later one; `template` names it."""

    node_id: str
    family: str
    field: Field
    template: str

    @property
    def source(self) -> str:
        """The output's name in a mapping that joins it to a parameter."""
        return self.template.removeprefix("${").removesuffix("}")


def outputs_of(node_id: str, entry: Entry) -> list[Output]:
    """Return the outputs of a node that can be joined, as templates can name them; the main one is first."""
    result = entry.interface.result_key
    family = entry.family or entry.source
    fields = sorted(entry.interface.outputs, key=lambda field: field.key != result)
    found: list[Output] = []
    for field in (it for it in fields if it.key != "error"):
        spellings = (f".{field.key}", f'["{field.key}"]', f"['{field.key}']")
        for template in (f"${{{node_id}{spelling}}}" for spelling in spellings):
            named = lone(template)
            if named and named.path == (node_id, field.key):
                found.append(Output(node_id=node_id, family=family, field=field, template=template))
                break
    return found


def result_of(node_id: str, entry: Entry) -> Output | None:
    """Return the main output of a node for joins; None if it has none, or no template can name it."""
    outputs = outputs_of(node_id, entry)
    if len([field for field in entry.interface.outputs if field.key != "error"]) == 1:
        return next(iter(outputs), None)
    return next((output for output in outputs if output.field.key == entry.interface.result_key), None)


def join_by_name(wanted: Field, family: str, outputs: Iterable[Output]) -> Output | None:
    """Return the output to join to a parameter by its name, the nearest first; None if no name fits."""
    named: list[Output] = []
    for output in outputs:
        if is_same_name(output.field.key, wanted.key):
            is_meant = output.family == family or not set(name_words(wanted.key)) <= _VAGUE
        else:
            is_meant = is_synonym(output.field.key, wanted.key) and not _is_loose(output.field, wanted)
        if is_meant and _fits(output.field, wanted):
            named.append(output)
    nearest = next(iter(named), None)
    if is_synonym("text", wanted.key):  # the last text is the one to continue with, whatever its name
        return nearest
    return next((output for output in named if is_same_name(output.field.key, wanted.key)), nearest)


def join_by_type(wanted: Iterable[Field], result: Output) -> Field | None:
    """Return the parameter to join a result to by its type; None if several could be meant.

    A string, or a value of any type, says too little.
    """
    if not type_names(result.field) - {"str", "any", "None"}:
        return None
    fitting = [field for field in wanted if _fits(result.field, field) and not _is_loose(result.field, field)]
    return fitting[0] if len(fitting) == 1 else None


def _fits(given: Field, wanted: Field) -> bool:
    """Return whether an output may be joined to a parameter; a command line or a choice never takes one."""
    if wanted.is_code or wanted.choices:
        return False
    # A list or an object instead of a text would arrive as JSON, which is rarely intended.
    is_structured = type_names(given) <= {"list", "dict", "None"}
    if is_structured and type_names(wanted).isdisjoint({"list", "dict", "any"}):
        return False
    return may_become(given, wanted) and not depends_on_text(given, wanted)


def _is_loose(given: Field, wanted: Field) -> bool:
    """Return whether only names can tell that an output of any type may be joined to a parameter."""
    return "any" in type_names(given) and type_names(wanted).isdisjoint({"str", "any"})


def name_words(key: str) -> tuple[str, ...]:
    """Return the words in the name of a parameter or output, without endings: two in `filePaths`."""
    return tuple(map(stem, _WORD.findall(split_name(key[:_LONGEST]).lower())))


def is_same_name(one: str, other: str) -> bool:
    """Return whether a parameter and an output have the same name, apart from case, separators and plural."""
    return _whole(one) == _whole(other) != ""


def is_synonym(one: str, other: str) -> bool:
    """Return whether the names of a parameter and an output mean the same, as `body` and `text` do."""
    lasts = [(name_words(key) or ("",))[-1] for key in (one, other)]
    meant = {last if last in _HEADS else _whole(key) for last, key in zip(lasts, (one, other), strict=True)}
    return any(meant <= names for names in _SYNONYMS)


def _whole(key: str) -> str:
    return stem("".join(_WORD.findall(split_name(key[:_LONGEST]).lower())))


def names_place(key: str) -> bool:
    """Return whether a parameter or output is a file or a folder, by its name."""
    return not _PLACES.isdisjoint(name_words(key))


def template_name(key: str, otherwise: str) -> str:
    """Turn a key or type into a name for the template of a join; `otherwise` if nothing is left."""
    return _UNNAMED.sub("_", key).strip("_-")[:_LONGEST_NAME] or otherwise
