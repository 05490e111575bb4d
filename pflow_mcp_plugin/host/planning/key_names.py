"""What the names of parameters and outputs tell: which mean the same, and which say too little."""

from __future__ import annotations

import re
from functools import lru_cache

from pflow_mcp_plugin.host.matching.name_parts import split_name
from pflow_mcp_plugin.host.matching.task_words import stem

_WORD = re.compile(r"[^\W_]+")
_LONGEST = 200
_UNNAMED = re.compile(r"[^\w-]+")
_LONGEST_NAME = 100
"""The most characters of a name in a template."""


def key_stems(names: str) -> frozenset[str]:
    """Return the words of keys, separated by spaces, without endings, as `name_words` does."""
    return frozenset(map(stem, names.split()))


_SYNONYMS = (
    key_stems(
        "answer article body caption comment content html markdown message response result snippet stdout "
        "summary text transcript"
    ),
    key_stems("keyword phrase q query search searchquery searchterm term"),
    key_stems("file filename filepath path"),
    key_stems("href link uri url website"),
    key_stems("data entry item record result row"),
    key_stems("email mail recipient to"),
    key_stems("headline heading subject title"),
)
"""Keys that mean the same, by group."""
_PLACES = key_stems(
    "destination dir directory file filename filepath folder location output path source target"
)
_HEADS = key_stems("body content html markdown text")
"""As the last word of a longer name, such as `page_content`, these say what it is."""
_VAGUE = key_stems(
    "action code count data date description error format id index key kind label language limit mode model "
    "name number offset page position size source state status success title total type user value version"
)


def name_words(key: str) -> tuple[str, ...]:
    """Return the words in the name of a key without endings: `filePaths` and `file_path` have the same."""
    return tuple(map(stem, _words(key[:_LONGEST])))


@lru_cache(maxsize=2**12)
def _words(key: str) -> tuple[str, ...]:
    return tuple(_WORD.findall(split_name(key).lower()))


def _whole(key: str) -> str:
    """Return the name of a key as one word: that of `filePath`, `file-paths` and `filepath` is the same."""
    return stem("".join(_words(key[:_LONGEST])))


def is_same_name(one: str, other: str) -> bool:
    """Return whether two keys are the same name, but for case, separators and plural."""
    return _whole(one) == _whole(other) != ""


def is_synonym(one: str, other: str) -> bool:
    """Return whether two keys have names that mean the same, as `body` and `text` do."""
    meant = {_meaning(one), _meaning(other)}
    return any(meant <= names for names in _SYNONYMS)


def _meaning(key: str) -> str:
    parts = name_words(key)
    return parts[-1] if parts and parts[-1] in _HEADS else _whole(key)


def is_vague(key: str) -> bool:
    """Return whether a key has a name that nodes of different families share by chance, such as `id`."""
    return set(name_words(key)) <= _VAGUE


def names_text(key: str) -> bool:
    """Return whether the name of a key stands for a text, whatever it is about."""
    return is_synonym("text", key)


def names_main(key: str) -> bool:
    """Return whether the name of a key stands for what a node works on: a text, or what to look for."""
    return names_text(key) or is_synonym("query", key)


def names_place(key: str) -> bool:
    """Return whether the name of a key stands for a file or a folder."""
    return not _PLACES.isdisjoint(name_words(key))


def template_name(key: str, otherwise: str) -> str:
    """Return a key as a name that templates can contain.

    Args:
        key: The key, or the name of a node.
        otherwise: The name if nothing of the key is left.
    """
    return _UNNAMED.sub("_", key).strip("_-")[:_LONGEST_NAME] or otherwise
