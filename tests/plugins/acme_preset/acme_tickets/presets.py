"""The preset `acme-tickets`; `pflow mcp add acme-tickets` configures its server."""

from __future__ import annotations

import sys

from pflow_mcp_plugin.contract import hookimpl


@hookimpl
def pflow_mcp_presets(host):
    """Offer the preset."""
    from pflow_mcp_plugin.types import PresetInput, ServerPreset  # pflow starts faster without them

    return [
        ServerPreset(
            name="acme-tickets",
            title="Acme tickets",
            description="Search the tickets of a project",
            command=sys.executable,
            args=("-m", "acme_tickets.server", "${project}"),
            inputs=(PresetInput(name="project", description="Key of the project", default="DEMO"),),
        )
    ]
