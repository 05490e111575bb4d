"""The search index: derived, disposable, never modified.

One SQLite file with what lists show of every entry, and an FTS5 table over names, descriptions and
parameters; it is named by the fingerprint of all sources. It is built in memory, and written to the
cache folder as a whole; where that cannot be written, the one in memory serves.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pflow_mcp_plugin.contract import Entry
from pflow_mcp_plugin.storage import StoreError, write_atomic

if TYPE_CHECKING:
    from sqlite3 import Connection

_SCHEMA = """
CREATE TABLE about (fingerprint TEXT);
CREATE TABLE node (id INTEGER PRIMARY KEY, node TEXT, source TEXT, description TEXT, labels TEXT);
CREATE VIRTUAL TABLE words USING fts5 (name, description, params, content='', tokenize='porter unicode61');
"""
_LAYOUT = "1"
"""Part of every fingerprint; changes with `_SCHEMA` and with what is indexed."""
_ROWS = """
SELECT node, source, description, labels FROM node WHERE instr(lower(node), lower(?)) ORDER BY node
"""
_SEARCH = """
SELECT node, source, node.description, labels, -bm25(words, 8.0, 3.0, 1.0) AS score
FROM words JOIN node ON node.id = words.rowid WHERE words MATCH ? ORDER BY score DESC, node LIMIT ?
"""
_INSERT_NODE = "INSERT INTO node VALUES (?, ?, ?, ?, ?)"
_INSERT_WORDS = "INSERT INTO words (rowid, name, description, params) VALUES (?, ?, ?, ?)"
_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[-_]")


class Row(NamedTuple):
    """What a list shows of an entry.

    Attributes:
        node: The node type.
        source: The source that answers for it.
        description: What it does.
        labels: What the source wants shown beside it (`labels` among an entry's extra keys).
        score: How well it fits a search, higher is better; 0 in a list.
    """

    node: str
    source: str
    description: str
    labels: dict[str, Any]
    score: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form, labels among the rest."""
        score = {"score": round(self.score, 6)} if self.score else {}
        return {
            "node": self.node,
            **score,
            **self.labels,
            "source": self.source,
            "description": self.description,
        }


class Index:
    """An open index.

    Args:
        connection: The database.
        fingerprint: That of the sources it was built from.
    """

    def __init__(self, connection: Connection, fingerprint: str) -> None:
        self._connection = connection
        self._fingerprint = fingerprint

    def fits(self, fingerprint: str) -> bool:
        """Whether the index was built from sources with this fingerprint."""
        return self._fingerprint == _whole(fingerprint)

    def close(self) -> None:
        """Close the database."""
        self._connection.close()

    def rows(self, pattern: str = "") -> list[Row]:
        """Return what a list shows, by name; of names that contain `pattern` if one is given."""
        found = self._connection.execute(_ROWS, (_storable(pattern),))
        return [_row(*values) for values in found]

    def names(self) -> list[str]:
        """Return every node type, sorted."""
        return [name for (name,) in self._connection.execute("SELECT node FROM node ORDER BY node")]

    def search(self, words: str, limit: int) -> list[Row]:
        """Return what fits the words, best first (BM25)."""
        query = _query(words)
        if not query:
            return []
        found = self._connection.execute(_SEARCH, (query, limit))
        return [_row(*values) for values in found]


def open_index(folder: Path, fingerprint: str, entries: Callable[[], Iterable[Entry]]) -> Index:
    """Open the index of these sources; build it if there is none or it is damaged.

    Args:
        folder: The cache folder.
        fingerprint: Changes when any entry does.
        entries: Yields every entry, when the index has to be built.
    """
    fingerprint = _whole(fingerprint)
    path = folder / f"nodes-{zlib.crc32(fingerprint.encode()):08x}.sqlite"
    return _open(path, fingerprint) or _build(path, fingerprint, entries())


def _whole(fingerprint: str) -> str:
    return f"{_LAYOUT}\n{fingerprint}"


def _open(path: Path, fingerprint: str) -> Index | None:
    import sqlite3

    if not path.exists():
        return None
    connection = None
    try:
        connection = sqlite3.connect(
            f"{path.as_uri()}?mode=ro&immutable=1", uri=True, check_same_thread=False
        )
        (found,) = connection.execute("SELECT fingerprint FROM about").fetchone()
    except sqlite3.DatabaseError:  # damaged, or swept since: it is built anew
        found = None
    if connection and found != fingerprint:
        connection.close()
    return Index(connection, fingerprint) if connection and found == fingerprint else None


def _build(path: Path, fingerprint: str, entries: Iterable[Entry]) -> Index:
    import sqlite3

    connection = sqlite3.connect(":memory:", check_same_thread=False)
    connection.executescript(_SCHEMA)
    connection.execute("INSERT INTO about VALUES (?)", (fingerprint,))
    for number, entry in enumerate(entries):
        _insert(connection, number, entry)
    connection.commit()
    with suppress(StoreError):
        write_atomic(path, connection.serialize())
        _sweep(path)
    return Index(connection, fingerprint)


def _insert(connection: Connection, number: int, entry: Entry) -> None:
    labels = entry.extra.get("labels")
    shown = json.dumps(labels) if isinstance(labels, dict) else ""
    description = _storable(entry.description)
    connection.execute(_INSERT_NODE, (number, _storable(entry.node), entry.source, description, shown))
    keys = _split(" ".join(field.key for field in entry.interface.params))
    params = " ".join([keys, *(field.description for field in entry.interface.params)])
    words = (number, _storable(_split(entry.node)), description, _storable(params))
    connection.execute(_INSERT_WORDS, words)


def _sweep(current: Path) -> None:
    for path in current.parent.glob("nodes-*.sqlite"):
        if path != current:
            with suppress(OSError):  # another process may hold it open, or have swept it
                path.unlink()


def _storable(text: str) -> str:
    """Return a text without lone surrogates, which JSON may hold and SQLite refuses."""
    return text.encode("utf-8", "replace").decode()


def _split(name: str) -> str:
    """Return a name as words: `createIssue`, `create-issue` and `create_issue` are two each."""
    return _BOUNDARY.sub(" ", name)


def _query(words: str) -> str:
    """Return an FTS5 query for any of the words, or words that begin with them."""
    found = re.findall(r"\w+", _split(words))
    return " OR ".join(f'"{word}"*' if len(word) > 2 else f'"{word}"' for word in found)


def _row(node: str, source: str, description: str, labels: str, score: float = 0.0) -> Row:
    return Row(
        node=node,
        source=source,
        description=description,
        labels=json.loads(labels) if labels else {},
        score=score,
    )
