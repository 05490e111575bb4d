"""A registry of a few node types, for checks of workflows, and a source of some for a whole host."""

from collections.abc import Iterator
from itertools import chain
from types import SimpleNamespace
from typing import Any

from pflow_mcp_plugin.contract import Entry, Field, Interface, NodeSource, Problem, Sketch, hookimpl

NOTHING = Interface()


def fields(*written: str | Field) -> tuple[Field, ...]:
    """Return fields, each written `count: int!` (required) or given as `Field`."""
    return tuple(it if isinstance(it, Field) else _field(it) for it in written)


def _field(text: str) -> Field:
    key, _, kind = text.partition(":")
    return Field(key=key, type=kind.strip(" !") or "any", required=text.endswith("!"))


def entry_of(node_type: str, interface: Interface = NOTHING, **facts: Any) -> Entry:
    """Return the entry of a node type whose class nobody loads."""
    return Entry(node=node_type, class_name="N", module="m", interface=interface, **facts)


class NodeTypes:
    """The node types in `known`; nothing is wrong with their uses, and none has an older shape."""

    def __init__(self, *entries: Entry) -> None:
        self.known = {entry.node: entry for entry in entries}

    def find(self, node_type: str) -> Entry | None:
        return self.known.get(node_type)

    def missing(self, node_type: str) -> Problem:
        return Problem(message=f"Unknown node type {node_type}", suggestion="Sync it", kind="not_found")

    def unmet(self, uses: Any) -> tuple[()]:
        return ()

    def check_use(self, use: Any) -> Any:
        return ()

    def upgrade(self, node: Any) -> Any:
        return None


class ListedNodes(NodeSource):
    """The entries and sketches in `found`; a node with a sketch has an entry that says no more."""

    def __init__(self, name: str, *found: Entry | Sketch, prefixes: tuple[str, ...] = ("t-",)) -> None:
        self.name = name
        self.prefixes = prefixes
        self.found = list(found)

    def fingerprint(self) -> str:
        return ascii([(it.node, it.description) for it in self.found])

    def get(self, node_type: str) -> Entry | None:
        found = next((it for it in self.found if it.node == node_type), None)
        if isinstance(found, Sketch):
            return entry_of(node_type, description=found.description, family=found.family)
        return found

    def entries(self) -> Iterator[Entry]:
        return (it for it in self.found if isinstance(it, Entry))

    def sketches(self) -> Iterator[Sketch]:
        return chain(super().sketches(), (it for it in self.found if isinstance(it, Sketch)))


def plugin_of(*sources: Any, name: str = "nodes") -> Any:
    """Return a plugin with some node sources."""
    return SimpleNamespace(plugin_name=name, pflow_register_nodes=hookimpl(lambda host: sources))
