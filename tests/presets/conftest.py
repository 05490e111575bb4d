"""A host that offers the hook for presets, and nothing else."""

from __future__ import annotations

from types import SimpleNamespace

import pluggy
import pytest

from pflow_mcp_plugin import mcp_hookspecs
from pflow_mcp_plugin.contract import hookimpl


@pytest.fixture
def manager() -> pluggy.PluginManager:
    """A plugin manager with the hooks of this plugin."""
    made = pluggy.PluginManager("pflow")
    made.add_hookspecs(mcp_hookspecs)
    return made


@pytest.fixture
def host(manager):
    """What the presets of all plugins are collected from."""
    return SimpleNamespace(hook=manager.hook)


@pytest.fixture
def offer(manager):
    """Register a plugin whose `pflow_mcp_presets` is the given function."""

    def offer(name, function) -> None:
        manager.register(SimpleNamespace(pflow_mcp_presets=hookimpl(function)), name)

    return offer
