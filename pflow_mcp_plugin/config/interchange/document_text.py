"""The text of a client's config file: parsed within limits, and written.

JSON may contain comments and trailing commas, as in the settings of editors.
"""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pflow_mcp_plugin import storage
from pflow_mcp_plugin.config import toml_codec
from pflow_mcp_plugin.storage.nesting_depth import is_too_deep

if TYPE_CHECKING:
    import yaml

Form = Literal["json", "toml", "yaml"]

LARGEST = 64 * 2**20
"""Bytes. Claude Code keeps its servers in one file with the history of all projects, which gets long."""

_PLACE = re.compile(r" (?:starting )?near (?P<place>\d+)")
_CODE_POINT = re.compile(r"U\+([0-9a-fA-F]{4,6})")
_COMMENT = {
    "json": re.compile(r'"(?:\\.|[^"\\])*"|(//|/\*)'),
    "yaml": re.compile(r"(?:^|\s)(#)", re.MULTILINE),
}


def form_of(path: Path) -> Form:
    """Return the form of a file, from its suffix."""
    return {".toml": "toml", ".yaml": "yaml", ".yml": "yaml"}.get(path.suffix.lower(), "json")  # type: ignore[return-value]


def load(path: Path) -> Any:
    """Return the document in a file, None if the file does not exist.

    Raises:
        storage.CorruptFile: Its content is invalid; names line and column where there is one.
        storage.StoreError: It cannot be read, is too large, or is not a regular file.
    """
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise storage.StoreError(path, f"could not be read: {error.strerror}") from error
    if not stat.S_ISREG(status.st_mode):
        raise storage.StoreError(path, "is not a regular file")
    if status.st_size > LARGEST:
        raise storage.StoreError(path, f"is larger than {LARGEST // 2**20} MiB")
    return parse(path, storage.read_bytes(path) or b"")


def parse(path: Path, content: bytes) -> Any:
    """Return the document in the content of a file.

    Raises:
        storage.CorruptFile: It is invalid; names line and column where there is one.
    """
    form = form_of(path)
    if form == "toml":
        return toml_codec.decode(path, content)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise storage.CorruptFile(path, "not UTF-8", line=line, column=1) from error
    document = _json(path, text) if form == "json" else _yaml(path, text)
    if is_too_deep(document):
        raise storage.CorruptFile(path, "nested too deeply")
    return document


def dump(document: Mapping[str, Any], form: Form) -> str:
    """Return a document as text, with a final newline.

    Raises:
        ValueError: The form cannot represent a value.
    """
    if form == "toml":
        return toml_codec.encode(document).decode()
    if form == "yaml":
        import yaml

        return str(yaml.safe_dump(dict(document), sort_keys=False, allow_unicode=True))
    return json.dumps(document, ensure_ascii=False, indent=2, allow_nan=False) + "\n"


def has_comments(text: str, form: Form) -> bool:
    """Whether a text may contain comments, which `dump` does not write back."""
    return comments(text, form) > 0


def comments(text: str, form: Form) -> int:
    """Return the number of comments that a text may contain."""
    if form == "toml":
        return toml_codec.comments(text.encode()).total()
    return sum(bool(found[1]) for found in _COMMENT[form].finditer(text))


def _json(path: Path, text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        return _json5(path, text, error)
    except (ValueError, RecursionError):
        return _json5(path, text)


def _json5(path: Path, text: str, strict: json.JSONDecodeError | None = None) -> Any:
    """Parse JSON with comments; without any, the strict parser's error is the more precise one."""
    import pyjson5

    try:
        return pyjson5.decode(text, 200)
    except pyjson5.Json5DecoderException as error:
        if strict and not has_comments(text, "json"):
            reason, line, column = strict.msg, strict.lineno, strict.colno
        else:
            reason = str(error.args[0])
            place = _PLACE.search(reason)
            before = text[: max(int(place["place"]) - 1, 0)] if place else ""
            line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        raise storage.CorruptFile(path, f"not JSON: {_plain(reason)}", line=line, column=column) from error


def _plain(reason: str) -> str:
    """Return the parser's words for people: without the Python of its token names."""
    words = re.sub(r"b'(\w+)'", r"\1", _PLACE.sub("", reason)).replace("JSON5Value", "a value")
    return _CODE_POINT.sub(lambda found: repr(chr(int(found[1], 16))), words)


def _yaml(path: Path, text: str) -> Any:
    import yaml

    class Loader(yaml.SafeLoader):  # type: ignore[misc] # it has no types
        """Refuses aliases, with which a small file can describe an endless document."""

        def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
            if self.check_event(yaml.AliasEvent):
                event = self.peek_event()
                raise yaml.composer.ComposerError(None, None, "aliases are not supported", event.start_mark)
            return super().compose_node(parent, index)

    try:
        return yaml.load(text, Loader)  # noqa: S506 - it extends the safe loader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = {"line": mark.line + 1, "column": mark.column + 1} if mark else {}
        raise storage.CorruptFile(path, f"not YAML: {error.problem}", **place) from error
    except (yaml.YAMLError, ValueError) as error:
        raise storage.CorruptFile(path, f"not YAML: {error}") from error
    except RecursionError as error:
        raise storage.CorruptFile(path, "not YAML: nested too deeply") from error
