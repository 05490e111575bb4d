"""Turns the answer of a tool into the values that a node writes."""

from __future__ import annotations

import json
import math
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Mapping
from typing import NoReturn

import attrs

from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.errors import CallFailed, McpError, Where
from pflow_mcp_plugin.exchange import Blanks, CallResult
from pflow_mcp_plugin.execution.artifacts import Artifacts
from pflow_mcp_plugin.execution.failure_words import action_of
from pflow_mcp_plugin.redaction import Redactor
from pflow_mcp_plugin.storage import StoreError

JSON_TYPE = "application/json"
TEXT = "text/plain"
BINARY = "application/octet-stream"

NO_BLANKS = Blanks()
NOTHING = Redactor()

_LONGEST_MESSAGE = 4000
_NO_REASON = "it gives no reason"


@attrs.frozen(kw_only=True)
class Reading:
    """The result of a tool as it goes into the shared store.

    Attributes:
        value: The whole result, stored under `result`.
        natural: The top-level properties of a structured result, each under its own key.
    """

    value: JSON = None
    natural: JSONObject = attrs.field(factory=dict)


def read(
    result: CallResult,
    where: Where,
    artifacts: Artifacts,
    inline_limit: int,
    blanks: Blanks = NO_BLANKS,
    redactor: Redactor = NOTHING,
) -> Reading:
    """Read the result of a tool: return the values for the shared store.

    Args:
        result: The answer of the tool.
        where: The tool, for errors.
        artifacts: Writes content that is not text or is too large.
        inline_limit: Bytes of JSON above which a value goes to a file.
        blanks: Variables for which its server got an empty string.
        redactor: Redacts the secrets of the server from errors; the values stay whole.

    Raises:
        CallFailed: The tool reports a failure, whatever else the result contains.
        CallFailed: The result is malformed, or a file for it could not be written.
    """
    if result.is_error:
        raise failure(result, where, blanks, redactor)
    reader = _ContentReader(where, artifacts, inline_limit, redactor)
    if result.has_structured:
        return reader.structured(result.structured)
    return Reading(value=reader.content(result.content))


def failure(result: CallResult, where: Where, blanks: Blanks, redactor: Redactor = NOTHING) -> McpError:
    """Return the failure that a tool reports.

    Args:
        result: The answer of the tool; its text becomes the message.
        where: The tool.
        blanks: Variables for which its server got an empty string; the error names them.
        redactor: Redacts the secrets of the server.
    """
    from pflow_mcp_plugin.client.failures.json_rpc import says_tool_is_gone

    texts = (block.get("text") for block in result.content if block.get("type") == "text")
    said = redactor.pieces(text.strip() for text in texts if isinstance(text, str))
    words = "\n".join(said).strip()
    if not words and result.has_structured:
        words = json.dumps(redactor.value(result.structured), ensure_ascii=False)
    if says_tool_is_gone(words, where.tool):
        return gone(where)
    message = (
        redactor.shortened(words, _LONGEST_MESSAGE)
        or f"Tool {where.tool} on server {where.server} reports a failure; {_NO_REASON}"
    )
    step = f"the message comes from the tool; {where.info_command} shows its parameters"
    error = CallFailed(
        "\n".join([message, *blanks.notes]),
        where=attrs.evolve(where, phase="result"),
        action=action_of(message),
        ran="ran",
        next_step=step,
    )
    error.suggestions = (*blanks.steps, *error.suggestions)
    return error


def gone(where: Where, note: str = "", near: str = "") -> McpError:
    """Return the error in place of a result if the server does not have the tool.

    Args:
        where: Server and tool.
        note: When it disappeared, if known.
        near: The most similar tool of the server, if any.
    """
    step = f"Run: pflow mcp sync {where.server}"
    return McpError(
        f"Tool {where.tool} not found on server {where.server}{note}",
        where=where,
        next_step=f"Did you mean {near}? Otherwise run: pflow mcp sync {where.server}" if near else step,
        kind="not_found",
        action="resource_missing",
    )


class _ContentReader:
    def __init__(self, where: Where, artifacts: Artifacts, inline_limit: int, redactor: Redactor) -> None:
        self._where = attrs.evolve(where, phase="result")
        self._artifacts = artifacts
        self._limit = inline_limit
        self._redactor = redactor

    def structured(self, value: JSON) -> Reading:
        # Protocol versions before 2026-07-28 require an object: servers wrap other values under this key.
        if isinstance(value, Mapping) and list(value) == ["result"]:
            value = value["result"]
        natural = value if isinstance(value, Mapping) else {}
        whole = self._inline(value)
        if whole is not value:  # too large as a whole, but single parts may fit
            natural = {key: self._inline(part) for key, part in natural.items()}
        return Reading(value=whole, natural=natural)

    def content(self, blocks: tuple[JSONObject, ...]) -> JSON:
        if not blocks:
            return None
        if len(blocks) == 1:
            return self._block(blocks[0])
        return self._inline([self._block(block) for block in blocks])

    def _inline(self, value: JSON) -> JSON:
        """Return a value unchanged, or the reference to its file if it is too large."""
        if isinstance(value, str):
            return self._inline_text(value)
        content = _encoded(json.dumps(value, ensure_ascii=False))
        return value if len(content) <= self._limit else self._written(content, JSON_TYPE)

    def _inline_text(self, text: str, mime_type: str = TEXT) -> JSON:
        return text if self._fits(text) else self._written(_encoded(text), mime_type)

    def _fits(self, text: str) -> bool:
        # a character takes at most four bytes in UTF-8
        return len(text) * 4 <= self._limit or len(_encoded(text)) <= self._limit

    def _block(self, block: JSONObject) -> JSON:
        kind = block.get("type")
        if kind == "text":
            return self._text(self._string(block, "text"))
        if kind in ("image", "audio"):
            return self._file(block, "data")
        if kind == "resource":
            return self._resource(block)
        return dict(block)

    def _text(self, text: str) -> JSON:
        """Return text that is a JSON object or array decoded, any other text unchanged."""
        stripped = text.strip()
        looks_like_json = stripped[:1] + stripped[-1:] in ("{}", "[]")
        if not looks_like_json:
            return self._inline_text(text)
        if not self._fits(text):
            return self._written(_encoded(text), JSON_TYPE)
        try:
            # NaN and infinities, which Python reads and writes, are not JSON (RFC 8259, section 6).
            decoded: JSON = json.loads(stripped, parse_constant=_refuse, parse_float=_finite)
        except (ValueError, RecursionError):
            return text
        return decoded

    def _resource(self, block: JSONObject) -> JSON:
        resource = block.get("resource")
        if not isinstance(resource, Mapping):
            raise self._malformed("an embedded resource without its content")
        if "blob" in resource:
            return {"uri": resource.get("uri"), **self._file(resource, "blob")}
        return {**resource, "text": self._inline_text(self._string(resource, "text"))}

    def _file(self, block: JSONObject, key: str) -> dict[str, JSON]:
        stated = block.get("mimeType")
        mime_type = stated if isinstance(stated, str) else BINARY
        try:
            content = b64decode(self._string(block, key), validate=True)
        except (Base64Error, ValueError) as error:
            raise self._malformed(f"{mime_type} content that is not base64") from error
        return self._written(content, mime_type)

    def _written(self, content: bytes, mime_type: str) -> dict[str, JSON]:
        try:
            return self._artifacts.write(content, mime_type)
        except StoreError as error:
            raise self._not_written(error) from error

    def _string(self, block: JSONObject, key: str) -> str:
        value = block.get(key)
        if not isinstance(value, str):
            raise self._malformed(f"a {block.get('type', 'resource')} block without {key}")
        return value

    def _malformed(self, what: str) -> CallFailed:
        tool, server = self._where.tool, self._where.server
        return CallFailed(
            f"The result of tool {tool} on server {server} cannot be read: "
            f"{self._redactor.shortened(what, _LONGEST_MESSAGE)}",
            where=self._where,
            ran="ran",
            next_step=f"The tool has run; a repeat may act twice. Report this to the author of {server}",
        )

    def _not_written(self, error: StoreError) -> CallFailed:
        tool, server = self._where.tool, self._where.server
        return CallFailed(
            f"Tool {tool} on server {server} ran, but its result could not be written: {error.message}",
            where=self._where,
            ran="ran",
            next_step="The tool has run; a repeat may act twice. Free disk space, or set PFLOW_HOME",
            path=str(error.path),
        )


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _finite(number: str) -> float:
    value = float(number)
    return value if math.isfinite(value) else _refuse(number)


def _refuse(number: str) -> NoReturn:
    message = f"{number} is not a JSON number"
    raise ValueError(message)
