r"""Shell lines with templates, expanded so that no value is interpreted as part of the line.

A value is never written into the line. It is passed to the shell in a variable of its own, and the
template becomes an expansion of that variable, quoted for its place in the line:

    echo ${a} "b ${c}" 'd ${e}'
    echo "${PFLOW_1}" "b ${PFLOW_2}" 'd '"${PFLOW_3}"''

A shell does not parse the result of a quoted expansion again, whatever characters are in it. In some places
it does, or quotes are plain text: after `((`, `[[`, `$[` and `<<`, in backquotes and in comments templates
are rejected, and in what evaluates a value again, such as `eval ${a}` and `let ${a}`: `let "$x"` runs `touch
owned` if the value of x is `a[$(touch owned)]`, as arithmetic evaluates the subscripts in it, and so do the
builtins that take the name of a variable. A value is followed through the variables of the line, from
`n=${template}` to `((n > 3))`; variables without one, such as a counter, are allowed. How other programs
interpret their arguments is not covered: `sh -c ${a}` runs the value of `a`.

What is quoted where differs between shells, and here-documents have rules of their own. So a line is read in
several ways, and whatever evaluates a value in one of them counts: a line may be refused needlessly.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import TypeGuard

import attrs

from pflow_mcp_plugin.contract import Field, PflowError
from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.host.workflow.templates import Lookup, Malformed, lone, parse, resolve, text_of

_AROUND: Mapping[str, tuple[str, str]] = {"": ('"', '"'), "(": ('"', '"'), '"': ("", ""), "'": ("'\"", "\"'")}
"""The text around an expansion in a shell line, by the quotes or brackets that it is in."""
_ENDS: Mapping[str, str] = {"#": "\n", "'": "'"}
"""How the places of a shell line end in which no other character is special."""
_NAMES: Mapping[str, str] = {"`": "in backquotes", "#": "in a comment"}
_REFUSED = frozenset({"((", "[[", "$[", "<<"})
_WORD_ENDS = frozenset(" \t\n;&|(")

MARK = "\0"
"""Stands in a line for a template."""

_RUNNING = frozenset(["eval", "trap"])
"""Builtins whose arguments are a line of their own."""
_READING = frozenset(["read", "mapfile", "readarray", "getopts"])
_OTHERS = frozenset(["let", "source", ".", "alias", "unset", "enable", "wait"])
_COMPLETING = frozenset(["compgen", "complete", "fc", "bind"])
_EVALUATING = _RUNNING | _READING | _COMPLETING | _OTHERS
"""Builtins that run an argument, or take it as the name of a variable and evaluate its subscript."""
_DECLARING = frozenset(["declare", "typeset", "local", "readonly", "export"])
_STREAMS = re.compile(r"/dev/(?:stdin|fd/\d+)")
_RESERVED = frozenset(["if", "then", "elif", "else", "do", "while", "until", "!", "{", "time", "coproc"])
_COMPOUND = frozenset(["for", "case", "select"])
_PREFIXES = frozenset(["command", "builtin", "exec"])
_INTEGERS = frozenset(["RANDOM", "SRANDOM", "SECONDS", "LINENO", "HISTCMD", "OPTIND"])
_EVALUATED_NAMES = _INTEGERS | {"PS0", "PS1", "PS2", "PS4", "PROMPT_COMMAND", "ENV", "BASH_ENV"}
"""Variables whose value a shell evaluates: integers, prompts, and files that it runs."""
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\[.*\])?\+?=", re.DOTALL | re.ASCII)
_DEFAULT = re.compile(r"([A-Za-z_]\w*):?=", re.ASCII)
_COMPUTED_CODE = re.compile(r"\b(?:eval|let|declare|typeset|source)\b")
_INDEX = re.compile(r"(?:[A-Za-z_]\w*)?\[([^\]]*)\]\+?=", re.ASCII)
"""The beginning of an assignment to an array element, also in a list of values."""
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_EXPANSION = re.compile(r"\$(?:\{[!#]?)?([A-Za-z_]\w*|[\d@*])", re.ASCII)
_HERE_DOCUMENT = re.compile(r"(?<!<)<<-?[ \t]*['\"\\]?([^\s;&|<>()'\"\\]+)")
_ANSI_QUOTED = re.compile(r"\$'(?:[^'\\]|\\.)*'", re.DOTALL)
"""In bash a quote may be escaped in it, in other shells not."""
_EXPANDED = re.compile(r"\$[({]|`")
_COMPUTED = re.compile(r"\(\(|\$\[|\[\[")
_UNCOUNTED = re.compile(r"""\\|\#|\bcase\b|"[^"]*"|'[^']*'""")
_CASE = re.compile(r"\bcase\b")
_BRACKETS = re.compile(r"[][()]")
_CONTINUED = re.compile(r"(?<!\\)((?:\\\\)*)\\\n")
_MOST_WORK = 1_000_000
"""The most characters of expansions, nested ones again, that are read."""
_DUPLICATED = re.compile(rf"[<>]&\s*\"?(?:{MARK}|\${{?(\w+))")
"""Where output is redirected to a descriptor: bash expands its number twice."""
_REDIRECTED = re.compile(r"\d+|\{\w+\}")
_ARITHMETIC_TEST = re.compile(r"-(eq|ne|lt|le|gt|ge|v|R)")
_RANGE = re.compile(r"\[|:(?![-=+?])|@P$|\(\(")
"""The parts of `${...}` whose variables are evaluated: a subscript, a substring, a prompt, arithmetic."""


def is_shell_line(value: object, field: Field | None) -> TypeGuard[str]:
    """Return whether a param is a shell line, so that its templates are quoted for a shell."""
    return isinstance(value, str) and field is not None and field.shell_line


def bind_line(text: str, lookup: Lookup) -> JSON | list[object]:
    """Return a shell `line`, and the `variables` for its values; a line without templates stays a string.

    A line that consists of a template of a list becomes that list: the arguments of a program. A template in
    a place where it cannot be quoted is an error.
    """
    if lone(text):
        value = resolve(text, lookup)
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
            variables[name] = text_of(part, lookup)
            scanner.expand(name, part.text)
    line = "".join(scanner.line)
    if variables and (what := evaluated_value("".join(marked))):
        raise PflowError(
            f"The line has a template, and {what} in it could evaluate the value as code",
            suggestions=(
                "Give a list of arguments, pass the value as stdin, or do that in a node of its own",
            ),
        )
    return {"line": line, "variables": variables} if variables else line


class _Scanner:
    """Copies a shell line and keeps track of the quotes that are open.

    An odd line may mislead it into quoting a value wrongly; the value still cannot become part of the line,
    since it is the result of an expansion.
    """

    def __init__(self) -> None:
        self.line: list[str] = []
        self._open: list[str] = [""]
        self._before = "\n"
        self._refused = ""

    def read(self, text: str) -> None:
        for char in text:
            self._step(char)
            # After a backslash a character is plain: a second backslash does not escape the next one.
            self._before = "" if self._before == "\\" and self._open[-1] != "'" else char
        self.line.append(text)

    def expand(self, name: str, template: str) -> None:
        """Add a shell variable in place of a template, unless it would be unsafe or plain text there."""
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
            pass  # it is plain
        elif char in '`"':
            if inside == char:
                self._open.pop()
            else:
                self._open.append(char)
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


@attrs.define
class _Word:
    """A word of a shell line: its text without quotes, and the variables that are expanded in it.

    Inside `$((...))` and the like every name is a variable; these are in `evaluated`.
    """

    text: str = ""
    names: set[str] = attrs.field(factory=set)
    evaluated: set[str] = attrs.field(factory=set)
    split: set[str] = attrs.field(factory=set)
    """The `names` outside of quotes: their values may become several words."""
    defaults: set[str] = attrs.field(factory=set)
    """The variables that `${name:=value}` sets."""


@lru_cache(maxsize=64)  # the items of a batch have one line
def evaluated_value(line: str) -> str:
    """Return what evaluates a value, such as `let`, in a shell line with `MARK` for templates, or ""."""
    try:
        commands = [words for text in _readings(line) for words in _Reader(text).commands()]
        commands += _anywhere(line)
        for words in commands:  # the list grows meanwhile
            texts = [word.text for word in _command(words)[0]]
            if texts and texts[0] in _RUNNING:
                commands += _Reader(_CONTINUED.sub(r"\1", " ".join(texts[1:]))).commands()
    except RecursionError:
        return "a bracket inside many others"
    tainted = _tainted(commands, line.count(MARK))
    evaluated = set(_EVALUATED_NAMES)
    for texts in ([word.text for word in words] for words in commands):
        # Declared integers and references are evaluated too.
        if not _DECLARING.isdisjoint(texts) and any(re.match(r"-\w*[in]", text) for text in texts):
            evaluated.update(name for text in texts for name in _NAME.findall(text.partition("=")[0]))
    if held := sorted(tainted & evaluated):
        return f"the variable {held[0]}"
    if any(found[1] is None or found[1] in tainted for found in _DUPLICATED.finditer(line)):
        return "a redirection"
    computes = _COMPUTED_CODE.search(line) is not None
    return next(
        (what for words in commands for what in _evaluations(words, tainted, computes=computes)),
        "",
    )


def _readings(line: str) -> set[str]:
    """Return a shell line as it is, without its here-documents, and both with the text of `$'...'`.

    A backslash continues a line on the next one, but not if it ends a comment.
    """
    code: list[str] = []
    ends: list[str] = []
    for one in line.splitlines(keepends=True):
        if ends:
            ends = ends[one.strip() == ends[0] :]
        else:
            code.append(one)
            ends = _HERE_DOCUMENT.findall(one)

    def plain(found: re.Match[str]) -> str:
        text = found[0][2:-1].encode("latin-1", "backslashreplace").decode("unicode_escape", "replace")
        return "'" + text.replace("'", "") + "'"

    read = {it for text in (line, "".join(code)) for it in (text, _ANSI_QUOTED.sub(plain, text))}
    return {_CONTINUED.sub(rf"\1{after}", text) for text in read for after in ("", "\n")}


def _anywhere(line: str) -> Iterator[list[_Word]]:
    """Yield what a shell line runs and evaluates if quotes, comments and here-documents are ignored."""
    line, work = _CONTINUED.sub(r"\1", line), 0
    for found in _EXPANDED.finditer(line):
        reader = _Reader(line[found.start() :])
        yield from reader.expansion()
        work += reader.at
        if work > _MOST_WORK:
            raise RecursionError
    if _CASE.search(line):  # the bracket after a pattern ends nothing
        for found in re.finditer(r"\)", line):
            yield from _Reader(line[found.end() :]).bracket()
    yield from _computed(line)


def _computed(line: str) -> Iterator[list[_Word]]:
    """Yield what a shell line computes, wherever it is, or runs, if that is one bracket in another."""
    ends = dict.fromkeys(("((", "$[", "[["), 0)
    for found in _COMPUTED.finditer(line):
        kind, at = found[0], found.end()
        if at <= ends[kind]:
            continue  # it is part of one that was read
        opening, depth = kind[-1], kind.count(kind[-1])
        while depth and at < len(line):
            depth += (line[at] == opening) - (line[at] == {"(": ")", "[": "]"}[opening])
            at += 1
        held = (it[0] for it in _UNCOUNTED.finditer(line, found.end(), at))
        if any(it[0] not in "\"'" or _BRACKETS.search(it) for it in held):
            at = len(line)  # which bracket is the last cannot be told
        if kind == "((":
            yield from _Reader(line[found.end() :]).bracket()
        ends[kind], inside = at, line[found.end() : at]
        if kind != "[[" or any(map(_ARITHMETIC_TEST.fullmatch, inside.split())):
            yield [_Word(evaluated={*_NAME.findall(inside), *_EXPANSION.findall(inside)})]


def _evaluations(words: Sequence[_Word], tainted: set[str], *, computes: bool) -> Iterator[str]:
    """Yield what evaluates a value in a simple command of a shell line.

    `tainted` are the variables that may hold a value; with `computes`, a variable may hold the name of a
    builtin.
    """
    if any(word.evaluated & tainted for word in words):
        yield "arithmetic"
    if any(_indexes_by_value(word, tainted) for word in words):
        yield "a subscript"
    words, prefix = _command(words)
    if not words:
        return
    name, arguments = words[0].text, words[1:]
    dirty = [_is_dirty(word, tainted) for word in arguments]
    is_value = name.startswith(MARK) and (prefix or any(dirty)) and "/" not in name
    if is_value or words[0].split & tainted:
        yield "a command that is a value"
    if computes and "$" in name and (any(dirty) or _is_dirty(words[0], tainted)):
        yield "a command that a variable holds"
    if _evaluates_names(name, arguments, tainted) or (
        any(dirty) and (name in _EVALUATING or _evaluates_some(name, arguments, dirty))
    ):
        yield name


def _indexes_by_value(word: _Word, tainted: set[str]) -> bool:
    found = _INDEX.match(word.text)
    if found is None:
        return False
    has_value = re.search(rf"[{MARK}$]", found[1]) is not None and _is_dirty(word, tainted)
    return has_value or not tainted.isdisjoint(_NAME.findall(found[1]))


def _evaluates_names(name: str, arguments: Sequence[_Word], tainted: set[str]) -> bool:
    """Return whether a shell builtin evaluates a thing that it is given by name: a variable or a stream."""
    texts = [word.text for word in arguments]
    if name in ("mapfile", "readarray") and "-C" in texts:
        return True
    if name in (".", "source"):
        return bool(texts) and (_STREAMS.match(texts[0]) is not None or texts[0].startswith("<("))
    if name == "let" or (name == "[[" and any(map(_ARITHMETIC_TEST.fullmatch, texts))):
        named = any(tainted.intersection(_NAME.findall(text)) for text in texts)
        return named or any(_is_dirty(word, tainted) for word in arguments)
    return False


def _evaluates_some(name: str, arguments: Sequence[_Word], dirty: Sequence[bool]) -> bool:
    """Return whether a shell builtin, given values, evaluates one of them."""
    texts = [word.text for word in arguments]
    starts = [is_dirty and text[:1] in (MARK, "$") for text, is_dirty in zip(texts, dirty, strict=True)]
    pairs = list(zip(texts, dirty[1:], strict=False))
    if name in _DECLARING:
        named = [_ASSIGNMENT.match(text) for text, it in zip(texts, dirty, strict=True) if it]
        evaluates = any(re.match(r"[-+]\w*[aAin]|\$", text) for text in texts)
        return evaluates or any(it is None or bool(it[2]) for it in named)
    if name == "printf":
        attached = dirty[0] and texts[0].startswith("-v")
        return starts[0] or attached or any(text == "-v" and it for text, it in pairs[:1])
    if name in ("test", "["):
        unary = any((text in ("-v", "-R") or text[:1] == "$") and it for text, it in pairs)
        return unary or any(one and other for one, other in pairwise(starts))
    return False


def _command(words: Sequence[_Word]) -> tuple[Sequence[_Word], bool]:
    """Return a shell command from its name on, and whether `command` or its like was before it."""
    words = _without_reserved(words)
    while words and _ASSIGNMENT.match(words[0].text):
        words = words[1:]
    prefix = False
    while words and words[0].text in _PREFIXES:
        prefix, words = True, words[1:]
        while words and words[0].text.startswith("-"):
            if words[0].text in ("-v", "-V"):  # `command -v NAME` only looks it up
                return (), prefix
            words = words[1:]
    return words, prefix


def _without_reserved(words: Sequence[_Word]) -> Sequence[_Word]:
    while words and (words[0].text in _RESERVED or words[0].text == "-p"):  # an option of `time`
        words = words[1:]
    texts = [word.text for word in words]
    if texts[:1] == ["for"] and texts[2:3] == ["do"]:
        return _without_reserved(words[3:])
    if words and words[0].text == "function":
        return _without_reserved(words[2:])
    return () if words and words[0].text in _COMPOUND else words


def _is_dirty(word: _Word, tainted: set[str]) -> bool:
    return MARK in word.text or not tainted.isdisjoint(word.names)


def _tainted(commands: Sequence[Sequence[_Word]], templates: int) -> set[str]:
    """Return the variables of a shell line that may hold a template's value, or a part of one."""
    tainted = {*"123456789@*_", "REPLY", "MAPFILE", "OPTARG"}
    tainted.update(f"PFLOW_{index + 1}" for index in range(templates))
    before = 0
    while len(tainted) > before:  # until none is added: a variable may get the value of another
        before = len(tainted)
        for words in commands:
            tainted.update(_tainted_by(words, tainted))
    return tainted


def _tainted_by(words: Sequence[_Word], tainted: set[str]) -> Iterator[str]:
    """Yield the variables to which a simple command of a shell line gives a tainted value."""
    for word in words:
        found, is_dirty = _ASSIGNMENT.match(word.text), _is_dirty(word, tainted)
        # A variable's name is enough: arithmetic follows it.
        if found and (is_dirty or tainted.intersection(_NAME.findall(word.text[found.end() :]))):
            yield found[1]
        if is_dirty:
            yield from word.defaults
    texts = [word.text for word in words]
    if any(text in _READING for text in texts):
        yield from (name for text in texts for name in _NAME.findall(text))
    for keyword in ("for", "select"):
        if keyword in texts[:-1] and ("in" not in texts or any(_is_dirty(word, tainted) for word in words)):
            yield texts[texts.index(keyword) + 1]
    if "printf" in texts and "-v" in texts[:-1]:
        yield texts[texts.index("-v") + 1]


class _Reader:
    """Reads the simple commands of a shell line, those in `$(...)` and backquotes included.

    It need not understand a line that a shell would refuse.
    """

    def __init__(self, line: str) -> None:
        self._line = line
        self.at = 0
        self._found: list[list[_Word]] = []

    def commands(self) -> Iterator[list[_Word]]:
        while self.at < len(self._line):
            self._read("")
        yield from self._found

    def bracket(self) -> list[list[_Word]]:
        """Return the commands up to the end of a bracket that was open."""
        self._read(")")
        return self._found

    def expansion(self) -> Iterator[list[_Word]]:
        """Yield the commands in the expansion with which the line begins, and what it evaluates."""
        word = _Word()
        self._expansion(word)
        word.text = word.text.replace("$", "")
        yield from (*self._found, [word])

    def _read(self, end: str) -> _Word:
        """Read a shell line up to an end; return a word with everything that is expanded on the way."""
        words: list[_Word] = []
        word: _Word | None = None
        whole = _Word()
        quoted = False
        while self.at < len(self._line):
            char = self._line[self.at]
            if char == end and not quoted:
                self.at += 1
                break
            if not quoted and char in " \t\n;|&()<>#'":
                word = self._plain(char, word, words, whole)
                continue
            word = word or self._begun(words)
            if char == '"':
                quoted = not quoted
                self.at += 1
            elif char in "$`":
                before = set(word.names)
                self._expansion(word)
                word.split |= set() if quoted else word.names - before
            else:
                self.at += 1 + (char == "\\")
                word.text += self._line[self.at - 1 : self.at]
        self._end_command(words, whole)
        return whole

    def _plain(self, char: str, word: _Word | None, words: list[_Word], whole: _Word) -> _Word | None:
        """Read a character with a meaning outside of the shell's double quotes; return the word it is in."""
        line, at = self._line, self.at
        self.at += 1
        if char == "'":
            word = word or self._begun(words)
            self.at = (line.find("'", at + 1) + 1) or len(line)
            word.text += line[at + 1 : self.at - 1]
            return word
        if char == "(" or line.startswith(("<(", ">("), at):
            return self._opened(char, word, words)
        if char == "#" and word is not None:
            word.text += char
            return word
        if char == "#":
            self.at = line.find("\n", at) % (len(line) + 1)
        elif char in "<>":
            if word is not None and _REDIRECTED.fullmatch(word.text):
                words.pop()
            word = self._begun(words)  # its target is not an argument, but is expanded as a name
            word.text = char
        elif char == "&" and (line[at - 1 : at] in (">", "<") or line[at + 1 : at + 2] == ">"):
            return word
        elif char not in " \t" and not (words and words[0].text == "[[" and words[-1].text != "]]"):
            self._end_command(words, whole)
        return None

    def _opened(self, char: str, word: _Word | None, words: list[_Word]) -> _Word | None:
        """Read what begins with a bracket outside of a shell's quotes, from after its first character."""
        if char in "<>":
            word = self._begun(words)
            word.text = "<("
            self.at += 1
            self._take(word, self._read(")"))
            return word
        if self._line.startswith("(", self.at) and word is None:
            self._arithmetic(self._begun(words), self.at + 1, "))")
        elif self._line.startswith(")", self.at):  # a function: a command begins after it
            self.at += 1
            words.clear()
        elif [each.text for each in (*words[:1], *words[-1:])] == ["case", "in"]:
            pass  # the first pattern: what is expanded before it still counts
        else:
            before = len(self._found)
            self._take(word or self._begun(words), self._read(")"))
            if word is not None and word.text.rstrip(MARK).endswith("="):  # values of an array, not commands
                inner = self._found[before:]
                self._found[before:] = [each for each in inner if not each[0].text.startswith(MARK)]
            return word
        return None

    def _end_command(self, words: list[_Word], whole: _Word) -> None:
        for word in words:
            self._take(whole, word)
        kept = [
            word
            for index, word in enumerate(words)
            if word.text not in ("<", ">") and (not index or words[index - 1].text not in ("<", ">"))
        ]
        if kept:
            self._found.append(kept)
        words.clear()

    @staticmethod
    def _begun(words: list[_Word]) -> _Word:
        words.append(_Word())
        return words[-1]

    @staticmethod
    def _take(word: _Word, inner: _Word) -> None:
        word.names |= inner.names
        word.evaluated |= inner.evaluated
        word.defaults |= inner.defaults
        if MARK in inner.text:
            word.text += MARK

    def _expansion(self, word: _Word) -> None:
        line, at = self._line, self.at
        if line[at] == "`":
            self.at += 1
            self._take(word, self._read("`"))
            word.text += "$"
        elif line.startswith("$((", at):
            self._arithmetic(word, at + 3, "))")
        elif line.startswith("$[", at):
            self._arithmetic(word, at + 2, "]")
        elif line.startswith("$(", at):
            self.at += 2
            self._take(word, self._read(")"))
            word.text += "$"
        elif line.startswith("${", at):
            self._braces(word, at + 2)
        elif found := _EXPANSION.match(line, at):
            self.at = found.end()
            word.names.add(found[1])
            word.text += "$"
        else:
            self.at += 1

    def _arithmetic(self, word: _Word, begin: int, end: str) -> None:
        self.at = line_end = (self._line.find(end, begin) + 1 or len(self._line) + 1) - 1
        self.at += len(end)
        inside = self._line[begin:line_end]
        word.evaluated |= {*_NAME.findall(inside), *_EXPANSION.findall(inside)}

    def _braces(self, word: _Word, begin: int) -> None:
        depth, self.at = 1, begin
        while depth and self.at < len(self._line):
            depth += {"{": 1, "}": -1}.get(self._line[self.at], 0)
            self.at += 1
        inside = self._line[begin : self.at - 1]
        names = {*_NAME.findall(inside), *_EXPANSION.findall(inside), *re.findall(r"^[!#]?([1-9@*])", inside)}
        word.names |= names
        word.text += MARK if MARK in inside else "$"
        word.defaults |= {found[1] for found in [_DEFAULT.match(inside)] if found}
        if _RANGE.search(inside) or inside.startswith("!"):
            word.evaluated |= names | ({"1"} if MARK in inside else set())
