"""The texts inside a JSON Schema: descriptions and titles, names, and strings among its values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from pflow_mcp_plugin.trust import text_changes
from pflow_mcp_plugin.trust.schema_changes import SchemaDifference
from pflow_mcp_plugin.trust.schema_forms import TEXTS, members_without

Kind = Literal["text", "value", "name", "code"]
_STEPS = 300_000
_CODE = frozenset({"$ref", "$schema", "pattern", "required", "type"})
"""Keywords whose strings are not sentences."""
_MOST_WORDS_OF_A_VALUE = 12
_MOST_WORDS_OF_A_NAME = 4
_NAMES = frozenset({"properties", "$defs", "definitions", "patternProperties", "dependentSchemas"})
_DIALECTS = ("http://json-schema.org/", "https://json-schema.org/")
_LISTS = ("enum", "examples")


class Known:
    """The texts of two versions of a schema: those that merely moved are neither new nor lost.

    Args:
        old: The older version.
        new: The newer version.
    """

    def __init__(self, old: object, new: object) -> None:
        self._old, self._new = old, new
        self._sets: list[frozenset[str]] = []
        self._seen: set[str] = set()

    def was_there(self, text: str) -> bool:
        """Whether the older version has this text somewhere."""
        return _plain(text) in self._texts()[0]

    def remains(self, text: object) -> bool:
        """Whether the newer version has this text somewhere."""
        return isinstance(text, str) and (not text.strip() or _plain(text) in self._texts()[1])

    def show(self, value: object) -> None:
        """Note that the texts in a value of the newer version are part of a difference that is shown."""
        self._seen.update(_plain(text) for _, text in texts(value))

    def unseen(self) -> Iterator[tuple[Kind, str]]:
        """Yield the new texts that were not shown, such as one that another at the same place overrides."""
        for kind, text in texts(self._new):
            if not (kind == "name" or _plain(text) in self._seen or self.was_there(text)):
                yield kind, text

    def _texts(self) -> list[frozenset[str]]:
        if not self._sets:
            self._sets = [
                frozenset(_plain(text) for _, text in texts(schema)) for schema in (self._old, self._new)
            ]
        return self._sets


def objection_to_more(item: SchemaDifference, known: Known) -> str:
    """Return what speaks against the texts in what a schema has more than before; empty if nothing does."""
    if item.path.rpartition(".")[2] in _LISTS and isinstance(item.new, list):
        more = members_without(item.new, item.old) if isinstance(item.old, list) else item.new
        return objection({"enum": more}, known)
    if item.path.endswith(".$schema") and str(item.new).startswith(_DIALECTS):
        return ""
    if item.aspect == "default" or not isinstance(item.new, Mapping):
        return objection({"default": item.new}, known)
    return _objection_to_name(item.name) or objection(item.new, known)


def objection(schema: object, known: Known) -> str:
    """Return what speaks against the texts of a schema that is new, in a few words; empty if nothing does."""
    for kind, text in texts(schema):
        found = objection_to_text(kind, text)
        if found and (kind == "name" or not known.was_there(text)):
            return f"{found} in it"
    return ""


def objection_to_text(kind: Kind, text: str) -> str:
    """Return what speaks against a new text in a schema; empty if it is plain and short."""
    if kind == "name":
        return _objection_to_name(text)
    if kind == "code":
        is_sentence = len(text.split()) > _MOST_WORDS_OF_A_VALUE
        return "a sentence" if is_sentence else "hidden characters" if text_changes.hidden(text) else ""
    return text_changes.objection(text, text_changes.MOST_WORDS if kind == "text" else _MOST_WORDS_OF_A_VALUE)


def texts(schema: object) -> Iterator[tuple[Kind, str]]:
    """Yield the strings in a schema that people or models read, and what they are; at most 300,000."""
    waiting: list[tuple[Kind, Any]] = [("text", schema)]
    for _ in range(_STEPS):
        if not waiting:
            return
        kind, value = waiting.pop()
        if isinstance(value, str):
            yield kind, value
        elif isinstance(value, list | tuple):
            waiting.extend((kind, each) for each in value)
        elif isinstance(value, Mapping):
            waiting.extend(_inside(value, kind))
    yield "text", "x" * 10_000  # too large to be read, and nobody should have to


def _inside(value: Mapping[str, Any], kind: Kind) -> Iterator[tuple[Kind, Any]]:
    for key, inner in value.items():
        if key in _NAMES and isinstance(inner, Mapping):
            yield from (("name", name) for name in inner)
            yield from (("text", each) for each in inner.values())
        elif key in TEXTS:
            yield "text", inner
        elif key in _CODE:
            yield "code", inner
        elif isinstance(inner, str):
            yield "value", inner
        else:
            yield "value" if key in _LISTS else kind, inner


def _objection_to_name(name: str) -> str:
    if len(name) > 128 or len(name.split()) > _MOST_WORDS_OF_A_NAME or len(re.split(r"[\W_]+", name)) > 10:
        return "a sentence as a name"
    return text_changes.objection(name)


def _plain(text: str) -> str:
    return " ".join(text.split())
