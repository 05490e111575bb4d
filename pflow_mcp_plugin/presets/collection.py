"""The collection of all plugins' presets: finding one, its inputs, and the server that is made from it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

import attrs

from pflow_mcp_plugin.config.field_checks import nearest
from pflow_mcp_plugin.contract import ENTRY_POINT_GROUP, Host, PflowError, Problem
from pflow_mcp_plugin.contract.problems import advice, described, is_interruption
from pflow_mcp_plugin.types import PresetInput, Server, ServerPreset
from pflow_mcp_plugin.variable_references import references, substitute

if TYPE_CHECKING:
    from pflow_mcp_plugin.config.expansion import Lookup

_HOOK = "pflow_mcp_presets"
_OWN = "mcp-presets"
"""The plugin with the presets of this package, which cannot be uninstalled on its own."""


@attrs.frozen(kw_only=True)
class OfferedPreset:
    """A preset, and the name of the entry point of the plugin that offers it."""

    preset: ServerPreset
    plugin: str


@attrs.frozen(kw_only=True)
class PresetCollection:
    """The collection of all presets that can be added."""

    offered: Mapping[str, OfferedPreset]  # by name, sorted
    clashes: Mapping[str, Sequence[OfferedPreset]]  # names that several plugins offer, each with all offers
    problems: tuple[Problem, ...]  # a warning for each clash, and for each plugin or preset that was skipped

    def get(self, name: str) -> OfferedPreset:
        """Return a preset; refuse a name that no plugin offers, naming the nearest, or that several do."""
        if name in self.offered:
            return self.offered[name]
        if name in self.clashes:
            problem = _clash(name, self.clashes[name])
            raise PflowError(problem.message, suggestions=(problem.suggestion,), kind="config")
        near = nearest(name, self.offered)
        steps = [f"Did you mean {near}?"] if near else []
        steps += ["See all: pflow mcp presets", f"Another server: pflow mcp add {name} -- COMMAND ARGS..."]
        raise PflowError(f"No preset is named {name}", suggestions=tuple(steps), kind="not_found")

    def search(self, words: Sequence[str]) -> list[OfferedPreset]:
        texts = {
            name: " ".join((name, it.preset.title, it.preset.description, *it.preset.packages)).lower()
            for name, it in self.offered.items()
        }
        return [it for name, it in self.offered.items() if all(word.lower() in texts[name] for word in words)]


def collect(host: Host) -> PresetCollection:
    """Return the presets of all plugins; a plugin that fails to offer its own goes into `problems`."""
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
    except BaseException as error:  # code of other plugins may raise anything
        if is_interruption(error):
            raise
        problems.append(_skipped(plugin, f"failed in {_HOOK}: {described(error)}"))
    for preset in found:
        if isinstance(preset, ServerPreset):
            yield OfferedPreset(preset=preset, plugin=plugin)
        else:
            wrong = f"offers {type(preset).__name__} instead of ServerPreset; it is skipped"
            problems.append(_skipped(plugin, wrong))


def _skipped(plugin: str, what: str) -> Problem:
    step = f"Upgrade or uninstall it, or set PFLOW_DISABLE_PLUGINS={plugin}"
    return advice("", f"Plugin {plugin} ({origin(plugin)}) {what}", step, source=plugin)


def _clash(name: str, offers: Sequence[OfferedPreset]) -> Problem:
    plugins = [*dict.fromkeys(offer.plugin for offer in offers)]
    named = " and ".join(f"{origin(plugin)} (plugin {plugin})" for plugin in plugins)
    if len(plugins) == 1:
        message, step = f"The preset {name} is offered twice by {named}", "Report it to its authors"
    else:
        message = f"The preset {name} is offered by {named}, so it cannot be added"
        others = [plugin for plugin in plugins if plugin != _OWN]
        which = "one of them" if len(others) > 1 else origin(others[0])
        step = f"Uninstall {which}, or set PFLOW_DISABLE_PLUGINS={others[-1]}"
    return advice("", message, step, source=name)


def origin(plugin: str) -> str:
    """Return the distribution and version of a plugin that offers presets; its name if it has none."""
    from importlib.metadata import entry_points  # slow, and needed only to name a plugin's distribution

    for point in entry_points(group=ENTRY_POINT_GROUP, name=plugin):
        if point.dist:
            return f"{point.dist.name} {point.dist.version}"
    return f"plugin {plugin}"


def manifest_difference(offer: OfferedPreset, server: Server, manifest_hash: str) -> Problem | None:
    """Compare a server with the preset of the collection it was made from: warn if it has other tools.

    A server whose launch the user has changed, to another version for instance, is not compared.
    """
    preset = offer.preset
    is_expected = not preset.manifest_hash or preset.manifest_hash == manifest_hash
    if is_expected or not is_launch_of(preset, server):
        return None
    now, expected = (value[: len("sha256:") + 12] for value in (manifest_hash, preset.manifest_hash))
    message = (
        f"Server {server.name} has other tools than its preset {preset.name} ({origin(offer.plugin)}) "
        f"declares: {now} instead of {expected}"
    )
    step = f"Review them before you use them: pflow mcp tools {server.name}"
    return advice(f"mcpServers.{server.name}", message, step, source=preset.name)


def is_launch_of(preset: ServerPreset, server: Server) -> bool:
    """Whether a server is still launched as its preset in the collection says, with any inputs."""
    same_program = PurePath(preset.command).name == PurePath(server.command).name
    fixed = [value for value in preset.args if not references(value)]
    return same_program and preset.url == server.url and all(value in server.args for value in fixed)


@attrs.frozen(kw_only=True)
class InputValues:
    """The values of inputs with which a server is made from a plugin's preset, and which inputs lack one."""

    # What replaces the references to an input; that of a secret is a reference. Optional inputs without a
    # value are left out.
    texts: Mapping[str, str]
    # Secrets given as values, by name; they belong in the settings.
    secrets: Mapping[str, str] = attrs.field(repr=False)
    missing: tuple[PresetInput, ...]  # required inputs without a value


def parse_inputs(preset: ServerPreset, pairs: Iterable[str]) -> dict[str, str]:
    """Read values for the inputs of a preset in the collection, as `NAME=VALUE`; empty ones count as none."""
    values = {}
    names = [given.name for given in preset.inputs]
    known = f"Its inputs: {', '.join(names)}" if names else "It has no inputs"
    for pair in pairs:
        name, found, value = pair.partition("=")
        if not found or name not in names:
            wrong = f"Preset {preset.name} has no input {name}" if found else "--input takes NAME=VALUE"
            raise PflowError(wrong, suggestions=(known,), kind="usage")
        values[name] = value
    return {name: value for name, value in values.items() if value}


def resolve_inputs(preset: ServerPreset, given: Mapping[str, str], lookup: Lookup) -> InputValues:
    """Return the values for a collected preset's inputs that make it a server, and which inputs lack one."""
    texts: dict[str, str] = {}
    secrets: dict[str, str] = {}
    missing = []
    for each in preset.inputs:
        value = given.get(each.name) or each.default
        # A value that is only references stays as it is.
        is_reference = bool(references(value)) and not substitute(value, lambda _: "").strip()
        if each.secret and not is_reference:
            if value:
                secrets[each.name] = value
            value = f"${{{each.name}}}" if value or lookup(each.name) else ""
        if value and each.choices and value not in each.choices:
            message = f"{each.name} of preset {preset.name} cannot be {value!r}"
            raise PflowError(message, suggestions=(f"Choose from: {', '.join(each.choices)}",), kind="usage")
        if value and each.path and value != each.default and not references(value):
            value = str(Path(value).expanduser().absolute())
        if value:
            texts[each.name] = value
        elif each.required:
            missing.append(each)
    return InputValues(texts=texts, secrets=secrets, missing=tuple(missing))


def lacking_inputs(preset: ServerPreset, missing: Sequence[PresetInput]) -> PflowError:
    """Return the error about inputs without a value, of a preset in the collection, with what to do."""
    named = ", ".join(f"{each.name} ({each.description})" for each in missing)
    plain = " ".join(f"--input {each.name}=..." for each in missing if not each.secret)
    steps = [f"pflow mcp add {preset.name} {plain}"] if plain else []
    steps += [f"pflow settings set {each.name} -" for each in missing if each.secret]
    return PflowError(
        f"Preset {preset.name} needs: {named}",
        details={"preset": preset.name, "missing": [each.name for each in missing]},
        suggestions=tuple(steps),
        kind="usage",
    )


_TIMES = ("startup_timeout", "list_timeout", "call_timeout", "call_timeout_max")


def server_table(preset: ServerPreset, texts: Mapping[str, str]) -> dict[str, Any]:
    """Make a server from a collected preset, and return its table for the config file."""
    # An argument, variable or header is left out if it refers to an input without a value.
    table: dict[str, Any] = {} if preset.transport == "stdio" else {"type": preset.transport}
    table |= {key: _filled(getattr(preset, key), texts) for key in ("command", "url") if getattr(preset, key)}
    args = [_filled(value, texts) for value in preset.args if _is_complete(value, texts)]
    table |= {"args": args} if args else {}
    for key in ("env", "headers"):
        pairs = getattr(preset, key).items()
        filled = {name: _filled(value, texts) for name, value in pairs if _is_complete(value, texts)}
        table |= {key: filled} if filled else {}
    table |= {"tools": {"allow": [*preset.tools]}} if preset.tools else {}
    for key in ("rename", "idempotency_argument", "verify"):
        table |= {key: dict(named)} if (named := getattr(preset, key)) else {}
    table |= {key: getattr(preset, key) for key in _TIMES if getattr(preset, key) is not None}
    return {**table, "preset": preset.name}


def _is_complete(value: str, texts: Mapping[str, str]) -> bool:
    return all(reference.name in texts for reference in references(value))


def _filled(value: str, texts: Mapping[str, str]) -> str:
    escaped = value.replace("$${", "$$${")  # the config file holds an escaped ${ as escaped
    return substitute(escaped, lambda reference: texts[reference.name])
