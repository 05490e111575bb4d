"""The text of workflows: their files, JSON and YAML, and where in the text problems are.

YAML gives the same values as JSON, by the rules of YAML 1.2: `true`, `false` and `null` are words, numbers
are decimal, and everything else is a string: `yes`, `2024-01-31` and `007` too. There are no tags and no
merge keys. Aliases count as often as they are used.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath
from shlex import quote
from typing import Any, NoReturn

import attrs

from pflow_mcp_plugin.contract import PflowError, Problem
from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.host.workflow.findings import Findings, at, cut, parts_in, refusal
from pflow_mcp_plugin.host.workflow.findings import shown as described
from pflow_mcp_plugin.storage import NotRegular, read_named
from pflow_mcp_plugin.storage.json_and_toml import json_hint
from pflow_mcp_plugin.terminal.similar_names import closest

MOST_TEXT = 8 << 20
"""The most characters of a text that is loaded as a workflow: in memory, JSON can take 20 times as much."""
_LONGEST = 4_000
"""The most digits of a whole number that is loaded; Python's own limit is 4,300."""
_TOKEN = re.compile(r'[\s\ufeff]*([{}\[\],:]|"(?:[^"\\]|\\.)*"|[^\s{}\[\],:"]+)')
DEEPEST = 100
"""The most levels of lists and objects that are loaded."""
MOST_VALUES = 500_000
"""The most values that are loaded, including those that aliases repeat."""
_WHOLE = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_SPECIAL = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_BREAKS = re.compile("[\x85\u2028\u2029]")
"""Line breaks of YAML 1.1 beyond those of JSON."""
_QUOTED = re.compile(r"""'[^']*'|"(\\.|[^"\\])*\"""")
_WORDS: dict[str, JSON] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}

Place = tuple[int, int]
"""Line and column, from 1."""


def read_workflow(path: Path) -> dict[str, JSON]:
    """Read a workflow from its file, JSON or YAML; the error says why it cannot be used."""
    text = read_text(path)
    try:
        return load_workflow(text, str(path))
    except PflowError as error:
        if path.suffix.lower() == ".md":
            error.suggestions = (f"To convert Markdown: pflow workflow import {quote(str(path))}",)
        raise


def read_text(path: Path) -> str:
    """Read the text of a workflow file; raise PflowError if there is none, or it cannot be read."""
    try:
        return read_named(path).decode()
    except FileNotFoundError as error:
        raise PflowError(
            f"No such file: {path}", suggestions=similar_files(path), kind="not_found"
        ) from error
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror}"
        steps = (f"Pass it as standard input: - < {path}",) if isinstance(error, NotRegular) else ()
        raise PflowError(message, suggestions=steps, kind="not_found") from error
    except UnicodeDecodeError as error:
        message = f"{path} is not UTF-8 (byte {error.start})"
        raise PflowError(message, suggestions=("Save it as UTF-8",), kind="validation") from error


def similar_files(path: Path) -> tuple[str, ...]:
    """For a workflow to be read from a missing file: suggest the JSON or YAML file with the nearest name."""
    suffixes = (".json", ".yaml", ".yml")
    files = path.parent.iterdir() if path.parent.is_dir() else ()
    # The suffix is left out of the comparison: short names that share it would all be alike.
    names = {item.stem: item.name for item in files if item.suffix in suffixes}
    close = closest(path.stem, names)[:1]
    return tuple(f"Did you mean {path.parent / names[stem]}?" for stem in close)


def is_yaml(origin: str, text: str) -> bool:
    """Return whether a workflow's text is YAML: by its file's suffix, or if it does not begin like JSON.

    JSON has a quote after the first `{`; YAML may have a name there.
    """
    suffix = PurePath(origin).suffix.lower()
    if suffix in (".json", ".yaml", ".yml"):
        return suffix != ".json"
    return not re.match(r'[\ufeff \t\r\n]*+(\[|\{[ \t\r\n]*+(["}]|$))', text)


def load_workflow(text: str, origin: str, what: str = "a workflow") -> dict[str, JSON]:
    """Load the JSON or YAML text of a workflow, or of another object that messages call `what`.

    `origin` is the name of its file; `is_yaml` goes by the suffix. An error names line and column, or each
    duplicate key.
    """
    if len(text) > MOST_TEXT:
        message = f"{origin}: the text is longer than {MOST_TEXT:,} characters, too long for {what}"
        raise _refused(origin, message, step="Keep large data in files that nodes read")
    text = text.removeprefix("\ufeff")
    if is_yaml(origin, text):
        read = YamlText(text, origin)
        value, findings = read.value, read.findings
    else:
        try:
            value, findings = _read_json(text)
        except json.JSONDecodeError as error:
            message = f"{origin} is not valid JSON: {error.msg} at line {error.lineno}, column {error.colno}"
            raise _refused(origin, message, (error.lineno, error.colno), json_hint(error)) from error
        except ValueError as error:
            raise _refused(origin, f"{origin}: {error}") from error
        except RecursionError as error:
            raise _refused(origin, f"{origin}: nested too deeply") from error
    if not isinstance(value, dict):
        raise _refused(origin, f"{origin}: {what} is a JSON object, this is {described(value)}")
    if findings.problems:
        raise refusal(origin, findings.problems)
    return value


def to_yaml(value: JSON) -> str:
    """Return a workflow as YAML, from which `YamlText` reads the same values."""
    import yaml

    class Dumper(yaml.SafeDumper):  # type: ignore[misc] # it has no types
        """Writes a workflow with texts of several lines as blocks; quotes what YAML 1.2 takes for numbers."""

    Dumper.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(f"(?:{_NUMBER.pattern})$"), None)

    def text(dumper: Any, value: str) -> Any:
        style = '"' if _BREAKS.search(value) else "|" if "\n" in value else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, text)
    return str(yaml.dump(value, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=110))


def _refused(origin: str, message: str, place: Place | None = None, step: str = "") -> PflowError:
    details: dict[str, object] = {"file": origin}
    if place:
        line, column = place
        details |= {"line": line, "column": column}
        step = step or f"Fix line {line} of {origin}"
    return PflowError(message, details=details, suggestions=(step,) if step else (), kind="validation")


def _read_json(text: str) -> tuple[JSON, Findings]:
    """Read a workflow's JSON text and report duplicate keys, of which all but one would be lost."""
    repeated: list[tuple[dict[str, JSON], list[str]]] = []

    def joined(pairs: list[tuple[str, JSON]]) -> dict[str, JSON]:
        members = dict(pairs)
        if len(members) < len(pairs):
            counts = Counter(key for key, _ in pairs)
            repeated.append((members, [key for key, count in counts.items() if count > 1]))
        return members

    # `parse_constant` is called for NaN and Infinity, which Python's decoder accepts.
    value = json.loads(
        text, parse_constant=_number, parse_float=_number, parse_int=_whole, object_pairs_hook=joined
    )
    findings = Findings()
    # By identity, as the decoder does not tell where in the text an object is.
    places = {id(part): path for path, part in parts_in(value, "$")} if repeated else {}
    for members, keys in repeated:
        path = places.get(id(members), "")  # empty if the object itself was replaced by a duplicate
        for key in keys if path else ():
            findings.error(at(path, key), f"Duplicate key {key} in {path}", "Remove one")
    return value, findings


def _whole(text: str) -> int:
    if len(text) <= _LONGEST:
        return int(text)
    message = f"a whole number of {len(text.removeprefix('-')):,} digits is too large"
    raise ValueError(message)


def _number(text: str) -> float:
    number = float(text)
    if math.isfinite(number):
        return number
    shown = cut(text)
    message = f"{shown} is too large a number" if text[-1].isdigit() else f"{shown} is not a JSON value"
    raise ValueError(message)


def located(problems: Iterable[Problem], file: Path | None) -> tuple[Problem, ...]:
    """Return problems with their line and column in the text of the workflow's file.

    If the place does not exist, such as that of a missing parameter, it is the place of what lacks it. The
    problems of the workflow in `file` have no source.
    """
    known: dict[str, Mapping[str, Place]] = {}
    found = []
    for problem in problems:
        source = problem.source or str(file or "")
        if source not in known:
            known[source] = {}
            with suppress(PflowError):  # it cannot be read, or is something else
                text = read_text(Path(source)) if source else ""
                known[source] = YamlText(text, source).places if is_yaml(source, text) else json_places(text)
        found.append(placed(problem, known[source]))
    return tuple(found)


def placed(problem: Problem, places: Mapping[str, Place]) -> Problem:
    """Return a problem with the line and column of its path in the workflow, or of what contains it."""
    path = problem.path
    while path and path not in places:
        path = path[: max(path.rfind("."), path.rfind("["))] if path.strip("$") else ""
    line, column = places.get(path, (0, 0))
    return attrs.evolve(problem, line=line, column=column)


@contextmanager
def locating(file: Path | None) -> Iterator[None]:
    """Add line and column in the workflow's file to the problems with which the block ends."""
    try:
        yield
    except PflowError as error:
        problems = located(error.problems, file)
        if len(problems) == 1:  # it is also part of the message
            before, after = (str(attrs.evolve(it, suggestion="")) for it in (*error.problems, *problems))
            error.message = error.message.replace(before, after)
            error.args = (error.message,)
        error.problems = problems
        raise


def json_places(text: str) -> dict[str, Place]:
    """Return line and column of each part of a workflow's JSON, by path; of a member, those of its key."""
    lines = [0, *(match.end() for match in re.finditer("\n", text))]
    places: dict[str, Place] = {}
    for path, offset in _paths(text):
        line = bisect_right(lines, offset)
        places.setdefault(path, (line, offset - lines[line - 1] + 1))
    return places


def _paths(text: str) -> Iterator[tuple[str, int]]:
    # The offset of a member of an object is that of its key.
    # Of each list or object around the current place: its path, and an index or a key.
    around: list[tuple[str, int | str | None]] = []
    yield "$", len(text) - len(text.lstrip("\ufeff \t\r\n"))
    for match in _TOKEN.finditer(text):
        part, offset = match[1], match.start(1)
        holder, key = around[-1] if around else ("$", None)
        if part in ("}", "]"):
            around = around[:-1]
        elif part == ",":
            around[-1:] = [(holder, key + 1 if isinstance(key, int) else None)]
        elif part != ":":
            is_key = bool(around) and key is None
            if isinstance(key, int):
                path = f"{holder}[{key}]"
            else:
                path = at(holder, _name(part) if key is None else key) if around else holder
            yield path, offset
            if part in ("{", "["):
                around.append((path, 0 if part == "[" else None))
            elif is_key:
                around[-1] = (holder, _name(part))


def _name(part: str) -> str:
    try:
        return str(json.loads(part, strict=False))
    except ValueError:
        return part


@attrs.define
class _Container:
    value: Any
    path: str
    place: Place
    anchor: str | None = None
    key: str | None = None
    size: int = 1


class YamlText:
    """A workflow's YAML text: the value in it, with line and column of each part by its JSON path.

    The place of a member is that of its key. `findings` has duplicate keys, of which all but one value would
    be lost. A text that is not YAML, is too large, or has something that JSON cannot represent, is an error
    that names line and column. `before` is how many lines of the file come before the text.
    """

    def __init__(self, text: str, origin: str, before: int = 0) -> None:
        self.value: JSON = None
        self.places: dict[str, Place] = {}
        self.findings = Findings()
        self._origin = origin
        self._open: list[_Container] = []
        self._anchors: dict[str, tuple[JSON, int]] = {}
        self._documents = 0
        self._first = before + 1
        for event in self._events(text):
            kind = type(event).__name__
            place = (event.start_mark.line + self._first, event.start_mark.column + 1)
            if kind == "DocumentStartEvent":
                self._documents += 1
                if self._documents > 1:
                    self._refuse("has more than one document", place)
            elif kind in ("MappingStartEvent", "SequenceStartEvent"):
                self._begin(event, place, {} if kind == "MappingStartEvent" else [])
            elif kind in ("MappingEndEvent", "SequenceEndEvent"):
                closed = self._open.pop()
                if closed.anchor:
                    self._anchors[closed.anchor] = (closed.value, closed.size)
                self._add(closed.value, closed.size, closed.place)
            elif kind == "ScalarEvent":
                self._scalar(event, place)
            elif kind == "AliasEvent":
                if event.anchor not in self._anchors:
                    self._refuse(f"*{event.anchor} refers to no earlier anchor", place)
                self._add(*self._anchors[event.anchor], place)

    def _events(self, text: str) -> Iterator[Any]:
        import yaml

        loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
        try:
            yield from yaml.parse(text, Loader=loader)
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            reason = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
            # Of a character that YAML excludes, it only tells which one, and a position in bytes.
            position = max(0, text.find(chr(getattr(error, "character", 0))))
            line, column = text.count("\n", 0, position), position - text.rfind("\n", 0, position) - 1
            place = (mark.line if mark else line) + self._first, (mark.column if mark else column) + 1
            lines = text.splitlines()[mark.line : mark.line + 1] if mark else []
            unquoted = any("${" in _QUOTED.sub("", each) for each in lines)
            step = f'Put quotes around what has ${{...}} in line {place[0]}: "${{name}}"' if unquoted else ""
            if mark and text[mark.index : mark.index + 1] == "\t":
                step = f"Replace the tabs in line {place[0]} by spaces: YAML is indented with spaces only"
            self._refuse(f"not valid YAML: {reason}", place, step)

    def _begin(self, event: Any, place: Place, value: Any) -> None:
        self._require_plain(event, place, "map" if isinstance(value, dict) else "seq")
        if len(self._open) >= DEEPEST:
            self._refuse(f"nested deeper than {DEEPEST} levels", place)
        if self._open and isinstance(self._open[-1].value, dict) and self._open[-1].key is None:
            self._refuse("a key must be a string", place)
        self._open.append(_Container(value, self._path(), place, event.anchor))
        self.places.setdefault(self._open[-1].path, place)

    def _scalar(self, event: Any, place: Place) -> None:
        self._require_plain(event, place, "str")
        holder = self._open[-1] if self._open else None
        if holder and isinstance(holder.value, dict) and holder.key is None:
            if event.value == "<<" and event.implicit[0]:
                self._refuse("merge keys (<<) are not supported", place)
            holder.key = event.value
            path = self._path()
            if event.value in holder.value:
                self.findings.error(path, f"Duplicate key {event.value} in {holder.path}", "Remove one")
            self.places[path] = place
            return
        value = self._resolved(event.value, place) if event.implicit[0] else event.value
        if event.anchor:
            self._anchors[event.anchor] = (value, 1)
        self._add(value, 1, place)

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

    def _require_plain(self, event: Any, place: Place, kind: str) -> None:
        if event.tag not in (None, "!", f"tag:yaml.org,2002:{kind}"):
            self._refuse(f"tags such as {event.tag} are not supported", place)

    def _resolved(self, text: str, place: Place) -> JSON:
        if text in _WORDS:
            return _WORDS[text]
        if _SPECIAL.fullmatch(text):
            self._refuse(f"{text} is not a JSON value", place)
        try:
            if _WHOLE.fullmatch(text):
                return _whole(text)
            if _NUMBER.fullmatch(text) and not re.fullmatch(r"[-+]?0[0-9]+", text):
                return _number(text)
        except ValueError as error:
            self._refuse(str(error), place)
        return text

    def _refuse(self, reason: str, place: Place, step: str = "") -> NoReturn:
        line, column = place
        message = f"{self._origin}: {reason} at line {line}, column {column}"
        raise _refused(self._origin, message, place, step)
