r"""Shell lines with templates, so that no value can be taken for a part of the line.

A value is never written into the line. It goes to the shell in a variable of its own, and the
template becomes an expansion of that variable, quoted to fit where it stands:

    echo ${a} "b ${c}" 'd ${e}'
    echo "${PFLOW_1}" "b ${PFLOW_2}" 'd '"${PFLOW_3}"''

A shell does not read again what an expansion brings, whatever characters are in it. There are
places where it does, or where quotes are text: after `((`, `[[`, `$[` and `<<`, in backquotes and
in comments templates are refused. What a command makes of its arguments is its own affair: who
writes `eval ${a}` or `sh -c ${a}` runs what `a` says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

from pflow_mcp_plugin.contract import Field, PflowError
from pflow_mcp_plugin.host.workflow.templates import Lookup, Malformed, as_text, lone, parse, resolve

"""A parameter whose schema has this `format` is a shell line, if it is a text."""
_AROUND: Mapping[str, tuple[str, str]] = {"": ('"', '"'), "(": ('"', '"'), '"': ("", ""), "'": ("'\"", "\"'")}
"""What is put around an expansion, by what it stands in."""


class ShellLine(TypedDict):
    """A line for a shell, and the variables that it needs."""

    line: str
    variables: dict[str, str]


def is_shell_line(value: Any, field: Field | None) -> bool:
    """Return whether a param is a shell line."""
    return isinstance(value, str) and field is not None and field.shell_line


def bind_line(text: str, lookup: Lookup, *, keep_missing: bool = False) -> ShellLine | str | list[Any]:
    """Return a line with its values beside it; one without templates alone.

    A line that is nothing but a template of a list is that list: the arguments of a program.

    Raises:
        PflowError: A template stands where no quoting would do.
        MissingValue: From `lookup`, unless `keep_missing`.
    """
    if lone(text):
        value = resolve(text, lookup, keep_missing=keep_missing)
        if isinstance(value, list):
            return value
    scanner = _Scanner()
    variables: dict[str, str] = {}
    for part in parse(text):
        if isinstance(part, str):
            scanner.read(part)
        elif isinstance(part, Malformed):
            scanner.read(part.text)
        else:
            name = f"PFLOW_{len(variables) + 1}"
            variables[name] = as_text(resolve(part.text, lookup, keep_missing=keep_missing))
            scanner.expand(name, part.text)
    line = "".join(scanner.line)
    return ShellLine(line=line, variables=variables) if variables else line


class _Scanner:
    """Copies a line and keeps track of the quotes that are open.

    Should a line be odd enough to mislead it, a value is quoted wrongly; it still cannot become a
    part of the line, as it comes out of an expansion.
    """

    def __init__(self) -> None:
        self.line: list[str] = []
        self._open: list[str] = [""]
        self._before = "\n"
        self._refused = ""

    def read(self, text: str) -> None:
        """Copy a piece of the line."""
        for char in text:
            self._step(char)
            self._before = "" if self._before == "\\" and self._open[-1] != "'" else char
        self.line.append(text)

    def expand(self, name: str, template: str) -> None:
        """Put an expansion where a template stands.

        Raises:
            PflowError: It would not be safe, or be text, there.
        """
        inside = self._open[-1]
        if self._refused or inside not in _AROUND:
            where = self._refused or _NAMES[inside]
            raise PflowError(
                f"{template} stands {where}, where a value could become a part of the line",
                suggestions=("Put it elsewhere in the line, pass it as stdin, or give a list of arguments",),
            )
        if self._before == "\\" and inside != "'":
            raise PflowError(f"A backslash stands before {template}", suggestions=("Remove it",))
        before, after = _AROUND[inside]
        self.line.append(f"{before}${{{name}}}{after}")
        self._before = "}"

    def _step(self, char: str) -> None:
        inside, before = self._open[-1], self._before
        if inside in _ENDS:
            if char == _ENDS[inside]:
                self._open.pop()
        elif before == "\\":
            return
        elif char == "`":
            self._toggle("`")
        elif char == '"':
            self._toggle('"')
        elif char == "(" and before == "$":
            self._open.append("(")
        elif before + char in _REFUSED:
            self._refused = f"after {before}{char}"
        elif inside != '"':
            self._plain(char)

    def _plain(self, char: str) -> None:
        if char == "'":
            self._open.append("'")
        elif char == ")" and self._open[-1] == "(":
            self._open.pop()
        elif char == "(":
            self._open.append("(")
        elif char == "#" and self._before in _WORD_ENDS:
            self._open.append("#")

    def _toggle(self, quote: str) -> None:
        if self._open[-1] == quote:
            self._open.pop()
        else:
            self._open.append(quote)


_ENDS: Mapping[str, str] = {"#": "\n", "'": "'"}
"""What ends the places in which nothing else has a meaning."""
_NAMES: Mapping[str, str] = {"`": "in backquotes", "#": "in a comment"}
_REFUSED = frozenset({"((", "[[", "$[", "<<"})
_WORD_ENDS = frozenset(" \t\n;&|(")
