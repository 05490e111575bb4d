"""Whether running a tool twice does harm.

Annotations are a server's claims and count only if the user's config trusts them.
"""

from __future__ import annotations

from typing import Literal

from pflow_mcp_plugin.types import Server, Tool


def purity(tool: Tool, server: Server) -> Literal["impure", "flow_safe"]:
    """Return `flow_safe` if the tool claims to be read-only and the user trusts this server's claim."""
    return "flow_safe" if claims_to_read(tool) and server.trust_readonly else "impure"


def claims_to_read(tool: Tool) -> bool:
    """Whether a tool claims to be pure: it says that it only reads, which may not be true."""
    return _claims(tool, "readOnlyHint")


def is_safe_to_repeat(tool: Tool, server: Server) -> bool:
    """Whether a tool is pure enough to repeat a call of unknown outcome: trusted read-only or idempotent."""
    idempotent = _claims(tool, "idempotentHint") and server.trust_idempotent
    return idempotent or purity(tool, server) == "flow_safe"


def _claims(tool: Tool, hint: str) -> bool:
    return tool.annotations.get(hint) is True
