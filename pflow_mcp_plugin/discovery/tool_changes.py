"""The difference between two lists of tools: added, removed and changed ones."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import attrs

from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.trust import json_values, tool_difference
from pflow_mcp_plugin.types import Tool


@attrs.frozen(kw_only=True)
class ToolChange:
    """A tool that is in both lists of tools, but changed.

    Attributes:
        tool: Its raw name.
        kind: `breaking` if a workflow that used it may be affected.
        fields: The fields that differ: `description`, `inputSchema.properties.title.type`...
    """

    tool: str
    kind: Literal["breaking", "compatible"]
    fields: tuple[str, ...]


@attrs.frozen(kw_only=True)
class Changes:
    """The difference between two lists of tools, by raw names."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[ToolChange, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)

    def to_dict(self) -> dict[str, JSON]:
        """Return the difference between two lists of tools in JSON form: added, removed and changed ones."""
        changed = [{"tool": c.tool, "kind": c.kind, "fields": list(c.fields)} for c in self.changed]
        return {"added": list(self.added), "removed": list(self.removed), "changed": changed}


def compare(old: Iterable[Tool], new: Iterable[Tool]) -> Changes:
    """Return which tools were added, removed and changed from `old` to `new`, in the order of `new`."""
    before = {tool.name: tool for tool in old}
    after = {tool.name: tool for tool in new}
    pairs = ((before[name], tool) for name, tool in after.items() if name in before)
    return Changes(
        added=tuple(name for name in after if name not in before),
        removed=tuple(name for name in before if name not in after),
        changed=tuple(_change(*pair) for pair in pairs if differ(*pair)),
    )


def _change(old: Tool, new: Tool) -> ToolChange:
    found = tool_difference.differences(old, new)
    return ToolChange(
        tool=new.name,
        kind="breaking" if any(each.may_break for each in found) else "compatible",
        fields=tuple(dict.fromkeys(each.field for each in found)),
    )


def differ(old: Tool, new: Tool) -> bool:
    """Whether two versions of a tool differ; hashes of older versions, which covered less, are ignored."""
    if old.hash and old.hash == new.hash:
        return False
    return json_values.tool_hash(old) != json_values.tool_hash(new)
