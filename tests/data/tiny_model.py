"""A sentence model of some hundred bytes, in ONNX: a table with a row of numbers for each word.

Written byte by byte, because the library that writes ONNX is not needed for anything else.
"""

import struct
from collections.abc import Iterable, Sequence
from pathlib import Path

_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_FLOAT, _INT64 = 1, 7


def write_model(folder: Path, meanings: Iterable[Sequence[str]]) -> Path:
    """Write `model.onnx` and `vocab.txt`; return the folder.

    Args:
        folder: Where to; created if it is missing.
        meanings: The words of each meaning, which the model cannot tell apart.
    """
    folder.mkdir(parents=True, exist_ok=True)
    groups = [tuple(words) for words in meanings]
    words = [*_SPECIAL, *(word for group in groups for word in group)]
    size = len(groups) + 1  # the last number belongs to no meaning
    rows = [[0.01 * (place == size - 1) for place in range(size)] for _ in _SPECIAL]
    rows += [
        [float(place == number) for place in range(size)]
        for number, group in enumerate(groups)
        for _ in group
    ]
    (folder / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    (folder / "model.onnx").write_bytes(_model(rows))
    return folder


def _model(rows: Sequence[Sequence[float]]) -> bytes:
    """Return the model that looks up each token's row: a graph of one node, `Gather`."""
    table = b"".join(struct.pack("<f", number) for row in rows for number in row)
    tensor = b"".join(
        [
            _number(1, len(rows)),
            _number(1, len(rows[0])),
            _number(2, _FLOAT),
            _bytes(8, b"table"),
            _bytes(9, table),
        ]
    )
    node = _bytes(1, b"table") + _bytes(1, b"input_ids") + _bytes(2, b"rows") + _bytes(4, b"Gather")
    graph = b"".join(
        [
            _bytes(1, node),
            _bytes(2, b"tiny"),
            _bytes(5, tensor),
            _bytes(11, _value(b"input_ids", _INT64, [b"one", b"tokens"])),
            _bytes(12, _value(b"rows", _FLOAT, [b"one", b"tokens", b"numbers"])),
        ]
    )
    return _number(1, 8) + _bytes(7, graph) + _bytes(8, _bytes(1, b"") + _number(2, 13))


def _value(name: bytes, kind: int, dimensions: Iterable[bytes]) -> bytes:
    shape = b"".join(_bytes(1, _bytes(2, dimension)) for dimension in dimensions)
    return _bytes(1, name) + _bytes(2, _bytes(1, _number(1, kind) + _bytes(2, shape)))


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    """Return a number as protobuf writes it: seven bits a byte, the lowest first."""
    more, low = value >> 7, value & 0x7F
    return bytes([low | 0x80]) + _varint(more) if more else bytes([low])
