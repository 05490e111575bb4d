"""What a protected MCP server of the tests does, as a test wants it."""

from __future__ import annotations

from typing import Any

import attrs


@attrs.define(kw_only=True)
class Switches:
    """What is switched with `ProtectedServer.switch`, and what it is at the start.

    Attributes:
        challenge_scope: The `scope` that a 401 names; empty for none, which is how the SDK answers.
        metadata: What the metadata of the resource say instead; a field that is None is left out.
    """

    challenge_scope: str = ""
    metadata: dict[str, Any] = attrs.field(factory=dict)
