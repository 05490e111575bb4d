"""The difference between two versions of a tool, also as lines for people, or between two lists of tools.

What differs comes from a server that may try to hide it: characters that cannot be seen or told apart are
escaped, and what may break a use comes first if not everything fits. Lines are of bounded length: what is
left out of them is counted, and the JSON form has all of it.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Literal

import attrs

from pflow_mcp_plugin.catalog import json_values
from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.storage.json_and_toml import is_same
from pflow_mcp_plugin.terminal.looks import escape, one_line
from pflow_mcp_plugin.trust.name_index import plain_form
from pflow_mcp_plugin.trust.tool_claims import HINTS, changed_claims
from pflow_mcp_plugin.types import Tool

_MOST = 40
"""Differences of one tool that are shown."""
_AROUND = 6
"""Words that are shown before and after such a place."""
_SEE = "see --json"
"""How to see what lines leave out."""
_LONGEST_FIELD = 160
_LONGEST_PATH = 300
_LONGEST_TEXT = 2_000
_LONGEST_VALUE = 300
_MOST_WORDS = 50_000
_MOST_FOUND = 2_000
_WORD = re.compile(r"\w+")
_LATIN = re.compile(r"[A-Za-z]")
_LIKE_LATIN = re.compile(r"[\u0370-\u058f]")
"""Letters of Greek, Cyrillic and Armenian, many of which look like Latin ones."""
_BLANK = "\u2800"
"""A letter of Braille that looks like a space."""
_TEXTS = frozenset({"title", "description", "examples", "example", "$comment", "$schema", "$id"})
_NAMES = frozenset({"properties", "patternProperties", "$defs", "definitions"})
"""Keywords whose members are named by the author of a schema."""
_SETS = frozenset({"required", "enum", "type"})
"""Keywords whose lists have no order."""
_ABSENT: Any = object()


@attrs.frozen(kw_only=True)
class Difference:
    """One place where two versions of a tool, or of a server's instructions, differ."""

    field: str  # `annotations.destructiveHint`, `inputSchema.properties.title`...
    what: str  # `added`, `removed` or `changed`
    old: JSON = None
    new: JSON = None
    may_break: bool = False  # whether a use that was right before may be affected

    def to_dict(self) -> dict[str, JSON]:
        return {
            "field": self.field,
            "what": self.what,
            "old": whole(self.old),
            "new": whole(self.new),
            "may_break": self.may_break,
        }


def differences(old: Tool, new: Tool) -> tuple[Difference, ...]:
    """Return where two versions of a tool differ, except in `_meta`; never raises."""
    annotations = old.annotations, new.annotations
    found = [*text_difference("title", old.title, new.title)]
    found += text_difference("description", old.description, new.description)
    found += _walked("inputSchema", old.input_schema, new.input_schema)
    before, after = (_ABSENT if it is None else it for it in (old.output_schema, new.output_schema))
    found += _walked("outputSchema", before, after)
    # What a hint says that is new may be what was assumed without it.
    same = {f"annotations.{hint}" for hint in set(HINTS).difference(changed_claims(*annotations))}
    for each in _walked("annotations", *annotations):
        found.append(attrs.evolve(each, may_break=False) if each.field in same else each)
    return tuple(found)


def new_tool(tool: Tool) -> tuple[Difference, ...]:
    """Return what a tool that nobody approved says of itself, as differences from one that says nothing."""
    return tuple(attrs.evolve(each, may_break=False) for each in differences(Tool(name=tool.name), tool))


def text_difference(field: str, old: str, new: str) -> list[Difference]:
    """Return the difference between two texts of a tool in a list, empty if they are the same."""
    what = "added" if not old else "changed" if new else "removed"
    return [] if old == new else [Difference(field=field, what=what, old=old, new=new)]


def _walked(field: str, old: JSON, new: JSON) -> list[Difference]:
    found = list(islice(_members(field, old, new), _MOST_FOUND + 1))
    if len(found) <= _MOST_FOUND:
        return found
    # The last one stands for those that are not listed one by one.
    return [*found[: _MOST_FOUND - 1], _difference(field, field, old, new)]


def _members(field: str, old: JSON, new: JSON) -> Iterator[Difference]:
    waiting: list[tuple[str, str, JSON, JSON, int]] = [(field, field, old, new, 64)]
    while waiting:
        path, key, one, other, depth = waiting.pop()
        if is_same(one, other):
            continue
        lists = [it for it in (one, other) if depth and isinstance(it, list) and key not in _SETS]
        if depth and isinstance(one, Mapping) and isinstance(other, Mapping) and _fits(path, *one, *other):
            for name in reversed(dict.fromkeys((*one, *other))):
                pair = one.get(name, _ABSENT), other.get(name, _ABSENT)
                waiting.append((f"{path}.{name}", "" if key in _NAMES else str(name), *pair, depth - 1))
        elif len(lists) == 2 and len(lists[0]) == len(lists[1]):
            pairs = enumerate(zip(*lists, strict=True))
            waiting += [(f"{path}.{index}", "", first, second, depth - 1) for index, (first, second) in pairs]
        else:
            yield _difference(path, key, one, other)


def _fits(path: str, *names: object) -> bool:
    # Otherwise what has these names is one difference, which shows them whole.
    return len(path) < _LONGEST_PATH and all(len(str(name)) <= _LONGEST_FIELD for name in names)


def _difference(path: str, key: str, old: Any, new: Any) -> Difference:
    return Difference(
        field=path,
        what="added" if old is _ABSENT else "removed" if new is _ABSENT else "changed",
        old=None if old is _ABSENT else old,
        new=None if new is _ABSENT else new,
        may_break=_may_break(path, key, old, new),
    )


def _may_break(path: str, key: str, old: Any, new: Any) -> bool:
    if key in _TEXTS or (key == "idempotentHint" and new is True):
        return False
    if key in _SETS and isinstance(old, list) and isinstance(new, list):
        fewer, more = (old, new) if key == "required" else (new, old)
        return not all(any(is_same(it, one) for one in fewer) for it in more)
    is_member = path.rpartition(".")[0].rpartition(".")[2] in _NAMES
    return not (old is _ABSENT and (is_member or key == "outputSchema" or key in _NAMES))


def lines(
    name: str, found: Sequence[Difference], state: str = "changed since it was approved"
) -> Iterator[str]:
    """Yield the differences of a tool, or of `instructions`, as printable lines of bounded length."""
    # Those that may affect a use are marked with `!`, the others with `~`.
    yield f"{_cut(unmistakable(name), _LONGEST_FIELD)}: {state}"
    chosen = sorted(found, key=lambda each: not each.may_break)[:_MOST] if len(found) > _MOST else found
    for difference in chosen:
        mark, field = (
            "!" if difference.may_break else "~",
            _cut(unmistakable(difference.field), _LONGEST_FIELD),
        )
        yield f"  {mark} {field}: {difference.what}"
        yield from _value_lines(difference.old, difference.new)
    if len(found) > len(chosen):
        yield f"  and {len(found) - len(chosen):,} more ({_SEE})"


def _value_lines(*values: JSON) -> Iterator[str]:
    old, new = (
        it if it is None or isinstance(it, str) else json.dumps(whole(it), ensure_ascii=False)
        for it in values
    )
    is_long = len(old or "") + len(new or "") > _LONGEST_VALUE
    if old is not None and new is not None and (is_long or (old, new) == values):
        yield from _text_lines(old, new)
        return
    for sign, text in (("-", old), ("+", new)):
        if text is not None:
            yield f"      {sign} {_cut(unmistakable(' '.join(text.split())), _LONGEST_TEXT)}"


def unmistakable(text: str) -> str:
    """Return a text of a difference in one line, with what cannot be seen or told apart escaped."""
    if not text.isascii():
        is_latin = len(_LATIN.findall(text)) > len(_LIKE_LATIN.findall(text))

        def told_apart(found: re.Match[str]) -> str:
            # Letters that look like Latin ones but are not are escaped in Latin words, and among them.
            word = found[0]
            is_forged = _LATIN.search(word) or (is_latin and plain_form(word).isascii())
            return _LIKE_LATIN.sub(lambda strange: escape(strange[0]), word) if is_forged else word

        text = _WORD.sub(told_apart, text).replace(_BLANK, escape(_BLANK))
    return one_line(text)


def _text_lines(old: str, new: str) -> Iterator[str]:
    before, after = old.split(None, _MOST_WORDS), new.split(None, _MOST_WORDS)
    places = list(_places(before, after))
    if not places:
        yield "      (whitespace only)"
        return
    # The largest places: by the words that are new, then by those that are gone.
    largest = sorted(places, key=lambda place: (place[3] - place[2], place[1] - place[0]), reverse=True)
    chosen = sorted(largest[:6])
    for start, end, first, last in chosen:
        if before:
            yield f"      - {_around(before, start, end)}"
        if after:
            yield f"      + {_around(after, first, last)}"
    if len(places) > len(chosen):
        yield f"      and {len(places) - len(chosen):,} more places ({_SEE})"


def _around(words: Sequence[str], start: int, end: int) -> str:
    head = "... " if start > _AROUND else ""
    tail = " ..." if end + _AROUND < len(words) else ""
    left, right = " ".join(words[max(0, start - _AROUND) : start]), " ".join(words[end : end + _AROUND])
    middle = _cut(unmistakable(" ".join(words[start:end])), _LONGEST_TEXT)
    parts = (_cut(unmistakable(left), _LONGEST_VALUE), middle, _cut(unmistakable(right), _LONGEST_VALUE))
    return head + " ".join(part for part in parts if part) + tail


def _places(old: list[str], new: list[str]) -> Iterator[tuple[int, int, int, int]]:
    """Yield where the words of two texts differ: start and end in the old one, then in the new one."""
    shorter = min(len(old), len(new))
    first = next((at for at in range(shorter) if old[at] != new[at]), shorter)
    most = shorter - first
    last = next((at for at in range(most) if old[-1 - at] != new[-1 - at]), most)
    before, after = old[first : len(old) - last], new[first : len(new) - last]
    if not before and not after:
        return
    counts = Counter(after)
    steps = sum(counts[word] for word in before) * (min(len(before), len(after)) + 1)
    if steps > 5_000_000:
        yield first, first + len(before), first, first + len(after)
        return
    from difflib import SequenceMatcher  # needed only by a sync that found changes

    # Places with only a few words between them are one.
    for group in SequenceMatcher(None, before, after, autojunk=False).get_grouped_opcodes(_AROUND // 2):
        changed = [opcode for opcode in group if opcode[0] != "equal"]
        (_, start, _, start_of_new, _), (_, _, end, _, end_of_new) = changed[0], changed[-1]
        yield start + first, end + first, start_of_new + first, end_of_new + first


def _cut(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]} ... ({len(text) - 2 * half:,} more characters, {_SEE}) ... {text[-half:]}"


@attrs.frozen(kw_only=True)
class ChangedTool:
    """A tool of which two versions differ."""

    name: str  # its raw name
    differences: tuple[Difference, ...]
    hides: str = ""  # what is hidden from people in its new texts, as in no honest tool

    @property
    def kind(self) -> Literal["breaking", "compatible"]:
        return "breaking" if any(each.may_break for each in self.differences) else "compatible"

    @property
    def fields(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(each.field for each in self.differences))

    def to_dict(self) -> dict[str, JSON]:
        return {"tool": self.name, "differences": [each.to_dict() for each in self.differences]}


@attrs.frozen(kw_only=True)
class Changes:
    """The difference between two lists of tools: added, removed and changed ones, by raw name."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[ChangedTool, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)

    def to_dict(self) -> dict[str, JSON]:
        changed = [{"tool": c.name, "kind": c.kind, "fields": list(c.fields)} for c in self.changed]
        return {"added": list(self.added), "removed": list(self.removed), "changed": changed}


def compare(old: Iterable[Tool], new: Iterable[Tool]) -> Changes:
    """Return how two lists of tools differ: those added, removed and changed, in the order of `new`."""
    before = {tool.name: tool for tool in old}
    after = {tool.name: tool for tool in new}
    return Changes(
        added=tuple(name for name in after if name not in before),
        removed=tuple(name for name in before if name not in after),
        changed=tuple(
            ChangedTool(name=tool.name, differences=differences(other, tool))
            for other, tool in differing(before, after.values())
        ),
    )


def differing(old: Mapping[str, Tool], new: Iterable[Tool]) -> Iterator[tuple[Tool, Tool]]:
    """Yield each tool that is in both lists and differs, in its old version and its new one."""
    for tool in new:
        before = old.get(tool.name)
        # Hashes that differ may be those of older versions, which covered less.
        if before is None or (before.hash and before.hash == tool.hash):
            continue
        if json_values.tool_hash(before) != json_values.tool_hash(tool):
            yield before, tool


def whole(value: object) -> JSON:
    """Return a JSON value that differs between two tools: cut (`...`) only where it is nested too deeply."""
    return json_values.excerpt(value, 200, sys.maxsize, sys.maxsize)
