"""A registry of a few node types, for checks of workflows."""

from __future__ import annotations

from typing import Any

from pflow_mcp_plugin.contract import Entry, Field, Interface, Problem

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
