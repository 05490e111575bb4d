"""Finds, loads and calls plugins one by one.

pluggy's own loader stops at the first plugin that cannot be imported, silently skips the second
of two entry points of the same name, and lets one raising implementation abort a whole call. Here
such a plugin is named, with its distribution and version, and skipped.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from importlib import import_module
from typing import Any, Literal

import pluggy

from pflow_mcp_plugin.contract import ENTRY_POINT_GROUP, Host, PflowError, Problem
from pflow_mcp_plugin.contract.problems import described
from pflow_mcp_plugin.host.entrypoints import Distribution, entry_points, own_distribution
from pflow_mcp_plugin.host.foreign_code import foreign_code
from pflow_mcp_plugin.host.hook_matching import create_manager, uncalled_hooks

DISABLE_VARIABLE = "PFLOW_DISABLE_PLUGINS"
_OWN = (
    ("pflow-nodes", f"{__package__}.builtin_nodes"),
    ("pflow-commands", f"{__package__}.cli.builtin_commands"),
)


class Plugin:
    """A plugin of the host, with its status.

    Args:
        name: The name of its entry point.
        own: Whether it is part of the host.
        module: The object that the entry point names, once it is imported.
        metadata: The distribution that contains it; None when it was registered by hand.

    Attributes:
        status: `disabled` by the user, `skipped` for the `reason` given, else `loaded`.
    """

    def __init__(
        self, name: str, *, own: bool = False, module: Any = None, metadata: Distribution | None = None
    ) -> None:
        self.name = name
        self.own = own
        self.module = module
        self.metadata = metadata
        self.status: Literal["loaded", "disabled", "skipped"] = "loaded"
        self.reason = ""

    @property
    def distribution(self) -> str:
        """The name of the plugin's distribution, empty when it was registered by hand."""
        metadata = self._read_metadata()
        return metadata.name if metadata else ""

    @property
    def version(self) -> str:
        """The version of the distribution in which the host found a plugin, empty if it has none."""
        metadata = self._read_metadata()
        return metadata.version if metadata else ""

    @property
    def label(self) -> str:
        """The name, distribution and version of one of the host's plugins, for messages."""
        return f"{self.name} ({self.distribution} {self.version})" if self.distribution else self.name

    def _read_metadata(self) -> Distribution | None:
        return own_distribution() if self.own else self.metadata


class PluginFailed(PflowError):
    """The failure of a plugin, with its name and distribution, and how to upgrade or disable it.

    Args:
        plugin: Whose code was called.
        doing: What failed, as in "could not be loaded".
        error: The exception that it raised.
    """

    def __init__(self, plugin: Plugin, doing: str, error: BaseException) -> None:
        self.reason = f"{doing}: {described(error)}"
        step = f"Upgrade or uninstall {plugin.distribution}, or " if plugin.distribution else ""
        super().__init__(
            f"Plugin {plugin.label} {self.reason}",
            kind="config",
            details={"plugin": plugin.name, "distribution": plugin.distribution, "version": plugin.version},
            suggestions=(f"{step}set {DISABLE_VARIABLE}={plugin.name}",),
        )
        self.source = plugin.name

    def as_warning(self) -> Problem:
        """Return a failed plugin's error as a warning, for when pflow continues without that plugin."""
        return Problem(
            message=self.message,
            suggestion=self.suggestions[0],
            severity="warning",
            kind="config",
            source=self.source,
        )


def plugin_code(
    plugin: Plugin, doing: str, *, passing: tuple[type[BaseException], ...] = ()
) -> AbstractContextManager[None]:
    """Blame a plugin for what is raised in the block: it becomes `PluginFailed`, except `passing`.

    Args:
        plugin: Whose code is called.
        doing: What failed if it raises, as in "could not be loaded".
        passing: The exceptions that the contract allows here.
    """
    return foreign_code(partial(PluginFailed, plugin, doing), passing=passing)


class Plugins:
    """The plugins of one host: loads and calls them one by one.

    Args:
        report: Called with a warning for each plugin that is skipped.
        manager: The manager to register on; when one is given, the plugins registered there replace
            the installed ones.
    """

    def __init__(
        self, report: Callable[[Problem], None], manager: pluggy.PluginManager | None = None
    ) -> None:
        self.report = report
        self.scan = manager is None
        self.manager = create_manager() if manager is None else manager
        self.all: list[Plugin] = []
        self._host: Host | None = None

    @property
    def loaded(self) -> list[Plugin]:
        """The plugins that are registered, the host's own first."""
        return [plugin for plugin in self.all if plugin.status == "loaded"]

    def load(self) -> None:
        """Load the host's own plugins, then the installed ones in the order of their names."""
        registered = self.manager.list_name_plugin()
        for name, module in _OWN:
            self._add(Plugin(name, own=True), partial(import_module, module))
        if self.scan:
            self._load_installed()
        else:
            self.all += [Plugin(name, module=module) for name, module in registered if module is not None]
        for plugin in self.loaded:
            self._check_names(plugin)

    def configure(self, host: Host) -> None:
        """Pass the host to every plugin; one that raises is unregistered."""
        self._host = host
        for plugin, call in self.implementations("pflow_configure"):
            try:
                with plugin_code(plugin, "could not be configured"):
                    call(host)
            except PluginFailed as failed:
                self._skip(plugin, failed)

    def unconfigure(self, host: Host) -> None:
        """Unconfigure every configured plugin, the last one first, when the program ends."""
        for plugin, call in reversed(list(self.implementations("pflow_unconfigure"))):
            with self.reporting(plugin, "could not be unconfigured"):
                call(host)

    def collect(self, hook: str, kind: type = object) -> Iterator[tuple[Plugin, list[Any]]]:
        """Yield what each plugin contributes to a hook that takes the host and returns an iterable.

        Args:
            hook: The name of the hook.
            kind: The class of what plugins contribute; a plugin that contributes anything else is reported.
        """
        for plugin, call in self.implementations(hook):
            contribution: list[Any] = []
            with self.reporting(plugin, f"failed in {hook} and is left out there"):
                for item in call(self._host) or ():
                    if not isinstance(item, kind):
                        raise TypeError(f"it returned a {type(item).__name__}, not a {kind.__name__}")
                    contribution.append(item)
            yield plugin, contribution

    def implementations(self, hook: str) -> Iterator[tuple[Plugin, Callable[[object], Any]]]:
        """Yield the plugins that implement a hook of one argument, each with its implementation.

        The host's own come first, then the others in the order of registration, except for
        `tryfirst` and `trylast`.
        """
        found = [(self.of(item.plugin), item) for item in getattr(self.manager.hook, hook).get_hookimpls()]
        found.sort(key=lambda pair: (not pair[0].own, pair[1].trylast - pair[1].tryfirst))
        for plugin, item in found:
            if item.hookwrapper or item.wrapper:
                message = f"Plugin {plugin.label} wraps {hook}, which is called for each plugin separately"
                self.report(Problem(message=message, severity="warning", kind="config"))
                continue
            yield plugin, _caller(item)

    def of(self, module: object) -> Plugin:
        """Return the `Plugin` that a registered object belongs to."""
        known = (plugin for plugin in self.all if plugin.module is module)
        return next(known, None) or Plugin(self.manager.get_name(module) or repr(module), module=module)

    @contextmanager
    def reporting(self, plugin: Plugin, doing: str) -> Iterator[None]:
        """Let a plugin fail in the block without harm: warn of it, and go on with the other plugins."""
        try:
            with plugin_code(plugin, doing):
                yield
        except PluginFailed as failed:
            self.report(failed.as_warning())

    def _load_installed(self) -> None:
        disabled = disabled_names()
        taken: dict[str, Plugin] = {}
        for point in sorted(entry_points(ENTRY_POINT_GROUP), key=lambda point: point.name):
            plugin = Plugin(point.name, metadata=point.distribution)
            if point.name in disabled:
                plugin.status, plugin.reason = "disabled", f"by {DISABLE_VARIABLE}"
                self.all.append(plugin)
            elif point.name in taken:
                self._refuse(
                    plugin,
                    f"has the same name as the plugin {taken[point.name].label}, which was found first",
                )
            else:
                taken[point.name] = plugin
                self._add(plugin, point.load)

    def _add(self, plugin: Plugin, load: Callable[[], object]) -> None:
        self.all.append(plugin)
        try:
            with plugin_code(plugin, "could not be loaded"):
                plugin.module = load()
                self.manager.register(plugin.module, plugin.name)
        except PluginFailed as failed:
            self._skip(plugin, failed)
        self._take_misfits()

    def _skip(self, plugin: Plugin, failed: PluginFailed) -> None:
        # pluggy leaves a plugin registered when its historic hook raises.
        if plugin.module is not None and self.manager.get_name(plugin.module) == plugin.name:
            self.manager.unregister(plugin.module)
        plugin.status, plugin.reason = "skipped", failed.reason
        self.report(failed.as_warning())

    def _check_names(self, plugin: Plugin) -> None:
        found: list[tuple[str, str]] = []
        with self.reporting(plugin, "could not be checked for misspelt hooks"):
            found += uncalled_hooks(self.manager, plugin.module)
        for message, fix in found:
            self.report(
                Problem(
                    message=f"Plugin {plugin.label}: {message}",
                    suggestion=fix,
                    severity="warning",
                    kind="config",
                    source=plugin.name,
                )
            )

    def _take_misfits(self) -> None:
        misfits = getattr(self.manager, "misfits", [])
        while misfits:
            module, reason = misfits.pop()
            self._refuse(self.of(module), reason)

    def _refuse(self, plugin: Plugin, reason: str) -> None:
        if plugin not in self.all:
            self.all.append(plugin)
        plugin.status, plugin.reason = "skipped", reason
        message = f"Plugin {plugin.label} is skipped: it {reason}"
        self.report(Problem(message=message, severity="warning", kind="config", source=plugin.name))


def disabled_names() -> frozenset[str]:
    """Return the names of the plugins that the user has disabled."""
    return frozenset(filter(None, map(str.strip, os.environ.get(DISABLE_VARIABLE, "").split(","))))


def _caller(implementation: pluggy.HookImpl) -> Callable[[object], Any]:
    wants_argument = bool(implementation.argnames)
    return lambda argument: implementation.function(*([argument] if wants_argument else []))
