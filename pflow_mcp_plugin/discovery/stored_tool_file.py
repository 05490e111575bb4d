"""A stored tool file, of which only the requested part is decoded.

A large server has thousands of tools, and a lookup needs one of them. The first line of a file
contains everything except the tools, and an index of the position of each tool. A file written by
hand, or by an older version, has no valid index and is decoded as a whole.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pflow_mcp_plugin import naming, storage
from pflow_mcp_plugin.discovery import tool_file
from pflow_mcp_plugin.discovery.tool_file import Head, SyncedTool, ToolFile

_MISSHAPEN = (KeyError, TypeError, ValueError, AttributeError, RecursionError)


class StoredFile:
    """A stored tool file, which decodes only the part that is requested.

    Args:
        path: Its path; the file is named after the server.
        content: All of it.
    """

    def __init__(self, path: Path, content: bytes) -> None:
        self._path = path
        self._content = content
        self._body = content.find(b"\n") + 1
        self._index: Mapping[str, Any] | None = None
        self._head: Head | None = None
        self._whole: ToolFile | None = None
        self._read_first_line()

    @property
    def head(self) -> Head:
        """The content of the stored file without the tools, decoded from its first line if that is valid.

        Raises:
            storage.CorruptFile: The file does not contain the tools of this server.
            storage.StoreError: A newer version of the program wrote it.
        """
        return self._head or self.whole

    @property
    def whole(self) -> ToolFile:
        """The whole content of the stored file, decoded once; raises the same errors as `head`."""
        if self._whole is None:
            decoded = tool_file.decode(self._path, self._content)
            if decoded.server != self._path.stem:
                raise storage.CorruptFile(self._path, f"contains the tools of server {decoded.server}")
            self._whole = decoded
        return self._whole

    def names(self, beginning: str) -> tuple[str, ...]:
        """Return the raw names of the stored tools that begin so; raises the errors of `head`."""
        if self._index is None:
            return tuple(tool.name for tool in self.whole.tools if tool.name.startswith(beginning))
        typed = re.escape(json.dumps(beginning)[1:-1].encode("ascii"))
        # The name stands at the beginning of a tool's line; see `tool_file.encode`.
        found = re.findall(rb'\n\{"name": ("%b(?:[^"\\]|\\.)*")' % typed, self._content)
        return tuple(json.loads(name) for name in found)

    def claiming(self, part: str) -> tuple[SyncedTool, ...]:
        """Decode only the stored tools whose part of a node type is `part`; raises the errors of `head`."""
        if self._index is not None:
            try:
                return self._indexed(part, self._index)
            except _MISSHAPEN:  # edited by hand; the tools may still be valid
                self._index = None
        return tuple(each for each in self.whole.synced if naming.tool_part(each.tool.name) == part)

    def _read_first_line(self) -> None:
        first = self._content[: self._body]
        if not first.endswith(tool_file.TOOLS):
            return
        try:
            data = json.loads(first + b"]}")
            # Another size means that tools were edited by hand, and the offsets may be wrong.
            fits = data["size"] == len(self._content) - self._body
            if (
                fits
                and data["schema_version"] == tool_file.SCHEMA_VERSION
                and data["server"] == self._path.stem
            ):
                self._head, self._index = tool_file.head_from_json(data), dict(data["index"])
        except _MISSHAPEN:
            return

    def _indexed(self, part: str, index: Mapping[str, Any]) -> tuple[SyncedTool, ...]:
        tools = tuple(self._tool_at(self._body + offset) for offset in index.get(part, ()))
        if any(naming.tool_part(each.tool.name) != part for each in tools):
            message = f"the index is wrong about {part}"
            raise ValueError(message)
        return tools

    def _tool_at(self, begin: int) -> SyncedTool:
        line = self._content[begin : self._content.index(b"\n", begin)]
        return tool_file.synced_from_json(json.loads(line.removesuffix(b",")))
