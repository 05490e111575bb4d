"""The nodes `list-files`, `copy-file`, `move-file` and `delete-file`.

A symbolic link itself is copied, moved or deleted, never its target.
"""

from __future__ import annotations

import errno
import fnmatch
import os
import re
import shutil
import stat
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from pflow_mcp_plugin.contract import PflowError, Run
from pflow_mcp_plugin.host.nodes.file_content_nodes import file_problem, refuse_own
from pflow_mcp_plugin.host.nodes.value_nodes import OutputsNode, argument, path_from
from pflow_mcp_plugin.storage import (
    NotRegular,
    absolute,
    copy_regular,
    put_in_place,
    refuse_special,
    sweep,
    temporary_name,
)
from pflow_mcp_plugin.terminal.similar_names import did_you_mean

MOST_FILES = 100_000
"""The most files that one `list-files` may find."""
_MAGIC = re.compile(r"[*?[]")
_refusal = partial(file_problem, ran="not ran")


class ListFiles(OutputsNode):
    """The node `list-files` lists the regular files that match a pattern."""

    def prep(self, shared: MutableMapping[str, Any]) -> tuple[str, str]:
        folder = os.path.expanduser(argument(self.params, shared, "folder", "."))
        pattern = os.path.expanduser(argument(self.params, shared, "pattern"))
        if not pattern.strip(os.sep):
            raise PflowError("parameter pattern is empty", suggestions=("Write *, or **/* with subfolders",))
        return (os.sep if pattern.startswith(os.sep) else folder), pattern

    def exec(self, prep_res: tuple[str, str]) -> dict[str, Any]:
        folder, pattern = prep_res
        _status("list", Path(folder))
        parts = [part for part in pattern.split(os.sep) if part not in ("", ".")]
        if parts[-1] == "**":
            parts.append("*")
        files: dict[str, dict[str, object]] = {}
        try:
            if not os.path.isdir(os.path.abspath(folder)):  # absolute: `.` stays a folder when it is deleted
                raise _refusal("list", Path(folder), "it is not a folder", "Name a folder")
            for path in _matching("" if folder == "." else folder, parts):
                with suppress(FileNotFoundError):  # removed meanwhile, or a dangling link
                    status = os.stat(path)
                    if stat.S_ISREG(status.st_mode):
                        files[path] = _description(path, status)
                if len(files) > MOST_FILES:
                    hint = "Narrow the pattern, or list the folders one by one"
                    reason = f"more than {MOST_FILES:,} files match {pattern}"
                    raise file_problem("list", Path(folder), reason, hint)
        except (OSError, ValueError) as error:
            place = Path(getattr(error, "filename", None) or folder)
            raise file_problem("list", place, _reason(error)) from error
        return {"files": [files[path] for path in sorted(files)], "count": len(files)}


def _matching(folder: str, parts: Sequence[str]) -> Iterator[str]:
    """Yield paths that match the parts of a `list-files` pattern, perhaps twice; `**` follows no links."""
    pending, seen = [(folder, 0)], {(folder, 0)}
    while pending:
        here, index = pending.pop()
        part, is_last = parts[index], index == len(parts) - 1
        if part == "**":
            is_plain = lambda it: not it.name.startswith(".") and it.is_dir(follow_symlinks=False)  # noqa: E731
            found = [(here, index + 1), *((path, index) for path in _entries(here, is_plain))]
        else:
            found = [(path, index + 1) for path in _named(here, part, is_last=is_last)]
        for state in found:
            if state[1] == len(parts):
                yield state[0]
            elif state not in seen:
                seen.add(state)
                pending.append(state)


def _named(folder: str, part: str, *, is_last: bool) -> list[str]:
    """Return what in a folder matches one part of a `list-files` pattern; only folders, if not the last."""
    if not _MAGIC.search(part):
        path = os.path.join(folder, part)
        return [path] if os.path.lexists(path) else []
    matches, hidden = re.compile(fnmatch.translate(part)).match, part.startswith(".")

    def wanted(entry: os.DirEntry[str]) -> bool:
        is_shown = hidden or not entry.name.startswith(".")
        return is_shown and matches(entry.name) is not None and (is_last or entry.is_dir())

    return _entries(folder, wanted)


def _entries(folder: str, wanted: Callable[[os.DirEntry[str]], bool]) -> list[str]:
    try:
        with os.scandir(folder or ".") as entries:
            return [os.path.join(folder, entry.name) for entry in entries if wanted(entry)]
    except (FileNotFoundError, NotADirectoryError):  # removed meanwhile, or a file where a folder was meant
        return []


def _description(path: str, status: os.stat_result) -> dict[str, object]:
    try:
        modified = datetime.fromtimestamp(int(status.st_mtime), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, ValueError):  # beyond the year 9999
        modified = ""
    return {"path": path, "name": os.path.basename(path), "size": status.st_size, "modified": modified}


_OVERWRITE = "Set overwrite to true, or name another destination"


class CopyFile(OutputsNode):
    """The node `copy-file`, for folders too; copies a symbolic link itself. A copy is whole or absent."""

    doing = "copy"

    def prep(self, shared: MutableMapping[str, Any]) -> tuple[Path, Path, bool]:
        source, target = (_path(self.params, shared, key) for key in ("source", "destination"))
        into_folder = str(argument(self.params, shared, "destination")).endswith(os.sep)
        status = _status(self.doing, source)
        try:
            if into_folder or target.is_dir():
                target /= Path(os.path.abspath(source)).name
            self.refuse(source, target, shared.get("__run__"))
            reason, step = self._conflict(source, status, target, shared)
        except (OSError, ValueError) as error:
            reason, step = f"{target}: {_reason(error)}", "Check the destination"
        if reason:
            raise _refusal(self.doing, source, reason, step)
        return source, target, bool(argument(self.params, shared, "overwrite", default=False))

    def _conflict(
        self, source: Path, status: os.stat_result, target: Path, shared: MutableMapping[str, Any]
    ) -> tuple[str, str]:
        """Return why a folder or file cannot be copied to its target, such as into itself, and what to do."""
        is_folder = stat.S_ISDIR(status.st_mode)
        if is_folder and _real(target).is_relative_to(_real(source)):
            return f"{target} is inside of it", "Name a place outside of it"
        if not os.path.lexists(target):
            return "", ""
        there = target.lstat()
        is_same = os.path.samestat(there, status)
        with suppress(OSError):  # a dangling link
            is_same = is_same or source.samefile(target)
        if is_same:
            return f"{target} is the same file", "Name another destination"
        if is_folder or stat.S_ISDIR(there.st_mode):
            return f"{target} exists already", "Delete it first, or name another destination"
        _require_plain("replace", target, there)
        if not argument(self.params, shared, "overwrite", default=False):
            return f"{target} exists already", _OVERWRITE
        return "", ""

    def refuse(self, source: Path, target: Path, run: Run | None) -> None:
        refuse_own("write", target, run, whole=True)
        refuse_own("write", target.parent, run)  # the target may be a link, which itself is replaced

    def exec(self, prep_res: tuple[Path, Path, bool]) -> dict[str, Any]:
        source, target, overwrite = prep_res
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            size = self.transfer(source, target, overwrite=overwrite)
        except (OSError, ValueError) as error:
            taken = getattr(error, "errno", None) in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR)
            if taken and os.path.lexists(target):  # an item of a batch, or another run, has created it since
                raise _refusal(self.doing, source, f"{target} exists already", _OVERWRITE) from error
            raise _failure(self.doing, source, error, f" (to {target})") from error
        return {"file_path": str(target), "size": size}

    def transfer(self, source: Path, target: Path, *, overwrite: bool) -> int:
        """Copy a file, a link or a folder; return the bytes of its files."""
        sweep(target.parent, target.name)
        if not (source.is_symlink() or source.is_dir()):
            return copy_regular(source, target, overwrite=overwrite)
        made = temporary_name(target)
        try:
            if source.is_symlink():
                made.symlink_to(source.readlink())
            else:
                copy = lambda one, other: copy_regular(one, Path(other), durable=False)  # noqa: E731
                shutil.copytree(source, made, symlinks=True, copy_function=copy)
            put_in_place(made, target, overwrite=overwrite)
        except BaseException:  # on Ctrl-C too
            with suppress(OSError):
                _remove(made)
            raise
        return _size(target)


class MoveFile(CopyFile):
    """The node that moves a folder, a file or a link by renaming it; across file systems, it is copied."""

    doing = "move"

    def refuse(self, source: Path, target: Path, run: Run | None) -> None:
        super().refuse(source, target, run)
        _refuse_removal(self.doing, source, run)

    def transfer(self, source: Path, target: Path, *, overwrite: bool) -> int:
        size = _size(source)
        try:
            put_in_place(source, target, overwrite=overwrite)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            super().transfer(source, target, overwrite=overwrite)
            try:
                _remove(source)
            except OSError as left:
                reason = f"it was copied to {target}, but the source cannot be removed: {_reason(left)}"
                raise file_problem("move", source, reason, "Remove the source or the copy") from left
        return size


class DeleteFile(OutputsNode):
    """The node that deletes a file, a link, or, if `recursive` allows it, a folder with everything in it.

    What to delete is read from the params only, never from what happens to be in the shared store.
    """

    def prep(self, shared: MutableMapping[str, Any]) -> tuple[Path, bool]:
        path = _path(self.params, {}, "file_path")
        if self.params.get("missing_ok"):
            try:
                path.lstat()
            except (FileNotFoundError, NotADirectoryError):
                return path, False
            except (OSError, ValueError) as error:
                raise _refusal("delete", path, _reason(error)) from error
        status = _status("delete", path)
        _refuse_removal("delete", path, shared.get("__run__"))
        if stat.S_ISDIR(status.st_mode) and not self.params.get("recursive"):
            hint = "Set recursive to true to delete everything in it"
            raise _refusal("delete", path, "it is a folder", hint)
        return path, True

    def exec(self, prep_res: tuple[Path, bool]) -> dict[str, Any]:
        path, exists = prep_res
        try:
            if exists:
                _remove(path)
        except OSError as error:
            part = "" if path.is_symlink() or not path.is_dir() else "; a part of it may be gone"
            raise _failure("delete", path, error, part) from error
        return {"file_path": str(path), "deleted": exists}


def _path(params: dict[str, Any], shared: MutableMapping[str, Any], key: str) -> Path:
    return path_from(argument(params, shared, key), key)


def _status(doing: str, path: Path) -> os.stat_result:
    try:
        status = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        missing, folder = path, path.parent
        while folder != missing and not folder.exists():
            missing, folder = folder, folder.parent
        names: list[str] = []
        with suppress(OSError):
            names = os.listdir(folder)
        reason = "it does not exist" if missing == path else f"{missing} does not exist"
        raise _refusal(doing, path, reason, did_you_mean(missing.name, names, "Check the path")) from None
    except (OSError, ValueError) as error:
        raise _refusal(doing, path, _reason(error)) from error
    _require_plain(doing, path, status)
    return status


def _require_plain(doing: str, path: Path, status: os.stat_result) -> None:
    if not (stat.S_ISDIR(status.st_mode) or stat.S_ISLNK(status.st_mode)):
        try:
            refuse_special(path, status.st_mode)
        except OSError as error:
            raise _refusal(doing, path, _reason(error), "Name a regular file or a folder") from error


def _refuse_removal(doing: str, path: Path, run: Run | None) -> None:
    if path.is_symlink():
        refuse_own(doing, path.parent, run)
        return
    refuse_own(doing, path, run, whole=True)
    for kept, name in ((Path.home(), "your home folder"), (absolute(Path()), "the current folder")):
        if _real(kept).is_relative_to(_real(path)):
            raise _refusal(doing, path, f"it is or holds {name}", "Name a file or a folder in it")


def _remove(path: Path) -> None:
    if path.is_symlink() or not path.is_dir():
        path.unlink()
    else:
        shutil.rmtree(path)


def _size(path: Path) -> int:
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode):
        return status.st_size
    with os.scandir(path) as entries:
        return sum(_size(Path(entry.path)) for entry in entries)


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _reason(error: Exception) -> str:
    if isinstance(error, shutil.Error):  # for a folder: each with its source, its target and a reason
        return re.sub(r"^\[Errno \d+\] ", "", error.args[0][0][2])
    reason = (isinstance(error, OSError) and error.strerror) or str(error)
    return reason[:1].lower() + reason[1:]


def _failure(doing: str, path: Path, error: Exception, more: str) -> PflowError:
    """Return the error of copying, moving or deleting a folder or file; nothing is left half-done."""
    where = getattr(error, "filename", None)
    inside = f" ({where})" if where and str(where) != str(path) and ".tmp" not in str(where) else ""
    steps = ("Name a regular file or a folder",) if isinstance(error, NotRegular) else ()
    return file_problem(doing, path, f"{_reason(error)}{inside}{more}", *steps, retryable=True)
