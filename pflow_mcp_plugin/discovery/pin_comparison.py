"""How what a sync found differs from what was approved, and what is approved from then on."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

import attrs

from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.contract.printable_text import one_line
from pflow_mcp_plugin.discovery import launch_identity
from pflow_mcp_plugin.discovery.pins import Pinned
from pflow_mcp_plugin.discovery.tool_changes import differ
from pflow_mcp_plugin.discovery.tool_file import ToolFile
from pflow_mcp_plugin.trust import tool_danger, tool_difference
from pflow_mcp_plugin.trust.hidden_text import hidden_text
from pflow_mcp_plugin.trust.renamed_tools import renamed
from pflow_mcp_plugin.trust.tool_danger import Verdict
from pflow_mcp_plugin.trust.tool_texts import Text, texts
from pflow_mcp_plugin.types import Tool

_GONE = 1000
"""The tools that no longer exist of which the pins are kept, for each server."""
_NAMED = 3
_LONGEST = 200
_SAME = Verdict(kind="same", differences=())


@attrs.frozen(kw_only=True)
class ChangedTool:
    """A tool that a comparison found to differ from its approved version.

    Attributes:
        name: Its raw name.
        old_name: The name under which it was approved, if that was another.
        verdict: How it differs.
    """

    name: str
    old_name: str = ""
    verdict: Verdict

    def to_dict(self) -> dict[str, JSON]:
        """Return the changed tool in JSON form."""
        renamed: dict[str, JSON] = {"old_name": self.old_name} if self.old_name else {}
        return {"tool": self.name, **renamed, **self.verdict.to_dict()}


@attrs.frozen(kw_only=True)
class Comparison:
    """A comparison of what a sync found with the pins of its server.

    Attributes:
        launches: The approved and the found launch, if they differ.
        instructions: How the server's instructions differ.
        hidden_in_instructions: What people do not see in instructions that differ; empty if there is nothing.
        tools: The tools that differ, whether that needs an approval or not.
        hiding: The new tools with text that people do not see and no honest tool has, by raw name, with what
            was found.
    """

    launches: tuple[JSONObject, JSONObject] | None = None
    instructions: Verdict = _SAME
    hidden_in_instructions: str = ""
    tools: tuple[ChangedTool, ...] = ()
    hiding: Mapping[str, str] = attrs.field(factory=dict)

    @property
    def unapproved(self) -> str:
        """Why the comparison lets none of the server's tools be used; empty if it does."""
        if self.launches:
            old, new = launch_identity.difference(*self.launches)
            return f"it is now started by {new}, and its tools were approved for {old}"
        if self.instructions.kind != "changed":
            return ""
        if self.hidden_in_instructions:
            return f"its instructions hide text that nobody approved: {self.hidden_in_instructions}"
        return "its instructions changed"

    @property
    def changed(self) -> dict[str, str]:
        """The tools that need an approval as of the comparison, by raw name, with the reason in short."""
        changed = {tool.name: _in_short(tool) for tool in self.tools if tool.verdict.kind == "changed"}
        return {**self.hiding, **changed}

    @property
    def pending(self) -> Comparison:
        """The comparison without what needs no approval, which a sync has pinned already."""
        is_changed = self.instructions.kind == "changed"
        return attrs.evolve(
            self,
            instructions=self.instructions if is_changed else _SAME,
            hidden_in_instructions=self.hidden_in_instructions if is_changed else "",
            tools=tuple(tool for tool in self.tools if tool.verdict.kind == "changed"),
        )

    def __bool__(self) -> bool:
        return bool(self.unapproved or self.changed)

    def lines(self) -> Iterator[str]:
        """Yield the comparison in lines for a terminal; nothing if there is no difference."""
        if self.launches:
            old, new = launch_identity.difference(*self.launches)
            yield from (f"launch: changed, approved for {old}", f"  now {new}")
        if self.instructions.kind != "same":
            yield from tool_difference.lines("instructions", self.instructions)
        for tool in self.tools:
            yield from tool_difference.lines(tool.name, tool.verdict)
        yield from (f"{one_line(name)}: {reason}" for name, reason in self.hiding.items())

    def to_dict(self) -> dict[str, JSON]:
        """Return the comparison in JSON form."""
        launches = self.launches and {"approved": self.launches[0], "now": self.launches[1]}
        return {
            "launch": launches,
            "instructions": self.instructions.to_dict(),
            "tools": [tool.to_dict() for tool in self.tools],
            "hiding": {**self.hiding},
        }


NOTHING = Comparison()
"""The comparison that found no difference."""


def compare(pinned: Pinned, found: ToolFile) -> Comparison:
    """Compare what a sync found with what was approved."""
    there = {tool.name for tool in found.tools}
    gone = [tool for name, tool in pinned.tools.items() if name not in there]
    new = [tool for tool in found.tools if tool.name not in pinned.tools]
    origins = {added.name: removed for removed, added in renamed(gone, new)}
    pairs = ((pinned.tools.get(tool.name) or origins.get(tool.name), tool) for tool in found.tools)
    launches = (pinned.launch, found.launch or {})
    instructions = found.info.instructions
    return Comparison(
        launches=None if launch_identity.same(*launches) else launches,
        instructions=tool_danger.judge_instructions(pinned.instructions, instructions),
        hidden_in_instructions="" if instructions == pinned.instructions else _hidden(_prose(instructions)),
        tools=tuple(_changed_tools((old, tool) for old, tool in pairs if old)),
        hiding={
            tool.name: f"hides text that nobody approved: {hidden}"
            for tool in new
            if (hidden := _hidden(texts(tool)))
        },
    )


def first_pins(before: ToolFile | None, found: ToolFile) -> Pinned | None:
    """Return the pins of a server that has none, None if this is its first sync.

    Args:
        before: The result of its previous sync. If an older version made it, which had no pins, and the
            config is the same, it counts as the first sync.
        found: What the sync found.
    """
    is_older = before is not None and before.launch is None
    if before is None or not is_older or before.config_fingerprint != found.config_fingerprint:
        return None
    tools = {tool.name: tool for tool in before.tools}
    return Pinned(launch=found.launch or {}, instructions=before.info.instructions, tools=tools)


def nothing_pinned(found: ToolFile) -> Pinned:
    """Return the pins with which the first sync of a launch is compared.

    They approve no tool, and the instructions unless those hide text.
    """
    instructions = found.info.instructions
    hides = _hidden(_prose(instructions))
    return Pinned(launch=found.launch or {}, instructions="" if hides else instructions)


def pinned_anew(pinned: Pinned, found: ToolFile, comparison: Comparison) -> Pinned:
    """Return the pins after a sync: what needs an approval stays as it was, the rest is what was found."""
    if comparison.launches:
        return pinned
    changed = comparison.changed
    there = {tool.name for tool in found.tools}
    good = {tool.name: tool for tool in found.tools if tool.name not in changed}
    gone = [name for name in pinned.tools if name not in there]
    # Of too many the last ones are forgotten: no server can push the older out by listing others.
    forgotten = {*gone[_GONE:]}
    kept = {name: tool for name, tool in pinned.tools.items() if name not in forgotten}
    stays = comparison.instructions.kind == "changed"
    return Pinned(
        launch=pinned.launch,
        instructions=pinned.instructions if stays else found.info.instructions,
        # Tools that are gone stay pinned: one that comes back is compared with what it was.
        tools={**kept, **good},
    )


def approved(found: ToolFile) -> Pinned:
    """Return the pins that approve all that a sync found."""
    tools = {tool.name: tool for tool in found.tools}
    return Pinned(launch=found.launch or {}, instructions=found.info.instructions, tools=tools)


def approved_tools(pinned: Pinned, found: ToolFile, names: Collection[str]) -> Pinned:
    """Return the pins that approve these tools as a sync found them, and leave the others as they are."""
    old = {tool.old_name for tool in compare(pinned, found).tools if tool.name in names}
    kept = {name: tool for name, tool in pinned.tools.items() if name not in old}
    now = {tool.name: tool for tool in found.tools if tool.name in names}
    return attrs.evolve(pinned, tools={**kept, **now})


def marked(found: ToolFile, comparison: Comparison) -> ToolFile:
    """Return the result of a sync with marks on what a comparison found to need an approval."""
    return attrs.evolve(found, unapproved=comparison.unapproved, changed=comparison.changed)


def _changed_tools(pairs: Iterable[tuple[Tool, Tool]]) -> Iterator[ChangedTool]:
    for old, tool in pairs:
        verdict = tool_danger.judge(old, tool) if old.name != tool.name or differ(old, tool) else _SAME
        if verdict.kind != "same":
            old_name = old.name if old.name != tool.name else ""
            yield ChangedTool(name=tool.name, old_name=old_name, verdict=verdict)


def _prose(instructions: str) -> list[Text]:
    return [Text("instructions", instructions, "prose")]


def _hidden(said: Iterable[Text]) -> str:
    """Return what texts hide that no honest author writes, empty if they do not."""
    found = hidden_text("", "", said)
    worst = next((each for each in found if each.severity == "error"), None)
    return f"{worst.where} {worst.message}" if worst else ""


def _in_short(tool: ChangedTool) -> str:
    dangerous = [each for each in tool.verdict.differences if each.dangerous]
    words = [f"it was approved as {tool.old_name}"] if tool.old_name else []
    words += [f"{each.field} {each.what}" for each in dangerous if each.field != "name"][:_NAMED]
    text = ", ".join(words) + (", and more" if len(dangerous) > _NAMED else "")
    shown = one_line(text[:_LONGEST]) + ("..." if len(text) > _LONGEST else "")
    return f"changed since it was approved: {shown}"
