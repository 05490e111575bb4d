"""Whether a new version of a tool, or of a server's instructions, must be approved before it is used."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

import attrs

from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.trust import schema_changes
from pflow_mcp_plugin.types import Tool

Kind = Literal["same", "compatible", "changed"]


@attrs.frozen(kw_only=True)
class Difference:
    """One place where two versions of a tool differ.

    Attributes:
        field: `description`, `annotations.destructiveHint`, `inputSchema.properties.title`...
        what: What happened to it, in a few words for people: `now required`, `text changed`.
        old: The value before, None if there was none.
        new: The value now, None if there is none.
        dangerous: Whether it must be approved before the tool is used again.
        breaks: Whether a workflow that used the tool may fail now.
    """

    field: str
    what: str
    old: JSON = None
    new: JSON = None
    dangerous: bool = False
    breaks: bool = False


@attrs.frozen(kw_only=True)
class Verdict:
    """How a new version differs from the approved one.

    Attributes:
        kind: `changed` if it must be approved first, `compatible` if it goes through with a line.
        differences: All of them, in the order of the fields.
    """

    kind: Kind
    differences: tuple[Difference, ...]

    def to_dict(self) -> dict[str, JSON]:
        """Return the verdict in JSON form."""
        return {"kind": self.kind, "differences": [attrs.asdict(each) for each in self.differences]}


def judge(old: Tool, new: Tool) -> Verdict:
    """Return how a tool differs from the version that was approved."""
    return _verdict(_differences(old, new))


def judge_instructions(old: str, new: str) -> Verdict:
    """Return how a server's instructions differ from those that were approved."""
    return _verdict(_text("instructions", old, new))


def renamed(removed: Iterable[Tool], added: Iterable[Tool]) -> Iterator[tuple[Tool, Tool]]:
    """Yield the pairs of a removed and an added tool that are the same tool under another name."""
    left = list(added)
    for tool in removed:
        for other in left:
            if (tool.description, tool.input_schema) == (other.description, other.input_schema):
                left.remove(other)
                yield tool, other
                break


def _verdict(found: Iterable[Difference]) -> Verdict:
    differences = tuple(found)
    changed = any(each.dangerous for each in differences)
    return Verdict(
        kind="changed" if changed else "compatible" if differences else "same", differences=differences
    )


def _differences(old: Tool, new: Tool) -> Iterator[Difference]:
    if old.name != new.name:
        yield Difference(
            field="name", what="renamed", old=old.name, new=new.name, dangerous=True, breaks=True
        )
    yield from _text("title", old.title, new.title)
    yield from _text("description", old.description, new.description)
    yield from _schemas("inputSchema", old.input_schema, new.input_schema, ("narrower", "unknown"))
    if old.output_schema is None or new.output_schema is None:
        if old.output_schema is not new.output_schema:
            lost = new.output_schema is None
            what = "removed" if lost else "added"
            yield Difference(
                field="outputSchema",
                what=what,
                old=old.output_schema,
                new=new.output_schema,
                dangerous=lost,
                breaks=lost,
            )
    else:
        yield from _schemas("outputSchema", old.output_schema, new.output_schema, ("wider", "unknown"))
    yield from _annotations(old.annotations, new.annotations)


def _text(field: str, old: str, new: str) -> Iterator[Difference]:
    if old != new:
        alike = "".join(old.split()).casefold() == "".join(new.split()).casefold()
        what = "corrected" if alike else "text changed"
        yield Difference(field=field, what=what, old=old, new=new, dangerous=not alike)


def _schemas(field: str, old: JSONObject, new: JSONObject, bad: tuple[str, ...]) -> Iterator[Difference]:
    for item in schema_changes.differences(old, new, field):
        breaks = item.direction in bad
        yield Difference(field=item.path, what=item.direction, dangerous=breaks, breaks=breaks)


def _annotations(old: JSONObject, new: JSONObject) -> Iterator[Difference]:
    for key in dict.fromkeys((*old, *new)):
        if old.get(key) != new.get(key):
            yield Difference(
                field=f"annotations.{key}", what="changed", old=old.get(key), new=new.get(key), dangerous=True
            )
