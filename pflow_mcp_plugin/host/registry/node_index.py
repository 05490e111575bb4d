"""The search index of all nodes: derived, disposable, never modified.

One SQLite file holds what lists show of every entry, and an FTS5 table over names, families (where a
node comes from), descriptions and parameters; it is named after the fingerprint of all sources. It is
built in memory and written to the cache folder as a whole; if that cannot be written, the index in
memory is used.
"""

from __future__ import annotations

import json
import re
import threading
import zlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pflow_mcp_plugin.storage import StoreError, require_own, write_atomic

if TYPE_CHECKING:
    from sqlite3 import Connection

    from pflow_mcp_plugin.contract import Sketch
    from pflow_mcp_plugin.contract.json_types import JSON

# `words` has no content of its own: what is shown is read from `node`. It keeps FTS5's full `detail`, which
# bm25 needs.
_SCHEMA = """
CREATE TABLE about (fingerprint TEXT);
CREATE TABLE node (
    id INTEGER PRIMARY KEY, node TEXT, source TEXT, family TEXT, description TEXT, labels TEXT
);
CREATE VIRTUAL TABLE words USING fts5 (
    node, name, family, description, params, content='', tokenize='porter unicode61'
);
"""
_LAYOUT = "2"
"""Part of every fingerprint; change it with `_SCHEMA` and with what is indexed."""
_ROWS = """
SELECT node, source, description, labels FROM node WHERE instr(lower(node), lower(?)) ORDER BY node
"""
_BEGINNING = "SELECT node, description FROM node WHERE node >= ? AND node < ? ORDER BY node"
# SQLite's bm25 is lower for better matches. A match of the family scores in `discover` only.
_SEARCH = """
SELECT node.node, source, node.description, labels, -bm25(words, 8.0, 4.0, 0.0, 3.0, 1.0) AS score
FROM words JOIN node ON node.id = words.rowid WHERE words MATCH ? ORDER BY score DESC, node.node LIMIT ?
"""
_MATCHES = "SELECT rowid, -bm25(words, ?, ?, ?, ?, ?) FROM words WHERE words MATCH ?"
_COUNT = "SELECT count(*) FROM words WHERE words MATCH ?"
_MANY = 1_000
"""From this many nodes on, `matches` ignores words that are too common."""
_AS_JSON = json.JSONEncoder(default=str).encode
_INSERT_NODE = "INSERT INTO node VALUES (?, ?, ?, ?, ?, ?)"
_INSERT_WORDS = "INSERT INTO words (rowid, node, name, family, description, params) VALUES (?, ?, ?, ?, ?, ?)"
# FTS5's unicode61 takes a run of such characters as one word.
_IDEOGRAPH = r"(?=[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff])|(?<=[\u3040-\u30ff\u3400-\u9fff])"


class Columns(NamedTuple):
    """The weights of a match in each column of the node index."""

    node: float  # the node type
    name: float  # the local name, else the node type
    family: float  # the family, else the source
    description: float
    params: float  # names and descriptions


class NodeRow(NamedTuple):
    """A row of the node index: an entry as lists show it; a higher score is a better match."""

    node: str
    source: str
    description: str
    labels: dict[str, JSON]
    score: float = 0.0

    def to_dict(self) -> dict[str, JSON]:
        score = {"score": round(self.score, 6)} if self.score else {}
        return {
            "node": self.node,
            **score,
            **self.labels,
            "source": self.source,
            "description": self.description,
        }


class Index:
    """An open node index, which any number of threads may read at once; closed with its last reader.

    Two with the same fingerprint have the same entries.
    """

    def __init__(self, connection: Connection, fingerprint: str) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self.fingerprint = fingerprint

    def __del__(self) -> None:
        self._connection.close()

    def fits(self, fingerprint: str) -> bool:
        return self.fingerprint == _whole(fingerprint)

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def _fetched(self, query: str, values: Sequence[object] = ()) -> list[Any]:
        """Return all rows of the node index that a query finds.

        One query at a time: a connection has each statement once, and from Python 3.12 on, threads that run
        the same statement get rows of each other's search.
        """
        with self._lock:
            return self._connection.execute(query, values).fetchall()

    def rows(self, pattern: str = "") -> list[NodeRow]:
        return [_row(*values) for values in self._fetched(_ROWS, (_storable(pattern),))]

    def beginning(self, prefix: str) -> list[tuple[str, str]]:
        start = _storable(prefix)
        return self._fetched(_BEGINNING, (start, f"{start}\U0010ffff"))

    def names(self) -> list[str]:
        return [name for (name,) in self._fetched("SELECT node FROM node ORDER BY node")]

    def search(self, words: str, limit: int) -> list[NodeRow]:
        query = _query(words)
        if not query:
            return []
        return [_row(*values) for values in self._fetched(_SEARCH, (query, limit))]

    def count(self, words: str) -> int:
        query = _query(words)
        return int(self._fetched(_COUNT, (query,))[0][0]) if query else 0

    def matches(self, word: str, columns: Columns) -> dict[int, float]:
        """Return how well rows of the index match one word (BM25), by their number; higher is better.

        Among many nodes, a word that more than a third of them have is ignored.
        """
        if self.size() >= _MANY and self.frequency(word) > self.size() / 3:
            return {}
        query = " ".join(f'"{part}"' for part in _words(word))
        return dict(self._fetched(_MATCHES, (*columns, query))) if query else {}

    def size(self) -> int:
        return int(self._fetched("SELECT count(*) FROM node")[0][0])

    def frequency(self, word: str) -> int:
        query = " ".join(f'"{part}"' for part in _words(word))
        return int(self._fetched(_COUNT, (query,))[0][0]) if query else 0

    def numbers(self) -> dict[str, int]:
        return dict(self._fetched("SELECT node, id FROM node"))

    def families(self) -> dict[int, str]:
        return dict(self._fetched("SELECT id, family FROM node"))

    def rows_of(self, numbers: Iterable[int]) -> dict[int, NodeRow]:
        wanted = list(numbers)
        marks = ", ".join("?" * len(wanted))
        query = f"SELECT id, node, source, description, labels FROM node WHERE id IN ({marks})"  # noqa: S608 - marks
        return {number: _row(*values) for number, *values in self._fetched(query, wanted)}


def open_index(folder: Path, fingerprint: str, drawn: Callable[[], tuple[Iterable[Sketch], bool]]) -> Index:
    """Open the node index of these sources; build it if it is missing or damaged.

    `fingerprint` changes when any entry does. `drawn` returns a sketch of every entry, and whether none is
    missing: only then the index is written to the cache folder.
    """
    fingerprint = _whole(fingerprint)
    path = folder / f"nodes-{zlib.crc32(fingerprint.encode()):08x}.sqlite"
    return _open(path, fingerprint) or _build(path, fingerprint, drawn)


def _whole(fingerprint: str) -> str:
    return f"{_LAYOUT}\n{fingerprint}".encode(errors="backslashreplace").decode()


def _open(path: Path, fingerprint: str) -> Index | None:
    import sqlite3

    connection = None
    try:
        require_own(path)
        # Immutable: SQLite then takes no locks, which a file that is only ever replaced does not need.
        # In a URI only these characters need quoting; `as_uri` would load `urllib.parse` and `ipaddress`.
        quoted = str(path).replace("%", "%25").replace("?", "%3f").replace("#", "%23")
        uri = f"file:{quoted}?mode=ro&immutable=1"
        connection = sqlite3.connect(uri, uri=True, check_same_thread=False)
        (found,) = connection.execute("SELECT fingerprint FROM about").fetchone()
    except (OSError, StoreError):  # it does not exist yet, or belongs to another user
        return None
    except sqlite3.DatabaseError:  # damaged, or swept since: it is rebuilt
        found = None
    if connection and found != fingerprint:
        connection.close()
    return Index(connection, fingerprint) if connection and found == fingerprint else None


def _build(path: Path, fingerprint: str, drawn: Callable[[], tuple[Iterable[Sketch], bool]]) -> Index:
    import gc
    import sqlite3

    from pflow_mcp_plugin.host.matching.task_words import split_name

    connection = sqlite3.connect(":memory:", check_same_thread=False)
    connection.executescript(_SCHEMA)
    connection.execute("INSERT INTO about VALUES (?)", (fingerprint,))
    # Many short-lived sketches are created, and none is part of a cycle.
    collects = gc.isenabled()
    gc.disable()
    nodes, words = [], []
    try:
        sketches, complete = drawn()
        for number, sketch in enumerate(sketches):
            node, description = _storable(sketch.node), _storable(sketch.description)
            family = _storable(sketch.family or sketch.source)
            labels = _AS_JSON(sketch.labels) if sketch.labels else ""
            nodes.append((number, node, sketch.source, family, description, labels))
            name = split_name(_storable(sketch.local_name or sketch.node))
            params = _storable(" ".join([split_name(" ".join(sketch.params)), *sketch.params.values()]))
            words.append((number, node, name, family, _spaced(description), _spaced(params)))
        connection.executemany(_INSERT_NODE, nodes)
        connection.executemany(_INSERT_WORDS, words)
    finally:
        if collects:
            gc.enable()
    connection.commit()
    if complete:
        with suppress(StoreError):
            write_atomic(path, connection.serialize())
            for older in path.parent.glob("nodes-*.sqlite"):
                if older != path:
                    with suppress(OSError):  # another process may hold it open, or have swept it
                        older.unlink()
    return Index(connection, fingerprint)


def _storable(text: str) -> str:
    """Return text for the node index without lone surrogates, which JSON may contain and SQLite rejects."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _spaced(text: str) -> str:
    """For the index of nodes, put spaces around the characters of scripts that do not separate words."""
    return text if text.isascii() else re.sub(_IDEOGRAPH, " ", text)


def _words(text: str) -> list[str]:
    from pflow_mcp_plugin.host.matching.task_words import split_name  # not needed for lists

    return re.findall(r"\w+", _spaced(split_name(_storable(text))))


def _query(words: str) -> str:
    """Return the FTS5 query for rows with any of these words, or with words that begin with them."""
    return " OR ".join(f'"{word}"*' if len(word) > 2 else f'"{word}"' for word in _words(words))


def _row(node: str, source: str, description: str, labels: str, score: float = 0.0) -> NodeRow:
    return NodeRow(node, source, description, json.loads(labels) if labels else {}, score)
