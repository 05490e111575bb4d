"""What may follow in a chain of nodes: node types, their flags, the values of these, `then`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

import attrs

from pflow_mcp_plugin.contract import Entry, Field, Suggestion
from pflow_mcp_plugin.host.direct.link_words import (
    OPTIONS,
    PARAM,
    SEPARATORS,
    FlagNames,
    flag_of,
    is_list,
    is_switch,
    read_chain,
)
from pflow_mcp_plugin.host.registry.node_registry import NodeRegistry, node_types

_INPUT = "--input"
_WITH_VALUE = (_INPUT, PARAM, "--save", "--description")
_ABOUT = {
    "--help": "Show the flags of the node and what comes out",
    "--json": "Print one JSON object",
    "--print": "Print the nodes as a workflow; run nothing",
    "--save": "Save the nodes as a workflow under a name; run nothing",
    "--description": "What that workflow is for",
    _INPUT: "Turn a flag into an input of the workflow",
    PARAM: "Set a parameter by its exact name",
}
_FOLDER_WORDS = frozenset({"folder", "directory", "dir"})
_FILE_WORDS = _FOLDER_WORDS | {"path", "file", "filename"}


def chain_suggestions(registry: NodeRegistry, words: Sequence[str], incomplete: str) -> list[Suggestion]:
    """Return what may follow `words` in a chain and begins with `incomplete`."""
    if not words or words[-1] in SEPARATORS:
        return [] if incomplete.startswith("-") else node_types(registry, incomplete)
    link = read_chain(words).links[-1]
    entry = registry.find(link.node) if link.node else None
    if entry is None:
        return []
    node = _Node(entry, link.words)
    pending = words[-1] if words[-1] in _WITH_VALUE else ""
    return [each for each in node.suggestions(incomplete, pending) if _begins(each, incomplete)]


def _begins(suggestion: Suggestion, incomplete: str) -> bool:
    is_path = suggestion.type in {"file", "dir"}
    return incomplete.startswith(suggestion.value) if is_path else suggestion.value.startswith(incomplete)


class _Node:
    """The last node of a chain that is being typed.

    Args:
        entry: Its entry.
        words: The words after it.
    """

    def __init__(self, entry: Entry, words: Sequence[str]) -> None:
        self._entry = entry
        self._words = words
        self._names = FlagNames(entry)

    def suggestions(self, incomplete: str, pending: str) -> Iterator[Suggestion]:
        """Yield what may follow; `pending` is the option of pflow before the word, if it takes a value."""
        field = self._valueless()
        flag, equals, value = incomplete.partition("=")
        named = self._names.find(flag.removeprefix("--")) if equals and flag.startswith("--") else None
        if pending:
            yield from self._of_option(pending)
        elif field is not None:
            yield from _values(field, incomplete)
        elif named is not None:
            for each in _values(named, value):
                yield attrs.evolve(each, value=f"{flag}={each.value}")
        else:
            if not incomplete.startswith("-"):
                yield Suggestion(value="then", help="Run another node on the result")
            yield from self._flags(underscores="_" in incomplete)
            if incomplete.startswith("-"):
                yield from (Suggestion(value=option, help=about) for option, about in _ABOUT.items())

    def _of_option(self, option: str) -> Iterator[Suggestion]:
        for field in self._entry.interface.params:
            if option == _INPUT:
                yield Suggestion(value=field.key, help=field.description)
            elif option == PARAM:
                yield Suggestion(value=f"{field.key}=", help=field.description, type="stem")

    def _valueless(self) -> Field | None:
        """Return the parameter of the last flag, if its value is still to come."""
        last = self._words[-1] if self._words else ""
        if not last.startswith("--") or "=" in last:
            return None
        field = self._names.find(last.removeprefix("--"))
        return None if field is None or is_switch(field) else field

    def _flags(self, *, underscores: bool) -> Iterator[Suggestion]:
        """Yield the flags of the node, without those that are given and may not be repeated."""
        named = (word.partition("=")[0].removeprefix("--") for word in self._words if word.startswith("--"))
        found = (self._names.find(name) or self._names.find(name.removeprefix("no-")) for name in named)
        given = {field.key for field in found if field is not None and not is_list(field)}
        for field in self._entry.interface.params:
            flag = f"--{field.key}" if underscores else flag_of(field)
            if field.key in given or flag in OPTIONS:  # which win over flags of the same name
                continue
            about = f"Required. {field.description}" if field.required else field.description
            yield Suggestion(value=flag, help=about)
            if is_switch(field):
                yield Suggestion(value=flag.replace("--", "--no-", 1), help=about)


def _values(field: Field, incomplete: str) -> Iterator[Suggestion]:
    """Yield the values that a parameter may have: those of an enumeration, true and false, files."""
    if incomplete.startswith("@"):
        if not incomplete.startswith("@@"):
            yield Suggestion(value="@", type="file")
        return
    allowed = list(_allowed(field.schema))
    if not allowed and "bool" in field.types:
        allowed = ["true", "false"]
    yield from (Suggestion(value=value) for value in allowed)
    last = field.key.lower().replace("-", "_").split("_")[-1]
    if not allowed and "str" in field.types and last in _FILE_WORDS:
        yield Suggestion(value="", type="dir" if last in _FOLDER_WORDS else "file")


def _allowed(schema: object) -> Iterator[str]:
    """Yield the values of the enumeration in a JSON Schema, as they are typed."""
    if not isinstance(schema, Mapping):
        return
    values = schema.get("enum") or ([schema["const"]] if "const" in schema else [])
    for value in values if isinstance(values, list) else ():
        if value is not None:
            yield value if isinstance(value, str) else json.dumps(value)
    for key in ("anyOf", "oneOf", "items"):
        parts = schema.get(key)
        for part in parts if isinstance(parts, list) else (parts,):
            yield from _allowed(part)
