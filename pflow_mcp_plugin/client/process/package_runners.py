"""Programs that may install a server before they start it: npx, uvx, docker and the like."""

from __future__ import annotations

from pathlib import PurePath

from pflow_mcp_plugin.types import Server

ROLL_BACK_SECONDS = 10.0
"""How long a package runner has after SIGTERM to remove what it has installed so far."""
ROLL_BACK_NOTICE = f"was still being installed: that has {ROLL_BACK_SECONDS:g} s to be undone"
_RUNNERS = {"npx", "npm", "pnpm", "yarn", "bun", "bunx", "deno", "uv", "uvx", "pipx", "docker", "podman"}


def runner(server: Server) -> str:
    """Return the package runner that may first have to install a server, or an empty string."""
    name = PurePath(server.command).stem
    return name if name in _RUNNERS else ""
