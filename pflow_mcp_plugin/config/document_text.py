"""The text of a config file in JSON, TOML or YAML: parsed within limits, written, changed in place.

JSON may contain comments and trailing commas, as in the settings of editors; a change keeps them.
A change of TOML replaces one table: this module locates its text, and tomllib parses keys and values.
tomlkit (0.15.2), which edits whole documents, drops the comments above the next table when one is removed
or replaced, and mixes up tables that are written as dotted keys.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pflow_mcp_plugin import storage
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.storage.json_and_toml import (
    PIECE,
    corrupt_after,
    decode_toml,
    decoded,
    encode_toml,
    is_too_deep,
    toml_comments,
)

if TYPE_CHECKING:
    import yaml


Form = Literal["json", "toml", "yaml"]

LARGEST = 64 * 2**20
"""Bytes. Claude Code keeps its servers in one file with the history of all projects, which gets long."""

_PLACE = re.compile(r" (?:starting )?near (?P<place>\d+)")
_CODE_POINT = re.compile(r"U\+([0-9a-fA-F]{4,6})")
_COMMENT = {
    "json": re.compile(r'"(?:\\.|[^"\\])*"|(//|/\*)'),
    "yaml": re.compile(r"(?:^|\s)(#)", re.MULTILINE),
}


_FORMS: Mapping[str, Form] = {".json": "json", ".toml": "toml", ".yaml": "yaml", ".yml": "yaml"}


def form_of(path: Path) -> Form:
    """Return the form of a document's text, by the file's suffix: TOML, YAML or, by default, JSON."""
    return _FORMS.get(path.suffix.lower(), "json")


def load(path: Path, forms: Sequence[Form] = ("json",)) -> Any:
    """Return the value of a document's text in JSON, TOML or YAML, within limits; None without a file.

    If its suffix does not name its form, it is parsed in the first of `forms` that gives a table or a list.
    """
    content = storage.read_bytes(path, LARGEST)
    if content is None:
        return None
    tried = () if path.suffix.lower() in _FORMS else forms
    for form in tried:
        with suppress(storage.CorruptFile):
            document = parse(path, content, form)
            if isinstance(document, dict | list):
                return document
    return parse(path, content, *tried[:1])


def parse(path: Path, content: bytes, form: Form | None = None) -> Any:
    """Parse the text of a document in JSON, TOML or YAML, by default by its suffix."""
    form = form or form_of(path)
    if form == "toml":
        return decode_toml(path, content)
    text = decoded(path, content)
    document = _json(path, text) if form == "json" else _yaml(path, text)
    if is_too_deep(document):
        raise storage.CorruptFile(path, "nested too deeply")
    return document


def dump(document: Mapping[str, Any], form: Form) -> str:
    """Return a document's text in JSON, TOML or YAML for this content, with a final newline."""
    if form == "toml":
        return encode_toml(document).decode()
    if form == "yaml":
        import yaml

        return str(yaml.safe_dump(dict(document), sort_keys=False, allow_unicode=True))
    return json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False) + "\n"


def comments(text: str, form: Form) -> int:
    """Return how many comments a document's text may have, in any form: `dump` writes none."""
    if form == "toml":
        return toml_comments(text.encode()).total()
    return sum(bool(found[1]) for found in _COMMENT[form].finditer(text))


def _json(path: Path, text: str) -> Any:
    strict = None
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        strict = error
    import pyjson5  # it also takes comments and trailing commas

    try:
        return pyjson5.decode(text, 200)
    except pyjson5.Json5DecoderException as error:
        if isinstance(strict, json.JSONDecodeError) and not comments(text, "json"):
            # Without comments, the strict parser's error is the more precise one.
            reason, before = strict.msg, text[: strict.pos]
        else:
            reason = str(error.args[0])
            place = _PLACE.search(reason)
            before = text[: max(int(place["place"]) - 1, 0)] if place else ""
        # The parser's message for people: without Python's notation for the token names.
        words = re.sub(r"b'(\w+)'", r"\1", _PLACE.sub("", reason)).replace("JSON5Value", "a value")
        words = _CODE_POINT.sub(lambda found: repr(chr(int(found[1], 16))), words)
        raise corrupt_after(path, f"not JSON: {words}", before) from error


def _yaml(path: Path, text: str) -> Any:
    import yaml

    # Aliases are refused: they make a few lines an endless document.
    class Loader(yaml.SafeLoader):  # type: ignore[misc] # it has no types
        def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
            if self.check_event(yaml.AliasEvent):
                event = self.peek_event()
                raise yaml.composer.ComposerError(None, None, "aliases are not supported", event.start_mark)
            return super().compose_node(parent, index)

    try:
        return yaml.load(text, Loader)  # noqa: S506 - it extends the safe loader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = {"line": mark.line + 1, "column": mark.column + 1} if mark else {}
        raise storage.CorruptFile(path, f"not YAML: {error.problem}", **place) from error
    except (yaml.YAMLError, ValueError) as error:
        raise storage.CorruptFile(path, f"not YAML: {error}") from error
    except RecursionError as error:
        raise storage.CorruptFile(path, "not YAML: nested too deeply") from error


_TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[{}\[\],:]|[^\s"'{}\[\],:/]+|/""",
    re.DOTALL,
)
_INDENT = re.compile(r"\n([ \t]+)\S")


Tokens = list[re.Match[str]]
"""The tokens of a JSON text without its comments."""


class JsonText:
    """The text of a JSON object, perhaps with comments and trailing commas, to be edited."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._newline = "\r\n" if "\r\n" in text else "\n"
        found = _INDENT.search(text)
        self._unit = found[1] if found else "  "

    def __str__(self) -> str:
        return self._text

    def put(self, path: tuple[str, ...], value: Any) -> None:
        """Replace a value in the JSON text, or add it at the end of its object."""
        tokens = [found for found in _TOKEN.finditer(self._text) if not found["comment"]]
        first = last = 0
        for depth, key in enumerate(path):
            if not tokens or tokens[first][0] != "{":
                raise LookupError(path)
            members = _members(tokens, first)
            if key not in members:
                for missing in reversed(path[depth + 1 :]):
                    value = {missing: value}
                self._insert(tokens, first, key, value)
                return
            first, last = members[key]
        written = self._dumped(value, self._indent(tokens[first]))
        self._text = self._text[: tokens[first].start()] + written + self._text[tokens[last].end() :]

    def _insert(self, tokens: Tokens, opening: int, key: str, value: Any) -> None:
        closing = _end(tokens, opening)
        last, outer = tokens[closing - 1], self._indent(tokens[opening])
        written = f"{json.dumps(key, ensure_ascii=False)}: {self._dumped(value, outer + self._unit)}"
        added = f"{self._newline}{outer}{self._unit}{written}"
        before = self._text[: tokens[closing].start()]
        place = len(before.rstrip())  # behind a comment, too
        if "\n" not in before[place:]:
            added += f"{self._newline}{outer}"
        comma = "" if last[0] in ("{", ",") else ","
        kept = self._text[last.end() : place]
        self._text = f"{self._text[: last.end()]}{comma}{kept}{added}{self._text[place:]}"

    def _indent(self, token: re.Match[str]) -> str:
        line = self._text[self._text.rfind("\n", 0, token.start()) + 1 : token.start()]
        return line[: len(line) - len(line.lstrip())]

    def _dumped(self, value: Any, indent: str) -> str:
        lines = json.dumps(value, ensure_ascii=False, indent=self._unit, allow_nan=False).split("\n")
        return f"{self._newline}{indent}".join(lines)


def _members(tokens: Tokens, opening: int) -> dict[str, tuple[int, int]]:
    """Return the members of the JSON object at a token, each with the first and last token of its value."""
    members = {}
    at = opening + 1
    while tokens[at][0] != "}":
        first = at + 2  # behind the colon
        last = _end(tokens, first)
        key = tokens[at][0]
        if key.startswith('"'):
            with suppress(ValueError):
                key = str(json.loads(key))
        else:  # keys of JSON5 may have single quotes, or none
            key = key.strip("'")
        members[key] = first, last  # parsers use the last one of the same name
        at = last + 1 + (tokens[last + 1][0] == ",")
    return members


def _end(tokens: Tokens, index: int) -> int:
    depth = 0
    while True:
        depth += (tokens[index][0] in ("{", "[")) - (tokens[index][0] in ("}", "]"))
        if depth == 0:
            return index
        index += 1


Keys = tuple[str, ...]


class _Line(NamedTuple):
    """A statement in the text of a config document, perhaps of several lines; a comment or a blank line."""

    text: str  # line end included
    table: Keys = ()  # that the nearest header above names; of a header, the one it names itself
    path: Keys = ()  # from the root; empty for comments and blank lines
    is_header: bool = False  # `[table]` or `[[table]]`


class Layout:
    """The text of a config document in TOML by statements, in which tables are changed in place."""

    # The result of an edit has to be parsed before it is trusted: a table inside an inline table cannot be
    # edited here.

    def __init__(self, text: str) -> None:
        self._lines = list(_lines(text))
        self._line_end = "\r\n" if "\r\n" in text else "\n"

    def __str__(self) -> str:
        return "".join(line.text for line in self._lines)

    def put(self, path: Keys, table: JSONObject) -> None:
        """Replace a table in a config file's text; insert a new one after its siblings, or at the end."""
        spans = list(self._spans(path))
        # From the end, so that the positions of the earlier lines stay valid.
        for span in reversed(spans[1:]):
            self._cut(span)
        if not spans:
            self._append(path, table)
            return
        line = self._lines[spans[0].start]
        text = _table_text(path, table) if line.is_header else _dotted_text(path[len(line.table) :], table)
        self._lines[spans[0]] = [line._replace(text=text.replace("\n", self._line_end), path=path)]

    def remove(self, path: Keys) -> None:
        for span in reversed(list(self._spans(path))):
            self._cut(span)

    def _spans(self, path: Keys) -> Iterator[slice]:
        """Yield the parts of a config document about a table: its sections, its keys in other sections."""
        end = 0
        for place, line in enumerate(self._lines):
            if place >= end and line.path[: len(path)] == path:
                end = self._section_end(place) if line.is_header else place + 1
                yield slice(place, end)

    def _section_end(self, place: int) -> int:
        end = place + 1
        for later in range(end, len(self._lines)):
            if self._lines[later].is_header:
                break
            if self._lines[later].path:
                end = later + 1
        return end

    def _cut(self, span: slice) -> None:
        start, end = span.start, span.stop
        if self._lines[start].is_header:
            while start and self._lines[start - 1].text.isspace():
                start -= 1
        del self._lines[start:end]

    def _append(self, path: Keys, table: JSONObject) -> None:
        siblings = [place for place, line in enumerate(self._lines) if line.path[:1] == path[:1]]
        place = self._section_end(siblings[-1]) if siblings else len(self._lines)
        text = _table_text(path, table).replace("\n", self._line_end)
        if place:
            above = self._lines[place - 1]
            ended = above.text if above.text.endswith("\n") else above.text + self._line_end
            self._lines[place - 1] = above._replace(text=ended)
            text = self._line_end + text
        self._lines.insert(place, _Line(text, path, path, is_header=True))


def _lines(text: str) -> Iterator[_Line]:
    table: Keys = ()
    for statement in _statements(text):
        bare = statement.lstrip(" \t")
        if bare.startswith("["):
            table = _keys(tomllib.loads(statement))
            yield _Line(statement, table, table, is_header=True)
        elif not bare.strip() or bare.startswith("#"):
            yield _Line(statement, table)
        else:
            # The key is what stands before the first equals sign outside quotes.
            equals = next(
                token.start() + token[0].index("=")
                for token in re.finditer(PIECE, statement)
                if token[0][0] not in "\"'" and "=" in token[0]
            )
            yield _Line(statement, table, table + _keys(tomllib.loads(f"{statement[:equals]} = 0")))


def _statements(text: str) -> Iterator[str]:
    start = depth = 0
    for token in re.finditer(PIECE, text):
        # Brackets inside strings and comments are part of those tokens.
        depth += (token[0] in "[{") - (token[0] in "]}")
        if token[0] == "\n" and depth == 0:
            yield text[start : token.end()]
            start = token.end()
    if start < len(text):
        yield text[start:]


def _keys(document: JSON) -> Keys:
    keys = []
    while isinstance(document, dict | list) and document:
        if isinstance(document, list):
            document = document[0]
        else:
            ((key, document),) = document.items()
            keys.append(key)
    return tuple(keys)


def _table_text(path: Keys, table: JSONObject) -> str:
    document: JSONObject = table
    for key in reversed(path):
        document = {key: document}
    return encode_toml(document).decode()


def _dotted_text(path: Sequence[str], value: JSON) -> str:
    if isinstance(value, Mapping) and value:
        return "".join(_dotted_text([*path, key], inner) for key, inner in value.items())
    key = ".".join(encode_toml({part: 0}).decode().removesuffix(" = 0\n") for part in path)
    text = encode_toml({"_": value}).decode()
    if text.startswith("["):  # tomli_w writes tables inline only in a list with other items
        listed = encode_toml({"_": [0, value]}).decode()
        text = listed.removeprefix("_ = [\n    0,\n    ").removesuffix(",\n]\n")
    else:
        text = text.removeprefix("_ = ").removesuffix("\n")
    return f"{key} = {text}\n"
