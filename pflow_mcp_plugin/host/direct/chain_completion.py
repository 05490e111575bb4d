"""What may come next in a chain of nodes: node types, their flags and the flags' values, `then`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import attrs

from pflow_mcp_plugin.contract import Entry, Field, Suggestion
from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.host.direct.link_words import (
    OPTIONS,
    PARAM,
    SEPARATORS,
    flag_field,
    flag_of,
    is_list,
    is_switch,
    read_chain,
)
from pflow_mcp_plugin.host.registry.node_registry import NodeRegistry
from pflow_mcp_plugin.schemas.schema_reader import SchemaDocument, list_of

_INPUT = "--input"
_WITH_VALUE = (_INPUT, PARAM, "--save", "--description")
_ABOUT = {
    "--help": "Show the flags and outputs of the node",
    "--json": "Print one JSON object",
    "--print": "Print the nodes as a workflow; run nothing",
    "--save": "Save the nodes as a workflow under a name; run nothing",
    "--description": "What that workflow is for",
    _INPUT: "Turn a flag into an input of the workflow",
    PARAM: "Set a parameter by its exact name",
}
_MANY = 200
"""The most node types that are offered individually."""
_FOLDER_WORDS = frozenset({"folder", "directory", "dir"})
_FILE_WORDS = _FOLDER_WORDS | {"path", "file", "filename"}


def chain_suggestions(registry: NodeRegistry, words: Sequence[str], incomplete: str) -> list[Suggestion]:
    """Return the completions that may follow `words` in a chain of nodes and begin with `incomplete`."""
    if not words or words[-1] in SEPARATORS:
        return [] if incomplete.startswith("-") else node_types(registry, incomplete)
    link = read_chain(words).links[-1]
    entry = registry.find(link.node) if link.node else None
    if entry is None:
        return []
    found = _suggestions(entry, link.words, words[-1], incomplete)
    return [
        each
        for each in found
        if (
            incomplete.startswith(each.value)
            if each.type in {"file", "dir"}
            else each.value.startswith(incomplete)
        )
    ]


def _suggestions(entry: Entry, words: Sequence[str], last: str, incomplete: str) -> Iterator[Suggestion]:
    """Yield the completions after the words of a chain's last node; `last` is the last complete word."""
    find = partial(flag_field, entry.interface)
    flag, equals, value = incomplete.partition("=")
    named = find(flag.removeprefix("--")) if equals and flag.startswith("--") else None
    # A flag without its value: what follows is the value, unless it is a switch.
    bare = words[-1].removeprefix("--") if words and words[-1].startswith("--") else ""
    field = find(bare) if bare and "=" not in bare else None
    if last in _WITH_VALUE:
        for param in entry.interface.params:
            if last == _INPUT:
                yield Suggestion(value=param.key, help=param.description)
            elif last == PARAM:
                yield Suggestion(value=f"{param.key}=", help=param.description, type="stem")
    elif field is not None and not is_switch(field):
        yield from _values(field, incomplete)
    elif named is not None:
        for each in _values(named, value):
            yield attrs.evolve(each, value=f"{flag}={each.value}")
    else:
        if not incomplete.startswith("-"):
            yield Suggestion(value="then", help="Run another node on the result")
        yield from _flags(entry, words, underscores="_" in incomplete)
        if incomplete.startswith("-"):
            yield from (Suggestion(value=option, help=about) for option, about in _ABOUT.items())


def _flags(entry: Entry, words: Sequence[str], *, underscores: bool) -> Iterator[Suggestion]:
    find = partial(flag_field, entry.interface)
    typed = (word.partition("=")[0].removeprefix("--") for word in words if word.startswith("--"))
    found = (find(name) or find(name.removeprefix("no-")) for name in typed)
    given = {field.key for field in found if field is not None and not is_list(field)}
    for field in entry.interface.params:
        flag = f"--{field.key}" if underscores else flag_of(field)
        if field.key in given or flag in OPTIONS:  # pflow's own options win over flags of the same name
            continue
        about = f"Required. {field.description}" if field.required else field.description
        yield Suggestion(value=flag, help=about)
        if is_switch(field):
            yield Suggestion(value=flag.replace("--", "--no-", 1), help=about)


def _values(field: Field, incomplete: str) -> Iterator[Suggestion]:
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


def _allowed(schema: JSON) -> Iterator[str]:
    document = SchemaDocument(schema)
    for part in (*document.composed(schema), *document.composed(document.items(schema))):
        for value in list_of(part.get("enum")) or ([part["const"]] if "const" in part else []):
            if value is not None:
                yield value if isinstance(value, str) else json.dumps(value)


def node_types(registry: NodeRegistry, beginning: str) -> list[Suggestion]:
    """Return the completions of the beginning of a node type.

    If there are too many, a stem stands for several: `web-page-` for `web-page-read`, ....
    """
    about = dict(registry.beginning(beginning))
    if len(about) <= _MANY:
        return [Suggestion(value=name, help=text) for name, text in about.items()]
    return [
        Suggestion(value=stem, type="stem")
        if len(names) > 1
        else Suggestion(value=names[0], help=about[names[0]])
        for stem, names in by_stem(list(about), beginning).items()
    ]


def by_stem(names: Sequence[str], beginning: str) -> dict[str, list[str]]:
    """Group very many node types a chain may go on with: by stem, up to a hyphen, else one letter longer."""
    while True:
        length = len(beginning)
        found = _grouped((name[: name.find("-", length) + 1 or len(name)], name) for name in names)
        if len(found) > _MANY:
            found = _grouped((name[: length + 1], name) for name in names)
        if len(found) != 1:
            return found
        (beginning,) = found


def _grouped(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for stem, name in pairs:
        groups.setdefault(stem, []).append(name)
    return groups
