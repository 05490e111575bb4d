"""Results of nodes that are kept for later runs, in a SQLite file in a private folder.

Beside each result stands its SHA-256: one that was changed is removed and counts as missing, and so does a
file that is damaged, or belongs to another user. Nothing there is ever executed, and no symbolic link is
followed. When the file exceeds the limit, the oldest results are removed first.
"""

from __future__ import annotations

import json
import math
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from hashlib import sha256
from pathlib import Path

import attrs

from pflow_mcp_plugin.contract import PflowError, Problem
from pflow_mcp_plugin.contract.json_types import JSONObject
from pflow_mcp_plugin.contract.problems import advice
from pflow_mcp_plugin.host.workflow.constructs import LONGEST_TTL
from pflow_mcp_plugin.storage import StoreError, make_folder, require_own

SETTING = "cache_limit_mb"
"""The setting with the megabytes that all results may take; 0 keeps none."""
VARIABLE = "PFLOW_CACHE_LIMIT_MB"
"""The environment variable that takes precedence over the setting."""
LIMIT_MB = 256.0
LARGEST = 16 << 20
"""Bytes of the largest result that is kept."""
_SHARE = 8
"""The fraction of the limit freed once it is exceeded, so that not every further result removes some."""
_WAIT = 10.0
"""Seconds to wait for other processes, each of which writes for a moment."""
_TABLES = """
PRAGMA auto_vacuum = FULL; BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS result (key TEXT PRIMARY KEY, made REAL NOT NULL, action TEXT NOT NULL,
  outputs BLOB NOT NULL, digest TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS age ON result (made);
PRAGMA user_version = 1; COMMIT;
"""
_SIZE = """
SELECT (page_count - freelist_count) * page_size
  FROM pragma_page_count, pragma_freelist_count, pragma_page_size
"""
_REMOVE_OLDEST = """
DELETE FROM result WHERE key IN (SELECT key FROM
  (SELECT key, length(outputs) AS size, sum(length(outputs)) OVER (ORDER BY made) AS total FROM result)
  WHERE total - size < ?)
"""
_one_at_a_time = threading.Lock()
"""Closing a descriptor of a file gives up all locks of the process on it, those of SQLite too."""
_Execute = Callable[..., sqlite3.Cursor]


@attrs.frozen(kw_only=True)
class KeptResult:
    """A result in the cache; `made` is when it was kept, in seconds since the epoch."""

    made: float
    action: str
    outputs: JSONObject


@attrs.frozen(kw_only=True)
class Usage:
    """What a result cache takes: the number of results, their bytes on disk, and when the oldest was kept."""

    entries: int = 0
    size: int = 0
    oldest: float | None = None


@attrs.frozen
class ResultCache:
    """The result cache of one user; any number of threads and processes may use it at once.

    Its folder is created when the first result is kept; the `limit` is in bytes.
    """

    folder: Path
    limit: int

    def get(self, key: str, ttl: float) -> KeptResult | None:
        """Return the cached result of a key, None if none is valid and younger than `ttl` seconds."""
        with suppress(StoreError), self._opened() as execute:
            found = execute(
                "SELECT made, action, outputs, digest FROM result WHERE key = ?", (key,)
            ).fetchone()
            if found is None:
                return None
            made, action, outputs, digest = found
            if not isinstance(outputs, bytes) or _digest(key, made, action, outputs) != digest:
                execute("DELETE FROM result WHERE key = ?", (key,))
            # After the clock was set back, the age of a result is unknown.
            elif 0 <= time.time() - made < ttl:
                return KeptResult(made=made, action=action, outputs=json.loads(outputs))
        return None

    def put(self, key: str, action: str, outputs: bytes) -> None:
        """Keep a result in the cache; `outputs` are the JSON text of an object.

        If it cannot be kept, a StoreError says so, and what was kept before is unchanged.
        """
        made = time.time()
        row = (key, made, action, outputs, _digest(key, made, action, outputs))
        with self._opened(create=True) as execute:
            execute("INSERT OR REPLACE INTO result VALUES (?, ?, ?, ?, ?)", row)
            execute("DELETE FROM result WHERE made < ?", (made - LONGEST_TTL,))
            (size,) = execute(_SIZE).fetchone()
            if size > self.limit:
                execute(_REMOVE_OLDEST, (size - self.limit + self.limit // _SHARE,))

    def remove(self, key: str) -> None:
        with suppress(StoreError), self._opened() as execute:
            execute("DELETE FROM result WHERE key = ?", (key,))

    def usage(self) -> Usage:
        try:
            with self._opened() as execute:
                entries, oldest = execute("SELECT count(*), min(made) FROM result").fetchone()
                return Usage(entries=entries, size=execute(_SIZE).fetchone()[0], oldest=oldest)
        except StoreError:
            return Usage()

    def clear(self, older_than: float = 0.0) -> Usage:
        """Remove the cached results that are older than some seconds, and return what they took.

        If they cannot be removed, a StoreError says so.
        """
        # Without an age everything goes, including results kept while the clock was ahead.
        before = (time.time() - older_than if older_than else math.inf,)
        with self._opened(create=True) as execute:
            (size,) = execute(_SIZE).fetchone()
            (oldest,) = execute("SELECT min(made) FROM result WHERE made < ?", before).fetchone()
            entries = execute("DELETE FROM result WHERE made < ?", before).rowcount
            return Usage(entries=entries, size=size - execute(_SIZE).fetchone()[0], oldest=oldest)

    @contextmanager
    def _opened(self, *, create: bool = False) -> Iterator[_Execute]:
        """Open the cache's database for one transaction; yield the function that executes a statement.

        A StoreError says why there is no cache.
        """
        path = self.folder / "results.db"
        flags = os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | (os.O_CREAT if create else 0)
        try:
            if create:
                make_folder(self.folder)
            with _one_at_a_time:
                with open(path, "rb", opener=lambda name, _: os.open(name, flags, 0o600)) as file:
                    require_own(path, file.fileno())
                with closing(sqlite3.connect(path, timeout=_WAIT)) as connection, connection:
                    # A file damaged by a power failure is created again; no secret may remain in free pages.
                    connection.executescript("PRAGMA synchronous = OFF; PRAGMA secure_delete = ON")
                    if connection.execute("PRAGMA user_version").fetchone() == (0,):
                        connection.executescript(_TABLES)
                    yield connection.execute
        except sqlite3.OperationalError as error:
            raise StoreError(path, str(error)) from error
        except sqlite3.DatabaseError as error:
            path.unlink(missing_ok=True)
            raise StoreError(path, f"it was damaged, so it is removed: {error}") from error
        except OSError as error:
            raise StoreError(path, error.strerror or str(error)) from error


def open_cache(
    cache: Path, setting: Callable[[str], str | None], report: Callable[[Problem], None]
) -> ResultCache:
    """Return the result cache in the `cache` folder of a host; `report` is called if its limit is invalid."""
    try:
        megabytes = float(os.environ.get(VARIABLE) or setting(SETTING) or LIMIT_MB)
    except (ValueError, PflowError):
        megabytes = -1.0
    if not 0 <= megabytes < 1 << 40:
        message = f"{SETTING} must be a number of megabytes, so its default of {LIMIT_MB:g} is used"
        report(advice("", message))
        megabytes = LIMIT_MB
    return ResultCache(cache / "results", int(megabytes * (1 << 20)))


def _digest(key: str, made: float, action: str, outputs: bytes) -> str:
    digest = sha256(f"{key} {made} {action} ".encode())
    digest.update(outputs)
    return digest.hexdigest()
