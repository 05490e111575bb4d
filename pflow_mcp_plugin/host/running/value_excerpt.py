"""Excerpts of values for people and models, and the files of a run that hold what they leave out."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from itertools import islice
from pathlib import Path

import attrs

from pflow_mcp_plugin.contract import PflowError, ValuePath
from pflow_mcp_plugin.contract.json_types import JSON
from pflow_mcp_plugin.host.foreign_code import end_if_interrupted
from pflow_mcp_plugin.host.running.shared_store import StoredValue
from pflow_mcp_plugin.host.standard_streams import to_json
from pflow_mcp_plugin.host.workflow.coercion import json_in
from pflow_mcp_plugin.redaction import Redactor
from pflow_mcp_plugin.storage import StoreError, make_folder, read_bytes, replaced_regular, write_atomic

LONGEST_TEXT = 2_000
"""Characters that an excerpt keeps of one string."""
LONGEST_NAME = 200
"""Characters that an excerpt keeps of a key."""
DEEPEST = 20
"""Levels of nesting in an excerpt, and of a structure that is examined."""
_PLAIN = re.compile(r"[\w-]+")
_SAMPLE = 100
"""Items of a list whose structure is examined."""
_LONGEST_SAMPLE = 100
"""Characters of a sample."""
_NAMES = {"NoneType": "None", "tuple": "list"}


@attrs.define(eq=False, repr=False)
class ValueFiles:
    """The files of a run that hold in full what excerpts of its values shorten.

    Files that nodes have named hold their results as they are. The others are written to the run's folder of
    artefacts, with the secrets redacted as in the excerpt; they are named after their content, unless they
    hold the results of a batch.
    """

    _folder: Path
    _redactor: Redactor
    _named: dict[tuple[int, int], Path] = attrs.field(init=False, factory=dict)
    _written: dict[Path, frozenset[str]] = attrs.field(init=False, factory=dict)
    _results: tuple[list[object], Path | None] = attrs.field(init=False, factory=lambda: ([], None))

    def name(self, value: str, file: Path) -> None:
        self._named[_key(value)] = file

    def named(self, value: str) -> Path | None:
        return self._named.get(_key(value)) if self._named else None

    def holding(self, value: object) -> Path | None:
        """Return a file that holds in full what a value's excerpt shortens; None if it cannot be written."""
        if isinstance(value, str) and (named := self.named(value)):
            return named
        if isinstance(value, list) and any(isinstance(it, StoredValue) for it in value):
            return self._holding_results(value)
        if isinstance(value, str):
            text, suffix = value, ".txt"
        else:
            try:
                text, suffix = json.dumps(value, ensure_ascii=False), ".json"
            except (TypeError, ValueError, RecursionError):
                text, suffix = to_json(value), ".json"
        known = self._redactor.known
        # `surrogatepass`: a lone surrogate is kept for readers that decode the file in the same way.
        content = self._redactor.text(text).encode("utf-8", "surrogatepass")
        path = self._folder / f"{sha256(content).hexdigest()[:24]}{suffix}"
        try:
            if path not in self._written or not path.is_file():
                write_atomic(path, content, follow=False, durable=False)
        except StoreError:
            return None
        self._written[path] = known
        return path

    def _holding_results(self, values: list[object]) -> Path | None:
        """Return a file with the stored results that a value's excerpt leaves out, written one at a time."""
        if values is self._results[0]:
            return self._results[1]
        known = self._redactor.known
        path = self._folder / f"{os.urandom(12).hex()}.json"
        try:
            make_folder(self._folder)
            with replaced_regular(path, mode=0o600, durable=False) as write:
                for number, value in enumerate(values):
                    result = value.load() if isinstance(value, StoredValue) else value
                    text = self._redactor.text(json.dumps(result, ensure_ascii=False))
                    write(f"{',' if number else '['}{text}".encode("utf-8", "surrogatepass"))
                write(b"]")
        except (OSError, PflowError):
            return None
        self._written[path] = known
        self._results = (values, path)
        return path

    def redact_again(self) -> None:
        """Rewrite those files of what excerpts leave out that contain something known as a secret since."""
        for path, known in self._written.items():
            if known == self._redactor.known:
                continue
            with suppress(StoreError):
                text = (read_bytes(path) or b"").decode("utf-8", "surrogatepass")
                redacted = self._redactor.text(text)
                if redacted != text:
                    content = redacted.encode("utf-8", "surrogatepass")
                    write_atomic(path, content, follow=False, durable=False)


@attrs.define(eq=False, repr=False)
class Excerpt:
    """Makes one excerpt of a value: copies it until about `budget` characters are used up.

    Where something is left out, it says how much, and which file holds the whole: the long string, or the
    member of the value that it is in. A member under the key `repeated` has none, as it repeats what others
    hold.
    """

    _redactor: Redactor
    _left: int = attrs.field(alias="budget")
    _files: ValueFiles | None = None
    _longest: int = LONGEST_TEXT
    _repeated: str = ""
    _member: object = attrs.field(init=False, default=None)

    def of(self, value: object, depth: int = 0) -> JSON:
        """Return the excerpt of a value; an object that cannot be read is shown by its class."""
        if depth == 0:
            self._member = value
        try:
            return self._read(value.load() if isinstance(value, StoredValue) else value, depth)
        except BaseException as error:  # noqa: BLE001  # a node's own object may raise anything; the trace goes on
            end_if_interrupted(error)
            return self._text(f"<{type(value).__name__}>")

    def _read(self, value: object, depth: int) -> JSON:
        if value is None or isinstance(value, (bool, int)):
            self._left -= 5
            # Python refuses to write an integer of more than 4,300 digits as text, and so would `json.dumps`.
            return value if isinstance(value, bool) or abs(value or 0) < 2**63 else self._text(repr(value))
        if isinstance(value, str):
            return self._text(value)
        if depth < DEEPEST and isinstance(value, Mapping):
            copy: dict[str, JSON] = {}
            for count, (key, item) in enumerate(value.items()):
                if self._left <= 0:
                    if depth == 0:
                        rest = islice(value.items(), count, None)
                        self._member = {name: other for name, other in rest if name != self._repeated}
                    copy["..."] = self._more(len(value) - count, "keys")
                    break
                if depth == 0:
                    self._member = None if key == self._repeated else item
                shown = key if isinstance(key, str) else self.of(key, 1)
                name = self._redactor.piece(shown if isinstance(shown, str) else repr(shown))
                name = name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}..."
                self._left -= len(name)
                copy[name] = self.of(item, depth + 1)
            return copy
        if depth < DEEPEST and isinstance(value, (list, tuple)):
            return self._list(value, depth)
        if isinstance(value, float) and value - value == 0:  # finite: JSON has no infinity or NaN
            self._left -= 5
            return value
        return self._text(repr(value))

    def _text(self, text: str) -> str:
        # Redacted before it is cut. A secret that becomes known later is found beside the mark of the cut.
        shown = self._redactor.piece(text)
        kept = shown[: max(0, min(self._longest, self._left))]
        self._left -= len(kept)
        if len(kept) == len(shown):
            return kept
        file = self._file(text if len(shown) > self._longest else self._member)
        return f"{kept}... ({len(text):,} characters){f', whole in {file}' if file else ''}"

    def _list(self, value: list[object] | tuple[object, ...], depth: int) -> list[JSON]:
        copy: list[JSON] = []
        for count, item in enumerate(self._redactor.strings_of(list(self._visible(value)))):
            if self._left <= 0:
                copy.append(f"... {self._more(len(value) - count, 'items')}")
                break
            copy.append(self.of(item, depth + 1))
        return copy

    def _visible(self, value: Iterable[object]) -> Iterator[object]:
        """Yield the items of a list that the excerpt's budget allows, and one more."""
        left = self._left
        for item in value:
            yield item
            if left <= 0:
                return
            left -= min(len(item), self._longest) if isinstance(item, str) else 1

    def _more(self, count: int, what: str) -> str:
        file = self._file(self._member)
        return f"{f'whole in {file}: ' if file else ''}{count:,} more {what}"

    def _file(self, value: object) -> Path | None:
        return self._files.holding(value) if self._files and value is not None else None


def is_larger(value: object, most: int) -> bool:
    """Return whether an excerpt of about `most` characters would leave out some of the value."""
    left, waiting = most, [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, Mapping):
            waiting += item.keys()
            waiting += item.values()
        elif isinstance(item, list | tuple):
            waiting += item
        left -= len(item) if isinstance(item, str) else 5
        if left < len(waiting):
            return True
    return False


def _key(text: str) -> tuple[int, int]:
    return len(text), hash(text)


_Place = tuple[str, str, object]
"""A path inside a value, the type there, and the value (None for a container)."""


def sampled(value: object, excerpt: Callable[[object], JSON]) -> list[ValuePath]:
    """Return the paths in a value, each with its type and an excerpt as a sample, outermost first.

    Every path can be used in a template. Of a list, only items with a new shape are included, each at its
    own index: `[0]`, and `[3]` if that is the next one with a new shape.
    """
    paths = []
    for path, kind, found in _shape(value, DEEPEST)[1:]:
        sample = excerpt(found)
        if isinstance(sample, str) and len(sample) > _LONGEST_SAMPLE:
            sample = f"{sample[:_LONGEST_SAMPLE]}..."
        paths.append(ValuePath(path=path.removeprefix("."), type=kind, sample=sample))
    return paths


def _shape(value: object, depth: int) -> list[_Place]:
    """Return the paths in a value to take excerpts at, with the types there; the value itself first."""
    kind = type(value).__name__
    own = None if isinstance(value, dict | list | tuple) else value
    found: list[_Place] = [("", _NAMES.get(kind, kind), own)]
    inner = json_in(value) if isinstance(value, str) else value
    if depth == 0:
        return found
    try:
        if isinstance(inner, dict):
            for key, item in inner.items():
                if step := _step(key):
                    found += _below(step, _shape(item, depth - 1))
        elif isinstance(inner, list | tuple):
            shown: list[set[tuple[str, str]]] = []
            for index, item in enumerate(inner[:_SAMPLE]):
                shape = _shape(item, depth - 1)
                kinds = {(path, kind) for path, kind, _ in shape}
                if not any(known.issuperset(kinds) for known in shown):
                    shown.append(kinds)
                    found += _below(f"[{index}]", shape)
    except BaseException as error:  # noqa: BLE001 - a node's own object may raise anything when it is read
        end_if_interrupted(error)
    return found


def _below(step: str, places: Iterable[_Place]) -> Iterator[_Place]:
    return ((step + path, kind, value) for path, kind, value in places)


def _step(key: object) -> str:
    """Return one step of a path to an excerpt, as a template spells it; empty if no template can."""
    if not isinstance(key, str) or "{" in key or "}" in key:
        return ""
    if _PLAIN.fullmatch(key):
        return f".{key}"
    quote = "'" if '"' in key else '"'
    return "" if quote in key else f"[{quote}{key}{quote}]"
