r"""Shell lines in which a shell would evaluate a value as code, although it is quoted.

`let "$x"` runs `touch owned` if the value of x is `a[$(touch owned)]`: arithmetic evaluates the subscripts in
it, and so do the builtins that take the name of a variable. Such a place is found here in a line whose
templates are marked. What holds a value is followed through the variables of the line, from
`n=${template}` to `((n > 3))`; what does not, such as a counter of the line's own, may stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import attrs

MARK = "\0"
"""What stands in a line for a template."""

_EVALUATING = frozenset(
    [
        "eval",
        "let",
        "source",
        ".",
        "trap",
        "alias",
        "read",
        "unset",
        "mapfile",
        "readarray",
        "enable",
        "compgen",
        "complete",
        "getopts",
        "fc",
        "bind",
    ]
)
"""Builtins that run an argument, or take it for the name of a variable, whose subscript they evaluate."""
_DECLARING = frozenset(["declare", "typeset", "local", "readonly", "export"])
_RUNNING = frozenset(["eval", "trap"])
"""Builtins whose arguments are a line of their own."""
_STREAMS = re.compile(r"/dev/(?:stdin|fd/\d+)")
_READING = frozenset(["read", "mapfile", "readarray", "getopts"])
_RESERVED = frozenset(["if", "then", "elif", "else", "do", "while", "until", "!", "{", "time", "coproc"])
_COMPOUND = frozenset(["for", "case", "select"])
_PREFIXES = frozenset(["command", "builtin", "exec"])
_EVALUATED_NAMES = frozenset(
    [
        "PS0",
        "PS1",
        "PS2",
        "PS4",
        "PROMPT_COMMAND",
        "ENV",
        "BASH_ENV",
        "RANDOM",
        "SRANDOM",
        "SECONDS",
        "LINENO",
        "HISTCMD",
        "OPTIND",
    ]
)
"""Variables whose value a shell evaluates: prompts, files that it runs, and integers."""
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\[.*\])?\+?=", re.DOTALL)
_DEFAULT = re.compile(r"([A-Za-z_]\w*):?=")
_COMPUTED_CODE = re.compile(r"\b(?:eval|let|declare|typeset|source)\b")
_INDEX = re.compile(r"(?:[A-Za-z_]\w*)?\[([^\]]*)\]\+?=")
"""The beginning of an assignment to an element of an array, also in a list of its values."""
_NAME = re.compile(r"[A-Za-z_]\w*")
_EXPANSION = re.compile(r"\$(\w+|[@*])")
_DUPLICATED = re.compile(rf"[<>]&\s*\"?(?:{MARK}|\${{?(\w+))")
"""Where output is redirected to a descriptor: bash expands its number twice."""
_REDIRECTED = re.compile(r"\d+|\{\w+\}")
_ARITHMETIC_TEST = re.compile(r"-(eq|ne|lt|le|gt|ge|v|R)")
_RANGE = re.compile(r"\[|:(?![-=+?])|@P$|\(\(")
"""What evaluates the variables in `${...}`: a subscript, a substring, a prompt, arithmetic."""


@attrs.define
class _Word:
    """A word of a line: its text without quotes, and the names of the variables that are expanded in it.

    Inside `$((...))` and the like every name is a variable; these are in `evaluated`.
    """

    text: str = ""
    names: set[str] = attrs.field(factory=set)
    evaluated: set[str] = attrs.field(factory=set)
    split: set[str] = attrs.field(factory=set)
    """Of `names` those outside of quotes: what they hold may become several words."""
    defaults: set[str] = attrs.field(factory=set)
    """The variables that `${name:=value}` sets."""


def evaluated_value(line: str) -> str:
    """Return what evaluates a value in a shell line, such as `let`; empty if nothing does.

    Args:
        line: The line, with `MARK` in place of each template.
    """
    try:
        commands = list(_Reader(line).commands())
        for words in commands:  # it grows
            texts = [word.text for word in _command(words)[0]]
            if texts and texts[0] in _RUNNING:
                commands += _Reader(" ".join(texts[1:])).commands()
    except RecursionError:
        return "a bracket in many others"
    tainted = _tainted(commands, line.count(MARK))
    integers = _evaluated_names(commands)
    if held := sorted(tainted & integers):
        return f"the variable {held[0]}"
    if any(found[1] is None or found[1] in tainted for found in _DUPLICATED.finditer(line)):
        return "a redirection"
    computes = _COMPUTED_CODE.search(line) is not None
    return next(
        (what for words in commands for what in _evaluations(words, tainted, computes=computes)),
        "",
    )


def _evaluations(words: Sequence[_Word], tainted: set[str], *, computes: bool) -> Iterator[str]:
    """Yield what in a simple command evaluates a value.

    Args:
        words: The command.
        tainted: The variables that may hold a value.
        computes: Whether something in the line may be the name of a builtin that a variable holds.
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
    """Return whether a builtin evaluates what it is given a name of: a variable, or a stream."""
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
    """Return whether a builtin, given values, evaluates one of them."""
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
    return name == "wait" and any(text.startswith("-p") for text in texts)


def _command(words: Sequence[_Word]) -> tuple[Sequence[_Word], bool]:
    """Return the words from the name of the command on, and whether `command` or its like was before it."""
    words = _without_reserved(words)
    while words and _ASSIGNMENT.match(words[0].text):
        words = words[1:]
    return _without_prefixes(words)


def _without_reserved(words: Sequence[_Word]) -> Sequence[_Word]:
    while words and (words[0].text in _RESERVED or words[0].text == "-p"):  # of `time`
        words = words[1:]
    texts = [word.text for word in words]
    if texts[:1] == ["for"] and texts[2:3] == ["do"]:
        return _without_reserved(words[3:])
    if words and words[0].text == "function":
        return _without_reserved(words[2:])
    return () if words and words[0].text in _COMPOUND else words


def _without_prefixes(words: Sequence[_Word]) -> tuple[Sequence[_Word], bool]:
    """Return the words without `command` and its like, and whether there was one."""
    prefix = False
    while words and words[0].text in _PREFIXES:
        prefix, words = True, words[1:]
        while words and words[0].text.startswith("-"):
            if words[0].text in ("-v", "-V"):  # `command -v NAME` only looks it up
                return (), prefix
            words = words[1:]
    return words, prefix


def _expanded(text: str) -> set[str]:
    return set(_EXPANSION.findall(text))


def _is_dirty(word: _Word, tainted: set[str]) -> bool:
    return MARK in word.text or not tainted.isdisjoint(word.names)


def _tainted(commands: Sequence[Sequence[_Word]], templates: int) -> set[str]:
    """Return the variables of a line that may hold a value of a template, or a part of one."""
    tainted = {*"123456789@*_", "REPLY", "MAPFILE", "OPTARG"}
    tainted.update(f"PFLOW_{index + 1}" for index in range(templates))
    before = 0
    while len(tainted) > before:  # until nothing is added: a variable may get the value of another
        before = len(tainted)
        for words in commands:
            tainted.update(_tainted_by(words, tainted))
    return tainted


def _tainted_by(words: Sequence[_Word], tainted: set[str]) -> Iterator[str]:
    for word in words:
        found = _ASSIGNMENT.match(word.text)
        # A name is enough: arithmetic follows it.
        if found and (
            _is_dirty(word, tainted) or tainted.intersection(_NAME.findall(word.text[found.end() :]))
        ):
            yield found[1]
        if _is_dirty(word, tainted):
            yield from word.defaults
    texts = [word.text for word in words]
    if any(text in _READING for text in texts):
        yield from (name for text in texts for name in _NAME.findall(text))
    for keyword in ("for", "select"):
        if keyword in texts[:-1] and ("in" not in texts or any(_is_dirty(word, tainted) for word in words)):
            yield texts[texts.index(keyword) + 1]
    if "printf" in texts and "-v" in texts[:-1]:
        yield texts[texts.index("-v") + 1]


def _evaluated_names(commands: Iterable[Sequence[_Word]]) -> set[str]:
    """Return the variables whose values a shell evaluates: its own, and declared integers and references."""
    found = set(_EVALUATED_NAMES)
    for words in commands:
        texts = [word.text for word in words]
        if any(text in _DECLARING for text in texts) and any(re.match(r"-\w*[in]", it) for it in texts):
            found.update(name for text in texts for name in _NAME.findall(text.partition("=")[0]))
    return found


class _Reader:
    """Reads the simple commands of a line, those in `$(...)` and backquotes included.

    It need not understand a line that a shell would refuse.
    """

    def __init__(self, line: str) -> None:
        self._line = line.replace("\\\n", "")
        self._at = 0
        self._found: list[list[_Word]] = []

    def commands(self) -> Iterator[list[_Word]]:
        """Read the line to its end."""
        while self._at < len(self._line):
            self._read("")
        yield from self._found

    def _read(self, end: str) -> _Word:
        """Read commands up to an end; return a word with all that is expanded in them."""
        words: list[_Word] = []
        word: _Word | None = None
        whole = _Word()
        quoted = False
        while self._at < len(self._line):
            char = self._line[self._at]
            if char == end and not quoted:
                self._at += 1
                break
            if not quoted and char in " \t\n;|&()<>#'":
                word = self._plain(char, word, words, whole)
                continue
            word = word or self._begun(words)
            if char == '"':
                quoted = not quoted
                self._at += 1
            elif char in "$`":
                before = set(word.names)
                self._expansion(word)
                word.split |= set() if quoted else word.names - before
            else:
                self._at += 1 + (char == "\\")
                word.text += self._line[self._at - 1 : self._at]
        self._end_command(words, whole)
        return whole

    def _plain(self, char: str, word: _Word | None, words: list[_Word], whole: _Word) -> _Word | None:
        """Read a character that has a meaning outside of double quotes; return the word it belongs to."""
        line, at = self._line, self._at
        self._at += 1
        if char == "'":
            word = word or self._begun(words)
            self._at = (line.find("'", at + 1) + 1) or len(line)
            word.text += line[at + 1 : self._at - 1]
            return word
        if char == "(" or line.startswith(("<(", ">("), at):
            return self._opened(char, word, words)
        if char == "#" and word is not None:
            word.text += char
            return word
        if char == "#":
            self._at = (line.find("\n", at) + 1) or len(line)
        elif char in "<>":
            if word is not None and _REDIRECTED.fullmatch(word.text):
                words.pop()
            word = self._begun(words)  # where it leads is no argument, but a name that is expanded
            word.text = char
        elif char == "&" and (line[at - 1 : at] in (">", "<") or line[at + 1 : at + 2] == ">"):
            return word
        elif char not in " \t" and not (words and words[0].text == "[[" and words[-1].text != "]]"):
            self._end_command(words, whole)
        return None

    def _opened(self, char: str, word: _Word | None, words: list[_Word]) -> _Word | None:
        """Read what begins with a bracket outside of quotes, behind its first character."""
        if char in "<>":
            word = self._begun(words)
            word.text = "<("
            self._at += 1
            self._take(word, self._read(")"))
            return word
        if self._line.startswith("(", self._at) and word is None:
            self._arithmetic(self._begun(words), self._at + 1, "))")
        elif self._line.startswith(")", self._at):  # a function: a command begins after it
            self._at += 1
            words.clear()
        elif [each.text for each in (*words[:1], *words[-1:])] == ["case", "in"]:
            words.clear()  # the first pattern
        else:
            return self._bracket(word, words)
        return None

    def _bracket(self, word: _Word | None, words: list[_Word]) -> _Word | None:
        before = len(self._found)
        self._take(word or self._begun(words), self._read(")"))
        if word is not None and word.text.rstrip(MARK).endswith("="):  # values of an array, not commands
            inner = self._found[before:]
            self._found[before:] = [each for each in inner if not each[0].text.startswith(MARK)]
        return word

    def _end_command(self, words: list[_Word], whole: _Word) -> None:
        for word in words:
            self._take(whole, word)
            whole.text += MARK if MARK in word.text else ""
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
        """Let a word hold what is expanded inside it."""
        word.names |= inner.names
        word.evaluated |= inner.evaluated
        word.defaults |= inner.defaults
        if MARK in inner.text:
            word.text += MARK

    def _expansion(self, word: _Word) -> None:
        line, at = self._line, self._at
        if line[at] == "`":
            self._at += 1
            self._take(word, self._read("`"))
            word.text += "$"
        elif line.startswith("$((", at):
            self._arithmetic(word, at + 3, "))")
        elif line.startswith("$[", at):
            self._arithmetic(word, at + 2, "]")
        elif line.startswith("$(", at):
            self._at += 2
            self._take(word, self._read(")"))
            word.text += "$"
        elif line.startswith("${", at):
            self._braces(word, at + 2)
        elif found := _EXPANSION.match(line, at):
            self._at = found.end()
            word.names.add(found[1])
            word.text += "$"
        else:
            self._at += 1

    def _arithmetic(self, word: _Word, begin: int, end: str) -> None:
        self._at = line_end = (self._line.find(end, begin) + 1 or len(self._line) + 1) - 1
        self._at += len(end)
        inside = self._line[begin:line_end]
        word.evaluated |= {*_NAME.findall(inside), *_expanded(inside)}
        word.names |= word.evaluated

    def _braces(self, word: _Word, begin: int) -> None:
        depth, self._at = 1, begin
        while depth and self._at < len(self._line):
            depth += {"{": 1, "}": -1}.get(self._line[self._at], 0)
            self._at += 1
        inside = self._line[begin : self._at - 1]
        names = {*_NAME.findall(inside), *_expanded(inside), *re.findall(r"^[!#]?([1-9@*])", inside)}
        word.names |= names
        word.text += MARK if MARK in inside else "$"
        word.defaults |= {found[1] for found in [_DEFAULT.match(inside)] if found}
        if _RANGE.search(inside) or inside.startswith("!"):
            word.evaluated |= names | ({"1"} if MARK in inside else set())
