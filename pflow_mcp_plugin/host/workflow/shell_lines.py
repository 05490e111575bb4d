r"""Shell lines with templates, expanded so that no value is interpreted as part of the line.

A value is never written into the line. It is passed to the shell in a variable of its own, and the
template becomes an expansion of that variable, quoted for its place in the line:

    echo ${a} "b ${c}" 'd ${e}'
    echo "${PFLOW_1}" "b ${PFLOW_2}" 'd '"${PFLOW_3}"''

A shell does not parse the result of a quoted expansion again, whatever characters are in it. In `(( ))`,
after `$[` and `<<`, in backquotes and in comments a template is refused: quotes are plain text there. Some
builtins read a value again although it is quoted, and what they do with it decides what is refused:

- Those that run their arguments, such as `eval`, and those that set the variables which their arguments name,
  such as `export`: the line, if a value is among the arguments.
- Those that compute, or look up a variable by its name, such as `((`, `declare -i` and `test -v`: only a
  value in which a shell would find a command. If x is `a[$(touch owned)]`, `let "$x"` runs `touch owned`.

What a line does is seen by its looks: it is not parsed as one of the many shells would. Its author could run
anything in it; only the values are not trusted. How other programs interpret their arguments is not covered:
`sh -c ${a}` runs the value of `a`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import chain
from typing import NamedTuple, TypeGuard

from pflow_mcp_plugin.contract import Field, PflowError
from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.host.workflow.templates import Lookup, Malformed, inserted, lone, parse, resolve

_AROUND: Mapping[str, tuple[str, str]] = {"": ('"', '"'), "(": ('"', '"'), '"': ("", ""), "'": ("'\"", "\"'")}
"""The text around an expansion in a shell line, by the quotes or brackets that it is in."""
_ENDS: Mapping[str, str] = {"#": "\n", "'": "'"}
"""How the places of a shell line end in which no other character is special."""
_NAMES: Mapping[str, str] = {"`": "in backquotes", "#": "in a comment", "((": "in (( ))"}
_WORD_ENDS = frozenset(" \t\n;&|(")

MARK = "\0"
"""Stands in a line for a template."""

_PREFIX = r"""(?:"[^"\n]{0,200}"|'[^'\n]{0,200}'|[^\s"';&|()]){0,200}"""
_BEGIN = (
    r"(?:^|[\n;&|){`]|(?<!\()\((?!\()"
    r"|(?:\b(?:if|then|elif|else|do|while|until|time|command|builtin|exec)|(?<!\S)!)(?=\s))"
    rf"[ \t]*(?:(?:-|\w+(?:\[\w*\])?\+?=|\d*&?[<>]+&?[ \t]*){_PREFIX}[ \t]+)*"
)
"""What precedes a command in a shell line."""
_WORD = r"""(?:"(?:[^"\\]|\\.)*"|'[^']*'|\$?\((?:[^()]|\([^()]*\))*\)|`[^`]*`|\\.|[^\s;&|()<>"'`\\])+"""
_WORDS = rf"((?:[ \t<>]+{_WORD})+)"
_VALUE = rf"""["']?[{MARK}$]"""
"""How a word begins that may be a value."""

_ASSIGNED = re.compile(rf"(?<![\w$-])([A-Za-z_]\w*)(?:\[[^\]\[\s]*\])?\+?=({_WORD}|)", re.DOTALL | re.ASCII)
_DEFAULTED = re.compile(r"\$\{(\w+):?=([^}]*)", re.ASCII)
_LISTED = re.compile(r"\b(?:for|select)\s+(\w+)(\s+in\b[^;\n]*)?")
_READ = re.compile(r"\b(?:read|mapfile|readarray|getopts|printf\s+-v)\b([^\n;&|)]*)")
_GIVEN = frozenset([*"123456789@*_", "REPLY", "MAPFILE", "OPTARG"])
"""The shell's own variables that may hold a value."""
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_USED = re.compile(r"\$\{?[!#]?([A-Za-z_]\w*|[\d@*])|\b([A-Za-z_]\w*)", re.ASCII)

_RUNNING = ("eval", "trap", "alias", "source", ".", "enable", "compgen", "complete", "bind", "fc")
_SETTING = ("export", "readonly", "declare", "typeset", "local", "read", "getopts", "mapfile", "readarray")
_RUNS = re.compile(rf"""{_BEGIN}["'\\]?({"|".join(map(re.escape, _RUNNING))})["']?{_WORDS}""", re.DOTALL)
_SETS = (
    re.compile(rf"""{_BEGIN}["'\\]?({"|".join(_SETTING)})["']?{_WORDS}""", re.DOTALL),
    re.compile(rf"{_BEGIN}(printf\s+-v)(\s*{_WORD})", re.DOTALL),
)
_NAMED = re.compile(rf"""{_VALUE}|["']?\w+\[""")
"""How a word begins that may name a variable by a value, or an element of one."""
_STREAM = re.compile(r"/dev/(?:stdin|fd/)|<\(")
_CALLS = re.compile(
    rf"""{_BEGIN}("?)(?:{MARK}|\$\{{?([A-Za-z_]\w*|[\d@*])\}}?)(?:"?[ \t]([^\n;&|]*))?""", re.ASCII
)
"""A command whose name is a value: its quote, its variable if it is not a template, and its arguments."""
_OUTPUT_CALLED = re.compile(rf"{_BEGIN}(\$\((?:[^()]|\([^()]*\))*\)|`[^`]*`)")
_COMPUTES = re.compile(
    r"\(\((?:(?:[^()]|\([^()]*\))*\)\)|.*)|\$\[.*"
    r"""|\b(?:let|unset|wait)["']?\s(?:[<>]&|&[<>]|[^\n;&|])*"""
    r"|\b(?:declare|typeset|local|export|readonly)\s+(?:[-+]\w+\s+)*[-+]\w*[aAin][^\n;&|]*"
    rf"|\bprintf\s+{_VALUE}\w*"
    rf"|(?:\btest|\[)\s+(?:!\s+)?(?:[^\n;&|]{{0,200}}?-[vR]\s[^\n;&|]*|{_VALUE}\S*\s+{_VALUE}\S*)"
    r"|\$\{(?:!|\w+(?:\[|:(?![-=+?])|@))[^}]*"
    r"|(?<=\[)[^\]\[]*(?=\]+\+?=)"
    rf"|[<>]&\s*{_VALUE}\w*",
    re.DOTALL | re.ASCII,
)
"""What evaluates a value: as a number, as the name of a variable, as a prompt."""
_COMPARES = re.compile(r"\s-(?:eq|ne|lt|le|gt|ge|v|R)\s")
"""What in `[[ ... ]]` evaluates a value."""
_EVALUATED = frozenset(
    ["RANDOM", "SRANDOM", "SECONDS", "LINENO", "HISTCMD", "OPTIND", "PROMPT_COMMAND", "ENV", "BASH_ENV"]
).union(f"PS{number}" for number in range(5))
"""Variables whose value a shell evaluates: integers, prompts, and files that it runs."""
_EXCERPT = 20
"""Characters that a message shows of a part of the line."""
_COMMAND = re.compile(r"`|\$(?:[({]|$)")
"""What a shell runs in a value that it evaluates; the value behind it may go on after its last character."""
_BUILTINS = frozenset([*_RUNNING, *_SETTING, "let", "unset", "wait", "printf", "test", "["])


def is_shell_line(value: object, field: Field | None) -> TypeGuard[str]:
    """Return whether a param is a shell line, so that its templates are quoted for a shell."""
    return isinstance(value, str) and field is not None and field.shell_line


def bind_line(text: str, lookup: Lookup) -> JSON | list[object]:
    """Return a shell `line`, and the `variables` for its values; a line without templates stays a string.

    A line that consists of a template of a list becomes that list: the arguments of a program. A template in
    a place where it cannot be quoted is an error, and so is a value that the line could run.
    """
    if lone(text):
        value = resolve(text, lookup)
        if isinstance(value, list):
            return value
    scanner = _Scanner()
    templates: list[str] = []
    values: list[str] = []
    marked: list[str] = []
    for part in parse(text):
        if isinstance(part, str | Malformed):
            plain = part if isinstance(part, str) else part.text
            scanner.read(plain)
            marked.append(plain)
        else:
            marked.append(MARK)
            templates.append(part.text)
            values.append(inserted(lookup(part)))
            scanner.expand(f"PFLOW_{len(values)}", part.text)
    line = "".join(scanner.line)
    if not values:
        return line
    looks = looks_of("".join(marked))
    if looks.runs:
        raise _refused(f"The line has a template, and {looks.runs} in it could run the value as code")
    for template, value in zip(templates, values, strict=True):
        if looks.computes and (found := _COMMAND.search(value)):
            what = f"The value of {template} contains {found[0]}"
            raise _refused(f"{what}, and a shell could run what follows in: {looks.computes}")
        if looks.calls_value and value.strip() in _BUILTINS:
            raise _refused(
                f"The value of {template} is {value.strip()}, and the line could run what follows it"
            )
    return {"line": line, "variables": {f"PFLOW_{n}": value for n, value in enumerate(values, 1)}}


def _refused(message: str) -> PflowError:
    remedy = "Give a list of arguments, pass the value as stdin, or do that in a node of its own"
    return PflowError(message, suggestions=(remedy,))


class Looks(NamedTuple):
    """What a shell line seems to do with values: the builtins that run them or compute with them, or ""."""

    runs: str
    computes: str
    calls_value: bool


@lru_cache(maxsize=64)  # the items of a batch have one line
def looks_of(line: str) -> Looks:
    """Return what a shell line with `MARK` for templates seems to do with their values."""
    runs, computes, calls_value = "", "", False
    for text in (line, line.replace("\\\n", "")):  # a backslash at the end of a comment joins no lines
        tainted = _tainted(text)
        runs = runs or next(_runs(text, tainted), "")
        computes = computes or next(_computes(text, tainted), "")
        for called in _CALLS.finditer(text):
            is_value = called[2] is None or called[2] in tainted
            calls_value |= is_value and _has_value(called[3] or "", tainted)
    return Looks(runs, computes, calls_value)


def _runs(line: str, tainted: frozenset[str]) -> Iterator[str]:
    """Yield what in a shell line would run a value, or set the variable that it names."""
    for found in _RUNS.finditer(line):
        arguments = re.sub(rf"'[^'{MARK}]*'", "", found[2])
        if _has_value(arguments, tainted) or (found[1] in ("source", ".") and _STREAM.search(arguments)):
            yield found[1]
    for found in chain.from_iterable(pattern.finditer(line) for pattern in _SETS):
        words = (word[0] for word in re.finditer(_WORD, found[2], re.DOTALL))
        if any(_NAMED.match(word) and _has_value(word, tainted) for word in words):
            yield found[1]
    called = any(found[2] in tainted and not found[1] for found in _CALLS.finditer(line))
    if called or any(_has_value(found[1], tainted) for found in _OUTPUT_CALLED.finditer(line)):
        yield "a command that is a value"


def _computes(line: str, tainted: frozenset[str]) -> Iterator[str]:
    """Yield the beginnings of what in a shell line would evaluate a value."""
    yield from sorted(tainted & _EVALUATED)
    parts = [found[0] for found in _COMPUTES.finditer(line)]
    if "[[" in line and _COMPARES.search(line):
        parts.append(line[line.index("[[") :])
    for part in parts:
        is_given = MARK in part and not part.startswith("((")  # there it would have been refused
        if is_given or not tainted.isdisjoint(_names(part)):
            yield " ".join(part.replace(MARK, "${...}").split())[:_EXCERPT]


def _has_value(text: str, tainted: frozenset[str]) -> bool:
    return MARK in text or any(found[1] in tainted for found in _USED.finditer(text))


def _names(text: str) -> Iterator[str]:
    """Yield the variables that a text of a shell line expands, and those it may name, as arithmetic does."""
    return (found[1] or found[2] for found in _USED.finditer(text))


def _tainted(line: str) -> frozenset[str]:
    """Return the variables of a shell line that may hold a template's value, or a part of one."""
    assigned = [(found[1], found[2]) for found in (*_ASSIGNED.finditer(line), *_DEFAULTED.finditer(line))]
    assigned += [(found[1], found[2] or "$@") for found in _LISTED.finditer(line)]
    sources = [(name, MARK in text, frozenset(_names(text))) for name, text in assigned]
    tainted = _GIVEN.union(*(_NAME.findall(found[1]) for found in _READ.finditer(line)))
    tainted |= {f"PFLOW_{number + 1}" for number in range(line.count(MARK))}
    before = 0
    while len(tainted) > before:  # a variable may get the value of another, or its name
        before = len(tainted)
        tainted |= {name for name, is_value, names in sources if is_value or names & tainted}
    return tainted


class _Scanner:
    """Copies a shell line and keeps track of the quotes that are open.

    An odd line may mislead it into quoting a value wrongly; the value still cannot become part of the line,
    since it is the result of an expansion.
    """

    def __init__(self) -> None:
        self.line: list[str] = []
        self._open: list[str] = [""]
        self._began: list[int] = []
        self._text = ""
        self._before = "\n"
        self._closes = False
        self._refused = ""

    def read(self, text: str) -> None:
        for char in text:
            self._text += char
            self._step(char)
            # After a backslash a character is plain: a second backslash does not escape the next one.
            self._before = "" if self._before == "\\" and self._open[-1] != "'" else char
        self.line.append(text)

    def expand(self, name: str, template: str) -> None:
        """Add a shell variable in place of a template, unless it would be unsafe or plain text there."""
        inside = "((" if "((" in self._open else self._open[-1]
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
            pass  # it is plain
        elif char in '`"':
            if inside == char:
                self._open.pop()
            else:
                self._open.append(char)
        elif char == "(" and before == "$":  # parsed on its own by a shell, even inside double quotes
            self._begin("(")
        elif before + char == "$[" or (before + char == "<<" and inside != '"'):
            self._refused = f"after {before}{char}"  # for the rest of the line: its end is not tracked
        elif inside != '"':
            self._plain(char)

    def _plain(self, char: str) -> None:
        inside, closes, self._closes = self._open[-1], self._closes, False
        if char == "'":
            self._open.append("'")
        elif char == "(":
            self._begin("((" if self._before == "(" else "(")
        elif char == ")" and inside == "((":
            if closes and self._before == ")":
                self._end()
                self._end()
            else:
                self._closes = True
        elif char == ")" and inside == "(":
            # That of a pattern ends nothing.
            if not re.search(r"\bcase\b(?!.*\besac\b)", self._text[self._began[-1] :], re.DOTALL):
                self._end()
        elif char == "#" and self._before in _WORD_ENDS:
            self._open.append("#")

    def _begin(self, bracket: str) -> None:
        self._open.append(bracket)
        self._began.append(len(self._text))

    def _end(self) -> None:
        self._open.pop()
        self._began.pop()
