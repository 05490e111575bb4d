"""The plugin that offers the built-in presets; it is loaded at every start, the presets only on demand."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pflow_mcp_plugin.contract import hookimpl

if TYPE_CHECKING:
    from pflow_mcp_plugin.contract import Host
    from pflow_mcp_plugin.types import ServerPreset


@hookimpl
def pflow_mcp_presets(host: Host) -> Iterable[ServerPreset]:
    """Offer the built-in presets."""
    from pflow_mcp_plugin.presets.builtin_servers import PRESETS

    return PRESETS
