"""The embedded host and the handle that plugins are given."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

import pluggy

from pflow_mcp_plugin.contract import API, FEATURES, Paths, Problem
from pflow_mcp_plugin.host.cli.output import write
from pflow_mcp_plugin.host.plugins import Plugins
from pflow_mcp_plugin.storage import default_paths

if TYPE_CHECKING:
    from pflow_mcp_plugin.host.library import Library
    from pflow_mcp_plugin.host.registry.lookup import Registry
    from pflow_mcp_plugin.host.running import Runner
    from pflow_mcp_plugin.host.settings import Settings
    from pflow_mcp_plugin.host.traces import Traces


class EmbeddedHost:
    """A pflow core of its own; what hangs on it is made when it is first asked for.

    Args:
        paths: The folders to work in.
        manager: The plugin manager to use in place of one with every installed plugin.
        show: Shows a warning to the user.
    """

    api = API
    features = frozenset(FEATURES)

    def __init__(
        self, paths: Paths, manager: pluggy.PluginManager | None, show: Callable[[Problem], None]
    ) -> None:
        self.paths = paths
        self.plugins = Plugins(self.report, manager)
        self._show = show
        self._reported: set[str] = set()

    @property
    def hook(self) -> pluggy.HookRelay:
        """The hooks of every plugin."""
        return self.plugins.manager.hook

    @cached_property
    def registry(self) -> Registry:
        """Every node type."""
        from pflow_mcp_plugin.host.registry.lookup import Registry

        return Registry(self)

    @cached_property
    def runner(self) -> Runner:
        """What checks and runs workflows."""
        from pflow_mcp_plugin.host.running import Runner

        return Runner(self)

    @cached_property
    def settings(self) -> Settings:
        """What the user keeps with pflow."""
        from pflow_mcp_plugin.host.settings import Settings

        return Settings(self.paths.config / "settings.json")

    @cached_property
    def library(self) -> Library:
        """Saved workflows."""
        from pflow_mcp_plugin.host.library import Library

        return Library(self.paths.data / "workflows")

    @cached_property
    def traces(self) -> Traces:
        """What earlier runs recorded."""
        from pflow_mcp_plugin.host.traces import Traces

        return Traces(self.paths.state / "traces")

    def report(self, problem: Problem) -> None:
        """Show a warning to the user, once for each text."""
        if problem.message not in self._reported:
            self._reported.add(problem.message)
            self._show(problem)

    @contextmanager
    def gathering(self) -> Iterator[list[Problem]]:
        """Gather what is reported meanwhile, in place of showing it."""
        gathered: list[Problem] = []
        show, self._show = self._show, gathered.append
        try:
            yield gathered
        finally:
            self._show = show

    def refresh(self, source: str) -> None:
        """Make the registry's index anew; it is one for all sources."""
        self.registry.refresh()

    def close(self) -> None:
        """Close what was opened; plugins have been told before."""
        if "registry" in vars(self):
            self.registry.close()


@contextmanager
def open_host(
    manager: pluggy.PluginManager | None = None, *, show: Callable[[Problem], None] | None = None
) -> Iterator[EmbeddedHost]:
    """Load and configure the plugins, and unconfigure them at the end.

    Args:
        manager: Plugins to use in place of the installed ones, see `hooks.create_manager`; the
            host's own are added.
        show: Shows a warning to the user; to standard error when left out.
    """
    host = EmbeddedHost(default_paths(), manager, show or print_warning)
    host.plugins.load()
    host.plugins.configure(host)
    try:
        yield host
    finally:
        host.plugins.unconfigure(host)
        host.close()


def print_warning(problem: Problem) -> None:
    """Write a warning to standard error."""
    lines = [f"Warning: {problem.path + ': ' if problem.path else ''}{problem.message}"]
    if problem.suggestion:
        lines.append(f"  -> {problem.suggestion}")
    write(sys.stderr, "\n".join(lines))
