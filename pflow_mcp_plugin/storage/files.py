"""Files and folders: where pflow keeps its own, the errors about them, and opening without waiting forever.

Only regular files are opened, so that nothing waits for a pipe or reads a device forever; pipes, terminals
and devices are read and written for those who ask for it. No call blocks for long: each wait is short, so
that Ctrl-C and the end of a run are noticed.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from pflow_mcp_plugin.contract import Paths, PflowError


def absolute(path: Path) -> Path:
    """Return a path as an absolute one; if it is relative to a folder that was deleted, raise PflowError."""
    try:
        return path.absolute()
    except FileNotFoundError as error:
        step = "Change to a folder that exists"
        raise PflowError(
            "The current folder was deleted", suggestions=(step,), kind="usage", ran="not ran"
        ) from error


def default_paths() -> Paths:
    """Return the folders of pflow's files: below `$PFLOW_HOME` if set, otherwise the platform's usual ones.

    If `$PFLOW_PROJECT` is set, and not to 0, the current folder is that of a project.
    """
    project = None
    if os.environ.get("PFLOW_PROJECT", "0") not in ("", "0"):
        with suppress(PflowError):  # the current folder was deleted
            project = absolute(Path())
    home = os.environ.get("PFLOW_HOME")
    if home:
        root = absolute(Path(home).expanduser())
        folders = {name: root / name for name in ("config", "data", "state", "cache")}
        return Paths(**folders, project=project)
    from platformdirs import PlatformDirs

    dirs = PlatformDirs("pflow", appauthor=False)
    return Paths(
        config=dirs.user_config_path,
        data=dirs.user_data_path,
        state=dirs.user_state_path,
        cache=dirs.user_cache_path,
        project=project,
    )


class CorruptFile(PflowError):
    """A stored file has invalid content, which was not overwritten; line 0 means that none is known."""

    def __init__(self, path: Path, reason: str, *, line: int = 0, column: int = 0) -> None:
        place = f", line {line}, column {column}" if line else ""
        details: dict[str, object] = {"path": str(path)}
        if line:
            details |= {"line": line, "column": column}
        super().__init__(
            f"{path}{place}: {reason}",
            kind="config",
            details=details,
            suggestions=(f"Correct {path}, or move it away to start afresh",),
        )
        self.path = path


class StoreError(PflowError):
    """The error of a stored file that could not be read, locked or written; its content is unchanged."""

    def __init__(self, path: Path, reason: str, *, suggestion: str = "") -> None:
        super().__init__(
            f"{path}: {reason}",
            kind="config",
            details={"path": str(path)},
            suggestions=(suggestion,) if suggestion else (),
        )
        self.path = path

    @property
    def is_disk_full(self) -> bool:
        """Whether the disk of the stored file is full, or the user's part of it."""
        cause = self.__cause__
        is_full = isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT)
        return is_full or "disk is full" in str(cause)  # as SQLite says


def refuse_newer(path: Path, version: object, known: int, what: str) -> None:
    """Raise the error of a stored file that a newer pflow wrote, by its schema version."""
    if isinstance(version, int) and version > known:
        reason = f"a newer pflow wrote the {what} (schema {version}, this one knows {known})"
        raise StoreError(path, reason, suggestion="Upgrade pflow")


LIMIT = 256 << 20
"""Bytes of the largest file that is read."""

_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class NotRegular(OSError):
    """Raised on opening a pipe, a terminal, another device or a socket, which are not regular files."""


def open_regular(path: str | Path, flags: int) -> int:
    """Open a regular file, never waiting for it; an `opener` for `open`. Anything else is `NotRegular`."""
    try:
        refuse_special(path, Path(path).stat().st_mode)  # merely opening a device can have effects
    except FileNotFoundError:
        if not flags & os.O_CREAT:
            raise
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0), 0o666)
    try:
        refuse_special(path, os.fstat(descriptor).st_mode)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def read_regular(path: Path, most: int = LIMIT, *, own: bool = False) -> bytes:
    """Return the content of a regular file of at most `most` bytes.

    With `own`, one that others could have written is a `StoreError`. What is not a regular file, or waits for
    more content as `/proc/kmsg` does, is `NotRegular`; all other failures are `OSError`.
    """
    descriptor = open_regular(path, os.O_RDONLY)
    try:
        if own:
            require_own(path, descriptor)
        if os.fstat(descriptor).st_size > most:
            raise too_large(path, most)
        content = bytearray()
        while chunk := os.read(descriptor, 1 << 20):
            content += chunk
            if len(content) > most:
                raise too_large(path, most)
        return bytes(content)
    except BlockingIOError as error:
        raise NotRegular(error.errno, "it is not a regular file, as it has no end", str(path)) from error
    finally:
        os.close(descriptor)


def read_named(path: Path) -> bytes:
    """Return the content of a regular file, or of one that the user opened for pflow (`is_descriptor`)."""
    if not is_descriptor(str(path)):
        return read_regular(path)
    return read_special(Path("/dev/stdin") if str(path) == "-" else path)


def is_descriptor(word: str) -> bool:
    """Return whether a file is one that the user opened for pflow: `-`, or the `/dev/fd/63` of `<(...)`."""
    return re.fullmatch(r"-|/dev/stdin|/(dev|proc/self)/fd/\d+", word) is not None


def require_regular(path: str | Path) -> None:
    """Refuse a file that is not regular or cannot be read, before something waits on opening a pipe."""
    os.close(open_regular(path, os.O_RDONLY))


def too_large(path: Path, most: int) -> OSError:
    """Return the error of a regular file that is larger than `most` bytes."""
    size = f"{most / (1 << 20):g} MiB" if most >= 1 << 20 else f"{most:,} bytes"
    return OSError(errno.EFBIG, f"it is larger than {size}", str(path))


def refuse_special(path: str | Path, mode: int) -> None:
    """Refuse what is not a regular file, by its mode."""
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "something else")
        raise NotRegular(errno.EINVAL, f"it is {kind}, not a regular file", str(path))


_PIECE = 1 << 16


def read_special(
    path: Path,
    *,
    most: int = LIMIT,
    seconds: float | None = None,
    stopped: Callable[[], bool] = lambda: False,
) -> bytes:
    """Return all that can be read from a pipe, terminal or device, to its end, at most `most` bytes.

    Gives up after `seconds` (`TimeoutError`), or when `stopped`, asked now and then, is true
    (`InterruptedError`).
    """
    wait = _Wait(seconds, stopped)
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        content = bytearray()
        while len(content) <= most:
            wait.ready(descriptor)
            try:
                chunk = os.read(descriptor, _PIECE)
            except BlockingIOError:
                continue
            if not chunk:
                return bytes(content)
            content += chunk
        raise too_large(path, most)
    finally:
        os.close(descriptor)


def write_special(
    path: Path, data: bytes, *, seconds: float | None = None, stopped: Callable[[], bool] = lambda: False
) -> None:
    """Write to a pipe, terminal or device; gives up as `read_special` does, waiting for a reader included."""
    wait = _Wait(seconds, stopped)
    while True:
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
            break
        except OSError as error:
            if error.errno != errno.ENXIO or not path.is_fifo():
                raise
        time.sleep(wait.left(0.02))  # a pipe without a reader
    try:
        rest = memoryview(data)
        while rest:
            wait.ready(descriptor, to_write=True)
            try:
                rest = rest[os.write(descriptor, rest[:_PIECE]) :]
            except BlockingIOError:
                continue
    finally:
        os.close(descriptor)


class _Wait:
    """Waits for a file that is not regular (a pipe, terminal or device), with one limit for all waits."""

    def __init__(self, seconds: float | None, stopped: Callable[[], bool]) -> None:
        self._seconds = seconds
        self._end = None if seconds is None else time.monotonic() + seconds
        self._stopped = stopped

    def ready(self, descriptor: int, *, to_write: bool = False) -> None:
        import select

        poll = select.poll()
        poll.register(descriptor, select.POLLOUT if to_write else select.POLLIN)
        while not poll.poll(self.left(0.25) * 1_000):
            pass

    def left(self, most: float) -> float:
        if self._stopped():
            raise InterruptedError(errno.EINTR, "the run was stopped")
        left = most if self._end is None else self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError(errno.ETIMEDOUT, f"it took longer than {self._seconds:g} seconds")
        return min(left, most)


_ACL_USER, _ACL_OWNING_GROUP, _ACL_GROUP = 0x02, 0x04, 0x08
_MAY_WRITE = 0o2
_known: dict[str, list[tuple[str, tuple[int, ...]]]] = {}
"""Folders that were found to be the user's own, each with what leads to it and the status of that."""


def require_own(path: Path, descriptor: int | None = None) -> None:
    """Refuse a file that others could have changed, or whose folder they could; the error suggests a fix."""
    # `descriptor` is the opened file, so that the file that is read is the one that was checked.
    if os.name != "posix":
        return
    require_own_folder(path)
    place: str | int = str(path) if descriptor is None else descriptor
    status = os.stat(place)  # noqa: PTH116 - perhaps a descriptor
    _require_owner(str(path), status)
    _require_no_writers(str(path), place, status)


def require_own_folder(path: Path) -> None:
    """Refuse a regular file in a folder that others own, can write, or could replace.

    The folder need not exist. If the file is a link, nobody else may be able to replace what it leads to
    either.
    """
    if os.name != "posix":
        return
    # Strings, as pathlib takes longer than the check. The working folder may be gone.
    file = str(path) if path.is_absolute() else os.path.join(os.getcwd(), path)  # noqa: PTH109, PTH118
    folder = os.path.dirname(file)  # noqa: PTH120
    if not _is_known(folder):
        way = list(_folders_to(folder))
        for place, status in way:
            _require_safe_above(place, status)
        if os.path.isdir(folder):  # noqa: PTH112
            # Here the sticky bit is not enough.
            _require_no_writers(folder, folder, os.stat(folder))  # noqa: PTH116
            _known[folder] = [(place, _identity(status)) for place, status in way]
    if os.path.islink(file):  # noqa: PTH114
        for place, status in _folders_to(file):
            _require_safe_above(place, status)


def _is_known(folder: str) -> bool:
    try:
        return folder in _known and all(_identity(os.lstat(place)) == was for place, was in _known[folder])
    except OSError:  # one of them is gone
        return False


def _identity(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_mode, status.st_uid, status.st_gid


def _folders_to(path: str) -> Iterator[tuple[str, os.stat_result]]:
    here, links = "/", 0
    rest = path.split("/")[::-1]
    yield here, os.lstat(here)
    while rest:
        name = rest.pop()
        if name in ("", "."):
            continue
        place = os.path.dirname(here) if name == ".." else os.path.join(here, name)  # noqa: PTH118, PTH120
        try:
            status = os.lstat(place)
        except FileNotFoundError:
            return
        if stat.S_ISLNK(status.st_mode):
            links += 1
            if links > 40:  # opening the file fails as well, and says why
                return
            target = os.readlink(place)  # noqa: PTH115
            rest += target.split("/")[::-1]
            here = "/" if target.startswith("/") else here
        elif stat.S_ISDIR(status.st_mode):
            here = place
        else:
            return
        yield place, status


def _require_safe_above(place: str, status: os.stat_result) -> None:
    """Refuse to open a file if others could put another in its place, in a folder above it."""
    _require_owner(place, status)
    if stat.S_ISDIR(status.st_mode) and not status.st_mode & stat.S_ISVTX:
        _require_no_writers(place, place, status)


def _require_owner(place: str, status: os.stat_result) -> None:
    if status.st_uid in (0, os.geteuid()) or _is_unmapped(status.st_uid):
        return
    link = "-h " if stat.S_ISLNK(status.st_mode) else ""
    reason = f"it belongs to {_user(status.st_uid)}, who could have written anything there"
    raise _not_own(place, reason, f"chown {link}{_user(os.geteuid())}", status)


def _require_no_writers(place: str, handle: str | int, status: os.stat_result) -> None:
    mode = f"its mode is {stat.S_IMODE(status.st_mode):04o}"
    if status.st_mode & stat.S_IWOTH:
        raise _not_own(place, f"every user can write it ({mode})", "chmod go-w", status)
    if not status.st_mode & stat.S_IWGRP:  # with an access list, this bit is that of its mask
        return
    users, groups = _listed_writers(handle, status)
    for user in users:
        if user not in (0, os.geteuid()):
            reason = f"the user {_user(user)} can write it (by its access list)"
            raise _not_own(place, reason, "setfacl -b", status)
    for group in groups:
        if not _is_private(group):
            raise _not_own(place, f"the group {_group(group)} can write it ({mode})", "chmod go-w", status)


def _listed_writers(handle: str | int, status: os.stat_result) -> tuple[list[int], list[int]]:
    try:
        content = os.getxattr(handle, "system.posix_acl_access")
    except (OSError, AttributeError):  # no access list, or a system without them
        return [], [status.st_gid]
    from struct import iter_unpack

    entries = list(iter_unpack("<HHI", content[4:]))  # after the version
    writing = [(tag, identifier) for tag, rights, identifier in entries if rights & _MAY_WRITE]
    owning = [status.st_gid] if any(tag == _ACL_OWNING_GROUP for tag, _ in writing) else []
    users = [identifier for tag, identifier in writing if tag == _ACL_USER]
    return users, owning + [identifier for tag, identifier in writing if tag == _ACL_GROUP]


def _is_private(group: int) -> bool:
    """Whether a file that its group may write is safe to open: only the user or root is in the group."""
    import grp
    import pwd

    try:
        found = grp.getgrgid(group)
        user = pwd.getpwnam(found.gr_name)
    except KeyError:
        return False
    if user.pw_uid not in (0, os.geteuid()) or set(found.gr_mem) - {user.pw_name}:
        return False
    if user.pw_uid == 0:  # some systems keep accounts that nobody uses, such as `shutdown`, in root's group
        return True
    return all(other.pw_uid == user.pw_uid for other in pwd.getpwall() if other.pw_gid == group)


def _is_unmapped(user: int) -> bool:
    """Whether a file's owner is unknown in this container: root outside of it, in most cases."""
    try:
        if user != int(Path("/proc/sys/kernel/overflowuid").read_text(encoding="ascii")):
            return False
        mapped = [
            line.split() for line in Path("/proc/self/uid_map").read_text(encoding="ascii").splitlines()
        ]
    except (OSError, ValueError):
        return False
    # Each line is a range: its begin inside, its begin outside, its length.
    return not any(int(begin) <= user < int(begin) + int(length) for begin, _, length in mapped)


def _not_own(place: str, reason: str, command: str, status: os.stat_result) -> StoreError:
    from shlex import quote

    what = "what is in it" if stat.S_ISREG(status.st_mode) else "what is there"
    may = os.geteuid() == 0 or (status.st_uid == os.geteuid() and not command.startswith("chown"))
    step = f"Check {what}, then run: {'' if may else 'sudo '}{command} {quote(place)}"
    return StoreError(Path(place), reason, suggestion=step)


def _user(identifier: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(identifier).pw_name
    except KeyError:
        return str(identifier)


def _group(identifier: int) -> str:
    import grp

    try:
        return grp.getgrgid(identifier).gr_name
    except KeyError:
        return str(identifier)
