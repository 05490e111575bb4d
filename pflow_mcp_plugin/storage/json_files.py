"""JSON objects as the content of files."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pflow_mcp_plugin.contract import Problem
from pflow_mcp_plugin.storage.atomic_files import locked, read_bytes, set_aside, write_atomic
from pflow_mcp_plugin.storage.file_errors import CorruptFile, StoreError


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
        found = self._load()
        if not isinstance(found, CorruptFile):
            return found
        with locked(self.path):  # read once more: another may have rebuilt it meanwhile
            return self._load_or_begin()

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
            data = self._load_or_begin()
            change(data)
            data = {**data, "schema_version": self.schema_version}
            content = encode_json(self.path, data)
            if content != read_bytes(self.path):
                write_atomic(self.path, content)
            return data

    def _load_or_begin(self) -> dict[str, Any]:
        found = self._load()
        if not isinstance(found, CorruptFile):
            return found
        self._set_aside(found)
        return {}

    def _load(self) -> dict[str, Any] | CorruptFile:
        """Return the object, or what is wrong with a file that can be rebuilt."""
        try:
            return self._parse(read_bytes(self.path))
        except CorruptFile as corrupt:
            if not self.rebuildable:
                raise
            return corrupt

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
                f"a newer pflow wrote the {self.what} (schema {version}, this one knows "
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
