"""Whether a new version of a text says what the old one said, and whether a new text is plain.

Descriptions are read by people and models, and an instruction hidden in one is an attack. What a text says
cannot be decided without understanding it, so only corrections are recognised, by their kind: whitespace,
punctuation, case, formatting, spelling, other forms of a word, words that add nothing, usual equivalents
(`word_forms`), and lines or sentences in another order. Everything else is a change, however small: one
word can turn the meaning round.

A text where there was none (of a new argument) is plain if it is short and names no address, link or file
in the home folder and has no markup. A short instruction in plain words is not recognised; people see it,
since every new text is shown.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator

from pflow_mcp_plugin.contract.printable_text import hidden_places
from pflow_mcp_plugin.trust.word_forms import OPTIONAL, folded, is_joined, is_optional, is_same_word

MOST_WORDS = 40
"""Words of a new text that is plain; 99 of 100 descriptions of arguments of real tools have fewer."""
_LONGEST = 200_000
_LONGEST_WORD = 60
_BRAILLE_BLANK = "\u2800"
_BLANK = frozenset("\u115f\u1160\u3164\uffa0") | {_BRAILLE_BLANK}
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u9fff\U00020000-\U0003ffff"
"""Letters of scripts that are written without spaces; each counts as a word."""
_LETTER = rf"(?:(?![{_UNSPACED}])[^\W\d_])"
_LINK = r"(?<![\w+.-])[a-zA-Z][\w+.-]{0,30}://[^\s<>\"'`\])\u2018-\u201f\u3000-\u303f\uff00-\uffef]+"
_TOKEN = re.compile(
    rf"""
      (?P<exact>{_LINK}
        | (?<![\w.+-])[\w.+-]{{1,64}}@[\w-]+(?:\.[\w-]+)+
        | (?<![\w/\\.~-])(?:~|\.\.?|[A-Za-z]:)?[/\\][\w.~/\\-]*\w
        | (?<![A-Za-z0-9_])[A-Za-z]*_[A-Za-z0-9_]+)
    | (?P<number>(?:(?<![\w)])-)?\d+(?:[.,:]\d+)*)
    | (?P<word>(?=[^\W\d_])[{_UNSPACED}] | {_LETTER}+(?:['\u2019]{_LETTER}+)*\d*)
    | (?P<sign>[<>!]=|[<>\u2264\u2265\u2260%&$\u20ac\u00a3\u00a5])
    """,
    re.VERBOSE,
)
"""Links, addresses, paths and names with underscores, compared exactly; numbers, words and signs."""
_EMPHASIS = re.compile(r"[*`]+")
_ARROW = re.compile(r"<?[-=]{1,2}>(?!=)|<-|[\u2190-\u21ff]")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|[\u3002\uff01\uff1f]")
_VERDICTS = "\u2705\u2714\u2611\U0001f44d\u274c\u2716\u2717\u2612\u26d4\U0001f6ab\U0001f44e"
"""Symbols that say yes or no."""
_PHRASES = (
    (
        re.compile(r"\b(?:e\.\s?g\.?|for (?:example|instance)|i\.\s?e\.?|that is,|such as)", re.IGNORECASE),
        " ",
    ),
    (re.compile(r"\bin order to\b", re.IGNORECASE), "to"),
    (re.compile(r"\bsearch(es|ing)? for\b", re.IGNORECASE), "search"),
    (re.compile(r"\blook(s|ing)? up\b", re.IGNORECASE), "lookup"),
    (re.compile(r"\b(?:can not|can['\u2019]t)(?!\w)", re.IGNORECASE), "cannot"),
    (re.compile(r"\bwon['\u2019]t\b", re.IGNORECASE), "will not"),
    (re.compile(r"n['\u2019]t\b", re.IGNORECASE), " not"),
    (re.compile(r"['\u2019](?:s|re|ve|ll|d|m)\b", re.IGNORECASE), ""),
    (re.compile(r"(?<=\w)\((?:s|es)\)"), ""),
)
_MARKUP = re.compile(r"</?[a-z!?]|-->|!\[", re.IGNORECASE)
_IN_HOME = re.compile(r"~[/\\]|(?:^|[\s'\"`(/\\])\.[a-z]\w+|\$\{?HOME|%USERPROFILE%", re.IGNORECASE)
_ADDRESS = re.compile(r"[\w.+-]+@[\w-]+\.[\w-]+")
_EXAMPLE_HOST = re.compile(r"\w+://(?:[\w-]+\.)*example\.(?:com|org|net)(?![\w.:@-])")


def is_correction(old: str, new: str) -> bool:
    """Whether a new version of a text only corrects the old one."""
    if len(old) + len(new) > _LONGEST or hidden(new) - hidden(old):
        return False
    if _verdicts(new) - _verdicts(old):
        return False
    return _is_alike(words(old), words(new)) or _is_reordered(old, new)


def is_worded_with(text: str, known: Iterable[str]) -> bool:
    """Whether every word of a text is in others, as in a title that spells out the name of a tool."""
    if len(text) > _LONGEST or hidden(text):
        return False
    words = {word for each in known for word in (*_words(spelled(each)), _squeezed(each))}
    own = [*_words(spelled(text))]
    return _squeezed(text) in words or all(word in words for word in own)


def objection(text: str, most: int = MOST_WORDS) -> str:
    """Return why a new text is not plain, in a few words; empty if it is.

    Args:
        text: A text that was not there before.
        most: How many words it may have.
    """
    if hidden(text):
        return "hidden characters"
    if len(text) > _LONGEST_WORD * most:
        return "long text"
    links = re.findall(_LINK, text)
    if any(not _EXAMPLE_HOST.match(link) for link in links):
        return "a link"
    for pattern, what in ((_MARKUP, "markup"), (_IN_HOME, "a private file"), (_ADDRESS, "an address")):
        if pattern.search(text):
            return what
    words = text.split()
    if len(words) > most or any(len(word) > _LONGEST_WORD and word.isascii() for word in words):
        return "long text"
    return ""


def words(text: str) -> list[str]:
    """Return the words of a text that matter, folded."""
    return list(_words(text))


def hidden(text: str) -> Counter[str]:
    """Return how often each character that nobody sees is in a text."""
    if text.isascii() and text.isprintable():
        return Counter()
    found = Counter(text[at] for at in hidden_places(text))
    return found + Counter({_BRAILLE_BLANK: text.count(_BRAILLE_BLANK)})


def _composed(text: str) -> str:
    """Return a text with its accents composed; other marks, such as vowels of Indian scripts, become letters.

    Regular expressions do not count marks as parts of words.
    """
    if text.isascii():
        return text
    composed = unicodedata.normalize("NFKC", text)
    return "".join(
        chr(0x20000 + ord(letter) % 0xA6D0) if unicodedata.category(letter) in ("Mn", "Mc") else letter
        for letter in composed
        if not (_is_blank(letter) or unicodedata.category(letter) == "Cf")
    )


def _verdicts(text: str) -> Counter[str]:
    return Counter() if text.isascii() else Counter(letter for letter in text if letter in _VERDICTS)


def _is_blank(letter: str) -> bool:
    return letter in _BLANK or "\ufe00" <= letter <= "\ufe0f" or "\U000e0100" <= letter <= "\U000e01ef"


def _words(text: str) -> Iterator[str]:
    """Yield the words of a text that matter, folded."""
    text = _ARROW.sub(" ", " ".join(_EMPHASIS.sub("", _composed(text)).split()))
    for pattern, instead in _PHRASES:
        text = pattern.sub(instead, text)
    for found in _TOKEN.finditer(text):
        piece = found[0]
        if found.lastgroup == "number":
            yield re.sub(r",(?=\d{3}\b)", "", piece)
        elif found.lastgroup != "word":
            yield "and" if piece == "&" else "percent" if piece == "%" else piece
        else:
            word = folded(piece)
            if word not in OPTIONAL:
                yield word


def _is_alike(one: list[str], other: list[str]) -> bool:
    """Whether two lists of words are the same but for corrections, such as words that are joined."""
    at, by = 0, 0
    while at < len(one) and by < len(other):
        if is_same_word(one[at], other[by]):
            at, by = at + 1, by + 1
        elif is_joined(one[at : at + 2], other[by]):
            at, by = at + 2, by + 1
        elif is_joined(other[by : by + 2], one[at]):
            at, by = at + 1, by + 2
        elif is_optional(one[at]):
            at += 1
        elif is_optional(other[by]):
            by += 1
        else:
            return False
    return all(map(is_optional, one[at:])) and all(map(is_optional, other[by:]))


def _is_reordered(old: str, new: str) -> bool:
    """Whether two texts have the same sentences and lines in another order, under the same headings."""
    before, after = _sections(old), _sections(new)
    return len(before) == len(after) and all(
        one[0] == other[0] and Counter(one[1]) == Counter(other[1])
        for one, other in zip(before, after, strict=True)
    )


def _sections(text: str) -> list[tuple[tuple[str, ...], list[tuple[str, ...]]]]:
    """Return each heading, a line that ends with a colon, with the sentences below it."""
    found: list[tuple[tuple[str, ...], list[tuple[str, ...]]]] = [((), [])]
    for sentence in (part for line in text.splitlines() for part in _SENTENCE_END.split(line)):
        words = tuple(_words(sentence))
        if sentence.rstrip().endswith(":"):
            found.append((words, []))
        elif words:
            found[-1][1].append(words)
    return found


def spelled(name: str) -> str:
    """Return a name with its parts as words: `searchFiles`, `search_files`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[_.\-/]+", " ", name)


def _squeezed(text: str) -> str:
    return "".join(each for each in folded(text) if each.isalnum())
