"""Whether a plugin's functions match the hook specs that they implement."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import pluggy

from pflow_mcp_plugin.contract import PROJECT, hookspecs

_PREFIX = f"{PROJECT}_"


class Manager(pluggy.PluginManager):
    """A pluggy manager that accepts hook specs even if an earlier plugin does not match them.

    Attributes:
        misfits: Plugins that were unregistered because they do not match, each with the reason.
    """

    def __init__(self) -> None:
        super().__init__(PROJECT)
        self.misfits: list[tuple[object, str]] = []

    def add_hookspecs(self, module_or_class: Any) -> None:
        """Match all plugins' functions against new hook specs, and unregister plugins that do not match.

        Otherwise the plugin that adds the specs would fail because of another plugin's mistake.
        """
        for plugin, reason in list(self._misfitting(module_or_class)):
            if self.is_registered(plugin):
                self.unregister(plugin)
                self.misfits.append((plugin, reason))
        super().add_hookspecs(module_or_class)

    def _misfitting(self, namespace: Any) -> Iterator[tuple[object, str]]:
        for name in dir(namespace):
            caller = getattr(self.hook, name, None)
            if caller is None or self.parse_hookspec_opts(namespace, name) is None:
                continue
            accepted = inspect.signature(getattr(namespace, name)).parameters.keys()
            for implementation in caller.get_hookimpls():
                unknown = set(implementation.argnames) - accepted
                if unknown:
                    asked = ", ".join(sorted(unknown))
                    yield (
                        implementation.plugin,
                        f"implements {name} with the argument {asked}, which that hook does not have",
                    )


def create_manager() -> Manager:
    """Return a pluggy manager that matches plugins against the contract's hook specs; it has none yet."""
    manager = Manager()
    manager.add_hookspecs(hookspecs)
    # Historic: pluggy calls it for each plugin that is registered later.
    manager.hook.pflow_addhooks.call_historic(kwargs={"manager": manager})
    return manager


def uncalled_hooks(manager: pluggy.PluginManager, plugin: object) -> Iterator[tuple[str, str]]:
    """Find the `pflow_*` functions of a plugin that match no hook spec and will never be called.

    A function with another plugin's prefix (`pflow_other_...`) is not reported while that plugin, which
    would specify the hook, is not installed.

    Yields:
        The mistake and the fix, for each function.
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
    """Return the hook that `name` probably means, empty when it has another plugin's prefix."""
    from difflib import SequenceMatcher, get_close_matches

    closest = get_close_matches(name, known, n=1, cutoff=0)[0]
    first, _, rest = name.removeprefix(_PREFIX).partition("_")
    prefixes = {hook.removeprefix(_PREFIX).partition("_")[0] for hook in known}
    foreign = rest and not get_close_matches(first, prefixes, n=1, cutoff=0.75)
    return "" if foreign and SequenceMatcher(None, name, closest).ratio() < 0.9 else closest
