"""The parts of a workflow in Markdown: its title, and the entries of its sections with their fields.

A `#` heading is the title; `## Inputs`, `## Steps` and `## Outputs` are sections, and each `###` heading in
them is an entry. Its fields are the list items `- key: value`, in YAML, and the code blocks whose info string
is `LANG NAME`; all other text is prose. Nothing here knows which fields there are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import attrs
from markdown_it import MarkdownIt
from markdown_it.token import Token

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.host.workflow.findings import CLOSE, Findings, at, cut
from pflow_mcp_plugin.host.workflow.workflow_text import Place, YamlText, placed
from pflow_mcp_plugin.terminal.similar_names import did_you_mean

SECTIONS = ("inputs", "steps", "outputs")
_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?\n)?(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_ESCAPE = re.compile(r"\\(?=[!-/:-@\[-`{-~])")
_FIELD = re.compile(r"""\s*[-*+]\s+(?:[\w.-]+|"[^"]*"|'[^']*')\s*:(?:\s|$)""")
_CODE = re.compile(r"\s*(```|~~~)")
_SCALAR = re.compile(r"(^|\s)[|>][-+0-9]*\s*(#.*)?$")
"""How the line before a text of several lines ends in YAML."""
_BULLET = re.compile(r"(\s*)[-*+](?:\s|$)")
_DATA = frozenset({"json", "yaml", "yml"})
_LANGUAGES = _DATA | {
    *("bash", "css", "csv", "html", "javascript", "js", "markdown", "md", "py", "python", "sh", "shell"),
    *("sql", "text", "toml", "ts", "txt", "typescript", "xml", "zsh"),
}
"""Words that may be alone in an info string without naming a field."""
_TEXTS = frozenset({"code", "command", "content", "input", "message", "prompt", "stdin", "system"})
"""Fields that are text, even in a block of data."""


class PlacedFindings(Findings):
    """Collects findings at a line and column of Markdown, instead of at the path of a value."""

    def found(
        self, place: Place, message: str, step: str = "", severity: Literal["error", "warning"] = "error"
    ) -> None:
        self.add("", message, step, severity=severity)
        line, column = place
        self.problems[-1] = attrs.evolve(self.problems[-1], line=line, column=column)


@attrs.define(kw_only=True)
class MarkdownEntry:
    """An entry of a section, under its `###` heading; `places` has the places of its fields, by path.

    It is not whole if a field of it could not be read.
    """

    name: str
    place: Place
    prose: list[str] = attrs.field(factory=list)
    fields: dict[str, JSON] = attrs.field(factory=dict)
    places: dict[str, Place] = attrs.field(factory=dict)
    is_whole: bool = True

    def place_of(self, key: str) -> Place:
        """Return the place of a field in a section's entry, or of its `###` heading if it lacks the field."""
        return self.places.get(at("$", key), self.place)


@attrs.define(kw_only=True)
class MarkdownParts:
    """The parts of a Markdown file: `sections` has the place and the entries of each section."""

    title: str = ""
    prose: list[str] = attrs.field(factory=list)
    sections: dict[str, tuple[Place, list[MarkdownEntry]]] = attrs.field(factory=dict)


def markdown_parts(text: str, origin: str, findings: PlacedFindings) -> MarkdownParts:
    """Read the title and sections of a workflow in Markdown; what cannot be read is reported by line."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    front = _FRONT_MATTER.match(text)
    if front and "\n## " not in front[0]:
        if front[1]:
            step = "Write what it says as prose under the title"
            findings.found((1, 1), "The front matter is not converted", step, "warning")
        text = "\n" * front[0].count("\n") + text[front.end() :]
    reader = _Reader(text.split("\n"), origin, findings)
    markdown = MarkdownIt("commonmark").disable(["inline", "reference", "text_join"])
    reader.read(markdown.parse(text))
    return reader.parts


class _Reader:
    def __init__(self, lines: Sequence[str], origin: str, findings: PlacedFindings) -> None:
        self.parts = MarkdownParts()
        self._lines = lines
        self._origin = origin
        self._findings = findings
        self._section: str | None = None  # empty in an unknown section
        self._entry: MarkdownEntry | None = None

    def read(self, tokens: Sequence[Token]) -> None:
        for index, token in enumerate(tokens):
            if token.level or token.nesting < 0 or not token.map:
                continue
            first, end = token.map
            html = token.content if token.type == "html_block" else "text"
            *closed, rest = html.split("-->")
            if token.type == "heading_open":
                self._heading(token, (first + 1, 1), tokens[index + 1].content)
            elif "<!--" in rest:
                self._findings.found((first + 1, 1), "The comment does not end", "Write --> after it")
            elif not rest.strip() and all(part.lstrip().startswith("<!--") for part in closed):
                continue  # there are only comments
            elif token.type != "hr":
                raw = "\n".join(self._lines[first:end]).strip("\n")
                if self._entry:
                    self._block(self._entry, token, list(_items(tokens, index)), raw)
                elif self._section is None:
                    self.parts.prose.append(raw)
                elif self._section:
                    self._stray(token, raw)

    def _heading(self, token: Token, place: Place, content: str) -> None:
        name = _ESCAPE.sub("", content.strip().strip("`"))
        level = int(token.tag[1])
        if level == 1:
            if self.parts.title or self._section is not None:
                step = "A workflow has one title: write ## or ### here, or put code into a code block"
                self._findings.found(place, f"# {cut(name)} is a second title", step)
            self.parts.title = self.parts.title or name
        elif level == 2:
            self._begin_section(name, place, underlined=token.markup == "-")
        elif level == 3 and self._section:
            self._entry = MarkdownEntry(name=name, place=place)
            self.parts.sections[self._section][1].append(self._entry)
        elif self._entry:
            self._entry.prose.append(f"{token.markup} {content}")
        elif self._section is None:
            self.parts.prose.append(f"{token.markup} {content}")

    def _begin_section(self, name: str, place: Place, *, underlined: bool) -> None:
        known = name.strip().lower()
        if known not in SECTIONS and underlined:
            message = f"{cut(name.splitlines()[-1])} is a heading, as it is underlined with ---"
            self._findings.found(place, message, "Leave an empty line before ---, or remove it")
            return
        self._entry = None
        self._section = known if known in SECTIONS else ""
        if self._section:
            self.parts.sections.setdefault(known, (place, []))
        else:
            hint = "The sections are ## Inputs, ## Steps and ## Outputs"
            hint = did_you_mean(known, SECTIONS, hint, cutoff=CLOSE)
            message = f"The section {cut(name)} is not converted"
            self._findings.found(place, message, hint, "warning")

    def _stray(self, token: Token, raw: str) -> None:
        """Report text in a Markdown section before its first entry."""
        place = _start(token)
        section = (self._section or "").capitalize()
        if token.type == "fence" or _FIELD.match(raw):
            step = "Write a heading above it: ### NAME"
            self._findings.found(place, f"This belongs to no entry of ## {section}", step)
        else:
            message = f"The text under ## {section} is not converted"
            self._findings.found(place, message, "Write it under the title, or under an entry", "warning")

    def _block(self, entry: MarkdownEntry, token: Token, items: Sequence[tuple[int, int]], raw: str) -> None:
        if token.type == "fence":
            self._code(entry, token)
        elif token.type == "bullet_list_open" and any(_FIELD.match(self._lines[first]) for first, _ in items):
            for first, end in items:
                self._item(entry, first, self._lines[first:end])
        else:
            if token.type == "code_block" and _FIELD.match(raw):
                step = "Begin the line with at most three spaces"
                self._findings.found(_start(token), "An indented list is text, not a field", step)
            entry.prose.append(raw)

    def _item(self, entry: MarkdownEntry, first: int, lines: Sequence[str]) -> None:
        bullet = _BULLET.match(lines[0])
        width = len(bullet[0]) if bullet else 0
        is_text = False
        for index, line in enumerate(lines[1:], 1):
            is_text = is_text or _SCALAR.search(lines[index - 1]) is not None
            if line.strip() and len(line) - len(line.lstrip()) < width:
                message, step = "This line belongs to the list item above it", "Leave an empty line before it"
            elif _CODE.match(line) and not is_text:
                message, step = "This code block is inside a list item", "Begin its lines at the margin"
            else:
                continue
            self._findings.found((first + index + 1, 1), message, step)
            lines = lines[:index]
            break
        text = "\n".join([_BULLET.sub(r"\1- ", lines[0], count=1), *lines[1:], ""])
        read = self._yaml(text, first)
        if read is None:
            entry.is_whole = False
            return
        value = read.value[0] if isinstance(read.value, list) and len(read.value) == 1 else None
        if not isinstance(value, Mapping):
            message = f"{cut(lines[0].strip())} is not a field"
            self._findings.found((first + 1, 1), message, "Write - key: value")
            return
        keys = {at("$[0]", key): key for key in value}
        for path, place in read.places.items():
            if path in keys:
                self._set(entry, keys[path], value[keys[path]], place)
            elif path.startswith("$[0]."):
                entry.places.setdefault(f"${path.removeprefix('$[0]')}", place)

    def _code(self, entry: MarkdownEntry, token: Token) -> None:
        place = _start(token)
        first, end = token.map or [0, 0]
        closing = self._lines[end - 1].strip() if end - first > 1 else ""
        if set(closing) != {token.markup[0]} or len(closing) < len(token.markup):
            self._findings.found(place, "The code block does not end", f"Write {token.markup} after it")
            return
        language, *rest = token.info.split() or ("",)
        name = rest[0] if rest else language
        if not name or (not rest and name.lower() in _LANGUAGES):
            example = f"{language or 'shell'} {'code' if language.startswith('py') else 'command'}"
            step = f"Name its field after the language, as in {token.markup}{example}"
            self._findings.found(place, "The code block has no name", step)
            return
        text = token.content.removesuffix("\n")
        if language.lower() not in _DATA or name in _TEXTS or not rest:
            self._set(entry, name, text, place)
            return
        read = self._yaml(text, first + 1)
        if read:
            self._set(entry, name, read.value, place)
            for path, where in read.places.items():
                entry.places.setdefault(f"{at('$', name)}{path.removeprefix('$')}", where)

    def _yaml(self, text: str, before: int) -> YamlText | None:
        """Return the YAML in a section's entry; report why if it is invalid or repeats a key."""
        try:
            read = YamlText(text, self._origin, before)
        except PflowError as error:
            line, column = (error.details.get(key) for key in ("line", "column"))
            last = before + text.rstrip("\n").count("\n") + 1  # what is not closed is missed after it
            place = (
                (min(line, last), column) if isinstance(line, int) and isinstance(column, int) else (last, 1)
            )
            said = error.message.removeprefix(f"{self._origin}: ")
            said = said.removesuffix(f" at line {line}, column {column}")
            step = next(iter(error.suggestions), "")
            self._findings.found(place, f"{said[:1].upper()}{said[1:]}", step)
            return None
        for problem in read.findings.problems:
            where = placed(problem, read.places)
            key = problem.message.partition(" in ")[0]
            self._findings.found((where.line, where.column), key, problem.suggestion)
        return read

    def _set(self, entry: MarkdownEntry, key: str, value: JSON, place: Place) -> None:
        # Dots in a key lead inside, as in `headers.Accept`.
        path, holder = "$", entry.fields
        *outer, last = key.split(".") if all(key.split(".")) else [key]
        for part in outer:
            path = at(path, part)
            entry.places.setdefault(path, place)
            inner = holder.setdefault(part, {})
            if not isinstance(inner, dict):
                self._report_repeated(key, place, entry.places[path])
                return
            holder = inner
        path = at(path, last)
        if last in holder:
            self._report_repeated(key, place, entry.places.get(path, entry.place))
            return
        holder[last] = value
        entry.places[path] = place

    def _report_repeated(self, key: str, place: Place, before: Place) -> None:
        message = f"{cut(key)} is given twice, first in line {before[0]}"
        self._findings.found(place, message, "Remove one of them")


def _items(tokens: Sequence[Token], index: int) -> Iterator[tuple[int, int]]:
    """Yield first and last line of each item of the Markdown list that begins at an index, if one does."""
    is_list = tokens[index].type == "bullet_list_open"
    while is_list and (token := tokens[(index := index + 1)]).level:
        if token.type == "list_item_open" and token.level == 1 and token.map:
            yield token.map[0], token.map[1]


def _start(token: Token) -> Place:
    return (token.map[0] + 1 if token.map else 1, 1)
