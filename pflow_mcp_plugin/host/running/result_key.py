"""What a step is and returns, as exact JSON: the key of a node's result, and for the record of a run."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any

from pflow_mcp_plugin.contract import Entry

FORMAT = 1
"""Increased when keys are computed differently, so that older results are not used."""
MOST_VALUES = 1_000_000
"""The most values in a key or a result; a character counts as a sixteenth of a value."""
OWN_PARAMS = frozenset({"__node_id__"})
"""Params that say where in a workflow a node is; they do not affect what it does and returns."""
_DEEPEST = 100
_AT_ONCE = 4_000_000
"""A value of up to this many characters is written as one piece."""
_SLICE = 1 << 18
_TOGETHER = 1_000
"""Members of a large value that are written as one piece, unless they are large themselves."""
_PLAIN = (bool, int, float, type(None))
_encode = json.JSONEncoder(ensure_ascii=False).encode  # `dumps` makes one for each value


class NotKept(Exception):
    """A value has no exact JSON: a result has no key, or cannot be kept. The message says why."""


def exact_json(value: object, what: str) -> bytes:
    """Return what a step gets or returns as exact JSON, which can be read again: for its key, or to keep it.

    Two values have the same text only if they have the same types and the same order: 1, 1.0, true and "1"
    are four values. Raises NotKept, whose message names it by `what`, if it is too large or JSON cannot
    represent it exactly.
    """
    _require_exact(value, what, MOST_VALUES)
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except ValueError as error:  # not finite, too many digits, or a lone surrogate
        raise NotKept(f"{what} cannot be written as JSON") from error


def exact_pieces(value: object, what: str) -> Iterator[bytes]:
    """Yield the exact JSON of what a step gets or returns, piece by piece, as it may be large.

    `json.loads` reads it, lone surrogates included.
    """
    # In one piece, a long text would be in memory several times.
    at_once = _require_exact(value, what) < _AT_ONCE
    try:
        for piece in (_encode(value),) if at_once else _pieces(value):
            yield piece.encode("utf-8", "surrogatepass")
    except ValueError as error:  # too many digits
        raise NotKept(f"{what} cannot be written as JSON") from error


def identity_of(
    node_type: str, params: Mapping[str, Any], reads: Mapping[str, Any], items: Sequence[str] = ()
) -> str:
    """Return the key of what a step does, a hash of the exact JSON of its type, params and inputs.

    It is empty if exact JSON cannot represent them. `items` are the keys of the batch items around the step.
    """
    digest = sha256()
    try:
        for piece in exact_pieces([FORMAT, node_type, dict(params), dict(reads), *items], "a parameter"):
            digest.update(piece)
    except NotKept:
        return ""
    return digest.hexdigest()


def value_key(value: object) -> str:
    """Return the key of a value, such as a batch's item: a hash of its exact JSON, empty if there is none."""
    return identity_of("", {}, {"item": value})


def _pieces(value: Any) -> Iterator[str]:
    # Small members are written together, as one by one takes far longer.
    if isinstance(value, str):
        yield '"'
        for start in range(0, len(value), _SLICE):
            yield _encode(value[start : start + _SLICE])[1:-1]
        yield '"'
        return
    is_object = isinstance(value, dict)
    if not is_object and not isinstance(value, list):
        yield _encode(value)
        return
    members = iter(value.items() if is_object else value)
    yield "{" if is_object else "["
    comma = ""
    while some := list(islice(members, _TOGETHER)):
        part = dict(some) if is_object else some
        if _require_exact(part, "a member") < _AT_ONCE:
            yield comma + _encode(part)[1:-1]
        else:
            yield comma
            for number, member in enumerate(some):
                yield "," if number else ""
                if is_object:
                    yield f"{_encode(member[0])}:"
                yield from _pieces(member[1] if is_object else member)
        comma = ","
    yield "}" if is_object else "]"


def code_of(entry: Entry) -> str:
    """Return the part of a result's key that says what would run: the entry's fingerprint, and its class.

    Without a fingerprint, the whole entry and the text of its module stand in for it.
    """
    parts = [entry.fingerprint, entry.module, entry.class_name]
    if not entry.fingerprint:
        source, path = "", getattr(sys.modules.get(entry.module), "__file__", None)
        with suppress(OSError):
            source = sha256(Path(path).read_bytes()).hexdigest() if path else ""
        parts += [json.dumps(entry.to_dict(), sort_keys=True, default=str), source]
    return sha256(json.dumps(parts).encode()).hexdigest()


def result_key(
    code: str, place: Mapping[str, Any], params: Mapping[str, Any], reads: Mapping[str, Any]
) -> str:
    """Return the key of a node's result; raise NotKept if there is none.

    `code` is from `code_of`, `place` what else distinguishes runs, such as who asked for them, and `reads`
    what the node can read from the shared store.
    """
    data = sha256(exact_json(dict(reads), "an input")).hexdigest()
    return sha256(exact_json([FORMAT, code, dict(place), dict(params), data], "a parameter")).hexdigest()


def folder_now() -> str:
    """Return the current folder, which is part of a result's key; empty if it was deleted."""
    with suppress(OSError):  # it was deleted
        return os.getcwd()  # noqa: PTH109 - no path is needed
    return ""


def _require_exact(value: object, what: str, most: int | None = None) -> int:
    """Return about how many characters a param or result has as exact JSON; raise NotKept if it has none."""
    seen = size = 0
    waiting: list[tuple[Any, int]] = [([value], 0)]
    while waiting:
        members, depth = waiting.pop()
        if type(members) is dict:
            for key in members:
                if type(key) is not str:
                    _refuse(what, key)
                size += len(key)
            seen += len(members)
            members = members.values()
        for member in members:
            kind = type(member)  # a subclass would come back as its base type
            if kind is str:
                size += len(member)
            elif kind is dict or kind is list:
                waiting.append((member, depth + 1))
            elif kind not in _PLAIN:
                _refuse(what, member)
        seen += len(members)
        is_deep = bool(members) and depth > _DEEPEST
        if is_deep or (most is not None and seen + size // 16 > most):
            raise NotKept(f"{what} is {'nested too deeply, or contains itself' if is_deep else 'too large'}")
    return size + seen


def _refuse(what: str, item: object) -> None:
    raise NotKept(f"{what} contains a {type(item).__name__}, which JSON cannot represent exactly")
