"""Names that look the same although they are not.

The table holds the letters that look like ASCII letters in common fonts, from the scripts that names are
forged with; names of tools should be ASCII to begin with (protocol 2025-11-25, "Tool Names"). What
compatibility characters stand for (full-width and mathematical letters, ligatures) is left to NFKC.
The whole table of Unicode (UTS 39) has thousands of lines for scripts that no ASCII name can be forged with.
"""

from __future__ import annotations

import unicodedata

from pflow_mcp_plugin.terminal.printable_text import hidden_places

_FORGED = str.maketrans(
    {
        # ruff: noqa: RUF001 - the letters are meant
        # Cyrillic
        **dict(zip("АВЕКМНОРСТХУІЈЅԌԚԜ", "ABEKMHOPCTXYIJSGQW", strict=True)),
        **dict(zip("авекмнорстхуіјѕԁԛԝһӏгпѵ", "abekmhopctxyijsdqwhlrnv", strict=True)),
        # Greek
        **dict(zip("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧ", "ABEZHIKMNOPTYX", strict=True)),
        **dict(zip("αβγεηικνορτυχω", "aByenikvoptuxw", strict=True)),
        # Armenian, Cherokee, and letters of Latin
        **dict(zip("օոսհցզԼᎪᏴᏟᎬᎻᏞᎷᏢᏒᏚᎢᎳᏃıɑɡɩʟǀ", "onuhgqLABCEHLMPRSTWZiagiLl", strict=True)),
        # Hyphens and dashes
        **dict.fromkeys("‐‑‒–—−", "-"),
    }
)
_SAME = (("0", "o"), ("O", "o"), ("I", "l"), ("|", "l"), ("rn", "m"), ("vv", "w"))


def plain_form(name: str) -> str:
    """Return a name with letters of other scripts replaced by the ASCII letters that they look like."""
    if name.isascii() and name.isprintable():
        return name
    unseen = set(hidden_places(name))
    seen = "".join(char for place, char in enumerate(name) if place not in unseen)
    apart = unicodedata.normalize("NFKD", seen)
    letters = "".join(char for char in apart if not unicodedata.combining(char))
    return letters.translate(_FORGED)


def shapes(name: str) -> set[str]:
    """Return the shapes of a name: two names that share one look alike.

    The digit 1 counts as `l` and as `i`, 0 as `o`, capital I as `l`, `rn` as `m`.
    """
    shape = plain_form(name)
    for one, other in _SAME:
        shape = shape.replace(one, other)
    return {shape.replace("1", "l"), shape.replace("1", "i")}


def readings(name: str) -> set[str]:
    """Return the ordinary names that a name may be read as, if it is not ordinary itself."""
    form = plain_form(name)
    read = {form.replace("1", "l"), form.replace("1", "i"), form.replace("0", "o"), form.replace("I", "l")}
    return {each for each in (form, *read) if each != name}
