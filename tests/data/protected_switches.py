"""What a protected MCP server of the tests does, as a test wants it."""

from __future__ import annotations

from typing import Any, Literal

import attrs


@attrs.define(kw_only=True)
class Switches:
    """What is switched with `ProtectedServer.switch`, and what it is at the start.

    Attributes:
        tool_scopes: The scope that each tool needs; without it, a call is answered with 403.
        challenge_scope: The `scope` that a 401 names; empty for none, which is how the SDK answers.
        metadata_in_challenge: Whether 401 and 403 say where the metadata of the resource are.
        metadata_at: Where they are: below the `path` of the server, at the `root`, or nowhere (`none`).
        gateway_key: What the header `x-gateway-key` has to say in every request; empty for nothing.
        metadata: What they say instead; a field that is None is left out.
    """

    tool_scopes: dict[str, str] = attrs.field(
        factory=lambda: {"write_note": "notes:write", "delete_note": "notes:delete"}
    )
    challenge_scope: str = ""
    metadata_in_challenge: bool = True
    metadata_at: Literal["path", "root", "none"] = "path"
    gateway_key: str = ""
    metadata: dict[str, Any] = attrs.field(factory=dict)
