"""Reads, locks, atomically replaces and removes files.

A change is made under a lock: re-read, change, write to a temporary file in the same folder
(0600), fsync, replace, fsync the folder. Readers take no lock: they see the old file or the new
one, never half of either. A symlinked file is written through to its target.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from itertools import count
from pathlib import Path

from pflow_mcp_plugin.storage.files import (
    LIMIT,
    StoreError,
    open_regular,
    read_regular,
    require_own_folder,
    write_special,
)

_DESCRIPTOR = r"/dev/(stdin|stdout|stderr)|(/dev|/proc/(self|\d+))/fd/\d+"
_IN_PLACE = {errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY, errno.ENOTSUP}
"""Errors of a refused replacement: the folder or owner may not be changed, or the file is a mount."""
LOCK_WAIT = 30.0
"""Seconds that a writer waits for a file's lock; waiting writers acquire it in no particular order."""

_TEMP_NAME = r"\..+\.(?P<pid>\d+)-[0-9a-f]+\.tmp"
_TEMP_LENGTH = 50
"""Characters of a file's name in the name of its temporary file."""


def read_bytes(path: Path, most: int = LIMIT) -> bytes | None:
    """Return the content of a file, the old or the new one, never half of it; None if it does not exist."""
    try:
        return read_regular(path, most)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreError(path, f"could not be read: {_reason(error)}") from error


def read_own(path: Path) -> bytes | None:
    """Read a file as it was last replaced, None without one; refuse it if others could replace it."""
    try:
        try:
            return read_regular(path, own=True)
        except FileNotFoundError:
            require_own_folder(path)
            return None
    except OSError as error:
        raise StoreError(path, f"could not be read: {_reason(error)}") from error


def json_files_in(folder: Path) -> list[Path]:
    """Return the `.json` files in a folder, without the leftovers of locking and replacing them."""
    try:
        return [path for path in folder.iterdir() if path.name.endswith(".json")]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StoreError(folder, f"the folder could not be read: {_reason(error)}") from error


def file_stamp(path: Path) -> tuple[int, ...]:
    """Return a stamp that changes when a file is atomically replaced, or written; empty if there is none."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise StoreError(path, f"could not be read: {error.strerror}") from error
    # Two writes may fall into one tick of the clock; each of them creates a new inode.
    return status.st_mtime_ns, status.st_size, status.st_ino


def is_open_to_others(path: Path) -> bool:
    """Whether other users may do anything with a file, by its permissions; False on Windows."""
    try:
        return os.name == "posix" and bool(path.stat().st_mode & 0o077)
    except OSError:  # it does not exist, or its folder is not accessible
        return False


def make_folder(folder: Path) -> None:
    """Create the private folder (0700) of files that are locked and atomically replaced, parents included."""
    try:
        missing = [place for place in (folder, *folder.parents) if not place.exists()]
        for place in reversed(missing):
            place.mkdir(mode=0o700, exist_ok=True)
            place.chmod(0o700)  # a strict umask may have removed the owner's own permissions
    except OSError as error:
        raise StoreError(folder, f"the folder could not be created: {_reason(error)}") from error


def write_atomic(
    path: Path, data: bytes, *, mode: int | None = 0o600, follow: bool = True, durable: bool = True
) -> None:
    """Replace the content of a file atomically, or leave it unchanged.

    Missing folders are created with mode 0700, temporary files of dead writers are removed. A `mode` of None
    leaves the permissions to the umask. With `follow` a symlink stays and its target is written. A file that
    need not be `durable` may be half written after a power failure.
    """
    target = _target(path) if follow else path
    make_folder(target.parent)
    sweep(target.parent)
    try:
        with _replacing(target, mode, durable=durable) as descriptor:
            _write_all(descriptor, data)
    except OSError as error:
        raise StoreError(path, f"could not be written: {_reason(error)}") from error


def write_output(path: Path, data: bytes, *, private: bool = False) -> None:
    """Atomically replace a file that the user named, so that a crash cannot leave half of it.

    A device or a pipe is written to directly, never replaced. Others are written as by `write_regular`.
    """
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):
            write_special(path, data)
            return
        make_folder(path.parent)
        write_regular(path, data, mode=0o600 if private else None)
    except OSError as error:
        raise StoreError(path, f"could not be written: {_reason(error)}") from error


def write_regular(path: Path, data: bytes, *, mode: int | None = None) -> str:
    """Replace a regular file that the user named, atomically unless that changes more than its content.

    It keeps its permissions, its owner and its extended attributes, such as an access control list; a
    symlink stays, and its target is replaced. Where replacing it would change more, or is not allowed, the
    content is written into the file that is there, and the reason is returned; otherwise it is empty.
    Raises `NotRegular`, or `OSError` with the content unchanged.
    """
    names = path.stat().st_nlink if path.exists() else 0
    if names and re.fullmatch(_DESCRIPTOR, str(path)):  # whoever opened the file goes on writing to it
        _write_over(path, data, None)
        return ""
    if names > 1:
        reason = "it has further names (hard links), which a new file would not have"
    else:
        try:
            with replaced_regular(path, mode=mode) as write:
                write(data)
        except OSError as error:
            if not names or error.errno not in _IN_PLACE:
                raise
            reason = f"it cannot be replaced with its owner and permissions ({_reason(error)})"
        else:
            return ""
    _write_over(path.resolve(), data, mode)
    return reason


def copy_regular(path: str | Path, target: Path, *, durable: bool = True, overwrite: bool = True) -> int:
    """Atomically replace a file by a copy of another, with permissions and times; return its size.

    Raises `NotRegular`, or `OSError` with the target unchanged. A symlink at the target is replaced. See
    `put_in_place` for `overwrite`.
    """
    with open(path, "rb", 0, opener=open_regular) as source:
        status = os.fstat(source.fileno())
        mode = stat.S_IMODE(status.st_mode)
        with _replacing(target, mode, durable=durable, overwrite=overwrite) as descriptor:
            while data := source.read(1 << 20):
                _write_all(descriptor, data)
            os.utime(descriptor, ns=(status.st_atime_ns, status.st_mtime_ns))
    return target.stat().st_size


def put_in_place(made: Path, target: Path, *, overwrite: bool) -> None:
    """Rename a file, link or folder into place; without `overwrite`, `FileExistsError` if the name is taken.

    That holds for names that other processes take at the same moment, except where the file system has no
    hard links. A folder may replace an empty one.
    """
    if overwrite or (made.is_dir() and not made.is_symlink()):
        made.replace(target)
        return
    try:
        os.link(made, target, follow_symlinks=False)
    except FileExistsError:
        raise
    except (OSError, NotImplementedError) as error:
        if os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from error
        made.replace(target)
        return
    try:
        made.unlink()
    except OSError:
        target.unlink()
        raise


def temporary_name(target: Path) -> Path:
    """Return a temporary name next to a file to replace; `sweep` removes what a dead writer left under it."""
    name = target.name[:_TEMP_LENGTH]  # a name of the greatest length has no room for more
    return target.parent / f".{name}.{os.getpid()}-{os.urandom(6).hex()}.tmp"


@contextmanager
def replaced_regular(
    path: Path, *, mode: int | None = None, durable: bool = True
) -> Iterator[Callable[[bytes], None]]:
    """Atomically replace a file that the user named by what the `with` block writes piece by piece.

    If the block raises, the old file stays. A file that is there keeps its permissions and its owner, and a
    symlink stays. Raises `NotRegular` or `OSError`.
    """
    try:
        os.close(open_regular(path, os.O_WRONLY))  # a file that may not be written may not be replaced either
        like: Path | None = path.resolve()
    except FileNotFoundError:
        like = None
    target = path.resolve()
    sweep(target.parent, target.name)
    with _replacing(target, mode, like=like, durable=durable) as descriptor:
        yield partial(_write_all, descriptor)


def append_regular(path: Path, data: bytes) -> None:
    """Append to a file atomically: all of this or, if that fails (`OSError`), nothing."""
    descriptor = open_regular(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        before, written = os.fstat(descriptor).st_size, 0
        try:
            while written < len(data):
                written += os.write(descriptor, memoryview(data)[written:])
        except OSError:
            if os.fstat(descriptor).st_size == before + written:  # nobody else has added to it
                os.ftruncate(descriptor, before)
            raise
    finally:
        os.close(descriptor)


def keep_backup(path: Path, content: bytes) -> Path:
    """Keep the old content of a file to be replaced, as `<name>.bak`, or `.bak-2` etc.; return that path."""
    # A different older backup is not overwritten: the next free one of `.bak-2`, `.bak-3` ... is taken.
    for number in count(1):
        backup = path.with_name(f"{path.name}.bak" + (f"-{number}" if number > 1 else ""))
        if read_bytes(backup) in (None, content):
            break
    write_atomic(backup, content)
    return backup


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of a file to be replaced, `<path>.lock` next to it, against other writers.

    It is not reentrant: a second lock on the same file, even in the same thread, times out as a `StoreError`.
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


def remove(path: Path, *, is_locked: bool = False) -> None:
    """Delete a file under its lock, which the caller may already hold; it need not exist."""
    if not path.exists():
        return
    with nullcontext() if is_locked else locked(path):
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(path, f"could not be removed: {_reason(error)}") from error


def sweep(folder: Path, name: str = "") -> None:
    """Remove temporary files that dead writers left in a folder, or only those of one file."""
    beginning = f".{name[:_TEMP_LENGTH]}." if name else "."
    with suppress(OSError), os.scandir(folder) as found:
        for item in found:
            match = item.name.startswith(beginning) and re.fullmatch(_TEMP_NAME, item.name)
            with suppress(OSError):  # another process has removed it
                if match and _is_left_over(item, int(match["pid"])):
                    if item.is_dir(follow_symlinks=False):
                        from shutil import rmtree

                        rmtree(item.path)
                    else:
                        Path(item.path).unlink()


def set_aside(path: Path) -> Path:
    """Rename a corrupt file to `<name>.corrupt-<n>`, so that a new one can be written; return that path."""
    target = _target(path)
    numbered = (target.with_name(f"{target.name}.corrupt-{number}") for number in count(1))
    try:
        backup = next(place for place in numbered if not place.exists())
        target.replace(backup)
    except OSError as error:
        raise StoreError(path, f"could not be moved aside: {_reason(error)}") from error
    return backup


def _target(path: Path) -> Path:
    try:
        return path.resolve() if path.is_symlink() else path
    except OSError as error:
        raise StoreError(path, f"could not be read: {_reason(error)}") from error
    except RuntimeError as error:  # Python before 3.13 raises this
        raise StoreError(path, "is a link to itself") from error


@contextmanager
def _replacing(
    target: Path,
    mode: int | None,
    *,
    like: Path | None = None,
    durable: bool = True,
    overwrite: bool = True,
) -> Iterator[int]:
    """Atomically replace a file by what is written to the descriptor; if the block raises, leave it."""
    temporary = temporary_name(target)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(temporary, flags, 0o666 if mode is None and like is None else 0o600)
        try:
            yield descriptor
            if like is not None:
                _make_like(descriptor, like)
            if mode is not None:
                temporary.chmod(mode)
            if durable:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
        put_in_place(temporary, target, overwrite=overwrite)
    except BaseException:  # on Ctrl-C too
        with suppress(OSError):
            temporary.unlink()
        raise
    if durable:
        # The new file is complete and in place by now, so the write has not failed if a file system (or
        # platform) cannot sync a folder.
        with suppress(OSError):
            folder = os.open(target.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _make_like(descriptor: int, like: Path) -> None:
    wanted, own = like.stat(), os.fstat(descriptor)
    if (wanted.st_uid, wanted.st_gid) != (own.st_uid, own.st_gid):
        os.chown(descriptor, wanted.st_uid, wanted.st_gid)
    try:
        attributes = os.listxattr(like)
    except (AttributeError, OSError):  # there are none on this platform, or this file system
        attributes = []
    for name in attributes:
        if not name.startswith("security."):  # the system sets its labels itself
            os.setxattr(descriptor, name, os.getxattr(like, name))
    os.chmod(descriptor, stat.S_IMODE(wanted.st_mode))


def _write_over(path: Path, data: bytes, mode: int | None) -> None:
    """Write into a file that cannot be replaced atomically; without room on the disk, it is unchanged."""
    descriptor = open_regular(path, os.O_WRONLY)
    try:
        before = os.fstat(descriptor).st_size
        try:
            if len(data) > before and hasattr(os, "posix_fallocate"):
                os.posix_fallocate(descriptor, before, len(data) - before)
        except OSError as error:
            os.ftruncate(descriptor, before)
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise
        _write_all(descriptor, data)
        os.ftruncate(descriptor, len(data))
        if mode is not None:
            path.chmod(mode)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _is_left_over(item: os.DirEntry[str], pid: int) -> bool:
    with suppress(PermissionError):
        try:
            if os.name != "nt":  # signal 0 would terminate the process there
                os.kill(pid, 0)
        except (ProcessLookupError, OverflowError):
            return True
    # Another process may have got its id since: a day later, it is removed in any case.
    return time.time() - item.stat(follow_symlinks=False).st_mtime > 86_400.0


def _reason(error: OSError) -> str:
    reason = error.strerror or str(error)
    return reason[:1].lower() + reason[1:]
