"""Documents in JSON and TOML: decoded strictly, with the place of a mistake; compared, and kept in files."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pflow_mcp_plugin.contract import Problem
from pflow_mcp_plugin.contract.problems import advice
from pflow_mcp_plugin.storage.atomic_files import locked, read_own, set_aside, write_atomic
from pflow_mcp_plugin.storage.files import CorruptFile, StoreError, refuse_newer
from pflow_mcp_plugin.terminal.looks import abbreviated

if TYPE_CHECKING:
    from json import JSONDecodeError

    from pflow_mcp_plugin.contract.json_types import JSON, JSONObject

_LONGEST = 60
"""Characters of a key or a number in messages."""
_LARGEST = 10**4_000
"""Python refuses to convert larger numbers, of more than 4,300 digits, to decimal."""
_PLAIN = frozenset({str, int, float})
"""Compared first: most values are of these types, and the check that one is not a Mapping is slow."""
_KINDS = (bool, Mapping, list, tuple)
"""Types whose values never equal one of another type."""


class Lossy(ValueError):
    """Decoding a JSON text to a Python value would lose a part of it."""


class JsonStore(NamedTuple):
    """An object kept as JSON text in a file, which only the user can write, and changed under a lock.

    `what` names the content in messages. A file of a newer schema version is refused. A corrupt one is
    refused too, or moved aside and replaced if it is `rebuildable`; `report` then gets a warning.
    """

    path: Path
    schema_version: int
    what: str
    rebuildable: bool = False
    report: Callable[[Problem], None] = lambda _: None

    def read(self) -> dict[str, JSON]:
        return self._load_or_begin(is_locked=False)

    def update(self, change: Callable[[dict[str, JSON]], None]) -> dict[str, JSON]:
        """Change the object in the JSON file under its lock, unless `change` raises, and return it."""
        with locked(self.path):
            data = self._load_or_begin(is_locked=True)
            change(data)
            data = {**data, "schema_version": self.schema_version}
            content = encode_json(self.path, data)
            if content != read_own(self.path):
                write_atomic(self.path, content)
            return data

    def _load_or_begin(self, *, is_locked: bool) -> dict[str, JSON]:
        try:
            return self._load()
        except CorruptFile as corrupt:
            if not self.rebuildable:
                raise
            if not is_locked:  # then it is read again: another writer may have rebuilt it
                with locked(self.path):
                    return self._load_or_begin(is_locked=True)
            step = f"Its old content is in {set_aside(self.path)}"
            what = f"The {self.what} was corrupt and was replaced by an empty one: {corrupt.message}"
            self.report(advice("", what, step, source=str(self.path)))
            return {}

    def _load(self) -> dict[str, JSON]:
        content = read_own(self.path)
        if content is None:
            return {}
        data = decode_json(self.path, content)
        version = data.get("schema_version", self.schema_version)
        if not isinstance(version, int):
            raise CorruptFile(self.path, f"schema_version must be a whole number, not {version!r}")
        refuse_newer(self.path, version, self.schema_version, self.what)
        return data


def encode_json(path: Path, data: JSONObject) -> bytes:
    """Return an object as indented UTF-8 for a JSON file; a number that is not finite is a `StoreError`."""
    import json

    try:
        text = json.dumps(data, ensure_ascii=False, indent=2, allow_nan=False)
        return text.encode() + b"\n"
    except UnicodeEncodeError:  # a lone surrogate has no UTF-8 form, only an escape
        return json.dumps(data, indent=2, allow_nan=False).encode() + b"\n"
    except ValueError as error:
        raise StoreError(path, f"could not be written as JSON: {error}") from error


def decode_json(path: Path, content: bytes, *, finite: bool = False) -> dict[str, JSON]:
    """Return the object in the content of a JSON file; `path` is for messages.

    With `finite`, NaN, infinity and numbers too large for a float are refused.
    """
    import json

    numbers: dict[str, Any] = (
        {"parse_float": finite_number, "parse_constant": finite_number} if finite else {}
    )
    try:
        data = json.loads(decoded(path, content), **numbers)
    except json.JSONDecodeError as error:
        raise CorruptFile(path, f"not JSON: {error.msg}", line=error.lineno, column=error.colno) from error
    except RecursionError as error:
        raise CorruptFile(path, "not JSON: nested too deeply") from error
    except ValueError as error:  # from `finite_number`, or an integer of too many digits
        raise CorruptFile(path, f"not JSON: {error}") from error
    if not isinstance(data, dict):
        raise CorruptFile(path, f"expected a JSON object, found {type(data).__name__}", line=1, column=1)
    return data


def as_string(value: object) -> str:
    """Of decoded JSON or TOML: return a value that must be a string; raise TypeError if it is not."""
    if not isinstance(value, str):
        message = f"expected a string, found {type(value).__name__}"
        raise TypeError(message)
    return value


def as_strings(value: object) -> dict[str, str]:
    """Of decoded JSON or TOML: return an object whose values must be strings; raise TypeError otherwise."""
    return {as_string(name): as_string(text) for name, text in as_table(value).items()}


def as_table(value: object) -> dict[str, JSON]:
    """Return a value from stored JSON text that must be an object; raise TypeError if it is not."""
    if not isinstance(value, dict):
        message = f"expected an object, found {type(value).__name__}"
        raise TypeError(message)
    return value


def finite_number(number: str) -> float:
    """Return a number in a JSON file as a float; raise ValueError for NaN, infinity and what is too large."""
    value = float(number)
    if not math.isfinite(value):
        message = f"the number {number} is too large or not finite"
        raise ValueError(message)
    return value


def exact_float(number: str) -> float:
    """While decoding JSON text, make a float of a number; raise `Lossy` if no float has these digits."""
    value = float(number)
    # A float never loses one of 15 digits.
    if repr(value) == number or (len(number) <= 15 and "e" not in number.lower()):
        return value  # as most are; to compare decimals takes ten times as long
    from decimal import Decimal, InvalidOperation

    with suppress(InvalidOperation):  # an exponent beyond what Decimal accepts
        # Some programs write the shortest digits that read back as the same float, others always 17.
        if math.isfinite(value) and Decimal(number) in (Decimal(repr(value)), Decimal(f"{value:.17g}")):
            return value
    raise Lossy(f"{abbreviated(number, _LONGEST)} is not exact as a float")


def distinct(members: list[tuple[str, JSON]]) -> dict[str, JSON]:
    """While decoding JSON text, make a dict of an object's members; raise `Lossy` if a key occurs twice."""
    found: dict[str, JSON] = {}
    for key, value in members:
        if key in found:
            raise Lossy(f"duplicate key {abbreviated(key, _LONGEST)}")
        found[key] = value
    return found


def strict_json(text: str, *, exact: bool = False) -> JSON:
    """Decode a JSON text strictly: raise ValueError for duplicate keys and numbers that are not finite.

    With `exact`, also for numbers of which a float would lose digits.
    """
    import json

    parse_float = exact_float if exact else finite_number
    value: JSON = json.loads(
        text, parse_float=parse_float, parse_constant=finite_number, object_pairs_hook=distinct
    )
    return value


def plain_json(
    value: object, deepest: int, failed: Callable[[BaseException], object], above: tuple[int, ...] = ()
) -> Any:
    """Make any value fit to be encoded as JSON: other objects become strings, what is nested deeper `...`.

    `failed` is called with what an object raises on reading; unless it raises that, too, the class of the
    object stands for it. `above` holds the ids of what encloses the value.
    """
    try:
        if isinstance(value, Mapping | list | tuple | set | frozenset):
            if id(value) in above or len(above) >= deepest:
                return "..."
            within = (*above, id(value))
            if isinstance(value, Mapping):
                return {_text(key): plain_json(it, deepest, failed, within) for key, it in value.items()}
            return [plain_json(it, deepest, failed, within) for it in value]
        is_plain = value is None or isinstance(value, str)
        if isinstance(value, int | float):
            is_plain = abs(value) < _LARGEST and (isinstance(value, int) or math.isfinite(value))
        return value if is_plain else _text(value)
    except BaseException as error:  # noqa: BLE001 - the object may be a node's own and raise anything
        failed(error)
        return f"<{type(value).__name__}>"


def _text(value: object) -> str:
    return hex(value) if isinstance(value, int) and abs(value) >= _LARGEST else str(value)


def is_same(one: object, other: object) -> bool:
    """Whether two decoded values are the same JSON or TOML, however deep: 1 is 1.0, but true is not 1."""
    pairs = [(one, other)]
    while pairs:
        left, right = pairs.pop()
        if left is right:
            continue
        if type(left) in _PLAIN and type(left) is type(right):
            if left != right and (left == left or right == right):  # noqa: PLR0124 NaN is not equal to itself
                return False
        elif isinstance(left, Mapping) and isinstance(right, Mapping) and left.keys() == right.keys():
            pairs.extend((value, right[key]) for key, value in left.items())
        elif isinstance(left, list | tuple) and isinstance(right, list | tuple) and len(left) == len(right):
            pairs.extend(zip(left, right, strict=True))
        elif isinstance(left, _KINDS) or isinstance(right, _KINDS):
            return False  # Python's True == 1; the same object was seen above
        elif left != right:
            return False
    return True


_STRICT = "in double quotes, has no comments and no comma before a closing bracket"
_JSON_HINTS = (
    ("Illegal trailing comma", "Remove the comma before the closing bracket"),
    ("property name", f"JSON puts names {_STRICT}"),
    ("Expecting value", f"JSON puts strings {_STRICT}"),
    ("delimiter", "A comma, colon or closing bracket is missing before this position"),
    ("Unterminated string", "A closing double quote is missing"),
    ("Invalid \\", "Write each backslash twice"),
    ("Extra data", "One object is expected; something follows it"),
)
"""Part of the message of Python's decoder, and what to do about it."""


def corrupt_after(path: Path, reason: str, before: str) -> CorruptFile:
    """Return the error of a file that is not JSON or TOML right after this text, with line and column."""
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    return CorruptFile(path, reason, line=line, column=column)


def json_hint(error: JSONDecodeError) -> str:
    """Return the hint in the error about a file with invalid JSON, if the mistake is common; else empty."""
    return next((hint for words, hint in _JSON_HINTS if words in error.msg), "")


def decoded(path: Path, content: bytes) -> str:
    """Decode a stored file, without byte order mark; if it is not UTF-8, raise the error that says where."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise corrupt_after(path, "not UTF-8", content[: error.start].decode()) from error


DEEPEST = 100
"""Levels of tables and lists in a document; a server needs five, a dotted key has one for each part."""


def is_too_deep(document: object, deepest: int = DEEPEST) -> bool:
    """Whether a document is deeper than a stored file may be: an error when it is read or written."""
    level, depth = [document], 0
    while level:
        if depth > deepest:
            return True
        containers = (value for value in level if isinstance(value, Mapping | list | tuple))
        level = [
            inner for each in containers for inner in (each.values() if isinstance(each, Mapping) else each)
        ]
        depth += 1
    return False


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


def decode_toml(path: Path, content: bytes) -> dict[str, JSON]:
    """Return the document in a TOML file; a `CorruptFile` has line and column of the mistake."""
    import tomllib

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


def encode_toml(document: JSONObject) -> bytes:
    """Return a document as TOML; what TOML or UTF-8 cannot represent is a `ValueError`."""
    import tomli_w

    try:
        return tomli_w.dumps(document).encode()
    except TypeError as error:  # tomli_w raises it for null and objects
        raise ValueError(str(error)) from error


def toml_comments(content: bytes) -> Counter[str]:
    """Return the comments in valid TOML text before it is decoded, with how often each occurs."""
    tokens = (found[0] for found in re.finditer(PIECE, content.decode("utf-8-sig")))
    return Counter(token.rstrip() for token in tokens if token.startswith("#"))
