"""The embedded host and the handle that plugins are given."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import pluggy

from pflow_mcp_plugin.contract import Host
from pflow_mcp_plugin.contract.problems import advice
from pflow_mcp_plugin.host.plugins import Plugins
from pflow_mcp_plugin.host.shared_parts import shared_part
from pflow_mcp_plugin.host.standard_streams import write
from pflow_mcp_plugin.storage import absolute, default_paths
from pflow_mcp_plugin.terminal.looks import continued

if TYPE_CHECKING:
    from pflow_mcp_plugin.contract import Paths, Problem, Report, Suggestion
    from pflow_mcp_plugin.host.registry.node_registry import NodeRegistry
    from pflow_mcp_plugin.host.running import WorkflowRunner
    from pflow_mcp_plugin.host.stored_settings import StoredSettings
    from pflow_mcp_plugin.host.trace_files import TraceFiles
    from pflow_mcp_plugin.host.workflow_library import WorkflowLibrary


class EmbeddedHost(Host):
    """The embedded host, a complete small pflow core; its parts are created on first use.

    Any number of threads may use it at once. Without a `manager`, it has every installed plugin; `show` shows
    a warning to the user.
    """

    api = (1, 0)  # the contract version this host was written for, not the installed one

    def __init__(
        self, paths: Paths, manager: pluggy.PluginManager | None, show: Callable[[Problem], None]
    ) -> None:
        self.paths = paths
        self.plugins = Plugins(self.report, manager)
        self._show = show
        self._reporting = threading.Lock()
        self._reported: set[str] = set()
        self._around: Callable[[], AbstractContextManager[None]] = nullcontext
        self._gathering = threading.local()

    @property
    def hook(self) -> pluggy.HookRelay:
        return self.plugins.manager.hook

    @shared_part
    def registry(self) -> NodeRegistry:
        from pflow_mcp_plugin.host.registry.node_registry import NodeRegistry

        return NodeRegistry(self.paths, self.plugins, self.setting)

    @shared_part
    def runner(self) -> WorkflowRunner:
        from pflow_mcp_plugin.host.running import WorkflowRunner

        return WorkflowRunner(host=self, types=self.registry, plugins=self.plugins)

    @shared_part
    def settings(self) -> StoredSettings:
        from pflow_mcp_plugin.host.stored_settings import StoredSettings

        return StoredSettings(self.paths.config / "settings.json")

    @shared_part
    def library(self) -> WorkflowLibrary:
        from pflow_mcp_plugin.host.workflow_library import WorkflowLibrary

        return WorkflowLibrary(self.paths.data / "workflows", self.setting)

    @shared_part
    def traces(self) -> TraceFiles:
        from pflow_mcp_plugin.host.trace_files import TraceFiles

        return TraceFiles(self.paths.state / "traces", self._complete_traces)

    def _complete_traces(self, folder: Path) -> None:
        runs = self.paths.state / "runs"
        if any((runs / "open").glob("*.db")):  # most trace commands need no SQLite
            from pflow_mcp_plugin.host.running.recorded_trace import complete_traces

            for error in complete_traces(runs, folder):
                self.report(advice("", error.message, *error.suggestions))

    def use_project(self) -> None:
        """Let the embedded host's plugins use the config of the project in the current folder, too.

        Call this before any part of the host is used.
        """
        self.paths = attrs.evolve(self.paths, project=absolute(Path()))

    def report(self, problem: Problem) -> None:
        gathered: list[Problem] | None = getattr(self._gathering, "problems", None)
        with self._reporting:
            if problem.message in self._reported:
                return
            self._reported.add(problem.message)
        if gathered is None:
            with self._around():
                self._show(problem)
        else:
            gathered.append(problem)

    def run_ended(self) -> None:
        with self._reporting:
            self._reported.clear()

    @contextmanager
    def gathering(self) -> Iterator[list[Problem]]:
        """Make the embedded host collect, not show, what this thread reports in the `with` block."""
        before = getattr(self._gathering, "problems", None)
        self._gathering.problems = []
        try:
            yield self._gathering.problems
        finally:
            self._gathering.problems = before

    @contextmanager
    def showing_inside(self, around: Callable[[], AbstractContextManager[None]]) -> Iterator[None]:
        """Make the embedded host enter `around()` whenever it shows a report inside the `with` block."""
        before, self._around = self._around, around
        try:
            yield
        finally:
            self._around = before

    def run_chain(self, words: Sequence[str], prog_name: str) -> Report:
        from pflow_mcp_plugin.host.direct.direct_run import DirectRun

        return DirectRun(self, self.registry, self.runner, prog_name, self.showing_inside).report(words)

    def complete_chain(self, words: Sequence[str], incomplete: str) -> Sequence[Suggestion]:
        from pflow_mcp_plugin.host.direct.chain_completion import chain_suggestions

        return chain_suggestions(self.registry, words, incomplete)

    def refresh(self, source: str) -> None:
        # There is one index for all plugins, whichever of them changed its source.
        self.registry.refresh()

    def setting(self, key: str) -> str | None:
        """Return a setting of this host; unlike `settings.get`, it makes the settings only when called."""
        return self.settings.get(key)

    def close(self) -> None:
        # `shared_part` keeps its value here: a registry that nobody used is not created to be closed.
        if "registry" in vars(self):
            self.registry.close()


@contextmanager
def open_host(
    manager: pluggy.PluginManager | None = None, *, show: Callable[[Problem], None] | None = None
) -> Iterator[EmbeddedHost]:
    """Open an embedded host: load and configure the plugins, and unconfigure them at the end.

    `manager` replaces the installed plugins; `show` receives warnings, which otherwise go to standard error.
    """
    shown = show or (lambda problem: write(sys.stderr, warning_lines(problem)))
    host = EmbeddedHost(default_paths(), manager, shown)
    host.plugins.load()
    host.plugins.configure(host)
    try:
        yield host
    finally:
        host.plugins.unconfigure(host)
        host.close()


def warning_lines(problem: Problem) -> str:
    """Return a warning as the embedded host shows it: the message, then the suggestion."""
    lines = [f"Warning: {problem.path + ': ' if problem.path else ''}{problem.message}"]
    if problem.suggestion:
        lines.append(f"  -> {problem.suggestion}")
    return "\n".join(map(continued, lines))
