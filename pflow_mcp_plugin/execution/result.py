"""Turns the answer of a tool into the values and files that a node writes."""

from __future__ import annotations

import json
import math
import re
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import attrs

from pflow_mcp_plugin import storage
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.errors import CallFailed, McpError, Where
from pflow_mcp_plugin.exchange import CallResult, Launch
from pflow_mcp_plugin.execution.failure_actions import action_of, wait_of
from pflow_mcp_plugin.redaction import Redactor
from pflow_mcp_plugin.schemas.schema_reader import CONTENT_BLOCKS, ResultForm
from pflow_mcp_plugin.storage import StoreError
from pflow_mcp_plugin.storage.json_and_toml import is_same, strict_json

_SCALARS = (str, int, float, type(None))
_LONGEST_MESSAGE = 4000
_PLAIN_BASE64 = bytes.maketrans(b"-_", b"+/")
_EXTENSION = re.compile(r"\.[a-z0-9]{1,8}")
_KNOWN = {
    "application/json": ".json",
    "audio/mpeg": ".mp3",
    "audio/wav": ".wav",
    "image/jpeg": ".jpg",
    "image/png": ".png",
    "image/webp": ".webp",
    "text/plain": ".txt",
}
_MAY_ACT_TWICE = "The tool has run; a repeat may act twice"


@attrs.frozen(kw_only=True)
class ToolResult:
    """The result of a tool call, with every value as the server sent it.

    Attributes:
        value: The whole result, which a node writes as `result`. A lone `{"result": ...}` around it that the
            output schema declares is removed.
        natural: What a node writes beside it: the top-level properties of a structured result under their
            own names, and `content_blocks`, unless the tool has an output of that name.
        content_blocks: What the tool answered beside a structured result: texts as they are, media as
            references to their files (`path`, `mimeType`, `size` in bytes, `sha256`), anything else as data.
            Empty if there is nothing beside it, or only a text that repeats it.
        files: Strings of the result that are too long to be shown, each with the file that holds it.
        warnings: What is malformed in the content, a sentence for each block; it stays as it is.
    """

    value: JSON = None
    natural: JSONObject = attrs.field(factory=dict)
    content_blocks: list[JSON] = attrs.field(factory=list)
    files: tuple[tuple[str, dict[str, JSON]], ...] = attrs.field(default=(), repr=False)
    warnings: list[str] = attrs.field(factory=list)


def read(
    result: CallResult,
    where: Where,
    artifacts: Path,
    inline_limit: int | None,
    launch: Launch,
    form: ResultForm,
) -> ToolResult:
    """Return the values of a tool's result for the shared store.

    Content that is not text, and strings of more than `inline_limit` bytes (None for no limit), are also
    written to files in the folder `artifacts`. Errors name the variables that were empty in `launch`, and
    hide its secrets. Raises `CallFailed` if the tool reports a failure, or if the result has a number that is
    not JSON or cannot be written.
    """
    reader = _ContentReader(where, artifacts, launch.redactor)
    if result.is_error:
        raise _failure(result, where, reader, launch)
    if not result.has_structured:
        found = ToolResult(value=reader.content(result.content), warnings=reader.malformed)
    else:
        value, natural = _unwrapped(result.structured, form)
        blocks = reader.beside(result, value)
        if blocks and not form.names_content_blocks:
            natural = {**natural, CONTENT_BLOCKS: natural.get(CONTENT_BLOCKS, blocks)}
        found = ToolResult(value=value, natural=natural, content_blocks=blocks, warnings=reader.malformed)
    if inline_limit is None:
        return found
    whole = result.structured if result.has_structured else found.value
    files = reader.files([whole, *found.content_blocks], inline_limit)
    return attrs.evolve(found, files=files) if files else found


def _unwrapped(structured: JSON, form: ResultForm) -> tuple[JSON, JSONObject]:
    if not isinstance(structured, Mapping):
        return structured, {}
    wrapped = list(structured) == ["result"] if form.wrapped is None else form.wrapped
    if not wrapped or (structured and "result" not in structured):
        return structured, structured
    value = structured.get("result")
    others = {key: part for key, part in structured.items() if key != "result"}
    return value, {**others, **(value if isinstance(value, Mapping) else {})}


def _failure(result: CallResult, where: Where, reader: _ContentReader, launch: Launch) -> McpError:
    from pflow_mcp_plugin.client.failures.explanation import says_tool_is_gone
    from pflow_mcp_plugin.client.failures.http_failures import advice

    redactor = reader.redactor
    texts = (block.get("text") for block in result.content if block.get("type") == "text")
    said = redactor.pieces(text.strip() for text in texts if isinstance(text, str))
    words = "\n".join(said).strip()
    if not words and result.has_structured:
        words = json.dumps(redactor.value(result.structured), ensure_ascii=False)
    if says_tool_is_gone(words, where.tool):
        return gone(where)
    message = (
        redactor.shortened(words, _LONGEST_MESSAGE)
        or f"Tool {where.tool} on server {where.server} reports a failure; it gives no reason"
    )
    action = action_of(message)
    wait = wait_of(message) if action == "rate_limited" else None
    after = "" if wait is None else f"{wait:g}"
    step = advice(action, launch.server, launch.config_file, after=after, tool=where.info_command)
    error = CallFailed(
        "\n".join([message, *launch.blank_notes]),
        where=where._replace(phase="result"),
        action=action,
        ran="ran",
        retry_after=wait,
        next_step=step or f"the message comes from the tool; {where.info_command} shows its parameters",
        structured_content=redactor.value(result.structured),
        content_blocks=redactor.value(reader.failed(result.content)),
    )
    error.suggestions = (*launch.blank_steps, *error.suggestions)
    return error


def gone(where: Where, note: str = "", near: str = "") -> McpError:
    """Return the error that a node gets as its result if the server, or its last sync, lacks the tool."""
    step = f"Run: pflow mcp sync {where.server}"
    return McpError(
        f"Tool {where.tool} not found on server {where.server}{note}",
        where=where,
        next_step=f"Did you mean {near}? Otherwise run: pflow mcp sync {where.server}" if near else step,
        kind="not_found",
        action="resource_missing",
    )


class _Malformed(ValueError):
    """A content block of a tool's result lacks what its type requires."""


class _ContentReader:
    def __init__(self, where: Where, artifacts: Path, redactor: Redactor) -> None:
        self._where = where._replace(phase="result")
        self._artifacts = artifacts
        self.redactor = redactor
        self._encoded_media: list[tuple[str, dict[str, JSON]]] = []
        self.malformed: list[str] = []

    def content(self, blocks: tuple[JSONObject, ...]) -> JSON:
        found = map(self._block, blocks)
        values = [_decoded(value) if isinstance(value, str) else value for value in found]
        return values if len(values) > 1 else next(iter(values), None)

    def beside(self, result: CallResult, value: JSON) -> list[JSON]:
        """Return the content blocks beside a tool's structured result, and the media inside the structure."""
        said = () if _is_repeated(result, value) else result.content
        blocks = [self._block(block) for block in said]
        for media in self._media_in(result.structured):
            if media not in blocks:
                blocks.append(media)
        return blocks

    def files(self, value: JSON, limit: int) -> tuple[tuple[str, dict[str, JSON]], ...]:
        found = {text: file for text, file in self._encoded_media if _is_longer(text, limit)}
        with suppress(CallFailed):  # without room on the disk there is no file: the result itself is whole
            for text in _parts(value):
                if isinstance(text, str) and text not in found and _is_longer(text, limit):
                    looks_like_json = text[:1] + text[-1:] in ("{}", "[]")
                    mime_type = "application/json" if looks_like_json else "text/plain"
                    found[text] = self._written(_encoded(text), mime_type)
        return tuple(found.items())

    def failed(self, blocks: tuple[JSONObject, ...]) -> list[JSON] | None:
        """Return the content blocks of a failed result, None if it is all text, which is in the message.

        A file that cannot be written must not hide the failure.
        """
        if all(block.get("type") == "text" for block in blocks):
            return None
        try:
            return [self._block(block) for block in blocks]
        except CallFailed as error:
            return [error.message]

    def _media_in(self, structured: JSON) -> Iterator[dict[str, JSON]]:
        """Write the media inside a tool's structured result to files, and yield references to them.

        They are objects with a `type`, a `mimeType`, and `data` or `blob` that is valid base64. Any other
        object with such keys is data. A number that is not finite is an error: it is not JSON.
        """
        for part in _parts(structured):
            if isinstance(part, float) and not math.isfinite(part):
                tool, server = self._where.tool, self._where.server
                raise CallFailed(
                    f"The result of tool {tool} on server {server} cannot be read: its structure has a "
                    "number that is NaN or too large, which is not JSON",
                    where=self._where,
                    ran="unknown",
                    next_step=f"{_MAY_ACT_TWICE}. Report this to the author of {server}",
                )
            if not isinstance(part, Mapping) or part.get("type") not in ("image", "audio", "blob"):
                continue
            key = "data" if "data" in part else "blob"
            text = part.get(key)
            if isinstance(part.get("mimeType"), str) and isinstance(text, str):
                with suppress(_Malformed):
                    file = self._file(part, key)
                    self._encoded_media.append((text, file))
                    yield file

    def _block(self, block: JSONObject) -> JSON:
        kind = block.get("type")
        try:
            if kind == "text":
                return _string(block, "text")
            if kind in ("image", "audio"):
                return self._file(block, "data")
            if kind == "resource":
                held = block.get("resource")
                resource = held if isinstance(held, Mapping) else {}
                if "blob" in resource:
                    return {"uri": resource.get("uri"), **self._file(resource, "blob")}
                return {**resource, "text": _string(resource, "text")}
        except _Malformed as error:
            self.malformed.append(
                f"Tool {self._where.tool} on server {self._where.server} returned "
                f"{self.redactor.shortened(str(error), _LONGEST_MESSAGE)}, which stays as it is in the result"
            )
        return dict(block)

    def _file(self, block: JSONObject, key: str) -> dict[str, JSON]:
        stated = block.get("mimeType")
        mime_type = stated if isinstance(stated, str) else "application/octet-stream"
        try:
            # Some servers break lines, leave out the padding, or use the alphabet for URLs (RFC 4648).
            data = _string(block, key).encode("ascii").translate(_PLAIN_BASE64, b" \t\r\n")
            content = b64decode(data + b"=" * (-len(data) % 4), validate=True)
        except (Base64Error, UnicodeEncodeError) as error:
            raise _Malformed(f"{mime_type} content that is not base64") from error
        return self._written(content, mime_type)

    def _written(self, content: bytes, mime_type: str) -> dict[str, JSON]:
        try:
            return write_artifact(self._artifacts, content, mime_type)
        except StoreError as error:
            tool, server = self._where.tool, self._where.server
            raise CallFailed(
                f"Tool {tool} on server {server} ran, but its result could not be written: {error.message}",
                where=self._where,
                ran="unknown",
                next_step=f"{_MAY_ACT_TWICE}. Free disk space, or set PFLOW_HOME",
                path=str(error.path),
            ) from error


def _string(block: JSONObject, key: str) -> str:
    value = block.get(key)
    if not isinstance(value, str):
        raise _Malformed(f"a {block.get('type', 'resource')} block without {key}")
    return value


def _is_repeated(result: CallResult, value: JSON) -> bool:
    """Whether the content blocks of a tool's result only repeat its structure as text.

    Servers add it for clients that do not read structures: the JSON of the whole or of what is wrapped in
    `result`, one of its strings, or a text for each item of a list.
    """
    texts = [block.get("text") for block in result.content if block.get("type") == "text"]
    if len(texts) != len(result.content):
        return False
    if not texts:
        return True
    if isinstance(value, list) and len(texts) == len(value):
        pairs = zip(texts, value, strict=True)
        if all(text == item or _is_json_of(text, item) for text, item in pairs):
            return True
    structured = result.structured
    members = list(structured.values()) if isinstance(structured, Mapping) else [value]
    strings = [member for member in members if isinstance(member, str)]
    return len(texts) == 1 and (texts[0] in strings or _is_json_of(texts[0], structured, value))


def _is_json_of(text: JSON, *values: JSON) -> bool:
    if not isinstance(text, str):
        return False
    try:
        read = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return any(is_same(read, value) for value in values)


def _decoded(text: str) -> JSON:
    stripped = text.strip()
    if stripped[:1] + stripped[-1:] not in ("{}", "[]"):
        return text
    try:
        # NaN and infinities, which Python reads and writes, are not JSON (RFC 8259, section 6).
        return strict_json(stripped)
    except (ValueError, RecursionError):
        return text


def _parts(value: JSON) -> Iterator[JSON]:
    left = [value]
    while left:
        part = left.pop()
        yield part
        if isinstance(part, _SCALARS):
            continue  # first: most parts are, and the check that one is not a Mapping is slow
        if isinstance(part, Mapping):
            left += reversed([*part.values()])
        elif isinstance(part, list | tuple):
            left += reversed(part)


def _is_longer(text: str, limit: int) -> bool:
    # A character takes at most four bytes in UTF-8, so few texts must be encoded to be measured.
    return len(text) * 4 > limit and (len(text) > limit or len(_encoded(text)) > limit)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def write_artifact(folder: Path, content: bytes, mime_type: str) -> dict[str, JSON]:
    """Write the content of a tool's result, unredacted, to a private file named after its hash.

    Returns its `path`, `mimeType`, `size` in bytes and `sha256`.
    """
    digest = sha256(content).hexdigest()
    plain = mime_type.partition(";")[0].strip().lower()
    extension = _KNOWN.get(plain)
    if extension is None:
        from mimetypes import MimeTypes

        # MimeTypes() ignores the system's tables, which are slow to read and differ between machines
        extension = MimeTypes().guess_extension(plain) or ""
    extension = extension if _EXTENSION.fullmatch(extension) else ".bin"
    path = folder / f"{digest[:24]}{extension}"
    if path.is_file() and not path.is_symlink():
        with suppress(OSError):
            path.touch()  # a host may remove files by their age
    else:
        storage.write_atomic(path, content, follow=False)
    return {"path": str(path), "mimeType": mime_type, "size": len(content), "sha256": digest}
