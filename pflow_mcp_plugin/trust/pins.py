"""The pins of each server: what the user approved of it, and how what a sync found differs from that.

There is one file for each server, with its launch, instructions and every approved tool in full. Only the
user changes it: by a first sync, or by `pflow mcp approve`. So a tool is compared with the
version that a person approved, however many small steps led away from it. A file that is corrupt is refused,
since an empty one would approve whatever the next sync finds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import attrs

from pflow_mcp_plugin import storage
from pflow_mcp_plugin.catalog.tool_file import ToolFile, tool_from_json, tool_to_json
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.storage.files import refuse_newer
from pflow_mcp_plugin.storage.json_and_toml import as_string, as_table
from pflow_mcp_plugin.terminal.looks import one_line
from pflow_mcp_plugin.trust import launch_identity, tool_difference
from pflow_mcp_plugin.trust.hidden_text import Text, hidden_text, texts
from pflow_mcp_plugin.trust.tool_difference import ChangedTool, Difference, differences, differing, new_tool
from pflow_mcp_plugin.types import Tool

SCHEMA_VERSION = 1


@attrs.frozen(kw_only=True)
class Pinned:
    """The pins of one server: the launch, instructions and tools that were approved."""

    launch: JSONObject  # the identity of the launch that they hold for
    instructions: str = ""
    tools: Mapping[str, Tool] = attrs.field(factory=dict)  # by raw name; some may no longer exist


_Changed = TypeVar("_Changed", bound=Pinned | None)


@attrs.frozen
class Pins:
    """The pins of all servers: a folder with a file for each."""

    folder: Path
    # The folders of projects' tool files by server; their pins are beside them.
    apart: Callable[[], Mapping[str, Path]] = dict

    def read(self, server: str) -> Pinned | None:
        """Return the pins of a server, None if nothing of it was approved; a corrupt file is refused."""
        path = self._path(server)
        content = storage.read_own(path)
        return None if content is None else _decode(path, content)

    def update(self, server: str, change: Callable[[Pinned | None], _Changed]) -> _Changed:
        path = self._path(server)
        with storage.locked(path):
            before = self.read(server)
            after = change(before)
            if after is not None and after != before:
                storage.write_atomic(path, _encode(server, after))
            return after

    def approve_launch(self, server: str, launch: JSONObject) -> None:
        """Let the pins of a server hold for another launch; its tools are still compared with them."""
        if self.read(server):
            self.update(server, lambda pinned: pinned and attrs.evolve(pinned, launch=launch))

    def forget(self, server: str) -> None:
        """Delete the pins of a server, corrupt ones too: its next sync is the first one."""
        storage.remove(self._path(server))

    def _path(self, server: str) -> Path:
        apart = self.apart().get(server)
        folder = apart.with_name("pins") if apart else self.folder
        return folder / f"{server}.json"


def _encode(server: str, pinned: Pinned) -> bytes:
    data: dict[str, JSON] = {
        "schema_version": SCHEMA_VERSION,
        "server": server,
        "launch": pinned.launch,
        "instructions": pinned.instructions,
    }
    # Not `storage.encode_json`: it refuses numbers that are not finite, which schemas may contain.
    tools = ",\n".join(json.dumps(tool_to_json(tool)) for tool in pinned.tools.values())
    return f'{json.dumps(data)[:-1]}, "tools": [\n{tools}\n]}}\n'.encode("ascii")


def _decode(path: Path, content: bytes) -> Pinned:
    try:
        data: dict[str, Any] = storage.decode_json(path, content)
        refuse_newer(path, data["schema_version"], SCHEMA_VERSION, "approved tools")
        pinned = Pinned(
            launch=as_table(data["launch"]),
            instructions=as_string(data["instructions"]),
            tools={tool.name: tool for tool in map(tool_from_json, data["tools"])},
        )
        server = as_string(data["server"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise storage.CorruptFile(path, f"not the approved tools of server {path.stem}: {error!r}") from error
    if server != path.stem:
        raise storage.CorruptFile(path, f"it belongs to another server: {server!r:.100}")
    return pinned


@attrs.frozen(kw_only=True)
class Comparison:
    """How the pins of a server differ from what a sync found."""

    launches: tuple[JSONObject, JSONObject] | None = None  # approved and found, if they differ
    instructions: tuple[Difference, ...] = ()
    hidden_in_instructions: str = ""  # what is hidden from people in instructions that differ
    tools: tuple[ChangedTool, ...] = ()  # the approved ones that differ
    new: tuple[ChangedTool, ...] = ()  # those that nobody approved

    @property
    def unapproved(self) -> str:
        if self.launches:
            old, new = launch_identity.difference(*self.launches)
            return f"it is now started by {new}, and its tools were approved for {old}"
        if self.hidden_in_instructions:
            return "its instructions hide text that nobody approved"
        return ""

    @property
    def withheld(self) -> dict[str, str]:
        # Models read the reason: it quotes nothing.
        return {name: "hides text that nobody approved" for name, text in self.hidden.items() if text}

    @property
    def hidden(self) -> dict[str, str]:
        return {tool.name: tool.hides for tool in (*self.new, *self.tools)}

    def __bool__(self) -> bool:
        return bool(self.launches or self.instructions or self.tools or self.new)

    def lines(self) -> Iterator[str]:
        if self.launches:
            old, new = launch_identity.difference(*self.launches)
            yield from (f"launch: changed, approved for {old}", f"  now {new}")
        if self.instructions:
            yield from tool_difference.lines("instructions", self.instructions)
        for tool in self.tools:
            yield from tool_difference.lines(tool.name, tool.differences)
        for tool in self.new:
            yield from tool_difference.lines(tool.name, tool.differences, "not approved yet")
        if self.hidden_in_instructions:
            yield f"instructions: {self.unapproved}: {self.hidden_in_instructions}"
        for name, reason in self.withheld.items():
            yield f"{one_line(name)}: {reason}: {self.hidden[name]}"

    def to_dict(self) -> dict[str, JSON]:
        launches = self.launches and {"approved": self.launches[0], "now": self.launches[1]}
        return {
            "launch": launches,
            "instructions": [each.to_dict() for each in self.instructions],
            "tools": [tool.to_dict() for tool in self.tools],
            "new": [tool.to_dict() for tool in self.new],
            "withheld": {**self.withheld},
        }


NOTHING = Comparison()
"""The comparison that found no difference."""


def compare(pinned: Pinned, found: ToolFile) -> Comparison:
    """Compare the pins of a server, what the user approved of it, with what a sync found."""
    launches = (pinned.launch, found.launch or {})
    instructions = found.info.instructions
    changed = tool_difference.text_difference("instructions", pinned.instructions, instructions)
    return Comparison(
        launches=None if launch_identity.same(*launches) else launches,
        instructions=tuple(changed),
        hidden_in_instructions=_hidden([Text("instructions", instructions, "prose")]) if changed else "",
        tools=tuple(
            ChangedTool(
                name=new.name, differences=differences(old, new), hides=_hidden(texts(new), texts(old))
            )
            for old, new in differing(pinned.tools, found.tools)
        ),
        new=tuple(
            ChangedTool(name=tool.name, differences=new_tool(tool), hides=_hidden(texts(tool)))
            for tool in found.tools
            if tool.name not in pinned.tools
        ),
    )


def older_pins(before: ToolFile | None, found: ToolFile) -> Pinned | None:
    """Return pins for a server that an older version, which had none, synced with the same config."""
    if before and before.launch is None and before.config_fingerprint == found.config_fingerprint:
        return attrs.evolve(approved(before), launch=found.launch or {})
    return None


def first_pins(found: ToolFile) -> Pinned:
    """Return the pins that a server gets at its first sync: all that it found, except what hides text."""
    everything = approved(found)
    new = compare(attrs.evolve(everything, instructions="", tools={}), found)
    tools = {name: tool for name, tool in everything.tools.items() if name not in new.withheld}
    instructions = "" if new.hidden_in_instructions else everything.instructions
    return attrs.evolve(everything, instructions=instructions, tools=tools)


def approved(found: ToolFile) -> Pinned:
    """Return the pins by which all that a sync found of a server is approved."""
    tools = {tool.name: tool for tool in found.tools}
    return Pinned(launch=found.launch or {}, instructions=found.info.instructions, tools=tools)


def approved_tools(pinned: Pinned, found: ToolFile, names: Collection[str]) -> Pinned:
    """Return the pins with these tools pinned as a sync found them; the others are as before."""
    now = {tool.name: tool for tool in found.tools if tool.name in names}
    return attrs.evolve(pinned, tools={**pinned.tools, **now})


def reviewed(found: ToolFile, pinned: Pinned, comparison: Comparison) -> ToolFile:
    """Return a tool file marked by its pins: with the pinned version of each tool that differs from that."""
    changed = {tool.name for tool in comparison.tools}
    return attrs.evolve(
        found,
        approved={name: tool for name, tool in pinned.tools.items() if name in changed},
        new=frozenset(tool.name for tool in comparison.new),
        withheld=comparison.withheld,
        unapproved=comparison.unapproved,
    )


def _hidden(said: Iterable[Text], known: Iterable[Text] = ()) -> str:
    before = {each.text for each in known}
    found = hidden_text("", "", (each for each in said if each.text not in before))
    # A warning is for what an honest author may write.
    worst = next((each for each in found if each.severity == "error"), None)
    return f"{worst.where} {worst.message}" if worst else ""
