"""Presets: ready-made servers that users add by name.

- `collection`: the presets of all plugins; the config of a server made with the values that a user gives, and
  whether such a server still has the tools that the preset's author saw
- `builtin_servers`: our own. This package offers them as an ordinary plugin, loaded at every start; they are
  loaded only on demand
- `package_template`: the package that `pflow mcp new-preset` writes

A preset itself is `types.ServerPreset`; `pflow_mcp_presets` in `mcp_hookspecs` is the hook that offers it.
"""

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
