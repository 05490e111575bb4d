"""Node types by their beginning, with their descriptions; too many are shortened to common stems."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from pflow_mcp_plugin.contract import Suggestion
from pflow_mcp_plugin.host.registry.node_registry import NodeRegistry

_MANY = 200
"""The most node types that are offered one by one."""


def node_types(registry: NodeRegistry, beginning: str) -> list[Suggestion]:
    """Return the node types that begin as typed.

    If there are too many, each stands for all with the same next word: `mcp-github-` for those of a server.
    """
    return shortened([Suggestion(name, about) for name, about in registry.beginning(beginning)], beginning)


def shortened(suggestions: Iterable[Suggestion], beginning: str, many: int = _MANY) -> list[Suggestion]:
    """Return suggestions, or the stems up to their next hyphen if there are too many of them."""
    found = list(suggestions)
    while len(found) > many:
        by_stem: dict[str, list[Suggestion]] = defaultdict(list)
        for each in found:
            end = each.value.find("-", len(beginning))
            by_stem[each.value[: end + 1] if end >= 0 else each.value].append(each)
        if len(by_stem) > 1 or beginning in by_stem:
            return [
                its[0] if len(its) == 1 else Suggestion(stem, type="stem") for stem, its in by_stem.items()
            ]
        (beginning,) = by_stem
    return found
