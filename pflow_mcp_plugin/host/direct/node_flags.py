"""The flags of a node on the command line: from words to values, by the node's interface."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from shlex import quote

import attrs

from pflow_mcp_plugin.contract import Entry, Field, PflowError, Problem
from pflow_mcp_plugin.host.direct.link_words import (
    PARAM,
    PARAMS,
    PIPED,
    file_text,
    flag_field,
    flag_of,
    flag_with,
    folded,
    is_list,
    is_switch,
    mistake,
    params_object,
    shown_flag,
)
from pflow_mcp_plugin.host.workflow.coercion import (
    TypeMismatch,
    alternatives,
    coerce,
    json_in,
    type_names,
    typed,
)
from pflow_mcp_plugin.host.workflow.findings import cut, listing
from pflow_mcp_plugin.host.workflow.templates import item_of, lone
from pflow_mcp_plugin.terminal.similar_names import closest, did_you_mean

STDIN = "${stdin}"
"""The template of the program's piped input."""
_DASHES = "-\u2013\u2014"


@attrs.frozen(kw_only=True)
class Given:
    """A value in its declared type that a node's flag gives to a parameter, or a template of one."""

    field: Field
    value: object
    is_template: bool = False


@attrs.frozen(kw_only=True)
class _Typed:
    """A node's flag as typed: its name, the parameter, and its text (None for a switch without a value)."""

    flag: str
    field: Field
    text: str | None
    is_negated: bool = False
    is_plain: bool = False


class FlagReader:
    """Reads the flags of one node in a chain, and collects the `problems` with them.

    With `templates`, `${...}` in a value refers to an output of an earlier node.
    """

    def __init__(self, entry: Entry, *, templates: bool) -> None:
        self._entry = entry
        self._templates = templates
        self.problems: list[Problem] = []

    def read(self, words: Sequence[str]) -> dict[str, Given]:
        objects = [word.partition("=")[2] for word in words if word.startswith(f"{PARAMS}=")]
        values = {key: given for text in objects for key, given in self._object(text).items()}
        by_key: dict[str, list[_Typed]] = {}
        for item in self._items([word for word in words if not word.startswith(f"{PARAMS}=")]):
            by_key.setdefault(item.field.key, []).append(item)
        given = {key: self._given(items) for key, items in by_key.items()}
        return values | {key: value for key, value in given.items() if value is not None}

    def _object(self, text: str) -> dict[str, Given]:
        """Return the values that the node's flag `--params` gives as a JSON object, by parameter."""
        try:
            value = params_object(text)
        except PflowError as error:
            self._wrong(f"{PARAMS} of {self._entry.node}: {error.message}", *error.suggestions[:1])
            return {}
        given: dict[str, Given] = {}
        for key, field in {key: field for key in value if (field := self._field(key))}.items():
            try:
                given[key] = Given(field=field, value=coerce(value[key], field))
            except TypeMismatch as error:
                mistake = f"{key} must be {error.expected}, got {error.given}"
                self._wrong(f"{PARAMS} of {self._entry.node}: {mistake}", f"Write one for {key}")
        return given

    def _find(self, name: str) -> Field | None:
        return flag_field(self._entry.interface, name)

    def _field(self, key: str) -> Field | None:
        """Return the parameter that a node's flag `--param` names exactly; report it if there is none."""
        interface = self._entry.interface
        field = interface.fields.get(key) or (Field(key=key) if interface.open else None)
        if field is None:
            shown = [field.key for field in interface.params]
            hint = did_you_mean(key, shown, f"It takes {listing(shown)}")
            self._wrong(f"{self._entry.node} has no parameter {key}", hint)
        return field

    def _items(self, words: Sequence[str]) -> Iterator[_Typed]:
        place = 0
        before: _Typed | None = None
        while place < len(words):
            word = words[place]
            if not _is_dashed(word):
                end = next((at for at in range(place, len(words)) if _is_dashed(words[at])), len(words))
                # Words of the form `NAME=VALUE` set parameters like `--NAME=VALUE`.
                pairs = [self._pair(word) for word in words[place:end]]
                if all(pairs):
                    yield from filter(None, pairs)
                else:
                    self._unexpected(words[place:end], before)
                place = end
                continue
            place += 1
            item = self._named(word)
            if item is None:
                place += place < len(words) and not _is_dashed(words[place])
                continue
            if item.text is None and not is_switch(item.field):
                name = words[place].partition("=")[0] if place < len(words) else "--"
                is_flag = name.startswith("--") and any(
                    map(self._find, (name[2:], name[2:].removeprefix("no-")))
                )
                if place >= len(words) or is_flag:
                    self._wrong(f"{item.flag} of {self._entry.node} needs a value", self._form(item.field))
                    continue
                item = attrs.evolve(item, text=words[place])
                place += 1
            before = item
            yield item

    def _pair(self, word: str) -> _Typed | None:
        name, equals, text = word.partition("=")
        field = self._find(name) if equals else None
        if equals and field is None and self._entry.interface.open and name.isidentifier():
            field = Field(key=name)
        return _Typed(flag=flag_of(field), field=field, text=text) if field else None

    def _named(self, word: str) -> _Typed | None:
        """Return the node's flag that a word names, with any text after `=`; None, and a problem, if none."""
        flag, equals, text = word.partition("=")
        if not flag.startswith("--"):
            node = self._entry.node
            hint = self._meant(flag.lstrip(_DASHES))
            self._wrong(f"{node} has no flag {cut(flag)}; flags begin with two hyphens", hint)
            return None
        if flag == PARAM:
            return self._param(text)
        name = flag.removeprefix("--")
        field = self._find(name)
        if field is None and name.startswith("no-"):  # otherwise its own name begins with `no-`
            negated = self._find(name.removeprefix("no-"))
            if negated and is_switch(negated):
                if equals:
                    self._wrong(f"{flag} takes no value", f"Write {flag}, or {flag_of(negated)}={text}")
                return _Typed(flag=flag, field=negated, text=None, is_negated=True)
        field = field or self._unknown(flag)
        return None if field is None else _Typed(flag=flag, field=field, text=text if equals else None)

    def _param(self, pair: str) -> _Typed | None:
        # A tool's parameters may have any name, even one with an equals sign.
        keys = [key for key in self._entry.interface.fields if pair.startswith(f"{key}=")]
        key, equals, text = pair.partition("=")
        if keys:
            key = max(keys, key=len)
            text = pair.removeprefix(f"{key}=")
        if not equals:
            self._wrong(f"{PARAM} {pair}: a value is missing", f"Write {PARAM} NAME=VALUE")
            return None
        field = self._field(key)
        return None if field is None else _Typed(flag=f"{PARAM} {key}", field=field, text=text, is_plain=True)

    def _unknown(self, flag: str) -> Field | None:
        """Return a field for an unknown flag of a node that takes any; else report the flag."""
        meant = self._meant(flag.removeprefix("--"))
        if not meant:
            return Field(key=flag.removeprefix("--").replace("-", "_"))
        self._wrong(f"{self._entry.node} has no flag {cut(flag)}", meant)
        return None

    def _meant(self, name: str) -> str:
        """Return the suggestion for an unknown flag: a node's closest ones, else all; "" if it takes any."""
        # For a node that takes any parameter, the name may be right.
        cutoff = 0.8 if self._entry.interface.open else 0.6
        by_name: dict[str, list[str]] = {}
        for field in self._entry.interface.params:
            by_name.setdefault(folded(field.key), []).append(shown_flag(field))
        if close := closest(folded(name), by_name, cutoff):
            return f"Did you mean {' or '.join(by_name[close[0]])}?"
        if self._entry.interface.open:
            return ""
        flags = [shown_flag(field) for field in self._entry.interface.params]
        return f"Its flags are {listing(flags)}" if flags else "It takes no flags"

    def _unexpected(self, words: Sequence[str], before: _Typed | None) -> None:
        names = [word.partition("=")[0] for word in words if "=" in word]
        unknown = [name for name in names if self._find(name) is None]
        # A single word may be a text with an equals sign, such as a URL.
        is_named = len(words) > 1 or words[0].partition("=")[0].replace("-", "_").isidentifier()
        if unknown and len(names) == len(words) and is_named:
            self._unknown(f"--{unknown[0]}")
            return
        node, shown = self._entry.node, cut(" ".join(words))
        if before is not None and is_switch(before.field) and before.text is None:
            step = f"{before.flag} takes no value; write {flag_of(before.field)}=false, or only {before.flag}"
        elif before is not None and before.text is not None and not before.flag.startswith(PARAM):
            step = f"Quote a value of several words: {before.flag} '...'"
        else:
            fields = {field.key: field for field in self._entry.interface.params}
            field = fields.get(self._entry.interface.piped_key(())) or next(iter(fields.values()), None)
            step = (
                f"Did you mean {cut(flag_with(field, quote(' '.join(words))))}?"
                if field
                else "It takes no flags"
            )
        self._wrong(f"Unexpected word{'s' if len(words) > 1 else ''} {shown!r} after {node}", step)

    def _given(self, items: list[_Typed]) -> Given | None:
        """Return the value given by one or several flags of the same name; None if it is invalid."""
        field, first = items[0].field, items[0]
        try:
            if is_list(field):
                return self._list(field, items)
            if len(items) > 1:
                self._wrong(f"{first.flag} of {self._entry.node} is given twice", "Remove one")
                return None
            return self._single(first)
        except TypeMismatch as error:
            message = f"{first.flag} of {self._entry.node} must be {error.expected}, got {error.given}"
            self._wrong(message, self._form(field))
        except PflowError as error:
            hint = next(iter(error.suggestions), "")
            self._wrong(f"{first.flag} of {self._entry.node}: {error.message}", hint)
        return None

    def _single(self, item: _Typed) -> Given:
        if item.text is None:
            return Given(field=item.field, value=not item.is_negated)
        if item.text in PIPED and not item.is_plain:
            if item.field.is_code:
                what = "a shell command" if item.field.shell_line else "code"
                steps = ("Write it, or @FILE for the content of a file",)
                raise PflowError(f"{what} is never read from a pipe", suggestions=steps)
            return Given(field=item.field, value=STDIN, is_template=True)
        text = self._text(item)
        if self._templates and "${" in text:
            value = typed(text, item.field)
            structured = type_names(item.field) - {"None"} <= {"list", "dict"}
            if structured and isinstance(value, str) and not lone(text):  # a lone template may have any value
                raise TypeMismatch(item.field.type, text)
            return Given(field=item.field, value=value, is_template=True)
        if is_switch(item.field):
            text = text.strip().lower()
        elif {"str", "any"}.isdisjoint(type_names(item.field)):
            # In JSON a number has no leading plus, and has a digit before its point.
            text = re.sub(r"^(-?)(?=\.\d)", r"\g<1>0", re.sub(r"^\+(?=[.\d])", "", text.strip()))
        return Given(field=item.field, value=coerce(typed(text, item.field), item.field))

    def _list(self, field: Field, items: list[_Typed]) -> Given:
        """Return the list that flags of a node give, each a JSON list or a single item of it."""
        values: list[object] = []
        is_template = False
        for item in items:
            if item.text in PIPED and not item.is_plain and len(items) == 1:  # the whole list is piped in
                return Given(field=field, value=STDIN, is_template=True)
            text = "" if item.text is None else self._text(item)
            if self._templates and "${" in text:
                is_template = True
                if len(items) == 1 and lone(text):
                    return Given(field=field, value=text, is_template=True)
                listed = json_in(text, exact=True)
                values += listed if isinstance(listed, list) else [text]
                continue
            values += _items_in(text, field)
        return Given(field=field, value=coerce(values, field), is_template=is_template)

    def _text(self, item: _Typed) -> str:
        text = item.text or ""
        if item.is_plain or not text.startswith("@"):
            return text
        return text[1:] if text.startswith("@@") else file_text(Path(text[1:]), text)

    def _form(self, field: Field) -> str:
        if is_switch(field):
            return f"Write {flag_of(field)} or --no-{flag_of(field)[2:]}"
        return f"Write {flag_of(field)} {metavar(field)}"

    def _wrong(self, message: str, suggestion: str = "") -> None:
        self.problems.append(mistake(message, suggestion))


def metavar(field: Field) -> str:
    """Return the placeholder for the value of a node's flag in its description."""
    if field.choices and len(str([*field.choices])) <= 60:
        return "|".join(it if isinstance(it, str) else json.dumps(it) for it in field.choices)
    kinds = [kind for kind in alternatives(field.type) if kind != "None"]
    return "|".join(_METAVARS.get(kind, "VALUE") for kind in kinds) or "VALUE"


_METAVARS = {"str": "TEXT", "int": "INTEGER", "float": "NUMBER", "bool": "true|false"} | {
    "list": "JSON-LIST",
    "dict": "JSON-OBJECT",
    "any": "VALUE",
}


def _is_dashed(word: str) -> bool:
    # One hyphen, or a dash from a word processor, is a mistake for two.
    bare = word.lstrip(_DASHES)
    return word.startswith("--") or (bare != word and (bare[:1].isalpha()))


def _items_in(text: str, field: Field) -> list[object]:
    """Return the items that the text of a node's flag adds to a list: those of a JSON list, else itself."""
    listed = json_in(text, exact=True)
    if isinstance(listed, list):
        return [*listed]
    item = item_of(field, field.key)
    if text.strip()[:1] == "[":
        raise TypeMismatch("a JSON list", text)
    try:
        return [coerce(typed(text, item), item)]
    except TypeMismatch as error:
        raise TypeMismatch(f"a list of {error.expected}", text) from error
