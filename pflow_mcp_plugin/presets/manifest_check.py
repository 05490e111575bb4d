"""Whether a server that was added from a preset has the tools that the preset's author saw."""

from __future__ import annotations

from pathlib import PurePath

from pflow_mcp_plugin.contract import Problem
from pflow_mcp_plugin.presets.collection import OfferedPreset
from pflow_mcp_plugin.types import Server, ServerPreset
from pflow_mcp_plugin.variable_references import references


def difference(offer: OfferedPreset, server: Server, manifest_hash: str) -> Problem | None:
    """Return a warning if a server's tools differ from those that its preset declares.

    A server whose launch the user has changed, to another version for instance, is not compared.

    Args:
        offer: The preset that the server was added from.
        server: The server as configured.
        manifest_hash: The hash of its tools as of the last sync.
    """
    preset = offer.preset
    is_expected = not preset.manifest_hash or preset.manifest_hash == manifest_hash
    if is_expected or not is_launch_of(preset, server):
        return None
    return Problem(
        message=(
            f"Server {server.name} has other tools than its preset {preset.name} ({offer.origin}) declares: "
            f"{_short(manifest_hash)} instead of {_short(preset.manifest_hash)}"
        ),
        path=f"mcpServers.{server.name}",
        suggestion=f"Review them before you use them: pflow mcp tools {server.name}",
        severity="warning",
        kind="config",
        source=preset.name,
    )


def is_launch_of(preset: ServerPreset, server: Server) -> bool:
    """Whether the manifest check applies to a server: it is launched as its preset says, for any inputs."""
    same_program = PurePath(preset.command).name == PurePath(server.command).name
    fixed = [value for value in preset.args if not references(value)]
    return same_program and preset.url == server.url and all(value in server.args for value in fixed)


def _short(value: str) -> str:
    return value[: len("sha256:") + 12]
