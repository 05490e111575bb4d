"""Results of nodes that are kept for later runs, each in a file of its own in a private folder.

A file is replaced as a whole, so readers need no lock. It begins with the SHA-256 of the rest, which is
JSON; a file that is truncated, changed or owned by another user is removed and counts as missing. Nothing
there is ever executed, and no symbolic link is followed. When the files exceed the limit, the oldest are
removed first, under a lock.
"""

from __future__ import annotations

import json
import os
import re
import stat
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

import attrs

from pflow_mcp_plugin.contract import PflowError, Problem
from pflow_mcp_plugin.contract.json_types import JSONObject
from pflow_mcp_plugin.contract.problems import advice
from pflow_mcp_plugin.host.workflow.constructs import LONGEST_TTL
from pflow_mcp_plugin.storage import StoreError, locked, make_folder, read_regular, write_atomic

SETTING = "cache_limit_mb"
"""The setting with the megabytes that all results may take; 0 keeps none."""
VARIABLE = "PFLOW_CACHE_LIMIT_MB"
"""The environment variable that takes precedence over the setting."""
LIMIT_MB = 256.0
LARGEST = 16 << 20
"""Bytes of the largest result that is kept."""
_BLOCK = 4_096
"""Bytes that even the smallest file takes."""
_SHARE = 16
"""A process measures all files each time it has written one part in so many of the limit."""
_DIGEST = 64
_SHARD = re.compile("[0-9a-f]{2}")
_NAME = re.compile(r"[0-9a-f]{62}\.json")


@attrs.frozen(kw_only=True)
class KeptResult:
    """A result in the cache; it was `made`, so kept, in seconds since the epoch."""

    made: float
    action: str
    outputs: JSONObject


@attrs.frozen(kw_only=True)
class Usage:
    """What a result cache takes: the number of results, their bytes on disk, when the oldest was kept."""

    entries: int = 0
    size: int = 0
    oldest: float | None = None

    @classmethod
    def of(cls, files: Sequence[_File]) -> Self:
        """Return what some results take."""
        oldest = min((file.made for file in files), default=None)
        return cls(entries=len(files), size=sum(file.size for file in files), oldest=oldest)


@attrs.frozen(order=True)
class _File:
    made: float
    path: Path = attrs.field(order=False)
    size: int = attrs.field(order=False)


class ResultCache:
    """The result cache of one user; any number of threads and processes may use it at once.

    Its folder is created when the first result is kept; the `limit` is in bytes.
    """

    def __init__(self, folder: Path, limit: int) -> None:
        self.folder = folder
        self.limit = limit
        self._lock = threading.Lock()
        self._unseen = limit  # so that the first `put` measures

    def get(self, key: str, ttl: float) -> KeptResult | None:
        """Return the cached result of a key, None if none is valid and younger than `ttl` seconds."""
        path = self._path(key)
        result = None
        try:
            for folder in (self.folder, path.parent):
                _require_own(folder)
            status = path.lstat()
            if stat.S_ISREG(status.st_mode) and _is_ours(status):
                result = _parsed(read_regular(path, 2 * LARGEST), key)
        except (OSError, StoreError):
            return None
        if result is None:
            _remove(path)
            return None
        # After the clock was set back, the age of a result is unknown.
        return result if 0 <= time.time() - result.made < ttl else None

    def put(self, key: str, action: str, outputs: bytes) -> None:
        """Keep a result in the cache; `outputs` are the JSON text of an object.

        If it cannot be kept, a StoreError says so, and what was kept before is unchanged.
        """
        head = json.dumps({"key": key, "made": time.time(), "action": action})[:-1]
        body = head.encode() + b', "outputs": ' + outputs + b"}\n"
        content = sha256(body).hexdigest().encode() + b"\n" + body
        path = self._path(key)
        for folder in (self.folder, path.parent):
            make_folder(folder)
            _require_own(folder)
        with suppress(OSError):
            if path.is_symlink():
                path.unlink()
        write_atomic(path, content, durable=False)
        with self._lock:
            self._unseen += _occupied(len(content))
            due = self._unseen >= self.limit // _SHARE
            if due:
                self._unseen = 0
        if due:
            self._prune()

    def remove(self, key: str) -> None:
        """Remove a result from the cache, if it is there."""
        _remove(self._path(key))

    def usage(self) -> Usage:
        """Return what the cache takes now."""
        return Usage.of(list(self._files()))

    def clear(self, older_than: float = 0.0) -> Usage:
        """Remove the cached results that are older than some seconds, and return what they took.

        If some could not be removed, a StoreError says so.
        """
        before = time.time() - older_than
        # Without an age everything goes, also what a clock that was ahead has kept.
        old = [file for file in self._files() if not older_than or file.made < before]
        gone = [file for file in old if _remove(file.path)]
        # What another process has removed meanwhile is no failure.
        left = [] if len(gone) == len(old) else [file.path for file in old if os.path.lexists(file.path)]
        if left:
            raise StoreError(
                left[0], f"could not be removed ({len(left):,} of {len(old):,} results are still there)"
            )
        return Usage.of(gone)

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key[2:]}.json"

    def _files(self) -> Iterator[_File]:
        for shard in _listed(self.folder):
            for item in _listed(Path(shard.path)) if _SHARD.fullmatch(shard.name) else ():
                if _NAME.fullmatch(item.name):
                    with suppress(OSError):
                        status = item.stat(follow_symlinks=False)
                        yield _File(status.st_mtime, Path(item.path), _occupied(status.st_size))

    def _prune(self) -> None:
        """Remove results that are too old to be used, and the oldest ones while all exceed the limit."""
        outdated = time.time() - LONGEST_TTL
        now = self.usage()
        if now.size <= self.limit and (now.oldest is None or now.oldest > outdated):
            return
        with locked(self.folder / "limit"):
            files = sorted(self._files())
            size = sum(file.size for file in files)
            for file in files:
                if size <= self.limit * (_SHARE - 2) // _SHARE and file.made > outdated:
                    break
                _remove(file.path)
                size -= file.size


def open_cache(
    cache: Path, setting: Callable[[str], str | None], report: Callable[[Problem], None]
) -> ResultCache:
    """Return the result cache in the `cache` folder of a host; `report` is told of an invalid limit."""
    try:
        megabytes = float(os.environ.get(VARIABLE) or setting(SETTING) or LIMIT_MB)
    except (ValueError, PflowError):
        megabytes = -1.0
    if not 0 <= megabytes < 1 << 40:
        message = f"{SETTING} must be a number of megabytes, so its default of {LIMIT_MB:g} is used"
        report(advice("", message))
        megabytes = LIMIT_MB
    return ResultCache(cache / "results", int(megabytes * (1 << 20)))


def _parsed(content: bytes, key: str) -> KeptResult | None:
    """Return the result in a file; None if the file is damaged or belongs to another key."""
    digest, body = content[:_DIGEST], content[_DIGEST + 1 :]
    if sha256(body).hexdigest().encode() != digest:
        return None
    try:
        data: Any = json.loads(body)
        result = KeptResult(made=float(data["made"]), action=data["action"], outputs=data["outputs"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    fits = isinstance(result.action, str) and isinstance(result.outputs, dict) and data["key"] == key
    return result if fits else None


def _require_own(folder: Path) -> None:
    """Raise StoreError if a folder is a link or others could fill it, OSError if it cannot be read."""
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise StoreError(folder, "it is a link or no folder, so no results are kept there")
    if not _is_ours(status) or (os.name != "nt" and status.st_mode & 0o022):
        raise StoreError(
            folder,
            "other users can write to it, so no results are kept there",
            suggestion=f"Remove it, or run: chmod 700 {folder}",
        )


def _is_ours(status: os.stat_result) -> bool:
    return os.name == "nt" or status.st_uid == os.geteuid()


def _listed(folder: Path) -> list[os.DirEntry[str]]:
    """Return what is in a folder of the user; nothing for a folder that others could fill."""
    try:
        _require_own(folder)
        with os.scandir(folder) as found:
            return list(found)
    except (OSError, StoreError):
        return []


def _occupied(size: int) -> int:
    return -(-size // _BLOCK) * _BLOCK


def _remove(path: Path) -> bool:
    try:
        path.unlink()
    except OSError:  # a folder in its place, or gone
        return False
    return True
