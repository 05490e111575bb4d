r"""Shell lines with templates, expanded so that no value is interpreted as part of the line.

A value is never written into the line. It is passed to the shell in a variable of its own, and the
template becomes an expansion of that variable, quoted for its place in the line:

    echo ${a} "b ${c}" 'd ${e}'
    echo "${PFLOW_1}" "b ${PFLOW_2}" 'd '"${PFLOW_3}"''

A shell does not parse the result of a quoted expansion again, whatever characters are in it. In some
places it does, or quotes are plain text: after `((`, `[[`, `$[` and `<<`, in backquotes and in
comments templates are rejected, and in what evaluates a value again, such as `eval ${a}` and `let ${a}`
(see `shell_evaluation`). How other programs interpret their arguments is outside of this: `sh -c ${a}`
runs the value of `a`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict, TypeGuard

from pflow_mcp_plugin.contract import Field, PflowError
from pflow_mcp_plugin.host.workflow.shell_evaluation import MARK, evaluated_value
from pflow_mcp_plugin.host.workflow.templates import Lookup, Malformed, lone, parse, resolve, text_of

_AROUND: Mapping[str, tuple[str, str]] = {"": ('"', '"'), "(": ('"', '"'), '"': ("", ""), "'": ("'\"", "\"'")}
"""The text around an expansion in a shell line, by the quotes or brackets that it is in."""


class ShellLine(TypedDict):
    """A shell line, and the variables that it uses."""

    line: str
    variables: dict[str, str]


def is_shell_line(value: object, field: Field | None) -> TypeGuard[str]:
    """Return whether a param is a shell line."""
    return isinstance(value, str) and field is not None and field.shell_line


def bind_line(text: str, lookup: Lookup, *, keep_missing: bool = False) -> ShellLine | str | list[object]:
    """Return a shell line with variables for its values; a line without templates as a plain string.

    A line that consists of a template of a list becomes that list: the arguments of a program.

    Args:
        text: The line.
        lookup: Finds the value of a reference.
        keep_missing: Leave a template as text when its value is missing, instead of raising.

    Raises:
        PflowError: A template is in a place that cannot be quoted.
        MissingValue: From `lookup`, unless `keep_missing`.
    """
    if lone(text):
        value = resolve(text, lookup, keep_missing=keep_missing)
        if isinstance(value, list):
            return value
    scanner = _Scanner()
    variables: dict[str, str] = {}
    marked: list[str] = []
    for part in parse(text):
        if isinstance(part, str | Malformed):
            plain = part if isinstance(part, str) else part.text
            scanner.read(plain)
            marked.append(plain)
        else:
            marked.append(MARK)
            name = f"PFLOW_{len(variables) + 1}"
            variables[name] = text_of(part, lookup, keep_missing=keep_missing)
            scanner.expand(name, part.text)
    line = "".join(scanner.line)
    if variables and (what := evaluated_value("".join(marked))):
        raise PflowError(
            f"The line has a template, and {what} in it could evaluate the value as code",
            suggestions=(
                "Give a list of arguments, pass the value as stdin, or do that in a node of its own",
            ),
        )
    return ShellLine(line=line, variables=variables) if variables else line


class _Scanner:
    """Copies a line and keeps track of the quotes that are open.

    An odd line may mislead it, so that a value is quoted wrongly; the value still cannot become part of
    the line, since it is the result of an expansion.
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
            # After a backslash a character is plain: a second backslash does not escape the next one.
            self._before = "" if self._before == "\\" and self._open[-1] != "'" else char
        self.line.append(text)

    def expand(self, name: str, template: str) -> None:
        """Add an expansion in place of a template.

        Raises:
            PflowError: An expansion is not safe, or plain text, in this place.
        """
        inside = self._open[-1]
        if self._refused or inside not in _AROUND:
            where = self._refused or _NAMES[inside]
            raise PflowError(
                f"{template} is {where}, where a value could become part of the line",
                suggestions=("Put it elsewhere in the line, pass it as stdin, or give a list of arguments",),
            )
        if self._before == "\\" and inside != "'":
            raise PflowError(f"A backslash precedes {template}", suggestions=("Remove it",))
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
        elif char == "(" and before == "$":  # parsed on its own by a shell, even inside double quotes
            self._open.append("(")
        elif before + char in _REFUSED:
            self._refused = f"after {before}{char}"  # for the rest of the line: its end is not tracked
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
"""The ends of those places of a shell line in which no other character is special."""
_NAMES: Mapping[str, str] = {"`": "in backquotes", "#": "in a comment"}
_REFUSED = frozenset({"((", "[[", "$[", "<<"})
_WORD_ENDS = frozenset(" \t\n;&|(")
