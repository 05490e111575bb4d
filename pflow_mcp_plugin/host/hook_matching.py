"""Hook specs and the functions that claim to implement them."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import pluggy

from pflow_mcp_plugin.contract import PROJECT, hookspecs

_PREFIX = f"{PROJECT}_"


class Manager(pluggy.PluginManager):
    """A plugin manager that takes hook specs although an earlier plugin does not fit them.

    Attributes:
        misfits: Plugins that were unregistered for it, each with what is wrong with it.
    """

    def __init__(self) -> None:
        super().__init__(PROJECT)
        self.misfits: list[tuple[object, str]] = []

    def add_hookspecs(self, module_or_class: Any) -> None:
        """Add specs, and unregister plugins whose implementations do not fit them.

        Otherwise the plugin that brings the specs would fail for another's mistake.
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
                    yield implementation.plugin, f"asks in {name} for {asked}, which that hook does not have"


def create_manager() -> Manager:
    """Return a plugin manager that knows the contract's hooks and no plugin yet."""
    manager = Manager()
    manager.add_hookspecs(hookspecs)
    manager.hook.pflow_addhooks.call_historic(kwargs={"manager": manager})
    return manager


def uncalled_hooks(manager: pluggy.PluginManager, plugin: object) -> Iterator[tuple[str, str]]:
    """Find the `pflow_*` functions of a plugin that nobody will ever call.

    One that follows another plugin's prefix (`pflow_other_...`), while that plugin is not there
    to specify it, is no mistake.

    Yields:
        What is wrong with each, and the fix.
    """
    known = {name for name in dir(manager.hook) if name.startswith(_PREFIX)}
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
                yield f"{hook} is no hook; the closest is {closest}", f"Rename it to {closest}"
        elif options is None:
            yield f"{name} is not marked and never called", f"Mark {name} with @hookimpl"


def _closest(name: str, known: set[str]) -> str:
    """Return the hook that `name` was probably meant for, empty when it has another's prefix."""
    from difflib import SequenceMatcher, get_close_matches

    closest = get_close_matches(name, known, n=1, cutoff=0)[0]
    first, _, rest = name.removeprefix(_PREFIX).partition("_")
    prefixes = {hook.removeprefix(_PREFIX).partition("_")[0] for hook in known}
    foreign = rest and not get_close_matches(first, prefixes, n=1, cutoff=0.75)
    return "" if foreign and SequenceMatcher(None, name, closest).ratio() < 0.9 else closest
