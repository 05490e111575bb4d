"""The presets of all plugins, and whether a server still has the tools that its preset's author saw."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any

import attrs

from pflow_mcp_plugin.contract import ENTRY_POINT_GROUP, Host, PflowError, Problem
from pflow_mcp_plugin.types import Server, ServerPreset
from pflow_mcp_plugin.variable_references import references

_HOOK = "pflow_mcp_presets"


@attrs.frozen(kw_only=True)
class OfferedPreset:
    """A preset and the plugin that offers it.

    Attributes:
        preset: The preset.
        plugin: The name of the plugin's entry point.
    """

    preset: ServerPreset
    plugin: str

    @property
    def origin(self) -> str:
        """The plugin that offers the preset: distribution and version, or its name if registered by hand."""
        return _origin(self.plugin)


@attrs.frozen(kw_only=True)
class PresetCollection:
    """The presets that can be added.

    Attributes:
        offered: The presets by name, sorted.
        clashes: Names that several plugins offer, each with all offers.
        problems: A warning for each clash, and for each plugin or preset that was skipped.
    """

    offered: Mapping[str, OfferedPreset]
    clashes: Mapping[str, Sequence[OfferedPreset]]
    problems: tuple[Problem, ...]

    def get(self, name: str) -> OfferedPreset:
        """Return a preset.

        Raises:
            PflowError: No plugin offers it, with the nearest name; or several do, with their names.
        """
        if name in self.offered:
            return self.offered[name]
        if name in self.clashes:
            problem = _clash(name, self.clashes[name])
            raise PflowError(problem.message, suggestions=(problem.suggestion,), kind="config")
        near = self.nearest(name)
        steps = [f"Did you mean {near}?"] if near else []
        steps += ["See all: pflow mcp presets", f"Another server: pflow mcp add {name} -- COMMAND ARGS..."]
        raise PflowError(f"No preset is named {name}", suggestions=tuple(steps), kind="not_found")

    def nearest(self, name: str) -> str:
        """Return the most similar name of a preset, an empty string if there is none."""
        from difflib import get_close_matches

        return next(iter(get_close_matches(name.lower(), [*self.offered], n=1, cutoff=0.6)), "")

    def search(self, words: Sequence[str]) -> list[OfferedPreset]:
        """Return the presets of the collection in which every word occurs, sorted by name."""
        found = []
        for offer in self.offered.values():
            it = offer.preset
            text = " ".join((it.name, it.title, it.description, *it.packages)).lower()
            if all(word.lower() in text for word in words):
                found.append(offer)
        return found


def collect(host: Host) -> PresetCollection:
    """Return the presets of all plugins; a plugin that fails is named in `problems` and skipped."""
    problems: list[Problem] = []
    offers: dict[str, list[OfferedPreset]] = {}
    caller = getattr(host.hook, _HOOK, None)
    for implementation in caller.get_hookimpls() if caller else ():
        for offer in _offers(implementation, host, problems):
            offers.setdefault(offer.preset.name, []).append(offer)
    clashes = {name: found for name, found in offers.items() if len(found) > 1}
    return PresetCollection(
        offered={name: offers[name][0] for name in sorted(offers.keys() - clashes.keys())},
        clashes=clashes,
        problems=(*problems, *(_clash(name, found) for name, found in clashes.items())),
    )


def _offers(implementation: Any, host: Host, problems: list[Problem]) -> Iterator[OfferedPreset]:
    plugin = implementation.plugin_name
    if implementation.wrapper or implementation.hookwrapper:
        problems.append(_skipped(plugin, f"wraps {_HOOK}, which is called for each plugin separately"))
        return
    found: list[object] = []
    try:
        found += implementation.function(*[host for _ in implementation.argnames]) or ()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - code of other plugins may raise anything
        problems.append(_skipped(plugin, f"failed in {_HOOK}: {type(error).__name__}: {error}"))
    for preset in found:
        if isinstance(preset, ServerPreset):
            yield OfferedPreset(preset=preset, plugin=plugin)
        else:
            wrong = f"offers {type(preset).__name__} instead of ServerPreset; it is skipped"
            problems.append(_skipped(plugin, wrong))


def _skipped(plugin: str, what: str) -> Problem:
    step = f"Upgrade or uninstall it, or set PFLOW_DISABLE_PLUGINS={plugin}"
    return _warning(f"Plugin {plugin} ({_origin(plugin)}) {what}", step, plugin)


def _clash(name: str, offers: Sequence[OfferedPreset]) -> Problem:
    plugins = [*dict.fromkeys(offer.plugin for offer in offers)]
    named = " and ".join(f"{_origin(plugin)} (plugin {plugin})" for plugin in plugins)
    if len(plugins) == 1:
        return _warning(f"The preset {name} is offered twice by {named}", "Report it to its authors", name)
    message = f"The preset {name} is offered by {named}, so it cannot be added"
    return _warning(message, f"Uninstall one of them, or set PFLOW_DISABLE_PLUGINS={plugins[-1]}", name)


def _warning(message: str, suggestion: str, source: str) -> Problem:
    return Problem(message=message, suggestion=suggestion, severity="warning", kind="config", source=source)


def _origin(plugin: str) -> str:
    from importlib.metadata import entry_points  # slow, and only needed to name who is behind a plugin

    for point in entry_points(group=ENTRY_POINT_GROUP, name=plugin):
        if point.dist:
            return f"{point.dist.name} {point.dist.version}"
    return f"plugin {plugin}"


def manifest_difference(offer: OfferedPreset, server: Server, manifest_hash: str) -> Problem | None:
    """Return a warning if a server's tools differ from those that its preset declares.

    A server whose launch the user has changed, to another version for instance, is not compared.

    Args:
        offer: The preset that the server was added from.
        server: The server as configured.
        manifest_hash: The hash of its tools as of the last sync.
    """
    preset = offer.preset
    is_expected = not preset.manifest_hash or preset.manifest_hash == manifest_hash
    if is_expected or not is_launch_of(preset, server):
        return None
    return Problem(
        message=(
            f"Server {server.name} has other tools than its preset {preset.name} ({offer.origin}) declares: "
            f"{_short(manifest_hash)} instead of {_short(preset.manifest_hash)}"
        ),
        path=f"mcpServers.{server.name}",
        suggestion=f"Review them before you use them: pflow mcp tools {server.name}",
        severity="warning",
        kind="config",
        source=preset.name,
    )


def is_launch_of(preset: ServerPreset, server: Server) -> bool:
    """Whether the manifest check applies to a server: it is launched as its preset says, for any inputs."""
    same_program = PurePath(preset.command).name == PurePath(server.command).name
    fixed = [value for value in preset.args if not references(value)]
    return same_program and preset.url == server.url and all(value in server.args for value in fixed)


def _short(value: str) -> str:
    return value[: len("sha256:") + 12]
