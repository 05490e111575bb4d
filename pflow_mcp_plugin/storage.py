"""Files that survive crashes, full disks and several writers at once.

A change is made under a lock: re-read, change, write to a temporary file in the same folder
(0600), fsync, replace, fsync the folder. Readers take no lock: they see the old file or the new
one, never half of either. A symlinked file is written through to its target.
"""

from __future__ import annotations

import math
import os
import re
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

from pflow_mcp_plugin.contract import Kind, Paths, PflowError, Problem

LOCK_WAIT = 30.0
"""Seconds that a writer waits for the others; no turn is kept, so that one of many may wait long."""

_TEMP_NAME = re.compile(r"\..+\.(?P<pid>\d+)-[0-9a-f]+\.tmp")
_TEMP_AGE = 86_400.0


class CorruptFile(PflowError):
    """A file that does not hold what it should; nothing was written over it.

    Args:
        path: The file.
        reason: What is wrong with it, e.g. the parser's words.
        line: Line of the mistake, from 1; 0 when it has no place.
        column: Column of the mistake, from 1.
    """

    kind: ClassVar[Kind] = "config"

    def __init__(self, path: Path, reason: str, *, line: int = 0, column: int = 0) -> None:
        place = f", line {line}, column {column}" if line else ""
        details: dict[str, object] = {"path": str(path)}
        if line:
            details |= {"line": line, "column": column}
        super().__init__(
            f"{path}{place}: {reason}",
            details=details,
            suggestions=(f"Correct {path}, or move it away to start afresh",),
        )
        self.path = path
        self.reason = reason
        self.line = line
        self.column = column


class StoreError(PflowError):
    """A file could not be read, locked or written; what was there before still is."""

    kind: ClassVar[Kind] = "config"

    def __init__(self, path: Path, reason: str, *, suggestion: str = "") -> None:
        super().__init__(
            f"{path}: {reason}",
            details={"path": str(path)},
            suggestions=(suggestion,) if suggestion else (),
        )
        self.path = path


def default_paths() -> Paths:
    """Return the folders of pflow: below `$PFLOW_HOME` when it is set, else the platform's own."""
    home = os.environ.get("PFLOW_HOME")
    if home:
        root = Path(home).expanduser().absolute()
        return Paths(config=root / "config", data=root / "data", state=root / "state", cache=root / "cache")
    from platformdirs import PlatformDirs

    dirs = PlatformDirs("pflow", appauthor=False)
    return Paths(
        config=dirs.user_config_path,
        data=dirs.user_data_path,
        state=dirs.user_state_path,
        cache=dirs.user_cache_path,
    )


def read_bytes(path: Path) -> bytes | None:
    """Return the content of a file, None when there is none.

    Raises:
        StoreError: It is there, but cannot be read.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(path, f"could not be read: {_reason(error)}") from error


def make_folder(folder: Path) -> None:
    """Make a folder and its missing parents, each readable by its owner only (0700).

    Raises:
        StoreError: The folder cannot be made.
    """
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        for place in reversed(missing):
            place.mkdir(mode=0o700, exist_ok=True)
            place.chmod(0o700)  # a strict umask may have taken the owner's own rights
    except OSError as error:
        raise StoreError(folder, f"the folder could not be made: {_reason(error)}") from error


def write_atomic(path: Path, data: bytes, *, mode: int | None = 0o600) -> None:
    """Replace the content of a file, or leave it as it was.

    Missing folders are made 0700, temporary files of dead writers are swept. A symlink stays one:
    its target is written.

    Args:
        path: The file.
        data: All of its content.
        mode: The permissions it gets; None for those that the umask leaves.

    Raises:
        StoreError: Nothing was changed; the temporary file is gone.
    """
    target = _target(path)
    make_folder(target.parent)
    sweep(target.parent)
    temporary = target.parent / f".{target.name}.{os.getpid()}-{os.urandom(6).hex()}.tmp"
    try:
        _write_synced(temporary, data, mode)
        temporary.replace(target)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        raise StoreError(path, f"could not be written: {_reason(error)}") from error
    _sync_folder(target.parent)


def write_output(path: Path, data: bytes, *, private: bool = False) -> None:
    """Write a file that the user named: an ordinary one as a whole or not at all.

    A device or a pipe is written to as it is, never replaced. A file that was there keeps its
    permissions.

    Args:
        path: The file.
        data: All of its content.
        private: Only the owner may read it.

    Raises:
        StoreError: It could not be written.
    """
    try:
        there = path.stat().st_mode if path.exists() else None
        if there is not None and not stat.S_ISREG(there):
            path.write_bytes(data)
            return
    except OSError as error:
        raise StoreError(path, f"could not be written: {_reason(error)}") from error
    usual = None if there is None else stat.S_IMODE(there)
    write_atomic(path, data, mode=0o600 if private else usual)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep other writers of a file out; the lock is `<path>.lock` beside it.

    It does not nest: a second lock on the same file, also in this thread, waits in vain.

    Raises:
        StoreError: Other writers held the lock for `LOCK_WAIT`, or it cannot be made.
    """
    from filelock import FileLock, Timeout

    target = _target(path)
    make_folder(target.parent)
    lock_file = target.with_name(target.name + ".lock")
    lock = FileLock(lock_file, timeout=LOCK_WAIT, mode=0o600)
    try:
        lock.acquire(poll_interval=0.01)
    except Timeout as error:
        reason = f"another process kept it locked for {LOCK_WAIT:.0f} seconds"
        raise StoreError(path, reason, suggestion=f"See which process uses {lock_file}") from error
    except OSError as error:
        raise StoreError(path, f"could not be locked: {_reason(error)}") from error
    try:
        yield
    finally:
        lock.release()


def sweep(folder: Path) -> None:
    """Remove temporary files that writers which are no more left in a folder."""
    with suppress(OSError), os.scandir(folder) as found:
        for item in found:
            match = _TEMP_NAME.fullmatch(item.name)
            if match and _is_left_over(item, int(match["pid"])):
                with suppress(OSError):
                    Path(item.path).unlink()


class JsonStore:
    """A JSON object in a file, changed under a lock.

    Args:
        path: The file.
        schema_version: What this program writes; a file of a newer version is refused.
        what: What the file holds, for messages: "settings", "registry".
        rebuildable: A corrupt file is moved aside and started afresh instead of refused.
        report: Told about a file that was moved aside.
    """

    def __init__(
        self,
        *,
        path: Path,
        schema_version: int,
        what: str,
        rebuildable: bool = False,
        report: Callable[[Problem], None] = lambda _: None,
    ) -> None:
        self.path = path
        self.schema_version = schema_version
        self.what = what
        self.rebuildable = rebuildable
        self.report = report

    def read(self) -> dict[str, Any]:
        """Return the object, `{}` when there is no file.

        Raises:
            CorruptFile: It is not what it should be, and cannot be rebuilt.
            StoreError: It cannot be read, or a newer version of the program wrote it.
        """
        try:
            return self._parse(read_bytes(self.path))
        except CorruptFile:
            if not self.rebuildable:
                raise
        with locked(self.path):
            return self._read_or_set_aside()

    def update(self, change: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
        """Change the object under the lock; what `change` does not touch stays.

        Args:
            change: Is given the object as it is on disk now and changes it in place. When it
                raises, nothing is written.

        Returns:
            The object as it was written.

        Raises:
            CorruptFile: As for `read`; the file is left as it is.
            StoreError: As for `read`, or it cannot be written; the file is left as it is.
        """
        with locked(self.path):
            data = self._read_or_set_aside()
            change(data)
            data = {**data, "schema_version": self.schema_version}
            content = encode_json(self.path, data)
            if content != read_bytes(self.path):
                write_atomic(self.path, content)
            return data

    def _read_or_set_aside(self) -> dict[str, Any]:
        try:
            return self._parse(read_bytes(self.path))
        except CorruptFile as corrupt:
            if not self.rebuildable:
                raise
            self._set_aside(corrupt)
            return {}

    def _parse(self, content: bytes | None) -> dict[str, Any]:
        if content is None:
            return {}
        data = decode_json(self.path, content)
        version = data.get("schema_version", self.schema_version)
        if not isinstance(version, int):
            raise CorruptFile(self.path, f"schema_version must be a whole number, not {version!r}")
        if version > self.schema_version:
            raise StoreError(
                self.path,
                f"the {self.what} was written by a newer pflow (schema {version}, this one knows "
                f"{self.schema_version})",
                suggestion="Upgrade pflow",
            )
        return data

    def _set_aside(self, corrupt: CorruptFile) -> None:
        backup = set_aside(self.path)
        self.report(
            Problem(
                message=f"The {self.what} was corrupt and is started afresh: {corrupt.message}",
                suggestion=f"What was in it is kept in {backup}",
                severity="warning",
                kind="config",
                source=str(self.path),
            )
        )


def set_aside(path: Path) -> Path:
    """Rename a corrupt file to `<name>.corrupt-<n>` and return its new path.

    Raises:
        StoreError: It cannot be renamed.
    """
    target = _target(path)
    numbered = (target.with_name(f"{target.name}.corrupt-{number}") for number in count(1))
    backup = next(place for place in numbered if not place.exists())
    try:
        target.replace(backup)
    except OSError as error:
        raise StoreError(path, f"could not be moved aside: {_reason(error)}") from error
    return backup


def encode_json(path: Path, data: Mapping[str, Any]) -> bytes:
    """Return an object, which is to be the content of a file, as indented UTF-8 JSON with a final newline.

    Raises:
        StoreError: It holds what JSON has not, such as an infinite number.
    """
    import json

    try:
        text = json.dumps(data, ensure_ascii=False, indent=2, allow_nan=False)
        return text.encode() + b"\n"
    except UnicodeEncodeError:  # a lone surrogate has no UTF-8 form, only an escape
        return json.dumps(data, indent=2, allow_nan=False).encode() + b"\n"
    except ValueError as error:
        raise StoreError(path, f"could not be written as JSON: {error}") from error


def decode_json(path: Path, content: bytes, *, finite: bool = False) -> dict[str, Any]:
    """Return the object that the content of a file is.

    Args:
        path: The file, for messages.
        content: What is in it.
        finite: Refuse numbers that JSON has not, or that are too large for a float.

    Raises:
        CorruptFile: It is no UTF-8, no JSON, or no object; names line and column.
    """
    import json

    numbers: dict[str, Any] = {"parse_float": _finite, "parse_constant": _finite} if finite else {}
    try:
        data = json.loads(content.decode("utf-8-sig"), **numbers)
    except UnicodeDecodeError as error:
        before = content[: error.start]
        column = error.start - before.rfind(b"\n")
        raise CorruptFile(path, "not UTF-8", line=before.count(b"\n") + 1, column=column) from error
    except json.JSONDecodeError as error:
        raise CorruptFile(path, f"not JSON: {error.msg}", line=error.lineno, column=error.colno) from error
    except RecursionError as error:
        raise CorruptFile(path, "not JSON: nested too deeply") from error
    except ValueError as error:  # a number
        raise CorruptFile(path, f"not JSON: {error}") from error
    if not isinstance(data, dict):
        raise CorruptFile(path, f"expected a JSON object, found {type(data).__name__}", line=1, column=1)
    return data


def _finite(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        message = f"{number} is no number that can be kept"
        raise ValueError(message)
    return value


def _target(path: Path) -> Path:
    return path.resolve() if path.is_symlink() else path


def _write_synced(path: Path, data: bytes, mode: int | None) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags, 0o666 if mode is None else 0o600)
    try:
        if mode is not None:
            path.chmod(mode)
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_folder(folder: Path) -> None:
    # The new file is in place and complete by now, so a file system (or platform) that cannot
    # sync a folder is no failure of the write.
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _is_left_over(item: os.DirEntry[str], pid: int) -> bool:
    if not _is_alive(pid):
        return True
    try:  # its number may have gone to another process since
        return time.time() - item.stat(follow_symlinks=False).st_mtime > _TEMP_AGE
    except OSError:
        return False


def _is_alive(pid: int) -> bool:
    if os.name == "nt":  # signal 0 would end the process there
        return True
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
