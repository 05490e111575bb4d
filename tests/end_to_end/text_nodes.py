"""A plugin for tests with a node for text, one that shows what it was given, and one for the shared store."""

from __future__ import annotations

from typing import Any

import pocketflow

from pflow_mcp_plugin.contract import Entry, Field, Interface, NodeSource, hookimpl

CARD = (
    Field(key="title", type="str", required=True, description="What stands above"),
    Field(key="body", type="str", description="What stands below"),
    Field(key="meta", type="dict"),
)


class SummarizeText(pocketflow.Node):
    """Shortens a text to its first words."""

    def prep(self, shared: Any) -> Any:
        return self.params.get("text", shared.get("text"))

    def post(self, shared: Any, prep_res: Any, exec_res: Any) -> str:
        shared["summary"] = f"In short: {prep_res}"
        return "default"


class ShowCard(pocketflow.Node):
    """Gives what it was given."""

    def post(self, shared: Any, prep_res: Any, exec_res: Any) -> str:
        own = {it.key: self.params[it.key] for it in CARD if it.key in self.params}
        found = {it.key: shared[it.key] for it in CARD if it.key in shared}
        shared["card"] = {**found, **own}
        return "default"


class TextNodes(NodeSource):
    """The nodes of this plugin."""

    name = "text"
    prefixes = ("summarize-", "show-")
    known = (
        Entry(
            node="summarize-text",
            class_name="SummarizeText",
            module=__name__,
            source="text",
            interface=Interface(
                inputs=("text",),
                params=(Field(key="text", type="str", required=True),),
                outputs=(Field(key="summary", type="str"),),
            ),
        ),
        Entry(
            node="show-card",
            class_name="ShowCard",
            module=__name__,
            source="text",
            interface=Interface(
                inputs=("title", "body"), params=CARD, outputs=(Field(key="card", type="dict"),)
            ),
        ),
    )

    def fingerprint(self) -> str:
        return "1"

    def get(self, node_type: str) -> Entry | None:
        return next((entry for entry in self.known if entry.node == node_type), None)

    def entries(self) -> Any:
        return iter(self.known)


@hookimpl
def pflow_register_nodes() -> Any:
    return [TextNodes()]
