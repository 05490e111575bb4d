"""Offers a preset whose name another package has."""

from __future__ import annotations

from pflow_mcp_plugin.contract import hookimpl


@hookimpl
def pflow_mcp_presets(host):
    """Offer it."""
    from pflow_mcp_plugin.types import ServerPreset

    yield ServerPreset(
        name="acme-tickets", title="Others", description="The tickets of others", command="acme-others"
    )
