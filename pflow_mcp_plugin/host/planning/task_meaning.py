"""What the words of a task mean: what its verbs ask for, conditions, and values."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

import attrs

from pflow_mcp_plugin.contract import Entry
from pflow_mcp_plugin.host.matching.task_words import QUOTED, split_name, stem
from pflow_mcp_plugin.host.planning.joins import key_stems

Kind = Literal["", "read", "think", "shape", "change", "write", "send", "remove", "run"]
"""What a verb asks for; empty if that is unknown."""
Shape = Literal["text", "url", "email", "path", "target"]
"""What a value looks like: `text` is only quoted, and something goes to a `target`, which is a path."""
_VERBS: dict[Kind, str] = {
    "read": "analyze browse calculate check compare convert crawl describe download draw explore extract "
    "fetch find gather generate get give how inspect list locate look lookup parse plot query read render "
    "retrieve scrape search see show tell transform turn view watch what where which who",
    "think": "classify digest paraphrase proofread rephrase rewrite summarise summarize summary translate",
    "shape": "aggregate average count filter flatten group rank sort sum tally total",
    "change": "add approve assign build change commit copy create draft edit fill fix insert invite "
    "make mark merge modify move register rename replace schedule set start update",
    "write": "append dump export keep persist put record save store write",
    "send": "announce email forward mail message notify post publish push reply send share submit upload",
    "remove": "abort cancel clear close delete destroy discard drop end erase forget kill purge quit remove "
    "reset revert revoke stop strip terminate truncate undo uninstall unstage wipe",
    "run": "evaluate exec execute launch run",
}
_KINDS = {stem(verb): kind for kind, verbs in _VERBS.items() for verb in verbs.split()}
_BEFORE_NOUNS = frozenset(
    [
        "a",
        "an",
        "by",
        "for",
        "from",
        "her",
        "his",
        "in",
        "its",
        "my",
        "of",
        "on",
        "our",
        "the",
        "their",
        "this",
        "that",
        "which",
        "with",
        "your",
    ]
)
_FORMS = re.compile(r"\w+(?:ed|ing)", re.IGNORECASE)
_ALWAYS_REMOVES = frozenset({"delete", "destroy", "erase", "purge", "truncate", "wipe"})
"""A tool with one of these anywhere in its name removes something, as `find_and_delete` does."""
_ENDS = frozenset({"abort", "cancel", "close", "end", "quit", "stop", "strip", "terminate"})
"""Verbs that ask for removing, while a tool of that name only ends something."""
_OFTEN_NOUNS = frozenset({"email", "mail", "message", "record", "store"})
"""Verbs that are mostly nouns in the names of tools, as in `mail_search`."""
_HARMLESS: frozenset[Kind] = frozenset({"", "read", "think", "shape"})
_WORD = re.compile(r"[^\W_]+")
_CONDITION = re.compile(
    r"(?:\b(?:but|and|only) )*(?<!check )(?<!know )(?<!see )(?<!verify )"
    r"\b(?P<word>if|unless|when(?:ever)?(?! (?:are|can|did|do|does|is|was|were|will)\b)|in case"
    r"|provided(?= \w+ )|assuming|supposing|given that|as long as|on condition|otherwise"
    r"|depending on|except|until|before|should (?:any|it|the|there))\b[^.;!?\n]*",
    re.IGNORECASE,
)
_IMPERATIVES = ("send", "write", "remove")
_BEFORE_FIRST = re.compile(r"\bbefore (?:(?:i|we|you) )?([^,.;]+), ([^.;]+)", re.IGNORECASE)
_BEFORE = re.compile(r"(?<=\w) before (?:(?:i|we|you) |(?=\w+ing\b))", re.IGNORECASE)
_CONDITION_ENDS = re.compile(r",|\b(?:and|but|then)\b", re.IGNORECASE)
_BEYOND = re.compile(
    r"\b(?:per|each|every|only|most|least|fewest|top|unique|distinct|statistics|mean|median"
    r"|(?:amount|number)s? of|how (?:many|much|often)|(?:more|less|fewer) than|at (?:least|most)|one by one"
    rf"|(?:{_VERBS['shape'].replace(' ', '|')})(?:s|ed|ing|ted|ting)?)\b",
    re.IGNORECASE,
)


def kind_asked(clause: str) -> Kind:
    """Return the kind of the first verb of a clause that is known."""
    said = _WORD.findall(QUOTED.sub(" ", clause).lower())
    # "the list" is no verb, and "closing" is one only where a clause begins.
    pairs = zip(["", *said], said, strict=False)
    verbs = (
        word
        for before, word in pairs
        if before not in _BEFORE_NOUNS and not (before and _FORMS.fullmatch(word))
    )
    return _first_kind(" ".join(verbs))


def kind_of(entry: Entry) -> Kind:
    """Return what a node does: by the first verb that is known of its name, else of its description."""
    name = split_name(entry.local_name or entry.node).lower()
    if not _ALWAYS_REMOVES.isdisjoint(_WORD.findall(name)):
        return "remove"
    verbs = " ".join(word for word in _WORD.findall(name) if word not in _OFTEN_NOUNS | _ENDS)
    kind = _first_kind(verbs) or _first_kind(" ".join(entry.description.split()[:2]))
    claims_to_read = "flow_safe" in (entry.purity, entry.claimed_purity)
    return "read" if claims_to_read and kind not in _HARMLESS else kind


def _first_kind(text: str) -> Kind:
    kinds = (_KINDS.get(stem(word)) for word in _WORD.findall(text.lower()))
    return next((kind for kind in kinds if kind), "")


def may_do(node: Kind, asked: Kind) -> bool:
    """Return whether a node of one kind may do what a verb of another asks for."""
    if node in ("remove", "run"):
        return node == asked
    if node in _HARMLESS:
        return asked not in ("write", "send", "remove") or not node
    return asked not in _HARMLESS or not asked


def is_harmless(kind: Kind) -> bool:
    """Return whether a node of this kind changes nothing."""
    return kind in _HARMLESS


def with_conditions_apart(task: str) -> tuple[str, list[str]]:
    """Return a task with each condition, such as "if there are rows", on a line of its own, and these."""
    conditions: list[str] = []
    rest = _BEFORE.sub(", then ", _BEFORE_FIRST.sub(r"\2, then \1", task))
    masked = QUOTED.sub(lambda quoted: "\0" * len(quoted[0]), rest)  # a value may hold any words
    while found := _CONDITION.search(masked):
        start, end = found.start(), _condition_end(masked, found)
        conditions.append(rest[start:end].strip(" ,"))
        rest = f"{rest[:start]}\n{rest[start:end]}\n{rest[end:]}"
        masked = f"{masked[:start]}\n{' ' * (end - start)}\n{masked[end:]}"
    return rest, conditions


def _condition_end(text: str, found: re.Match[str]) -> int:
    """Return where a condition ends: at a comma or a conjunction, else at the verb that depends on it."""
    inner = _CONDITION_ENDS.search(text, found.end("word"), found.end())
    if inner or found["word"].lower() == "otherwise":
        return inner.start() if inner else found.end()
    verbs = _WORD.finditer(text, found.end("word"), found.end())
    starts = (word.start() for word in verbs if _KINDS.get(stem(word[0].lower())) in _IMPERATIVES)
    return next(starts, found.end())


def beyond_a_node(clause: str) -> list[str]:
    """Return the words of a clause for what a single node rarely does: counting, repeating, choosing."""
    return [found[0].lower() for found in _BEYOND.finditer(QUOTED.sub(" ", clause))]


_STORES = re.compile(r"\b(?:dump|export|keep|put|sav|stor|writ)\w*", re.IGNORECASE)
_TOKEN = re.compile(rf"{QUOTED.pattern}|\S+")
_AROUND = "\"'`.,;:!?()[]{}<>\u201c\u201d\u00ab\u00bb\u3001\u3002"
_SHAPES: dict[Shape, re.Pattern[str]] = {
    "url": re.compile(r"(?:[a-zA-Z][a-zA-Z0-9+.-]{1,9}://|www\.)\S+"),
    "email": re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+"),
    "path": re.compile(
        r"(?:~|\.{1,2})?/\S+|[a-z]:[\\/]\S+|[\w-]+/|(?!(?:d3|next|node|three|vue)\.js)"
        r"[^\s@:]*\w\.(?!(?:com|dev|edu|gov|io|net|org)\b)[a-z][a-z0-9]{0,4}",
        re.IGNORECASE,
    ),
}
TAKES: dict[Shape, frozenset[str]] = {
    "url": key_stems("address href link page site source uri url website"),
    "email": key_stems("address email mail recipient to"),
    "path": key_stems("dir directory document file filename filepath folder image input path source uri"),
    "target": key_stems("destination file filename filepath location output path target"),
    "text": key_stems("content keyword message name phrase prompt q query search subject term text title"),
}
"""The words of keys, by the shape of the values that they take."""


_TEXT_FILE = re.compile(
    r".*\.(?:c|cfg|conf|cpp|css|csv|env|go|h|html?|ini|java|js|jsonl?|log|md|py|rb|rs|rst|sh|sql|tex|toml"
    r"|ts|tsv|txt|xml|ya?ml)",
    re.IGNORECASE,
)


@attrs.frozen
class Value:
    """A value that stands in the words of a task, such as a path."""

    text: str
    shape: Shape

    @property
    def is_text_file(self) -> bool:
        """Whether the value is the name of a text file."""
        return self.shape in ("path", "target") and _TEXT_FILE.fullmatch(self.text) is not None


def values_in(clause: str) -> Iterator[Value]:
    """Yield the values in a clause: quoted texts, addresses and paths."""
    before, places = "", ("as", "into", "to", *(("in",) if _STORES.search(clause) else ()))
    for token in _TOKEN.finditer(clause):
        quoted = next((text for text in token.groups() if text), "").strip()
        text = quoted or token[0].rstrip(_AROUND).lstrip(_AROUND.replace(".", ""))
        shape = next((shape for shape, known in _SHAPES.items() if known.fullmatch(text)), None)
        if shape == "path" and before in places:
            shape = "target"
        if shape or quoted:
            yield Value(text, shape or "text")
        before = token[0].lower()
