"""TOML text decoded, with line and column of a mistake, and encoded."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from pflow_mcp_plugin.storage.file_errors import DEEPEST, CorruptFile, corrupt_after, decoded, is_too_deep

if TYPE_CHECKING:
    from pflow_mcp_plugin.contract.json_types import JSON, JSONObject

_PLACE = r"(?P<reason>.*) \(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)"
PIECE = (
    r'(?s)"""(?:\\.|[^\\])*?"{3,5}'
    r"|'''.*?'{3,5}"
    r'|"(?:\\.|[^"\\\n])*"'
    r"|'[^'\n]*'"
    r"|#[^\n]*"
    r"|[\[\]{}\n]"
    r"|[^\"'#\[\]{}\n]+"
)
"""A pattern for the tokens of valid TOML: strings, comments, brackets, line ends, and everything else."""


def decode(path: Path, content: bytes) -> dict[str, JSON]:
    """Return the document in a TOML file; a `CorruptFile` has line and column of the mistake."""
    text = decoded(path, content)
    if _has_long_key(text):
        raise CorruptFile(path, "nested too deeply")
    try:
        document: dict[str, JSON] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        # Before Python 3.14 the position is part of the message only.
        place = re.fullmatch(_PLACE, str(error))
        reason = f"not TOML: {place['reason'] if place else error}"
        if place and place["line"] is None:
            raise corrupt_after(path, reason, text) from error
        line, column = (int(place[key]) if place else 0 for key in ("line", "column"))
        raise CorruptFile(path, reason, line=line, column=column) from error
    except RecursionError as error:
        raise CorruptFile(path, "nested too deeply") from error
    except ValueError as error:  # a number with thousands of digits
        raise CorruptFile(path, f"not TOML: {error}") from error
    if is_too_deep(document):
        raise CorruptFile(path, "nested too deeply")
    return document


def _has_long_key(text: str) -> bool:
    """Whether a dotted TOML key has too many parts: the time to parse it grows with their square."""
    if all(line.count(".") <= DEEPEST for line in text.split("\n")):
        return False  # a key is on one line
    dots = end = 0
    for token in re.finditer(PIECE, text):
        if token.start() != end:  # not TOML from here on, which the parser will report
            return False
        end = token.end()
        if token[0][0] in "[]{}\n#":
            dots = 0
        elif token[0][0] not in "\"'":  # a string is one part of a key, or a value
            for index, run in enumerate(re.split("[=,]", token[0])):
                dots = run.count(".") + (0 if index else dots)
                if dots > DEEPEST:
                    return True
    return False


def encode(document: JSONObject) -> bytes:
    """Return a document as TOML; what TOML or UTF-8 cannot represent is a `ValueError`."""
    import tomli_w

    try:
        return tomli_w.dumps(document).encode()
    except TypeError as error:  # tomli_w raises it for null and objects
        raise ValueError(str(error)) from error


def comments(content: bytes) -> Counter[str]:
    """Return the comments of valid TOML, with how often each occurs."""
    tokens = (found[0] for found in re.finditer(PIECE, content.decode("utf-8-sig")))
    return Counter(token.rstrip() for token in tokens if token.startswith("#"))
