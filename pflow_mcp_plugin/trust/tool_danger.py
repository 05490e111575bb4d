"""Whether a new version of a tool, or of a server's instructions, must be approved before it is used.

A tool may become wider: a new optional argument, more values accepted, more returned. Texts may be
corrected. Everything else is dangerous: fewer values accepted, a lost output, a text with another meaning,
another default of an argument that callers leave out, another claim in the annotations. `_meta` does not
count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

import attrs

from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.trust import schema_changes, schema_texts, text_changes
from pflow_mcp_plugin.trust.json_equality import is_same
from pflow_mcp_plugin.trust.json_excerpt import excerpt
from pflow_mcp_plugin.trust.schema_keywords import ABSENT
from pflow_mcp_plugin.types import Tool

Kind = Literal["same", "compatible", "changed"]

_ASSUMED: Mapping[str, bool] = {
    "readOnlyHint": False,
    "destructiveHint": True,
    "idempotentHint": False,
    "openWorldHint": True,
}
"""What is assumed of a tool without the hint (MCP specification 2025-11-25, `ToolAnnotations`)."""
_EMPTY: tuple[JSON, ...] = (False, "", 0, [], {})
_MOST_WORDS_OF_A_TITLE = 8
_RETURNED = {"now required": "now always returned", "no longer required": "may now be missing"}
_OF_CLASSES = "Arguments Args Input Inputs Model Output Params Parameters Request Response Result Schema"
"""Words in the titles of schemas that are generated from the names of classes."""


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

    def to_dict(self) -> dict[str, JSON]:
        """Return the difference in JSON form; long values are cut."""
        return {
            "field": self.field[:500],
            "what": self.what,
            "old": excerpt(self.old),
            "new": excerpt(self.new),
            "dangerous": self.dangerous,
            "breaks": self.breaks,
        }


@attrs.frozen(kw_only=True)
class Verdict:
    """How a new version differs from the approved one.

    Attributes:
        kind: `changed` if it must be approved first, `compatible` if it goes through and is only reported.
        differences: All of them, in the order of the fields.
    """

    kind: Kind
    differences: tuple[Difference, ...]

    def to_dict(self) -> dict[str, JSON]:
        """Return the verdict in JSON form."""
        return {"kind": self.kind, "differences": [each.to_dict() for each in self.differences]}


def judge(old: Tool, new: Tool) -> Verdict:
    """Return how a tool differs from the version that was approved; never raises, whatever a server sent."""
    return _verdict(_differences(old, new))


def judge_instructions(old: str, new: str) -> Verdict:
    """Return how a server's instructions differ from those that were approved."""
    return _verdict(_text("instructions", old, new))


def _verdict(found: Iterable[Difference]) -> Verdict:
    differences = tuple(found)
    changed = any(each.dangerous for each in differences)
    kind: Kind = "changed" if changed else "compatible" if differences else "same"
    return Verdict(kind=kind, differences=differences)


def _differences(old: Tool, new: Tool) -> Iterator[Difference]:
    if old.name != new.name:
        yield Difference(
            field="name", what="renamed", old=old.name, new=new.name, dangerous=True, breaks=True
        )
    yield from _title("title", old.title, new.title, new.name)
    yield from _text("description", old.description, new.description)
    yield from _input(old, new)
    yield from _output(old, new)
    yield from _annotations(old, new)


def _text(field: str, old: object, new: object) -> Iterator[Difference]:
    if is_same(old, new):
        return
    if not (isinstance(old, str) and isinstance(new, str)):
        yield _difference(field, "changed", old, new, dangerous=True)
    elif text_changes.is_correction(old, new):
        yield _difference(field, "text corrected", old, new)
    else:
        what = "text removed" if not new.strip() else "text changed" if old.strip() else "text added"
        if text_changes.hidden(new) - text_changes.hidden(old):
            what += ", hidden characters"
        yield _difference(field, what, old, new, dangerous=True)


def _title(field: str, old: object, new: object, name: str) -> Iterator[Difference]:
    """Judge a title like a text; without one the name is shown, so that one may go, or spell the name out."""
    spelled = isinstance(new, str) and text_changes.is_worded_with(new, [name])
    if spelled and (not new or not old) and old != new:
        yield _difference(field, "removed" if old else "added", old or ABSENT, new or ABSENT)
    else:
        yield from _text(field, "" if old is None else old, "" if new is None else new)


def _input(old: Tool, new: Tool) -> Iterator[Difference]:
    known = schema_texts.Known(old.input_schema, new.input_schema)
    for item in schema_changes.differences(old.input_schema, new.input_schema, "inputSchema"):
        yield from _of_schema(item, known, ("narrower", "unknown"), new.name)
    yield from _unseen("inputSchema", known)


def _output(old: Tool, new: Tool) -> Iterator[Difference]:
    before, after = old.output_schema, new.output_schema
    known = schema_texts.Known(before, after)
    if before is not None and after is None:
        yield _difference("outputSchema", "removed", before, ABSENT, dangerous=True, breaks=True)
    elif before is None and after is not None:
        yield _added("outputSchema", "added", ABSENT, after, schema_texts.objection(after, known))
    elif before is not None:
        for item in schema_changes.differences(before, after, "outputSchema"):
            yield from _of_schema(item, known, ("wider", "unknown"), new.name)
        yield from _unseen("outputSchema", known)


def _of_schema(
    item: schema_changes.SchemaDifference, known: schema_texts.Known, bad: tuple[str, ...], tool: str
) -> Iterator[Difference]:
    known.show(item.new)
    if item.aspect == "text":
        yield from _schema_text(item, known, tool)
        return
    breaks = item.direction in bad
    what = _RETURNED.get(item.what, item.what) if "wider" in bad else item.what
    what = f"default {what}" if item.aspect == "default" else what
    objection = "" if breaks or item.new is ABSENT else schema_texts.objection_to_more(item, known)
    turned = "narrower" in bad and item.aspect == "default" and _turns(item.old, item.new)
    yield _difference(
        item.path,
        f"{what}, {objection}" if objection else what,
        item.old,
        item.new,
        dangerous=breaks or turned or bool(objection),
        breaks=breaks,
    )


def _unseen(field: str, known: schema_texts.Known) -> Iterator[Difference]:
    """Judge the texts that are in no difference, because another text at their place overrides them."""
    for kind, text in known.unseen():
        objection = schema_texts.objection_to_text(kind, text)
        if objection or kind == "text":
            yield _added(field, "text added", ABSENT, text, objection)


def _turns(old: Any, new: Any) -> bool:
    """Whether a default changes what happens in calls that leave the argument out.

    One that was not written down before is believed to be what always happened, except for a switch that is
    now on: without a default it was off.
    """
    if old is ABSENT:
        return new is True
    return not (new is ABSENT and any(is_same(old, empty) for empty in _EMPTY))


def _schema_text(
    item: schema_changes.SchemaDifference, known: schema_texts.Known, tool: str
) -> Iterator[Difference]:
    """Judge a text inside a schema: corrected, moved, added where there was none, or changed."""
    keyword = item.path.rpartition(".")[2]
    if item.new is ABSENT:
        lost = keyword == "description" and not known.remains(item.old)
        yield _difference(item.path, "text removed", item.old, ABSENT, dangerous=lost)
    elif not isinstance(item.new, str):
        yield _difference(item.path, "changed", item.old, item.new, dangerous=True)
    elif keyword == "title" and _is_name(item, tool):
        what = "text added" if item.old is ABSENT else "text changed"
        yield _difference(item.path, what, item.old, item.new)
    elif isinstance(item.old, str) and item.old.strip():
        yield from _text(item.path, item.old, item.new)
    elif known.was_there(item.new):
        yield _difference(item.path, "text moved", item.old, item.new)
    else:
        most = _MOST_WORDS_OF_A_TITLE if keyword == "title" else text_changes.MOST_WORDS
        yield _added(item.path, "text added", item.old, item.new, text_changes.objection(item.new, most))


def _is_name(item: schema_changes.SchemaDifference, tool: str) -> bool:
    """Whether a title is the name of what it belongs to, as it is generated from code."""
    place = item.path.split(".")
    name = place[-2] if len(place) > 2 else tool
    old = item.old if isinstance(item.old, str) else ""
    return text_changes.is_worded_with(item.new, [name, old, _OF_CLASSES])


def _annotations(old: Tool, new: Tool) -> Iterator[Difference]:
    before, after = ({} if not isinstance(it, Mapping) else it for it in (old.annotations, new.annotations))
    for key in dict.fromkeys((*before, *after)):
        field, one, other = f"annotations.{key}", before.get(key, ABSENT), after.get(key, ABSENT)
        if is_same(one, other):
            continue
        if key == "title":
            yield from _title(field, before.get(key, ""), after.get(key, ""), new.name)
            continue
        assumed = _ASSUMED.get(key, ABSENT)
        same = assumed is not ABSENT and is_same(
            *(assumed if it in (ABSENT, None) else it for it in (one, other))
        )
        what = "added" if one is ABSENT else "removed" if other is ABSENT else "changed"
        yield _difference(field, f"{what}, as assumed" if same else what, one, other, dangerous=not same)


def _added(field: str, what: str, old: object, new: object, objection: str) -> Difference:
    what = f"{what}, {objection}" if objection else what
    return _difference(field, what, old, new, dangerous=bool(objection))


def _difference(
    field: str, what: str, old: Any, new: Any, *, dangerous: bool = False, breaks: bool = False
) -> Difference:
    return Difference(
        field=field,
        what=what,
        old=None if old is ABSENT else old,
        new=None if new is ABSENT else new,
        dangerous=dangerous,
        breaks=breaks,
    )
