"""Looks for what is left of a planted secret in everything that was printed or written."""

import base64
import html
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from urllib.parse import quote, unquote

PART = 12
"""Characters of a secret that must not be found together."""


def remains(secret: str, printed: Iterable[str], *folders: Path) -> list[str]:
    """Return each place with a part of a secret, and the part: `stdout: TOKEN-1234`.

    Args:
        secret: The secret.
        printed: What programs printed.
        folders: Folders of which every file is read, except records of runs: those hold what the steps
            returned as it is, for the user alone.
    """
    needles = _parts(secret)
    places = {f"printed {number}": text for number, text in enumerate(printed)}
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    records = [path for path in files if "/state/runs/" in str(path)]
    assert [oct(path.stat().st_mode & 0o777) for path in records] == ["0o600"] * len(records)
    places |= {str(path): path.read_bytes().decode("latin-1") for path in files if path not in records}
    return [f"{place}: {part}" for place, text in places.items() for part in _found(needles, text)]


def _found(needles: set[str], text: str) -> Iterator[str]:
    # an index may keep words in lower case
    readings = {text, unquote(text), html.unescape(text), text.replace("\\", "")}
    lowered = [reading.lower() for reading in readings]
    yield from sorted(part for part in needles if any(part in reading for reading in lowered))


def _parts(secret: str) -> set[str]:
    raw = secret.encode()
    written = [secret, json.dumps(secret), secret.encode().decode("latin-1"), quote(secret, safe="")]
    found = {form[at : at + PART] for form in written for at in range(len(form) - PART + 1)}
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        for before in range(3):
            form = encode(b"." * before + raw).decode()[before + 1 : -4]
            found |= {form[at : at + PART * 4 // 3] for at in range(len(form) - PART * 4 // 3 + 1)}
    return {part.lower() for part in found}
