"""Hashes that show whether a tool, or any tool of a server, has changed."""

from __future__ import annotations

import json
from collections.abc import Iterable

from pflow_mcp_plugin.types import Tool


def tool_hash(tool: Tool) -> str:
    """Return the hash (`sha256:...`) of what users rely on in a tool: name, description, both schemas."""
    return _hash([tool.name, tool.description, tool.input_schema, tool.output_schema])


def manifest_hash(tools: Iterable[Tool]) -> str:
    """Return the hash (`sha256:...`) of the hashes of all tools; their order does not matter."""
    return _hash(sorted((tool.name, tool.hash or tool_hash(tool)) for tool in tools))


def canonical(value: object) -> str:
    """Return the canonical JSON of a value, from which it is hashed: keys sorted, no spaces, ASCII only."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _hash(value: object) -> str:
    from hashlib import sha256  # needed by a sync, not by a lookup

    return "sha256:" + sha256(canonical(value).encode("ascii")).hexdigest()
