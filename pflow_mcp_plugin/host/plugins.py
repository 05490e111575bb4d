"""Finds, loads and calls plugins one by one.

pluggy's own loader stops at the first plugin that cannot be imported, silently skips the second of two entry
points of the same name, and lets one raising implementation abort a whole call. Here such a plugin is
skipped, and named with its distribution and version.

`importlib.metadata` finds entry points too, but importing it (with email, zipfile and socket) takes as long
as the rest of a short command. So the folders are read here, and it is used only where `sys.path` holds
something other than folders.
"""

# ruff: noqa: PTH113, PTH118, PTH119, PTH123, PTH208 - pathlib takes three times as long for hundreds of folders

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache, partial
from importlib import import_module
from typing import Any, Literal, NamedTuple

import pluggy

from pflow_mcp_plugin.contract import ENTRY_POINT_GROUP, PROJECT, Host, PflowError, Problem, hookspecs
from pflow_mcp_plugin.contract.problems import advice, described, problem_of
from pflow_mcp_plugin.host.foreign_code import foreign_code

_PACKAGE = __name__.partition(".")[0]


class Distribution:
    """An installed distribution: its `.dist-info` folder, if any, and what its `entry_points.txt` holds."""

    def __init__(self, folder: str, entry_points: str, headers: str = "") -> None:
        self.folder = folder
        self.entry_points = entry_points
        self._headers = headers

    @property
    def name(self) -> str:
        return self._header("Name") or os.path.basename(self.folder).partition("-")[0]

    @property
    def version(self) -> str:
        return self._header("Version")

    def _header(self, name: str) -> str:
        if not self._headers:
            names = ("METADATA", "PKG-INFO")
            texts = (_read(os.path.join(self.folder, it)) for it in names)
            self._headers = next(filter(None, texts), "").partition("\n\n")[0]
        found = re.search(rf"^{name}:(.*)$", self._headers, re.MULTILINE)
        return found[1].strip() if found else ""


class EntryPoint(NamedTuple):
    """An entry point: its name, the object reference (`module:attribute`) and the distribution."""

    name: str
    value: str
    distribution: Distribution

    @property
    def module(self) -> str:
        return self.value.partition(":")[0].strip()

    def load(self) -> Any:
        found: Any = import_module(self.module)
        attributes = self.value.partition(":")[2].partition("[")[0].strip()
        for attribute in filter(None, attributes.split(".")):
            found = getattr(found, attribute)
        return found


def entry_points(group: str) -> list[EntryPoint]:
    """Return the entry points of a group in all distributions, in the order of `sys.path`."""
    return [
        EntryPoint(name, value, distribution)
        for distribution in _distributions()
        if f"[{group}]" in distribution.entry_points
        for name, value in _section(distribution.entry_points, group)
    ]


@cache
def own_distribution() -> Distribution | None:
    """Return the distribution with this package's own entry points, None if it is not installed."""
    scripts = entry_points("console_scripts")
    return next((script.distribution for script in scripts if is_own_script(script)), None)


def is_own_script(script: EntryPoint) -> bool:
    """Whether an entry point, in any distribution, refers to this package's own plugin or program."""
    return script.module.partition(".")[0] == _PACKAGE


def _distributions() -> Iterator[Distribution]:
    """Yield each installed distribution once: the first of its name on `sys.path`."""
    seen: set[str] = set()
    if any(os.path.isfile(place) or place.endswith(".egg") for place in sys.path):
        from importlib import metadata

        for found in metadata.distributions():
            if found.name not in seen:
                seen.add(found.name)
                headers = f"Name: {found.name}\nVersion: {found.version}"
                yield Distribution("", found.read_text("entry_points.txt") or "", headers)
        return
    for place in sys.path:
        try:
            names = [name for name in os.listdir(place or ".") if name.endswith((".dist-info", ".egg-info"))]
        except OSError:  # sys.path may name missing folders
            continue
        for name in sorted(names):  # the order of a folder differs between machines
            # Normalised as in the packaging specification: `My_Pkg` and `my.pkg` are the same.
            words = name.rpartition(".")[0].partition("-")[0].lower().replace(".", "_").split("_")
            project = "-".join(filter(None, words))
            if project and project not in seen:
                seen.add(project)
                folder = os.path.join(place or ".", name)
                yield Distribution(folder, _read(os.path.join(folder, "entry_points.txt")))


def _section(text: str, group: str) -> Iterator[tuple[str, str]]:
    inside = False
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            inside = line == f"[{group}]"
        elif inside and "=" in line and not line.startswith(("#", ";")):
            name, _, value = line.partition("=")
            yield name.strip(), value.strip()


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


_PREFIX = f"{PROJECT}_"
DISABLE_VARIABLE = "PFLOW_DISABLE_PLUGINS"
_OWN = (
    ("pflow-nodes", f"{__package__}.nodes"),
    ("pflow-commands", f"{__package__}.cli.builtin_commands"),
)


class Manager(pluggy.PluginManager):
    """A pluggy manager that accepts hook specs even if an earlier plugin does not match them.

    `misfits` are the plugins that were unregistered because they do not match, each with the reason.
    """

    def __init__(self) -> None:
        super().__init__(PROJECT)
        self.misfits: list[tuple[object, str]] = []

    def add_hookspecs(self, module_or_class: Any) -> None:
        """Match all plugins' functions against new hook specs, and unregister plugins that do not match.

        Otherwise the plugin that adds the specs would fail because of another plugin's mistake.
        """
        for name in dir(module_or_class):
            caller = getattr(self.hook, name, None)
            if caller is None or self.parse_hookspec_opts(module_or_class, name) is None:
                continue
            accepted = inspect.signature(getattr(module_or_class, name)).parameters.keys()
            for implementation in list(caller.get_hookimpls()):
                if unknown := ", ".join(sorted(set(implementation.argnames) - accepted)):
                    reason = f"implements {name} with the argument {unknown}, which that hook does not have"
                    self.unregister(implementation.plugin)
                    self.misfits.append((implementation.plugin, reason))
        super().add_hookspecs(module_or_class)


def create_manager() -> Manager:
    """Return a plugin manager, which knows the contract's hooks, to load plugins into one by one."""
    manager = Manager()
    manager.add_hookspecs(hookspecs)
    # Historic: pluggy also calls it for each plugin that is registered later.
    manager.hook.pflow_addhooks.call_historic(kwargs={"manager": manager})
    return manager


def uncalled_hooks(manager: pluggy.PluginManager, plugin: object) -> Iterator[tuple[str, str]]:
    """Yield the `pflow_*` functions of a loaded plugin that match no hook spec: they will never be called.

    A function with another plugin's prefix (`pflow_other_...`) is not reported while that plugin, which
    would specify the hook, is not installed.
    """
    known = {name for name in dir(manager.hook) if name.startswith(_PREFIX)}
    # pluggy creates a hook for any marked function; only those with a spec are called.
    known = {name for name in known if getattr(manager.hook, name).has_spec()}
    for name in dir(plugin):
        function = getattr(plugin, name, None) if name.startswith(_PREFIX) else None
        if function is None or not callable(function) or hasattr(function, f"{PROJECT}_spec"):
            continue
        options = manager.parse_hookimpl_opts(plugin, name)
        hook = (options and options.get("specname")) or name
        if hook not in known:
            closest = _closest(hook, known)
            if closest:
                yield f"{hook} is not a hook; the closest is {closest}", f"Rename it to {closest}"
        elif options is None:
            yield f"{name} is not marked and never called", f"Mark {name} with @hookimpl"


def _closest(name: str, known: set[str]) -> str:
    """Return the hook that a plugin probably means, empty if the prefix is that of another plugin."""
    from difflib import SequenceMatcher, get_close_matches

    closest = get_close_matches(name, known, n=1, cutoff=0)[0]
    first, _, rest = name.removeprefix(_PREFIX).partition("_")
    prefixes = {hook.removeprefix(_PREFIX).partition("_")[0] for hook in known}
    foreign = rest and not get_close_matches(first, prefixes, n=1, cutoff=0.75)
    return "" if foreign and SequenceMatcher(None, name, closest).ratio() < 0.9 else closest


class Plugin:
    """A plugin of the host: `disabled` by the user, `skipped` for the `reason` given, or `loaded`.

    `name` is the name of its entry point, and `module` the object that this refers to, once imported. A
    plugin is the host's `own`, or `metadata` is the distribution that contains it (None if it was registered
    by hand).
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
        """The name of the distribution that a plugin is from, empty if it was registered by hand."""
        metadata = own_distribution() if self.own else self.metadata
        return metadata.name if metadata else ""

    @property
    def version(self) -> str:
        metadata = own_distribution() if self.own else self.metadata
        return metadata.version if metadata else ""

    @property
    def label(self) -> str:
        return f"{self.name} ({self.distribution} {self.version})" if self.distribution else self.name


class PluginFailed(PflowError):
    """A plugin cannot be loaded or called: the error tells the user how to upgrade or disable that plugin.

    `doing` says what failed, as in "could not be loaded".
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
        return problem_of(self, severity="warning", source=self.source)


def plugin_code(
    plugin: Plugin, doing: str, *, passing: tuple[type[BaseException], ...] = ()
) -> AbstractContextManager[None]:
    """Load or call one plugin in the block; what it raises becomes `PluginFailed`, except `passing`."""
    return foreign_code(partial(PluginFailed, plugin, doing), passing=passing)


class Plugins:
    """The plugins of one host: loads and calls them one by one, and reports each that is skipped.

    If a manager is given, the plugins registered with it replace the installed ones.
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
        """The plugins that are loaded, the host's own first."""
        return [plugin for plugin in self.all if plugin.status == "loaded"]

    def load(self) -> None:
        """Load the host's own plugins, then the installed ones in the order of their names.

        Of two plugins of one name, that of this package is loaded.
        """
        registered = self.manager.list_name_plugin()
        for name, module in _OWN:
            self._add(Plugin(name, own=True), partial(import_module, module))
        if self.scan:
            disabled = {name.strip() for name in os.environ.get(DISABLE_VARIABLE, "").split(",")} - {""}
            taken = {plugin.name: plugin for plugin in self.all}
            found = entry_points(ENTRY_POINT_GROUP)
            for point in sorted(found, key=lambda point: (point.name, not is_own_script(point))):
                plugin = Plugin(point.name, metadata=point.distribution)
                if point.name in disabled:
                    plugin.status, plugin.reason = "disabled", f"by {DISABLE_VARIABLE}"
                    self.all.append(plugin)
                elif first := taken.get(point.name):
                    reason = f"has the same name as the plugin {first.label}"
                    self._refuse(plugin, reason)
                else:
                    taken[point.name] = plugin
                    self._add(plugin, point.load)
            self._tell_unknown(disabled - {plugin.name for plugin in self.all if not plugin.own})
        else:
            self.all += [Plugin(name, module=module) for name, module in registered if module is not None]
        for plugin in self.loaded:
            uncalled: list[tuple[str, str]] = []
            with self.reporting(plugin, "could not be checked for misspelt hooks"):
                uncalled += uncalled_hooks(self.manager, plugin.module)
            for message, fix in uncalled:
                self._warn(plugin, f"Plugin {plugin.label}: {message}", fix)

    def _tell_unknown(self, names: Iterable[str]) -> None:
        for name in sorted(names):
            from pflow_mcp_plugin.terminal.similar_names import did_you_mean

            message = f"{DISABLE_VARIABLE} names {name}, which is no installed plugin"
            step = did_you_mean(name, [it.name for it in self.all if not it.own], "See: pflow plugins")
            self.report(advice("", message, step))

    def configure(self, host: Host) -> None:
        """Pass the host to every plugin; one that raises is unregistered, and so skipped."""
        self._host = host
        for plugin, call in self.implementations("pflow_configure"):
            try:
                with plugin_code(plugin, "could not be configured"):
                    call(host)
            except PluginFailed as failed:
                self._skip(plugin, failed)

    def unconfigure(self, host: Host) -> None:
        """Unconfigure every plugin, the last one first, when the program ends."""
        for plugin, call in reversed(list(self.implementations("pflow_unconfigure"))):
            with self.reporting(plugin, "could not be unconfigured"):
                call(host)

    def collect(self, hook: str, kind: type = object) -> Iterator[tuple[Plugin, list[Any]]]:
        """Yield what each plugin contributes to a hook; anything but a `kind` is reported and skipped."""
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
                self._warn(plugin, message)
                continue
            # An implementation need not take the argument.
            yield plugin, item.function if item.argnames else partial(lambda call, _: call(), item.function)

    def of(self, module: object) -> Plugin:
        known = (plugin for plugin in self.all if plugin.module is module)
        return next(known, None) or Plugin(self.manager.get_name(module) or repr(module), module=module)

    @contextmanager
    def reporting(self, plugin: Plugin, doing: str) -> Iterator[None]:
        """Load or call one of the plugins in the block; if it fails, warn of it, and let the others go on."""
        try:
            with plugin_code(plugin, doing):
                yield
        except PluginFailed as failed:
            self.report(failed.as_warning())

    def _add(self, plugin: Plugin, load: Callable[[], object]) -> None:
        self.all.append(plugin)
        try:
            with plugin_code(plugin, "could not be loaded"):
                plugin.module = load()
                names = dir(plugin.module) if inspect.isclass(plugin.module) else ()
                hooks = (inspect.getattr_static(plugin.module, it) for it in names if it.startswith(_PREFIX))
                if any(map(inspect.isfunction, hooks)):
                    raise TypeError("its entry point names a class; name an instance of it")
                self.manager.register(plugin.module, plugin.name)
        except PluginFailed as failed:
            self._skip(plugin, failed)
        misfits = getattr(self.manager, "misfits", [])
        while misfits:
            module, reason = misfits.pop()
            self._refuse(self.of(module), reason)

    def _skip(self, plugin: Plugin, failed: PluginFailed) -> None:
        # pluggy leaves a plugin registered when its historic hook raises.
        if plugin.module is not None and self.manager.get_name(plugin.module) == plugin.name:
            self.manager.unregister(plugin.module)
        plugin.status, plugin.reason = "skipped", failed.reason
        self.report(failed.as_warning())

    def _refuse(self, plugin: Plugin, reason: str) -> None:
        if plugin not in self.all:
            self.all.append(plugin)
        plugin.status, plugin.reason = "skipped", reason
        step = f"Upgrade or uninstall {plugin.distribution}" if plugin.distribution else ""
        self._warn(plugin, f"Plugin {plugin.label} is skipped: it {reason}", step)

    def _warn(self, plugin: Plugin, message: str, suggestion: str = "") -> None:
        self.report(advice("", message, suggestion, source=plugin.name))
