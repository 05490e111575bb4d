"""Loads a workflow from YAML text: the same values as in JSON, by the rules of YAML 1.2.

`true`, `false` and `null` are words, numbers are decimal, and everything else is a string: `yes`,
`2024-01-31` and `007` too. There are no tags and no merge keys. Aliases count as often as they are used.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NoReturn

import attrs

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.host.workflow.findings import Findings, at

DEEPEST = 100
"""Levels of lists and objects that are loaded."""
MOST_VALUES = 500_000
"""Values that are loaded, those that aliases repeat included."""
_WHOLE = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_SPECIAL = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_QUOTED = re.compile(r"""'[^']*'|"(\\.|[^"\\])*\"""")
_WORDS: dict[str, JSON] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}

Place = tuple[int, int]
"""Line and column, from 1."""


@attrs.define
class _Container:
    """A list or an object that is being read, its key in wait, and how many values it has had so far."""

    value: Any
    path: str
    place: Place
    anchor: str | None = None
    key: str | None = None
    size: int = 1


class YamlText:
    """The value in a YAML text.

    Args:
        text: The text.
        origin: Its file, for messages.

    Attributes:
        value: The value.
        places: Line and column of each part, by its JSON path; of a member those of its key.
        findings: Duplicate keys, of which all but one value would be lost.

    Raises:
        PflowError: It is not YAML (line and column are named), or has what JSON has no form for, or too much.
    """

    def __init__(self, text: str, origin: str) -> None:
        self.value: JSON = None
        self.places: dict[str, Place] = {}
        self.findings = Findings()
        self._origin = origin
        self._open: list[_Container] = []
        self._anchors: dict[str, tuple[JSON, int]] = {}
        self._documents = 0
        for event in self._events(text):
            self._take(event)

    def _events(self, text: str) -> Iterator[Any]:
        import yaml

        loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
        try:
            yield from yaml.parse(text, Loader=loader)
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            reason = getattr(error, "problem", None) or str(error)
            place = (mark.line + 1, mark.column + 1) if mark else (0, 0)
            line = text.splitlines()[mark.line : mark.line + 1] if mark else []
            unquoted = any("${" in _QUOTED.sub("", each) for each in line)
            step = f'Put quotes around what has ${{...}} in line {place[0]}: "${{name}}"' if unquoted else ""
            self._refuse(f"not valid YAML: {reason}", place, step)

    def _take(self, event: Any) -> None:
        kind = type(event).__name__
        place = (event.start_mark.line + 1, event.start_mark.column + 1)
        if kind == "DocumentStartEvent":
            self._documents += 1
            if self._documents > 1:
                self._refuse("has more than one document", place)
        elif kind in ("MappingStartEvent", "SequenceStartEvent"):
            self._require_plain(event, place, ("map",) if kind == "MappingStartEvent" else ("seq",))
            self._begin({} if kind == "MappingStartEvent" else [], event.anchor, place)
        elif kind in ("MappingEndEvent", "SequenceEndEvent"):
            self._end()
        elif kind == "ScalarEvent":
            self._scalar(event, place)
        elif kind == "AliasEvent":
            if event.anchor not in self._anchors:
                self._refuse(f"*{event.anchor} refers to no earlier anchor", place)
            self._add(*self._anchors[event.anchor], place)

    def _begin(self, value: Any, anchor: str | None, place: Place) -> None:
        if len(self._open) >= DEEPEST:
            self._refuse(f"nested deeper than {DEEPEST} levels", place)
        if self._open and isinstance(self._open[-1].value, dict) and self._open[-1].key is None:
            self._refuse("a key must be a string", place)
        self._open.append(_Container(value, self._path(), place, anchor))
        self.places.setdefault(self._open[-1].path, place)

    def _end(self) -> None:
        closed = self._open.pop()
        if closed.anchor:
            self._anchors[closed.anchor] = (closed.value, closed.size)
        self._add(closed.value, closed.size, closed.place)

    def _scalar(self, event: Any, place: Place) -> None:
        self._require_plain(event, place, ("str",))
        holder = self._open[-1] if self._open else None
        if holder and isinstance(holder.value, dict) and holder.key is None:
            self._name(holder, event, place)
            return
        value = self._resolved(event.value, place) if event.implicit[0] else event.value
        if event.anchor:
            self._anchors[event.anchor] = (value, 1)
        self._add(value, 1, place)

    def _name(self, holder: _Container, event: Any, place: Place) -> None:
        if event.value == "<<" and event.implicit[0]:
            self._refuse("merge keys (<<) are not supported", place)
        holder.key = event.value
        path = self._path()
        if event.value in holder.value:
            self.findings.error(path, f"Duplicate key {event.value} in {holder.path}", "Remove one")
        self.places[path] = place

    def _path(self) -> str:
        if not self._open:
            return "$"
        holder = self._open[-1]
        if isinstance(holder.value, dict):
            return at(holder.path, holder.key or "")
        return f"{holder.path}[{len(holder.value)}]"

    def _add(self, value: JSON, size: int, place: Place) -> None:
        if not self._open:
            self.value = value
            return
        holder = self._open[-1]
        holder.size += size
        if holder.size > MOST_VALUES:
            self._refuse(f"more than {MOST_VALUES:,} values, those of aliases included", place)
        if isinstance(holder.value, dict):
            if holder.key is None:
                self._refuse("a key must be a string", place)
            holder.value[holder.key] = value
            holder.key = None
            return
        self.places.setdefault(self._path(), place)
        holder.value.append(value)

    def _require_plain(self, event: Any, place: Place, kinds: tuple[str, ...]) -> None:
        if event.tag is not None and event.tag not in ("!", *(f"tag:yaml.org,2002:{kind}" for kind in kinds)):
            self._refuse(f"tags such as {event.tag} are not supported", place)

    def _resolved(self, text: str, place: Place) -> JSON:
        if text in _WORDS:
            return _WORDS[text]
        if _SPECIAL.fullmatch(text):
            self._refuse(f"{text} is not a JSON value", place)
        if _WHOLE.fullmatch(text):
            if len(text) > 4_000:
                self._refuse(f"a whole number of {len(text):,} digits is too large", place)
            return int(text)
        if _NUMBER.fullmatch(text) and not re.fullmatch(r"[-+]?0[0-9]+", text):
            number = float(text)
            if number - number != 0:
                self._refuse(f"{text[:40]} is too large a number", place)
            return number
        return text

    def _refuse(self, reason: str, place: Place, step: str = "") -> NoReturn:
        line, column = place
        raise PflowError(
            f"{self._origin}: {reason} at line {line}, column {column}",
            details={"file": self._origin, "line": line, "column": column},
            suggestions=(step or f"Fix line {line} of {self._origin}",),
            kind="validation",
        )
