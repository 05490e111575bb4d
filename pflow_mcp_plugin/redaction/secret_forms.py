"""The forms in which programs write a secret: escaped, percent-encoded, in base64, a line at a time.

A regular expression for each secret matches all of its forms. It is compiled when one of the secret's
anchors, strings that every form contains, is found in a text: searching for strings is much faster
than matching, and most texts contain no secret.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from itertools import islice
from urllib.parse import quote, quote_plus

LEAST_PART = 12
"""Characters of a secret that are recognised as a part of it where a text was cut."""
_SHORTEST_FORM = 8
"""Characters from which a line of a secret, or the base64 of one, is redacted as the secret is."""
_CUT = re.compile(r"\.{3,}|…+")
_WORD = re.compile(r"[A-Za-z0-9]+")
_ESCAPE_LETTERS = {"\n": "n", "\r": "r", "\t": "t", "\b": "b", "\f": "f"}
_ESCAPED = r"\\\\{0,3}"
"""One to four backslashes: escaped text is often escaped again."""
_SPECIAL = {
    " ": (r"\+",),
    "&": ("&amp;",),
    "<": ("&lt;",),
    ">": ("&gt;",),
    '"': ("&quot;", '""', rf'{_ESCAPED}"{_ESCAPED}"'),
    "'": ("&apos;", r"""'['"\\]{1,24}"""),
}
"""Further forms of single characters: in forms, in HTML, doubled in CSV and SQL, within quotes in a shell."""
_LINE_BREAK = rf"(?:\r?\n|(?:{_ESCAPED}r)?{_ESCAPED}n)?"
"""May stand between any two characters of base64, also escaped."""

_WORD_CODE = "(?:3[0-9]|[46][1-9a-fA-F]|[57][0-9aA]|2[356]|5[cC])"
"""The code of a letter or digit, or of what begins an escape."""
_ESCAPED_WORD = re.compile(
    rf"%(?:25){{0,2}}{_WORD_CODE}|%u00{_WORD_CODE}"
    rf"|\\{{1,4}}(?:u(?:00|\{{0{{0,4}}){_WORD_CODE}|U0{{6}}{_WORD_CODE}|x\{{?{_WORD_CODE}|[01]?[0-7]{{2}})"
    rf"|&#(?:0{{0,6}}(?:3[578]|4[89]|5[0-7]|6[5-9]|[78]\d|9[0-27-9]|1[01]\d|12[0-2])|[xX]0{{0,6}}{_WORD_CODE});?"
    r"|&amp;#"
)
"""An escaped letter or digit, or one that is escaped in two ways."""
_ESCAPE = re.compile(
    r"%(?:25){0,2}(?P<percent>[0-9a-fA-F]{2})|%u(?P<microsoft>[0-9a-fA-F]{4})"
    r"|\\{1,4}(?:u(?P<u>[0-9a-fA-F]{4})|u\{(?P<braced>[0-9a-fA-F]{1,6})\}|U(?P<long>[0-9a-fA-F]{8})"
    r"|x(?P<x>[0-9a-fA-F]{2})|x\{(?P<perl>[0-9a-fA-F]{1,6})\}|(?P<octal>[0-7]{2,3}))"
    r"|&#(?:(?P<decimal>\d{1,8})|[xX](?P<hex>[0-9a-fA-F]{1,8}));?|&(?P<named>amp);"
)
_ESCAPED_RUN = re.compile(r"(?:[^\s\"<>]|\\\")+")
"""What may be one escaped word."""

Span = tuple[int, int]
Form = tuple[str, str]
"""A secret, or its base64, and the pattern of what may stand between its characters."""


class SecretForms:
    """The forms of a set of secrets, as programs write them; `reach` is the length of the longest."""

    def __init__(self, secrets: frozenset[str]) -> None:
        lines = (line.strip() for secret in sorted(secrets, key=len) for line in secret.splitlines())
        longer = (line for line in lines if len(line) >= _SHORTEST_FORM and line not in secrets)
        secrets |= set(islice(longer, 500))  # more would make redaction slow
        self._anchors = _anchors(secrets)
        self._shortest = min(map(len, self._anchors))
        forms = {form for secret in secrets for form in _literal_forms(secret)}
        self.reach = max(map(len, forms))
        self._cuttable = sorted(form for form in forms if len(form) > LEAST_PART)
        self._ends = {
            form[at : at + LEAST_PART] for form in self._cuttable for at in range(len(form) - LEAST_PART + 1)
        }
        """What a cut may leave at the beginning or the end of a text."""

    def may_be_in(self, texts: Sequence[str]) -> bool:
        # Much faster than searching each text; it may be true without a secret.
        whole = "".join(texts)
        if "..." in whole or "…" in whole or any(map(whole.__contains__, self._anchors)):
            return True
        if may_be_escaped(whole):
            return True
        stripped = [text.strip() for text in texts]
        return not (
            self._ends.isdisjoint(text[:LEAST_PART] for text in stripped)
            and self._ends.isdisjoint(text[-LEAST_PART:] for text in stripped)
        )

    def pattern(self, text: str) -> re.Pattern[str] | None:
        if len(text) < self._shortest:
            return None
        found = [forms for anchor, forms in self._anchors.items() if anchor in text]
        return _compiled(tuple(dict.fromkeys(form for forms in found for form in forms))) if found else None

    def escaped_parts(self, text: str) -> list[Span]:
        # No program has to escape these, and none of the patterns expects it, so such a text is decoded.
        found: list[Span] = []
        for run in _ESCAPED_RUN.finditer(text) if may_be_escaped(text) else ():
            if len(run[0]) < self._shortest or not _ESCAPED_WORD.search(run[0]):
                continue
            plain, places = run[0], list(range(run.start(), run.end() + 1))
            for _ in range(3):  # it may have been escaped in several ways
                plain, within = _unescaped(plain)
                if len(within) == len(places):  # nothing is escaped any more
                    break
                places = [places[place] for place in within]
                pattern = self.pattern(plain)
                matches = pattern.finditer(plain) if pattern else ()
                if parts := [(places[match.start()], places[match.end()]) for match in matches]:
                    found += parts
                    break
        return found

    def cut_parts(self, text: str, *, outer: bool) -> Iterator[Span]:
        """Yield the parts of a secret's forms that a cut in a text leaves beside its `...` or `…`, in order.

        With `outer`, the text as a whole may have been cut out of a longer one.
        """
        begin = 0
        marks = _CUT.finditer(text) if "..." in text or "…" in text else ()
        for mark in islice(marks, 10_000):  # a text of dots must not take forever
            yield from self._parts_at_ends(text, (begin, mark.start()), first=outer or begin > 0, last=True)
            begin = mark.end()
        if outer or begin > 0:
            yield from self._parts_at_ends(text, (begin, len(text)), first=True, last=outer)

    def _parts_at_ends(self, text: str, span: Span, *, first: bool, last: bool) -> Iterator[Span]:
        begin, end = span
        within = text[begin:end].lstrip()
        begin = end - len(within)
        end = begin + len(within.rstrip())
        starts = first and text[begin : begin + LEAST_PART] in self._ends
        stops = last and text[max(begin, end - LEAST_PART) : end] in self._ends
        if starts and stops and any(text[begin:end] in form for form in self._cuttable):
            yield begin, end
            return
        if starts:
            window = text[begin : min(end, begin + self.reach)]
            after = begin + max(_begun_within(form, window) for form in self._cuttable)
            if after > begin:
                yield begin, after
                begin = after
        if stops:
            window = text[max(begin, end - self.reach) : end]
            # The same, read backwards.
            before = end - max(_begun_within(form[::-1], window[::-1]) for form in self._cuttable)
            if before < end:
                yield before, end


forms_of = lru_cache(maxsize=256)(SecretForms)
"""Returns the forms of a set of secrets, which are found once."""


@lru_cache(maxsize=64)
def _compiled(forms: tuple[Form, ...]) -> re.Pattern[str]:
    patterns = []
    for secret, between in forms:
        rest = "".join(between + _character(character) for character in secret[1:])
        # `re` can skip to a set of characters only if the beginnings are literal, so there is a pattern for
        # each form of the first character.
        patterns += [first + rest for first in _spellings(secret[0])]
    return re.compile("|".join(patterns))


def may_be_escaped(text: str) -> bool:
    """Whether a text has escaped letters or digits, in which a secret could be spelled."""
    begins = ("%", "\\", "&#", "&amp;#")
    return any(map(text.__contains__, begins)) and _ESCAPED_WORD.search(text) is not None


def _unescaped(text: str) -> tuple[str, list[int]]:
    """Return a text with the escapes of a secret decoded, and where each character begins; then its end."""
    plain: list[str] = []
    places: list[int] = []
    at = 0
    for found in _ESCAPE.finditer(text):
        plain += text[at : found.start()]
        places += range(at, found.start())
        kind = found.lastgroup or ""
        code = ord("&") if kind == "named" else int(found[kind], {"octal": 8, "decimal": 10}.get(kind, 16))
        plain.append(chr(code) if code <= sys.maxunicode else found[0][0])
        places.append(found.start())
        at = found.end()
    plain += text[at:]
    places += range(at, len(text) + 1)
    return "".join(plain), places


def _begun_within(form: str, text: str) -> int:
    """Return how many characters at a text's start end a form of a secret, such as base64, cut off before."""
    end = min(len(form) - 1, len(text))
    while (found := text.rfind(form[-LEAST_PART:], 0, end)) >= 0:
        end = found + LEAST_PART
        if form.endswith(text[:end]):
            return end
        end -= 1
    return 0


def _anchors(secrets: Iterable[str]) -> dict[str, list[Form]]:
    """Return the forms in which secrets are written, by their anchors; those of the longest secrets first."""
    anchors: dict[str, list[Form]] = {}
    for secret in sorted(secrets, key=lambda secret: (-len(secret), secret)):
        anchors.setdefault(_longest_word(secret), []).append((secret, ""))
        for form in dict.fromkeys(_base64_forms(secret)):
            length = min(24, len(form) // 2)  # lines of base64 have 64 or 76 characters
            for part in (form[:length], form[length : 2 * length]):  # a line break leaves one of them whole
                anchors.setdefault(_longest_word(part), []).append((form, _LINE_BREAK))
    return anchors


def _longest_word(text: str) -> str:
    return max(_WORD.findall(text), key=len, default="")


@cache
def _character(character: str) -> str:
    spellings = _spellings(character)
    return spellings[0] if len(spellings) == 1 else f"(?:{'|'.join(spellings)})"


def _spellings(character: str) -> Sequence[str]:
    """Return a pattern for each escape or encoding of a secret's character; each begins with a literal."""
    if _WORD.fullmatch(character):
        return (character,)
    raw, code = character.encode("utf-8", "surrogatepass"), ord(character)
    units = character.encode("utf-16-be", "surrogatepass").hex()
    patterns = (
        re.escape(character),
        "".join(f"%(?:25){{0,2}}{_hex(f'{byte:02x}')}" for byte in raw),
        "".join(f"{_ESCAPED}u{_hex(units[at : at + 4])}" for at in range(0, len(units), 4)),
        "".join(f"{_ESCAPED}x{_hex(f'{byte:02x}')}" for byte in raw),
        "".join(f"{_ESCAPED}{byte:03o}" for byte in raw),
        f"{_ESCAPED}x{_hex(f'{code:02x}')}" if code <= 0xFF else "",
        _ESCAPED + _ESCAPE_LETTERS.get(character, re.escape(character)),
        f"&#(?:0?{code}|[xX]0?{_hex(f'{code:x}')});",
        *_SPECIAL.get(character, ()),
    )
    return tuple(dict.fromkeys(filter(None, patterns)))


def _hex(digits: str) -> str:
    return "".join(digit if digit.isdigit() else f"[{digit}{digit.upper()}]" for digit in digits)


def _base64_forms(secret: str) -> Iterator[str]:
    """Yield the base64 forms of a secret, standard and for URLs, wherever it begins in what is encoded."""
    # These are the characters that depend on the secret alone: its neighbours are encoded into the others.
    raw = secret.encode("utf-8", "surrogatepass")
    for encode in (b64encode, urlsafe_b64encode):
        for before in range(3):
            encoded = encode(bytes(before) + raw).decode()
            form = encoded[-(-before * 8 // 6) : (before + len(raw)) * 8 // 6]
            if len(form) >= _SHORTEST_FORM:
                yield form


def _literal_forms(secret: str) -> Iterable[str]:
    safe = secret.encode("utf-8", "replace").decode()  # `quote` refuses lone surrogates
    upper = (quote(safe, safe=""), quote(safe), quote_plus(safe))
    return (
        secret,
        *(secret.replace(quote_mark, 2 * quote_mark) for quote_mark in ('"', "'")),
        json.dumps(secret, ensure_ascii=False)[1:-1],
        json.dumps(secret)[1:-1],
        shlex.quote(secret).strip("'"),
        *upper,
        *(re.sub(r"%..", lambda found: found[0].lower(), form) for form in upper),
        *_base64_forms(secret),
    )
