"""Printable text for people: what could steer a terminal or hide in text is escaped.

Hidden are control characters (the escape sequences of terminals begin with one), the controls of writing
direction, tag characters, and all that Unicode calls ignorable: zero-width characters, fillers, variation
selectors (Unicode 16, `Default_Ignorable_Code_Point`). Tabs and line ends are not, nor what a script or an
emoji needs in its place: a joiner between Persian or Indic letters, the joiners and selectors inside an
emoji, a direction mark beside Hebrew or Arabic.

Reports, messages on standard error and tables go through `printable` when they are printed. `one_line` is for
values from elsewhere inside a line, such as a tool's name: a line end in one could forge the next line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

_HIDDEN = (
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    r"\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]|\r(?!\n)"
)
_RIGHT_TO_LEFT = (
    r"[\u0590-\u061b\u061d-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff"
    r"\U0001e800-\U0001efff]"
)
_MARKS = "\u200e\u200f\u061c"
_EMOJI = (
    r"[\xa9\xae\u203c\u2049\u2100-\u214f\u2190-\u21ff\u2300-\u23ff\u2460-\u24ff\u25a0-\u27bf\u2900-\u297f"
    r"\u2b00-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff]"
)
_JOINING = (
    r"[\u0600-\u061b\u061d-\u08ff\u0900-\u0dff\u0f00-\u109f\u1780-\u17b3\u17b6-\u180a\u1810-\u18ff"
    r"\u1a20-\u1cff\ua840-\uabff\ufb50-\ufdff\ufe70-\ufefc]"
)
_WITH_VARIANTS = r"[\u2200-\u22ff\u1000-\u109f\u3400-\u9fff\ua840-\ua87f\uf900-\ufaff\U00020000-\U0003ffff]"
_BELONGS = (
    rf"(?:(?<={_EMOJI})|(?<=\ufe0f))\u200d(?={_EMOJI})|(?<={_JOINING})[\u200c\u200d](?!{_HIDDEN})"
    rf"|(?<={_EMOJI})[\ufe0e\ufe0f]|(?<=[0-9#*])[\ufe0e\ufe0f](?=\u20e3)"
    rf"|(?<={_WITH_VARIANTS})[\ufe00-\ufe0d\U000e0100-\U000e01ef]|(?<=[\u1820-\u18aa])[\u180b-\u180f]"
)
"""Joiners, selectors and variants where a script or an emoji needs them, one at a time."""
_FLAG = "\U0001f3f4"
# Those of England, Scotland and Wales: the only flags that are written with tag characters.
_FLAGS = f"{_FLAG}\U000e0067\U000e0062(?:{{}})\U000e007f".format(
    "|".join("".join(chr(0xE0000 + ord(letter)) for letter in part) for part in ("eng", "sct", "wls"))
)
_CANDIDATES = f"{_FLAGS}|{_HIDDEN}"
_ESCAPES = {"\t": "\\t", "\n": "\\n", "\r": "\\r"}
_NEAR = 64
"""Characters within which a direction mark stands beside writing that runs from right to left."""


def printable(text: str) -> str:
    r"""Return printable text for people: hidden characters are escaped as in JSON, such as `\u001b`.

    A JSON document stays one and means the same.
    """
    if text.isascii() and text.isprintable():
        return text
    return _pattern(_CANDIDATES).sub(
        lambda found: found[0] if _belongs(text, found.start()) else escape(found[0]), text
    )


def one_line(text: str) -> str:
    r"""Return printable text in one line: tabs, line ends and all that is not printable are escaped.

    That includes spaces other than the usual one, and characters that Unicode does not assign.
    """
    if text.isprintable() and text.isascii():
        return text
    from unicodedata import category

    return "".join(
        # A format character (Cf) that `printable` keeps belongs to its neighbours.
        each if each.isprintable() or category(each) == "Cf" else escape(each)
        for each in printable(text)
    )


def abbreviated(text: str, most: int) -> str:
    """Return text cut to `most` characters; dots at its end say that something is left out."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def continued(text: str) -> str:
    """Return text for people with a bar before its further lines, which might pass for pflow's own."""
    return text.replace("\n", "\n  | ")


def barred_lines(text: str) -> list[str]:
    """Return the lines of a text from elsewhere for people, with a bar before all but the first."""
    return "\n| ".join(text.splitlines()).split("\n") if text else []


def escape(char: str) -> str:
    r"""Return a character made printable, escaped as in JSON, such as `\u001b`; astral ones as surrogates."""
    code = ord(char)
    if code <= 0xFFFF:
        return _ESCAPES.get(char, f"\\u{code:04x}")
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"


def hidden_places(text: str) -> Iterator[int]:
    """Yield the positions in a text of what is not printable for people, and escaped by `printable`."""
    if text.isascii() and text.isprintable():
        return
    for found in _pattern(_CANDIDATES).finditer(text):
        if not _belongs(text, found.start()):
            yield found.start()


def runs_right_to_left(text: str) -> bool:
    """Whether printed text runs from right to left in parts: it has letters of such a script."""
    return not text.isascii() and _pattern(_RIGHT_TO_LEFT).search(text) is not None


def _belongs(text: str, place: int) -> bool:
    if text[place] in _MARKS:
        near = text[max(place - _NEAR, 0) : place + _NEAR]
        return runs_right_to_left(near) and text[place + 1 : place + 2] not in set(_MARKS)
    return text[place] == _FLAG or _pattern(_BELONGS).match(text, place) is not None


@cache
def _pattern(source: str) -> re.Pattern[str]:
    """Compile a pattern for hidden characters on first use: most programs print none of them."""
    return re.compile(source)
