"""Literals of a task: values that stand in its words, such as "quoted text", paths, URLs and numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal as OneOf

import attrs

from pflow_mcp_plugin.contract import Field
from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.host.matching.task_words import QUOTED, stem
from pflow_mcp_plugin.host.planning.key_names import key_stems, name_words
from pflow_mcp_plugin.host.workflow.coercion import TypeMismatch, coerce, type_name

Kind = OneOf["text", "url", "email", "path", "date", "ip", "domain", "number"]

_TOKEN = re.compile(rf"{QUOTED.pattern}|\S+")
_AROUND = "\"'`.,;:!?()[]{}<>\u201c\u201d\u00ab\u00bb\u3001\u3002"
_EXTENSIONS = (
    "7z avi bib bmp c cfg conf cpp css csv db doc docx env epub flac gif go gz h htm html ics ini ipynb java "
    "jpeg jpg js json jsonl log md mkv mov mp3 mp4 odt ogg parquet pdf png ppt pptx ps1 py rb rs rst rtf sh "
    "sql sqlite svg tar tex tiff toml ts tsv txt wav webp xls xlsx xml yaml yml zip"
)
_SHAPES: Mapping[Kind, re.Pattern[str]] = {
    "url": re.compile(r"(?:[a-zA-Z][a-zA-Z0-9+.-]{1,9}://|www\.)\S+"),
    "email": re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+"),
    "path": re.compile(
        r"(?:~|\.{1,2})?/[^\s/]\S*|[A-Za-z]:[\\/]\S+|(?!(?:d3|express|next|node|nuxt|react|three|vue)\.js)"
        rf"[^\s@:]*\w\.(?:{'|'.join(_EXTENSIONS.split())})",
        re.IGNORECASE,
    ),
    "date": re.compile(r"\d{4}-\d\d-\d\d(?:T[\d:.]+(?:Z|[+-]\d\d:\d\d)?)?"),
    "ip": re.compile(r"\d{1,3}(?:\.\d{1,3}){3}"),
    "domain": re.compile(r"[a-zA-Z0-9-]+(?:\.[a-zA-Z0-9-]+)*\.(?:com|org|net|io|dev|gov|edu)"),
    "number": re.compile(r"-?\d{1,15}(?:\.\d{1,15})?"),
}
_MEANT: Mapping[Kind, str] = {
    "url": "address href link page site source uri url website",
    "email": "address email mail recipient to",
    "path": "destination dir directory document file filename filepath folder image input location output "
    "path source target",
    "date": "date day from start",
    "ip": "address host ip",
    "domain": "domain host hostname site url website",
}
"""The words of keys, by the kind of literal that they take."""
_MEANT_STEMS = {kind: key_stems(names) for kind, names in _MEANT.items()}
_TEXTS = key_stems("content keyword message name phrase prompt q query search subject term text title")
"""Words of keys that take quoted text, if no other is meant."""
_FOLDERS = key_stems("dir directory folder")
_CALLED = {"call": stem("name"), "entitl": stem("title"), "say": stem("text"), "for": stem("query")}
"""Words before quoted text, without endings, with the word of the key that they stand for."""
_NEAR = 2


@attrs.frozen(kw_only=True)
class Literal:
    """A value that stands in the words of a task.

    Attributes:
        value: The value.
        kind: What it looks like; `text` if it is only quoted.
        near: The words around it, without endings; they may name what it is for.
    """

    value: str
    kind: Kind
    near: frozenset[str]

    @property
    def is_file(self) -> bool:
        """Whether the literal is the name of a file, with an ending."""
        return self.kind == "path" and "." in re.split(r"[\\/]", self.value)[-1]


def literals(clause: str) -> list[Literal]:
    """Return the literals of a clause, in the order of its words."""
    tokens = list(_TOKEN.finditer(clause))
    plain = [stem(_bare(token[0]).lower()) for token in tokens]
    found = []
    for number, token in enumerate(tokens):
        quoted = next((text for text in token.groups() if text), "")
        value = quoted.strip() or _bare(token[0])
        before = plain[max(0, number - _NEAR) : number]
        kind = _kind(value) or ("text" if quoted or _is_named(value, before) else None)
        if kind:
            around = [*before, *plain[number + 1 : number + 2]]
            near = frozenset(part for word in around for part in (word, _CALLED.get(word, word)))
            found.append(Literal(value=value, kind=kind, near=near))
    return found


def _bare(word: str) -> str:
    """Return a word without the punctuation around it; a path may begin with full stops."""
    return word.rstrip(_AROUND).lstrip(_AROUND.replace(".", ""))


def _kind(value: str) -> Kind | None:
    return next((kind for kind, shape in _SHAPES.items() if shape.fullmatch(value)), None)


def _is_named(value: str, before: Sequence[str]) -> bool:
    """Return whether a word is a name since the one before says so, as in "a branch called fix-login"."""
    return bool(before) and before[-1] in ("call", "nam") and not (value.isalpha() and value.islower())


def place(literal: Literal, fields: Sequence[Field]) -> tuple[Field, JSON] | None:
    """Return the parameter that a literal is obviously meant for, with the value in its type, or None.

    Args:
        literal: The literal.
        fields: The parameters that have no value yet.
    """
    taking = [(field, value) for field in fields for value in _values(literal, field)]
    for fitting in _ranks(literal, taking):
        required = [(field, value) for field, value in fitting if field.required]
        # Several paths fill several parameters in order; other values must not be guessed.
        if required and (len(required) == 1 or literal.kind in ("path", "url")):
            return required[0]
        if not required and len(fitting) == 1:
            return fitting[0]
    return None


_Taking = list[tuple[Field, JSON]]


def _ranks(literal: Literal, taking: _Taking) -> Iterator[_Taking]:
    """Yield the parameters that a literal may be for, the most certain first."""
    meant = _MEANT_STEMS.get(literal.kind, frozenset())
    named = [(field, value) for field, value in taking if literal.near & set(name_words(field.key))]
    if literal.kind == "number":
        yield [(field, value) for field, value in named if not isinstance(value, str)]
        return
    if literal.kind == "text":
        yield [(field, value) for field, value in taking if field.shell_line or field.choices]
        yield named
        yield [(field, value) for field, value in taking if _TEXTS & set(name_words(field.key))]
        yield [(field, value) for field, value in taking if field.required and not _is_place(field)]
        return
    taking = [(field, value) for field, value in taking if not (literal.is_file and _is_folder(field))]
    fitting = [(field, value) for field, value in taking if meant & set(name_words(field.key))]
    yield [(field, value) for field, value in fitting if (field, value) in named]
    yield fitting


def _values(literal: Literal, field: Field) -> Iterator[JSON]:
    """Yield a literal in the type of a parameter, if it fits: alone, or as the only item of a list."""
    if field.shell_line and literal.kind != "text":
        return
    names = {type_name(name) for name in field.types}
    for value in (literal.value, [literal.value] if "list" in names else literal.value):
        if isinstance(value, str) and names <= {"bool", "dict", "list", "None"}:
            continue
        try:
            yield coerce(value, field)
        except TypeMismatch:
            continue
        return


def _is_folder(field: Field) -> bool:
    return not _FOLDERS.isdisjoint(name_words(field.key))


def _is_place(field: Field) -> bool:
    names = set(name_words(field.key))
    return bool(names & (_MEANT_STEMS["url"] | _MEANT_STEMS["path"]))
