"""Whether a use of a tool is affected by how the tool changed since it was approved.

A use goes on if it means what it meant: the arguments that it passes still exist, no default of one that it
leaves out has changed, the outputs that it reads are still declared, and no hint became more dangerous.
Whether the arguments fit the new schema is for the validator to say. Texts do not matter: no model reads them
during a run.

The objections are read by models too. Of what only the new version says, they contain just the names of
types.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import attrs

from pflow_mcp_plugin.catalog.json_values import excerpt
from pflow_mcp_plugin.catalog.tool_catalog import approval_command
from pflow_mcp_plugin.contract import UNKNOWN, Problem
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.errors import McpError, Where
from pflow_mcp_plugin.schemas.argument_validation import Validator
from pflow_mcp_plugin.schemas.schema_reader import (
    ANY,
    CONTENT_BLOCKS,
    SchemaDocument,
    declaration,
    table_of,
    unwrapped,
)
from pflow_mcp_plugin.storage.json_and_toml import is_same
from pflow_mcp_plugin.terminal.looks import one_line
from pflow_mcp_plugin.trust.tool_claims import worse_hints
from pflow_mcp_plugin.types import Tool, ToolRecord

Path = tuple[str | int, ...]

_ABSENT: Any = object()
_EMPTY: tuple[JSON, ...] = (None, False, "", 0, [], {})
_MOST_LEFT_OUT = 200
"""The most left-out objects whose insides are compared."""
_WORSE = {
    "readOnlyHint": "it no longer claims to read only",
    "destructiveHint": "it now claims to be destructive",
    "openWorldHint": "it now claims to reach beyond its own data",
}


def objections(
    old: Tool, new: Tool, arguments: Mapping[str, object], reads: Collection[Path] = ()
) -> Iterator[tuple[str, str]]:
    """Yield how a use of a tool is affected by its change: an argument's path (or empty), and words.

    `arguments` has `UNKNOWN` where only the run knows the value; `reads` are the paths of outputs.
    """
    yield from (("", _WORSE[hint]) for hint in worse_hints(old.annotations, new.annotations))
    if not is_same(old.input_schema, new.input_schema):
        sides = _Side(old.input_schema), _Side(new.input_schema)
        yield from _of_arguments(*sides, arguments, "", 8)
    before, after = _Results(old.output_schema), _Results(new.output_schema)
    for path in sorted(reads, key=str):
        if path and path[0] not in ("error", CONTENT_BLOCKS) and (what := before.lost(path, after)):
            yield "", what


class _Side:
    """The old or the new input schema of a tool that is used, or a part of it."""

    def __init__(self, schema: JSON, within: _Side | None = None) -> None:
        self.document: SchemaDocument = within.document if within else SchemaDocument(schema)
        # Parts of left-out objects that were already compared: a schema may refer to itself again and again.
        self.seen: set[tuple[int, ...]] = within.seen if within else set()
        self.schema = schema
        self.declared = declaration(schema, self.document)
        self._parts = self.document.composed(schema)
        # A list of many objects asks for the same parts.
        self._inside: dict[str, _Side] = {}
        self._items: dict[int, _Side | None] = {}

    def inside(self, key: str) -> _Side:
        if key not in self._inside:
            self._inside[key] = _Side(self.declared.properties[key], self)
        return self._inside[key]

    def item(self, index: int) -> _Side | None:
        place = min(index, 32)  # later items are judged by the schema of this one
        if place not in self._items:
            items = self.document.items(self.schema, place)
            self._items[place] = None if items is None else _Side(items, self)
        return self._items[place]

    def other(self) -> _Side | None:
        others = self.document.others(self.schema)
        return None if others is None else _Side(others, self)

    def default(self, key: str) -> Any:
        named = [table_of(part.get("properties")).get(key) for part in self._parts]
        for raw in (self.declared.properties.get(key), *named):
            for member in (table_of(raw), *self.document.composed(raw)):
                if "default" in member:
                    return member["default"]
        return _ABSENT


def _of_arguments(
    old: _Side, new: _Side, given: Mapping[str, object], path: str, depth: int
) -> Iterator[tuple[str, str]]:
    for key in old.declared.properties:
        place = f"{path}.{key}" if path else key
        if key not in new.declared.properties:
            if key in given and new.declared.more is not False:  # else the validator refuses it
                yield place, f"argument {place} no longer exists"
        elif key not in given:
            yield from _of_left_out(old, new, key, place, depth)
        elif depth:
            yield from _of_value(old.inside(key), new.inside(key), given[key], place, depth - 1)
    unnamed = [key for key in given if key not in old.declared.properties]
    before, after = (old.other(), new.other()) if unnamed and depth else (None, None)
    for key in unnamed:
        if before and after and key not in new.declared.properties:
            yield from _of_value(before, after, given[key], f"{path}.{key}" if path else key, depth - 1)


def _of_value(old: _Side, new: _Side, value: object, path: str, depth: int) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        yield from _of_arguments(old, new, value, path, depth)
        return
    for index, item in enumerate(value if isinstance(value, list) and depth else ()):
        before, after = old.item(index), new.item(index)
        if before and after and item is not UNKNOWN:
            yield from _of_value(before, after, item, f"{path}[{index}]", depth - 1)


def _of_left_out(old: _Side, new: _Side, key: str, place: str, depth: int) -> Iterator[tuple[str, str]]:
    before, after = old.default(key), new.default(key)
    # A default that is not written down is believed to be an empty value.
    is_empty = [it is _ABSENT or any(is_same(it, empty) for empty in _EMPTY) for it in (before, after)]
    if all(is_empty) or is_same(before, after):
        inner: Any = {} if after is _ABSENT else after
        if not depth or not isinstance(inner, Mapping) or len(new.seen) > _MOST_LEFT_OUT:
            return
        sides = old.inside(key), new.inside(key)
        pair = tuple(id(side.document.resolve(side.schema)) for side in sides)
        if pair in new.seen or not sides[1].declared.properties:
            return
        new.seen.add(pair)
        if len(new.seen) > _MOST_LEFT_OUT:
            yield "", "it has too many arguments to compare the defaults of all that are left out"
        yield from _of_arguments(*sides, inner, place, depth - 1)
    else:
        was = "was not stated" if before is _ABSENT else f"was {excerpt(before)!r}"
        # A string could be a text that nobody approved.
        now = f"now {after!r}" if isinstance(after, bool | int | float) else "different now"
        is_now = "is no longer stated" if after is _ABSENT else f"is {now}"
        yield place, f"the default of {place}, which is left out, {was} and {is_now}"


class _Results:
    """What the output schema of a tool that is used declares of its results."""

    def __init__(self, schema: JSON) -> None:
        self._document = SchemaDocument(schema)
        self._whole = None if schema is None else unwrapped(self._document, schema)

    def lost(self, path: Path, now: _Results) -> str:
        """Return what the tool's new output schema lacks of an output that a use reads; empty if nothing."""
        inside = path[1:] if path[0] == "result" else path
        for length in range(len(inside), -1, -1):
            types = self._types(inside[:length])
            if types is not None:
                break
        else:
            return ""
        after = now._types(inside[:length])
        name = ".".join(map(str, path[: length + len(path) - len(inside)] or path))
        if after is None:
            return f"output {name}, which is read, is no longer declared" if length else ""
        # Every `int` is a `float`.
        one, other = ({"float" if it == "int" else it for it in names} for names in (types, after))
        if one & other - {"None"} or ANY in one | other or one == other:
            return ""
        was, now_is = (" | ".join(sorted(names)) for names in (types, after))
        return f"output {name}, which is read, was {was} and is now {now_is}"

    def _types(self, path: Path) -> set[str] | None:
        schema = self._whole
        if schema is None:
            return None
        for part in path:
            if isinstance(part, str):
                named = declaration(schema, self._document).properties
                schema = named[part] if part in named else self._document.others(schema)
            else:
                found = self._document.items(schema, part)
                schema = table_of(self._document.resolve(schema)).get("items") if found is None else found
            if schema is None:
                return None
        return set(self._document.friendly(schema).split(" | "))


class ToolUse:
    """Judges the uses of a tool that may have changed since its approval, before a run and each call.

    Errors name the tool by `where`.
    """

    def __init__(self, record: ToolRecord, where: Where) -> None:
        self._record = record
        self._where = where
        quotable = record.tool.input_schema if record.is_approved else False
        self._validator = Validator(record.found.input_schema, where, quotable)

    @property
    def notice(self) -> str:
        if not self._record.has_changed:
            return ""
        see = f"see: pflow mcp diff {self._record.server}"
        return f"{self._changed}; what is used of it did not ({see})"

    def problems(
        self, arguments: Mapping[str, object], reads: Collection[Path] = (), reported: Collection[str] = ()
    ) -> Iterator[Problem]:
        """Yield the problems of this use of the tool, and of its change; see `objections` for arguments.

        Arguments in `reported` are known to be missing.
        """
        for violation in self._validator.violations(arguments):
            if violation.is_new:
                yield self._affected(str(violation), violation.argument)
            elif violation.path not in reported:
                yield self._validator.problem(violation)
        for path, what in self._objections(arguments, reads):
            yield self._affected(what, path)

    def check(self, arguments: JSONObject) -> JSONObject:
        """Check a use of a tool that may have changed since its approval, and return what to send.

        Raises `McpError` if the use does not fit or is affected by the tool's change.
        """
        sent: JSONObject = self._validator.without_unset(arguments)
        violations = self._validator.violations(sent)
        new = [str(each) for each in violations if each.is_new]
        if violations and not new:
            raise self._validator.error(violations)
        what = [*new, *(words for _, words in self._objections(sent, ()))]
        if what:
            raise McpError(
                f"{self._changed}: {'; '.join(what)}",
                where=self._where._replace(phase="arguments"),
                next_step=self._step,
                violations=[attrs.asdict(each) for each in violations],
                differences=[*what],
                approve=self._approval,
                kind="validation",
            )
        return sent

    def _objections(
        self, arguments: Mapping[str, object], reads: Collection[Path]
    ) -> Iterator[tuple[str, str]]:
        if self._record.has_changed:
            yield from objections(self._record.tool, self._record.found, arguments, reads)

    @property
    def _changed(self) -> str:
        what = "changed since it was approved" if self._record.is_approved else "is not approved yet"
        return f"Tool {one_line(self._record.tool.name)} of server {self._record.server} {what}"

    @property
    def _approval(self) -> str:
        return approval_command(self._record.server, self._record.tool.name)

    @property
    def _step(self) -> str:
        see = f"pflow mcp diff {self._record.server}"
        return f"See the difference: {see}; mend the use, then approve the tool: {self._approval}"

    def _affected(self, what: str, path: str) -> Problem:
        return Problem(
            message=f"{self._changed}: {what}",
            path=path,
            suggestion=self._step,
            kind="validation",
            source="mcp",
        )
