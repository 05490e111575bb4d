"""Finds nodes by meaning, besides words, where the extra `[semantic]` is installed.

Words rank the nodes (`discovery`), and a sentence model ranks them by how close each is to a clause of the
task. The two orders are fused by rank (reciprocal rank fusion), because their scores cannot be compared.

The embeddings of all nodes are derived and disposable, like the search index, and kept beside it. One file
holds a row of numbers for each node of the index, with a hash of the text that was embedded. If the file was
made for another index, the rows of all texts that are still there are taken over, the others are embedded,
and the file is replaced as a whole. A checksum detects damage; a damaged file is made again.
"""

from __future__ import annotations

import json
import sys
import threading
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any

import attrs

from pflow_mcp_plugin.contract import PflowError, Sketch
from pflow_mcp_plugin.host.matching.sentence_model import SETTING, SentenceModel, find_model
from pflow_mcp_plugin.host.matching.task_words import clause_texts, split_name
from pflow_mcp_plugin.host.registry.discovery import Found, discover
from pflow_mcp_plugin.host.registry.node_index import Index, NodeRow
from pflow_mcp_plugin.host.shared_parts import shared_part
from pflow_mcp_plugin.host.standard_streams import is_terminal, write
from pflow_mcp_plugin.storage import StoreError, read_bytes, write_atomic

_MAGIC = b"pflow embeddings 1\n"
"""How a file begins; change it with what the file holds and with `embedded_text`."""
_MOST = 20_000
"""The most nodes that have an embedding; the words find the others."""
_BATCH = 32
"""How many texts are embedded before a new interruption is noticed."""
BY_BOTH = "words and embeddings"
"""What ranked the nodes, if both did."""
# The numbers by which search by words and by meaning are fused; tuned with `benchmarks/discover.py`.
_WEIGHT = 0.8  # of the order by meaning, relative to that by words
_FLATNESS = 12  # how little a place counts: the higher, the less the first differ from those after
_BY_WORDS = 15  # how many of the nodes that the words find take part
_SIMILAR = 30  # how many of those with a similar meaning take part
_TASK = 0.3  # the weight of closeness to the whole task, relative to closeness to the clause
_FAMILY = 0.25  # the weight of the closeness of its family's best nodes, relative to its own
_LEAST = 0.1  # the least closeness, from 0 to 1, to the task or to a clause


@attrs.frozen(kw_only=True, eq=False)
class Embeddings:
    """The embeddings of the nodes of an index: for each a row of numbers, and the hash of its text.

    `model` is the identity of the model that made them. `fingerprint` is that of the index, empty if some are
    missing.
    """

    model: str
    fingerprint: str
    texts: Mapping[str, str]
    rows: Any


def embedded_text(sketch: Sketch) -> str:
    """Return the text to embed for a node: where it comes from, its name, what it does, its parameters."""
    family, name = split_name(sketch.family), split_name(sketch.local_name or sketch.node)
    params = ", ".join(map(split_name, sketch.params))
    return f"{family} {name}: {sketch.description} {params}"


def _gathered(
    model: SentenceModel, fingerprint: str, hashes: Mapping[str, str], rows: Mapping[str, Any]
) -> Embeddings:
    """Return the embeddings of all nodes that have a row; rows of texts that are gone are left out."""
    import numpy as np

    texts = {node: key for node, key in hashes.items() if key in rows}
    held = [rows[key] for key in texts.values()]
    matrix = np.array(held, dtype=np.float32) if held else np.zeros((0, 1), dtype=np.float32)
    return Embeddings(model=model.identity, fingerprint=fingerprint, texts=texts, rows=matrix)


def _keep(path: Path, made: Embeddings) -> None:
    """Write the embeddings: a checksum of what follows, a line of JSON, and the numbers in half precision."""
    about = {
        "model": made.model,
        "fingerprint": made.fingerprint,
        "shape": made.rows.shape,
        "texts": dict(made.texts),
    }
    numbers: bytes = made.rows.astype("<f2").tobytes()
    content = json.dumps(about).encode() + b"\n" + numbers
    with suppress(StoreError):
        write_atomic(path, _MAGIC + b"%08x\n" % zlib.crc32(content) + content)


def _read(path: Path, model: str) -> Embeddings | None:
    """Read kept embeddings; None if there are none, if they are damaged, or made by another model."""
    import numpy as np

    try:
        data = read_bytes(path) or b""
    except StoreError:
        return None
    start = len(_MAGIC) + 9
    if not data.startswith(_MAGIC) or data[len(_MAGIC) : start] != b"%08x\n" % zlib.crc32(data[start:]):
        return None
    line = data.index(b"\n", start)
    about = json.loads(data[start:line])
    if about["model"] != model:
        return None
    rows = np.frombuffer(data, dtype="<f2", offset=line + 1).astype(np.float32).reshape(about["shape"])
    return Embeddings(model=model, fingerprint=about["fingerprint"], texts=about["texts"], rows=rows)


@attrs.define(eq=False, repr=False, slots=False)
class SemanticSearch:
    """Searches nodes by meaning, and keeps the sentence model and the embeddings for the next task."""

    _folder: Path
    _setting: Callable[[str], str | None]
    _drawn: Callable[[], tuple[list[Sketch], bool]]
    _making: threading.Lock = attrs.field(init=False, factory=threading.Lock)
    _embeddings: Embeddings | None = attrs.field(init=False, default=None)

    @shared_part
    def model(self) -> SentenceModel | None:
        return find_model(self._setting)

    def refresh(self, index: Index) -> None:
        if self.model is not None:
            self._current(self.model, index)

    def discover(self, index: Index, task: str, limit: int) -> Found:
        note = ""
        try:
            if self.model is not None:
                named = discover(index, task, max(limit, _BY_WORDS))
                rows = self._fused(self.model, index, task, named)[:limit]
                return Found(rows=rows, ranked_by=BY_BOTH, wordless="similar in meaning", by_words=named)
        except PflowError as error:
            note = error.message
        return Found(rows=discover(index, task, limit), note=note)

    def _fused(
        self, model: SentenceModel, index: Index, task: str, named: Sequence[NodeRow]
    ) -> list[NodeRow]:
        embeddings = self._current(model, index)
        numbers = index.numbers()
        by_words = {numbers[row.node]: row for row in named}
        alike = _similar(model, index, embeddings, task)
        # A node's score comes from its places in the two orders.
        scores: dict[int, float] = {}
        for order, weight in (([*by_words], 1.0), (alike, _WEIGHT)):
            for place, number in enumerate(order, start=1):
                scores[number] = scores.get(number, 0.0) + weight / (_FLATNESS + place)
        rows = {**index.rows_of(alike), **by_words}
        best = sorted(scores, key=lambda number: -scores[number])
        return [rows[number]._replace(score=scores[number]) for number in best]

    def _current(self, model: SentenceModel, index: Index) -> Embeddings:
        with self._making:
            if self._embeddings is None or self._embeddings.fingerprint != index.fingerprint:
                self._embeddings = self._made(model, index.fingerprint)
            return self._embeddings

    def _made(self, model: SentenceModel, fingerprint: str) -> Embeddings:
        """Return the embeddings of the nodes in an index; embed missing ones, and keep them."""
        path = self._folder / "embeddings.bin"
        kept = _read(path, model.identity)
        if kept and kept.fingerprint == fingerprint:
            return kept
        sketches, complete = self._drawn()
        texts = {sketch.node: embedded_text(sketch) for sketch in sketches[:_MOST]}
        hashes = {
            node: sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
            for node, text in texts.items()
        }
        rows = dict(zip(kept.texts.values(), kept.rows, strict=True)) if kept else {}
        missing = {hashes[node]: text for node, text in texts.items() if hashes[node] not in rows}
        if missing and is_terminal(sys.stderr):
            what = f"{len(missing)} new or changed nodes for discovery"
            write(sys.stderr, f"Embedding {what} (not with {SETTING}=off)")
        try:
            pending = iter(missing.items())
            while batch := dict(islice(pending, _BATCH)):
                rows.update(zip(batch, model.embed([*batch.values()]), strict=True))
        except BaseException:  # finished ones are not embedded again
            _keep(path, _gathered(model, "", hashes, rows))
            raise
        made = _gathered(model, fingerprint, hashes, rows)
        if complete:
            _keep(path, made)
        return made


def _similar(model: SentenceModel, index: Index, embeddings: Embeddings, task: str) -> list[int]:
    """Return the numbers of the nodes closest in meaning to a clause of the task, each clause in turn."""
    import numpy as np

    parts = clause_texts(task)
    if not parts or not embeddings.texts:
        return []
    queries = model.embed([task, *parts] if len(parts) > 1 else [task])
    numbers, families = index.numbers(), index.families()
    places = [place for place, node in enumerate(embeddings.texts) if node in numbers]
    known = [numbers[node] for node in embeddings.texts if node in numbers]
    close = queries @ embeddings.rows[places].T
    needs = close[1:] + _TASK * close[0] if len(parts) > 1 else close
    kin: dict[str, list[int]] = {}
    for place, number in enumerate(known):
        kin.setdefault(families[number], []).append(place)
    near = close.max(axis=0) >= _LEAST
    orders = []
    for need in needs:
        score = need.copy()
        for family in kin.values():  # the mean of the best three
            score[family] += _FAMILY * np.sort(need[family])[-3:].mean()
        best = np.argsort(-score, kind="stable")[:_SIMILAR]
        orders.append([known[place] for place in best if near[place]])
    in_turn = (number for number in chain(*zip_longest(*orders)) if number is not None)
    return list(islice(dict.fromkeys(in_turn), _SIMILAR))
