"""Entries of `registry.json` left by an older pflow: outside `nodes`, or of a class that no longer exists."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from pflow_mcp_plugin.contract import Entry, PflowError, Problem
from pflow_mcp_plugin.contract.json_types import JSONObject
from pflow_mcp_plugin.host.registry.node_sources import Origin

T = TypeVar("T")
K = TypeVar("K")
OriginOf = Callable[[str], Origin | None]
"""Returns the plugin's source that now provides an outdated entry's name, None if no plugin does."""

_NAMED = 3
_OF_THE_FILE = ("nodes", "schema_version")


class Uninstalled(Problem):
    """A warning about outdated entries: their module is not installed, so they cannot run."""


def unused_problems(path: str, data: JSONObject, origin_of: OriginOf) -> Iterator[Problem]:
    """Yield the warnings about outdated entries outside `nodes`: those a plugin replaces, and the rest.

    Args:
        path: The file, for messages.
        data: What it holds.
        origin_of: Looks up the plugin's source that provides a name.
    """
    what = 'entries outside "nodes", where an older pflow put them, are not used'
    fix = 'Move them into "nodes", as in {"schema_version": 1, "nodes": {...}}, or remove them'
    for names in _by(lambda name: origin_of(name) is not None, _outside_nodes(data)).values():
        yield _warning(path, f"{what}: {_some(names)}", _replaced(names, origin_of) or fix)


def uninstalled_problems(path: str, entries: Iterable[Entry], origin_of: OriginOf) -> Iterator[Problem]:
    """Yield a warning about the outdated entries of each module that is not installed.

    Args:
        path: The file, for messages.
        entries: Its entries.
        origin_of: Looks up the plugin's source that provides a name.
    """
    fix = "Install the package that provides it, or correct or remove them"
    for module, of_module in _by(lambda entry: entry.module, entries).items():
        if is_installed(module):
            continue
        message = f"module {module} is not installed, so entries of it cannot run"
        for group in _by(lambda entry: origin_of(entry.node) is not None, of_module).values():
            names = [entry.node for entry in group]
            step = _replaced(names, origin_of) or fix
            yield _warning(path, f"{message}: {_some(names)}", step, Uninstalled)


def _outside_nodes(data: JSONObject) -> Iterator[str]:
    for name, value in data.items():
        shaped = isinstance(value, Mapping) and {"module", "class_name"} & value.keys()
        if shaped and name not in _OF_THE_FILE:
            yield name


def _by(key: Callable[[T], K], items: Iterable[T]) -> dict[K, list[T]]:
    groups: dict[K, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def _warning(path: str, message: str, suggestion: str, kind: type[Problem] = Problem) -> Problem:
    return kind(
        message=f"{path}: {message}", suggestion=suggestion, severity="warning", kind="config", source=path
    )


def is_installed(module: str) -> bool:
    """Return whether the module that an entry names is still installed, without importing anything."""
    # Not `importlib.util.find_spec`: it imports the parent packages.
    name, places = "", None
    for part in module.split("."):
        if not part or (name and places is None):  # an empty name, or inside a module that is not a package
            return False
        name = f"{name}.{part}" if name else part
        if name in sys.modules:
            places = getattr(sys.modules[name], "__path__", None)
            continue
        spec = next((spec for finder in sys.meta_path if (spec := finder.find_spec(name, places))), None)
        if spec is None:
            return False
        places = spec.submodule_search_locations
    return True


def _replaced(names: Sequence[str], origin_of: OriginOf) -> str:
    """Return what to do about entries that a plugin provides, empty for others."""
    origins = {name: origin for name in names[:_NAMED] if (origin := origin_of(name))}
    plugins = " and ".join(dict.fromkeys(origin.plugin.name for origin in origins.values()))
    steps = dict.fromkeys(step for name, origin in origins.items() if (step := _step(name, origin)))
    advice = f"Remove them, as the plugin {plugins} provides such nodes itself" if plugins else ""
    return "; ".join([advice, *steps])


def _step(node_type: str, origin: Origin) -> str:
    """Return how to get a node of a source, empty if the source has it."""
    try:
        problem = None if origin.get(node_type) else origin.missing(node_type)
    except PflowError:  # it is reported when the node is used
        return ""
    return problem.suggestion if problem else ""


def _some(names: Sequence[str]) -> str:
    rest = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + rest
