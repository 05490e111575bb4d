"""The nodes `read-file` and `write-file`."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Mapping, MutableMapping
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

import attrs

from pflow_mcp_plugin.contract import PflowError, Problem, Run
from pflow_mcp_plugin.host.nodes.value_nodes import OutputsNode, argument, path_from, positive, utf8
from pflow_mcp_plugin.storage import (
    LIMIT,
    NotRegular,
    absolute,
    append_regular,
    read_regular,
    read_special,
    write_regular,
    write_special,
)

TIMEOUT = 60.0
"""Seconds for a special file, if the workflow does not set a timeout."""
_MIB = 1 << 20


@attrs.frozen(kw_only=True)
class _File:
    """The file of a `read-file` or `write-file`; a `special` one, such as a pipe, is waited for."""

    path: Path
    special: bool
    seconds: float
    stopped: Callable[[], bool]

    def read(self, most: int) -> bytes:
        try:
            return read_regular(self.path, most)
        except NotRegular:
            if not self.special:
                raise
        return read_special(self.path, most=most, seconds=self.seconds, stopped=self.stopped)

    def write(self, data: bytes, *, append: bool) -> tuple[int, str]:
        """Write the file; return its length, or that of the data if it is special, and a warning, if any."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            if append:
                append_regular(self.path, data)
                return self.path.stat().st_size, ""
            return len(data), write_regular(self.path, data)
        except NotRegular:
            if not self.special:
                raise
        write_special(self.path, data, seconds=self.seconds, stopped=self.stopped)
        return len(data), ""


class ReadFile(OutputsNode):
    """The node `read-file` reads a text file: a regular one, unless `special_files` is true."""

    def prep(self, shared: MutableMapping[str, Any]) -> tuple[_File, str, int]:
        encoding = argument(self.params, shared, "encoding", "utf-8")
        most = int(positive(self.params, "max_mb", LIMIT / _MIB, "MiB") * _MIB)
        return _file(self.params, shared, is_written=False), encoding, most

    def exec(self, prep_res: tuple[_File, str, int]) -> dict[str, Any]:
        file, encoding, most = prep_res
        try:
            content = BytesIO(file.read(most))
            text = TextIOWrapper(content, encoding=encoding, newline="").read()
        except OSError as error:
            hints = _hints(error, file.path)
            if error.errno == errno.EFBIG:
                hints = ("Raise max_mb if this is intended",)
            raise file_problem("read", file.path, error.strerror or str(error), *hints) from error
        except UnicodeError as error:
            raise file_problem("read", file.path, f"it is not {encoding} text", "Set encoding") from error
        except LookupError as error:
            raise file_problem("read", file.path, f"unknown encoding {encoding}", "Use utf-8") from error
        return {"content": text, "file_path": str(file.path)}


class WriteFile(OutputsNode):
    """The node `write-file` writes a text file; any value other than a string is written as JSON."""

    def prep(self, shared: MutableMapping[str, Any]) -> tuple[_File, bytes, bool, Run | None]:
        text = argument(self.params, shared, "content")
        if text is None:  # from the shared store, which does not check it
            raise PflowError("parameter content is null", suggestions=("Write 'null' to write that text",))
        append = argument(self.params, shared, "append", default=False)
        if not isinstance(text, str):
            text = json.dumps(text, ensure_ascii=False, indent=2) + "\n"
        file, run = _file(self.params, shared, is_written=True), shared.get("__run__")
        refuse_own("write", file.path, run)
        return file, utf8(text, "content"), append, run

    def exec(self, prep_res: tuple[_File, bytes, bool, Run | None]) -> dict[str, Any]:
        file, data, append, run = prep_res
        try:
            size, warning = file.write(data, append=append)
        except OSError as error:
            hints = _hints(error, file.path)
            is_whole = not (append or file.special)  # otherwise a part may have been written
            reason = error.strerror or str(error)
            raise file_problem("write", file.path, reason, *hints, retryable=is_whole) from error
        if warning and run is not None:
            message = f"{file.path} was written in place: {warning}"
            run.warn(Problem(message=message, severity="warning", kind="execution"))
        return {"file_path": str(file.path), "size": size}


def _file(params: Mapping[str, Any], shared: Mapping[str, Any], *, is_written: bool) -> _File:
    run = shared.get("__run__")
    return _File(
        path=path_from(argument(params, shared, "file_path"), "file_path", is_written=is_written),
        special=params.get("special_files", False),
        seconds=positive(params, "timeout", TIMEOUT, "seconds"),
        stopped=run.cancelled if run else lambda: False,
    )


def _hints(error: OSError, path: Path) -> tuple[str, ...]:
    if isinstance(error, IsADirectoryError):
        return ("Name a file in it",)
    if isinstance(error, NotRegular) and path.is_socket():  # a socket cannot be opened
        return ("Name a regular file",)
    return ("Set special_files to true if this is intended",) if isinstance(error, NotRegular) else ()


def refuse_own(doing: str, path: Path, run: Run | None, *, whole: bool = False) -> None:
    """Refuse to let nodes like `write-file` change pflow's own files; with `whole` also folders with them."""
    if run is None:
        return
    # A workflow, which an agent may write, must not change the files that decide what pflow runs and
    # approves, nor what was decided and returned in other runs.
    paths = run.host.paths
    place = Path(os.path.realpath(absolute(path)))  # `Path.resolve` raises if links form a loop
    if place.is_relative_to(os.path.realpath(paths.state / "artifacts")):
        return  # files that runs hand on
    for folder in (paths.config, paths.data, paths.state, paths.cache):
        own = Path(os.path.realpath(folder))
        if place.is_relative_to(own) or (whole and own.is_relative_to(place)):
            hint = "Use the command that changes it; `pflow config path` lists pflow's files"
            raise file_problem(doing, path, f"pflow keeps its own files in {folder}", hint, ran="not ran")


def file_problem(doing: str, path: Path, reason: str, *suggestions: str, **fields: Any) -> PflowError:
    """Return the error of `read-file`, `write-file` and others about a file, with further `fields`."""
    details = {"file_path": str(path)}
    return PflowError(f"Cannot {doing} {path}: {reason}", details=details, suggestions=suggestions, **fields)
