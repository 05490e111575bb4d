"""The words of a chain: links, one for each node, names of flags, and the options of pflow itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs

from pflow_mcp_plugin.contract import Field, Interface, PflowError, Problem, RunOptions
from pflow_mcp_plugin.contract.problems import problem_of
from pflow_mcp_plugin.contract.run_requests import USUAL_OPTIONS, USUAL_TTL
from pflow_mcp_plugin.host.standard_streams import input_text
from pflow_mcp_plugin.storage import read_named
from pflow_mcp_plugin.storage.json_and_toml import strict_json

SEPARATORS = ("then", ">>")
"""The words between two nodes; a shell takes an unquoted `>>` for itself."""

PARAM = "--param"
"""The option that sets a parameter by its exact name, to literal text; it stays among a link's words."""
PARAMS = "--params"
"""The option that sets parameters by their exact names, to the values of a JSON object; it stays too."""
PIPED = ("-", "@-")
"""The values that stand for what is piped in."""
_FORMS = {
    "--save": "NAME",
    "--input": "NAME",
    "--description": "TEXT",
    PARAM: "NAME=VALUE",
    PARAMS: "JSON|@FILE|-",
}
"""pflow's options that take a value, and how the value is shown."""
_RUN_SWITCHES = {"--trust-readonly": "trust_readonly", "--locked": "locked", "--no-cache": "no_cache"}
_CACHE = "--cache"
"""The option whose value follows only after `=`."""
_SWITCHES = ("--print", "--allow-extra", "--json", "--help", *_RUN_SWITCHES)
_SHORT_HELP = "-h"
"""Asks for help in the place of a flag; as the value of a flag it is text."""

OPTIONS = frozenset((*_FORMS, *_SWITCHES, _CACHE))
"""pflow's options, which win over flags of the same name."""


@attrs.frozen
class Link:
    """The words of one link: a node type, and the words that follow it."""

    node: str
    words: tuple[str, ...]


@attrs.frozen(kw_only=True)
class Chain:
    """The words of a command line read as links, and pflow's own options, which may be anywhere.

    It is saved under the name `save` if there is one, or only shown as a workflow, of which `inputs` are the
    flags that become inputs; otherwise it runs with `options`. `help_of` is the position of the link whose
    help is wanted. `problems` are about the words, except flags of nodes.
    """

    links: tuple[Link, ...]
    save: str = ""
    is_shown: bool = False
    allows_extra: bool = False
    options: RunOptions = USUAL_OPTIONS
    inputs: tuple[str, ...] = ()
    description: str = ""
    help_of: int | None = None
    problems: tuple[Problem, ...] = ()

    @property
    def is_kept(self) -> bool:
        """Whether the words of the last link ask to keep the chain as a workflow, and not to run it."""
        return bool(self.save) or self.is_shown


def mistake(message: str, step: str = "") -> Problem:
    """Return a problem of kind `usage`, about wrongly typed words of a chain."""
    return Problem(message=message, suggestion=step, kind="usage")


def read_chain(words: Sequence[str]) -> Chain:
    """Read the words of a chain as links; what is wrong with them is in its `problems`."""
    return _Reader(words).chain()


class _Reader:
    def __init__(self, words: Sequence[str]) -> None:
        self._words = words
        self._links: list[list[str]] = [[]]
        self._options: dict[str, list[str]] = {}
        self._help_of: int | None = None
        self._problems: list[Problem] = []

    def chain(self) -> Chain:
        place = 0
        while place < len(self._words):
            place = self._read(place)
        links = tuple(self._link(place, words) for place, words in enumerate(self._links))
        save = self._only("--save")
        given: dict[str, Any] = {it: flag in self._options for flag, it in _RUN_SWITCHES.items()}
        if _CACHE in self._options:
            given["cache"] = self._only(_CACHE)
        options = USUAL_OPTIONS
        try:
            options = RunOptions(**given)
        except PflowError as error:
            self._problems.append(problem_of(error))
        return Chain(
            links=links,
            save=save,
            is_shown="--print" in self._options,
            allows_extra="--allow-extra" in self._options,
            options=options,
            inputs=tuple(self._options.get("--input", ())),
            description=self._only("--description"),
            help_of=self._help_of,
            problems=tuple(self._problems),
        )

    def _read(self, place: int) -> int:
        """Read the word at a place in a chain, with its value; return the position of the next."""
        word = self._words[place]
        before = self._words[place - 1] if place else ""
        name, equals, value = word.partition("=")
        if word in SEPARATORS:
            self._links.append([])
        elif word == "--":
            self._wrong("-- is not needed: a flag takes the word that follows it", "Remove it")
        elif name == _CACHE:
            self._options.setdefault(name, []).append(value if equals else f"{USUAL_TTL:g}")
        elif name in _SWITCHES:
            self._switch(name, word)
        elif word == _SHORT_HELP and not (
            # The flag of a node before it may take it as a value.
            before.startswith("--") and "=" not in before and before not in (*_SWITCHES, _CACHE)
        ):
            self._switch("--help", "--help")
        elif name in _FORMS:
            place += not equals
            following = self._words[place] if not equals and place < len(self._words) else ""
            if not equals:
                value = "" if following in SEPARATORS or following.startswith("--") else following
            if not value:  # an empty one too, as from "$NAME": without a name the chain would run
                self._wrong(f"{name} needs a value", f"Write {name} {_FORMS[name]}")
                is_empty_word = not equals and place < len(self._words) and not following
                return place + (bool(equals) or is_empty_word)
            if name in (PARAM, PARAMS):
                self._links[-1].append(f"{name}={value}")
            else:
                self._options.setdefault(name, []).append(value)
        else:
            self._links[-1].append(word)
        return place + 1

    def _switch(self, name: str, word: str) -> None:
        if word != name:
            self._wrong(f"{name} takes no value", f"Write {name}")
        if name == "--help":
            self._help_of = len(self._links) - 1
        self._options.setdefault(name, [])

    def _only(self, name: str) -> str:
        values = self._options.get(name, [])
        if len(values) > 1:
            self._wrong(f"{name} is given twice", "Remove one")
        return values[-1] if values else ""

    def _link(self, place: int, words: Sequence[str]) -> Link:
        node = words[0] if words else ""
        if not node and len(self._links) == 1:
            self._wrong("A node is missing", "See: pflow registry list")
        elif not node:
            step = "Name a node there; if the word is a value, write it as --flag=then"
            self._wrong(f"A node is missing {'after' if place else 'before'} `then`", step)
        elif node.startswith("-"):
            self._wrong(f"{node} stands where a node is expected", "Write the node first, then its flags")
            node = ""
        return Link(node, tuple(words[1:]))

    def _wrong(self, message: str, suggestion: str) -> None:
        self._problems.append(mistake(message, suggestion))


def flag_field(interface: Interface, name: str) -> Field | None:
    """Return the parameter that a word of a link names, without its hyphens; None if it names none.

    Hyphens count as underscores; then case and separators are ignored if only one shown parameter fits.
    """
    fields = interface.fields
    for key in (name, name.replace("-", "_")):
        if key in fields:
            return fields[key]
    alike = [field for field in interface.params if folded(field.key) == folded(name)]
    return alike[0] if len(alike) == 1 else None


def flag_of(field: Field) -> str:
    """Return the word in a link that comes before a parameter's value: its key, with hyphens."""
    return f"--{field.key.replace('_', '-')}"


def flag_with(field: Field, value: str) -> str:
    """Return a link's words for a parameter: `--KEY VALUE`, or `--param KEY=VALUE` if pflow has `--KEY`."""
    flag = flag_of(field)
    return f"{PARAM} {field.key}={value}" if flag in OPTIONS else f"{flag} {value}"


def shown_flag(field: Field) -> str:
    """Return how a link's words for a parameter begin: `--KEY`, or `--param KEY` if pflow has `--KEY`."""
    flag = flag_of(field)
    return f"{PARAM} {field.key}" if flag in OPTIONS else flag


_NONE = frozenset({"None", "null"})


def is_switch(field: Field) -> bool:
    """Return whether a flag in a chain takes no value from the next word: its parameter is true or false."""
    return {*field.types} - _NONE in ({"bool"}, {"boolean"})


def is_list(field: Field) -> bool:
    """Return whether a flag may come several times in one link of a chain, as its parameter is a list."""
    return {*field.types} - _NONE in ({"list"}, {"array"})


def folded(name: str) -> str:
    """Return a word of a link for comparison: without case and separators."""
    return name.replace("-", "").replace("_", "").replace(".", "").lower()


def file_text(path: Path, word: str) -> str:
    """Return the text that a word `@FILE` of a link stands for; FILE may be a descriptor, as `/dev/fd/63`."""
    step = f"For the text {word} itself, write @{word}"
    path = path.expanduser() if str(path).startswith("~") else path
    try:
        return read_named(path).decode()
    except FileNotFoundError as error:
        raise PflowError(f"no such file: {path}", suggestions=(step,), kind="usage") from error
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror or error}"
        raise PflowError(message, suggestions=(step,), kind="usage") from error
    except (UnicodeDecodeError, ValueError) as error:
        raise PflowError(f"{path} is not UTF-8 text", suggestions=(step,), kind="usage") from error


def params_object(text: str) -> dict[str, object]:
    """Read the word after pflow's own option `--params`: an object, as JSON, `@FILE` or `-` (piped in)."""
    if text in PIPED:
        text = input_text()
    elif text.startswith("@"):
        text = file_text(Path(text[1:]), text)
    step = 'Write an object, such as {"title": "x"}'
    try:
        value = strict_json(text)
    except (ValueError, RecursionError) as error:
        raise PflowError(f"not JSON: {error}", suggestions=(step,), kind="usage") from error
    if not isinstance(value, dict):
        raise PflowError("not a JSON object", suggestions=(step,), kind="usage")
    return value
