"""Node types by their beginning, with their descriptions; too many are shortened to common stems."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pflow_mcp_plugin.contract import Suggestion
from pflow_mcp_plugin.host.registry.node_registry import NodeRegistry

_MANY = 200
"""The most node types that are offered one by one."""


def node_types(registry: NodeRegistry, beginning: str) -> list[Suggestion]:
    """Return the node types that begin as typed.

    If there are too many, a stem stands for all that go on alike: `web-page-` for `web-page-read`, ....
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


def by_stem(names: Sequence[str], beginning: str, many: int = _MANY) -> dict[str, list[str]]:
    """Return too many names by their stems: what goes up to the next hyphen, else is one letter longer.

    Args:
        names: Names that begin alike.
        beginning: How they begin.
        many: How many stems are enough.
    """
    while True:
        length = len(beginning)
        found = _grouped((name[: name.find("-", length) + 1 or len(name)], name) for name in names)
        if len(found) > many:
            found = _grouped((name[: length + 1], name) for name in names)
        if len(found) != 1:
            return found
        (beginning,) = found


def _grouped(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for stem, name in pairs:
        groups.setdefault(stem, []).append(name)
    return groups
