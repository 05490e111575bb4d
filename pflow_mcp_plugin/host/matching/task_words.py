"""The clauses of a task, the words of each to look up, their roots and synonyms; the words inside names."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from itertools import pairwise
from pathlib import Path

_INNER_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[-_]")


def split_name(name: str) -> str:
    """Split a name into words to match a task's: `createIssue`, `create-issue`, `create_issue` have two."""
    return _INNER_WORD.sub(" ", name)


_THESAURUS = Path(__file__).with_name("thesaurus.txt")
_BOUNDARY = re.compile(
    r"[.?!;:](?:\s+|$)|,\s+|[\u3001\u3002\uff01\uff0c\uff1b\uff1f]|\s+-\s+|\n+|\s+(?:and|then|plus|or)\s+",
    re.IGNORECASE,
)
QUOTED = re.compile(
    r'"([^"\n]+)"|\u201c([^\u201c\u201d\n]+)\u201d|\u00ab([^\u00ab\u00bb\n]+)\u00bb|`([^`\n]+)`|(?<!\w)\'([^\'\n]+)\'(?!\w)'
)
"""Quoted text in a task is a value, which is never split."""
_LONGEST = 64
"""The most characters of a word; anything longer is not one, and looking it up could take minutes."""
_WORD = re.compile(r"\w+(?:['\u2019](?!s\b)\w+)*")
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]{2,}")
"""A run of words in a script that does not put spaces between them."""
# One expression for the endings of a word. On the tasks of the benchmark it finds as much as the Snowball
# and Porter stemmers, which take 55 ms to import.
_ENDING = re.compile(r"(?<=\w{3})(?:[iy]?(?:e*ing|e+[ds]?|(?<!s)s)|y)$")
# Endings that `stem` does not remove: of nouns and adjectives made from verbs.
_DERIVED = re.compile(r"(?<=\w{4})(?:(?:at)?(?:ion|or|ive)|at|ment|er|al|able|[ae]nce)$")
_IRREGULAR = """
    sold sell, bought buy, wrote write, written write, kept keep, made make, built build, sent send,
    drew draw, drawn draw, took take, taken take, ran run, found find, told tell, said say, held hold,
    met meet, got get, spoken speech, shown show, seen see, known know, chosen choose, thrown throw,
    spent spend, lent lend, paid pay, lost lose, won win, grew grow, fell fall, rose rise, began begin,
    broke break, broken break, people person, children child, men man, women woman, indices index,
    criteria criterion, matrices matrix
"""
_IDLE = """
    a about after again all also am an and any are as at be been before being both but by can could did
    do does down during each either every few for from get give had has have having he her here him his
    how i if in into is it its just let like many may me might more most must my need no nor not now of
    off on once one only or other our out over own per please same shall she should so some such than
    that the their them then there these they this those through to too two three under until up upon us
    use used uses using very want was we were what when where which while who whom whose why will with
    within without would yes yet you your s t ll re ve d
"""
"""Words of a task that do not help to find what it needs."""
_IDLE_WORDS = frozenset(_IDLE.split())
_BASE = dict(pair.split() for pair in _IRREGULAR.split(","))
"""Irregular forms of a task's words, each with the form that is looked up."""
_SHAPES = (
    (r"https?://\S+", "url web fetch"),
    (r"\b\d{1,3}(?:\.\d{1,3}){3}\b", "ip"),
    (r"(?<![\w@/])[\w-]+\.(?:com|org|net|io|dev|gov|edu)\b", "domain url"),
    (r"-?\d+\.\d+\s*,\s*-?\d+\.\d+", "latitude longitude coordinates"),
    (r"\d\s*(?:%|[-+*/^]\s*\d)", "calculate"),
    (r"\w\.pptx?\b", "powerpoint presentation pptx"),
    (r"\w\.docx?\b", "word document docx"),
    (r"\w\.(?:xlsx?|csv|tsv)\b", "excel sheet"),
    (r"\w\.(?:png|jpe?g|gif|webp)\b", "image"),
    (r"\w\.(?:wav|mp3|flac|ogg)\b", "audio"),
    (r"\w\.(?:py|js|ts|txt|md|toml|ya?ml|ini|log)\b", "file text"),
)
"""Patterns of names and numbers in a task, each with the words that tools use for such things.

They are compiled when a task is read: a search of the registry needs only `split_name`.
"""


def clauses(task: str) -> list[list[str]]:
    """Split a task into clauses, each as its words without stop words."""
    return [words(part) for part in clause_texts(task)]


def clause_texts(task: str) -> list[str]:
    """Split a task into clauses as written, without those that have no words to look up."""
    masked = QUOTED.sub(lambda quoted: "x" * len(quoted[0]), task)
    ends = [(0, 0), *(boundary.span() for boundary in _BOUNDARY.finditer(masked)), (len(task), len(task))]
    parts = (task[start:end].strip() for (_, start), (end, _) in pairwise(ends))
    return [part for part in parts if words(part)]


def words(text: str) -> list[str]:
    """Return the words of a task's clause to look up, in lower case, and words for URLs or files in it."""
    spelt = (_BASE.get(word, word) for word in _WORD.findall(text.lower().replace("_", " ")))
    found = [word for word in spelt if len(word) > 1 and word not in _IDLE_WORDS]
    shapes = [
        word for shape, meant in _SHAPES if re.search(shape, text, re.IGNORECASE) for word in meant.split()
    ]
    parts = (part for word in found for part in _parts(word))
    return list(dict.fromkeys([*(part for part in parts if len(part) <= _LONGEST), *shapes]))


def roots(text: str) -> frozenset[str]:
    """Return the roots of all words of a text, including those inside names: a fit compares these."""
    spelt = _WORD.findall(f"{split_name(text)} {text}".lower().replace("_", " "))
    return frozenset(root(part) for word in dict.fromkeys(spelt) for part in _parts(_BASE.get(word, word)))


def _parts(word: str) -> list[str]:
    """Return a task's word, or its character pairs if its script does not use spaces."""
    runs = _UNSPACED.findall(word)
    return [run[start : start + 2] for run in runs for start in range(len(run) - 1)] or [word]


def synonyms(word: str) -> list[str]:
    """Return the words that tools use for what a word of a task says."""
    said = stem(word)
    called = _thesaurus().get(said, "").split()
    return list(dict.fromkeys(other for other in called if stem(other) != said))


@cache
def _thesaurus() -> dict[str, str]:
    # The lines are `what people say : what tools call it`; `#` begins a comment.
    known: dict[str, str] = {}
    for line in _THESAURUS.read_text(encoding="utf-8").splitlines():
        said, colon, called = line.partition(" : ")
        for word in said.split(", ") if colon else ():
            form = stem(word)
            known[form] = f"{known.get(form, '')} {called}"
    return known


def stem(word: str) -> str:
    """Return a word of a task without its ending, the same for most of its forms."""
    return _ENDING.sub("", word)


@lru_cache(maxsize=2**16)
def root(word: str) -> str:
    """Return the root of a word, which fits compare, so that a verb fits the nouns made from it."""
    return stem(_DERIVED.sub("", stem(word)))


def meanings(word: str) -> frozenset[str]:
    """Return the roots that fit a word of the task: its own, and those of its synonyms."""
    return frozenset(map(root, (word, *synonyms(word))))
