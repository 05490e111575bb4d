"""The embeddings of all nodes: derived and disposable, like the search index, and kept beside it.

One file holds a row of numbers for each node of the index, with a hash of the text that was embedded. Who
finds the file made for another index takes over the rows of all texts that are still there, embeds the
others and replaces the file as a whole. Damage is noticed by a checksum; such a file is made anew.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any

import attrs

from pflow_mcp_plugin.contract import Sketch
from pflow_mcp_plugin.host.matching.name_parts import split_name
from pflow_mcp_plugin.host.matching.sentence_model import SentenceModel
from pflow_mcp_plugin.storage import StoreError, read_bytes, write_atomic

_MAGIC = b"pflow embeddings 1\n"
"""How a file begins; change it with what the file holds and with `embedded_text`."""
_MOST = 20_000
"""The most nodes that have an embedding; the words find the others."""
_BATCH = 32
"""How many texts are embedded before a new interruption is noticed."""


@attrs.frozen(kw_only=True, eq=False)
class Embeddings:
    """The embeddings of the nodes of an index.

    Attributes:
        model: The identity of the model that made them.
        fingerprint: The index they were made for; empty if some are missing.
        texts: The hash of each node's text, by node type.
        rows: A row of numbers for each node, in the same order.
    """

    model: str
    fingerprint: str
    texts: Mapping[str, str]
    rows: Any


def embedded_text(sketch: Sketch) -> str:
    """Return the text that stands for a node: where it comes from, its name, what it does, its parameters."""
    family, name = split_name(sketch.family), split_name(sketch.local_name or sketch.node)
    params = ", ".join(map(split_name, sketch.params))
    return f"{family} {name}: {sketch.description} {params}"


def current(
    path: Path,
    model: SentenceModel,
    fingerprint: str,
    drawn: Callable[[], tuple[list[Sketch], bool]],
    announce: Callable[[int], None],
) -> Embeddings:
    """Return the embeddings for an index; make those that are missing, and keep them.

    Args:
        path: The file that keeps them.
        model: Makes them.
        fingerprint: That of the index.
        drawn: Returns a sketch of every node, and whether none is missing; called if the file was made
            for another index.
        announce: Called with how many texts are embedded, before any is.

    Raises:
        PflowError: The model cannot be used.
    """
    kept = _read(path, model.identity)
    if kept and kept.fingerprint == fingerprint:
        return kept
    sketches, complete = drawn()
    texts = {sketch.node: embedded_text(sketch) for sketch in sketches[:_MOST]}
    hashes = {node: _hash(text) for node, text in texts.items()}
    rows = dict(zip(kept.texts.values(), kept.rows, strict=True)) if kept else {}
    missing = {hashes[node]: text for node, text in texts.items() if hashes[node] not in rows}
    if missing:
        announce(len(missing))
    try:
        _embed(model, missing, rows)
    except BaseException:  # what was done is not done again
        _keep(path, _gathered(model, "", hashes, rows))
        raise
    made = _gathered(model, fingerprint, hashes, rows)
    if complete:
        _keep(path, made)
    return made


def _embed(model: SentenceModel, texts: Mapping[str, str], rows: dict[str, Any]) -> None:
    pending = iter(texts.items())
    while batch := dict(islice(pending, _BATCH)):
        rows.update(zip(batch, model.embed([*batch.values()]), strict=True))


def _gathered(
    model: SentenceModel, fingerprint: str, hashes: Mapping[str, str], rows: Mapping[str, Any]
) -> Embeddings:
    """Return the embeddings of all nodes that have a row; rows of other texts are left out."""
    import numpy as np

    texts = {node: key for node, key in hashes.items() if key in rows}
    held = [rows[key] for key in texts.values()]
    matrix = np.array(held, dtype=np.float32) if held else np.zeros((0, 1), dtype=np.float32)
    return Embeddings(model=model.identity, fingerprint=fingerprint, texts=texts, rows=matrix)


def _keep(path: Path, made: Embeddings) -> None:
    with suppress(StoreError):
        write_atomic(path, _encoded(made))


def _hash(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _encoded(made: Embeddings) -> bytes:
    """Return the file: a checksum of what follows, a line of JSON, and the numbers with half precision."""
    about = {
        "model": made.model,
        "fingerprint": made.fingerprint,
        "shape": made.rows.shape,
        "texts": dict(made.texts),
    }
    numbers: bytes = made.rows.astype("<f2").tobytes()
    content = json.dumps(about).encode() + b"\n" + numbers
    return _MAGIC + b"%08x\n" % zlib.crc32(content) + content


def _read(path: Path, model: str) -> Embeddings | None:
    """Return what a file keeps; None if there is none, if it is damaged, or made by another model."""
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
