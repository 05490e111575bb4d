"""`registry.json`: the entries that users and `Registry.save()` put there, and those of an older pflow."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from pflow_mcp_plugin.contract import Entry, NodeSource, PflowError, Problem
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.host.registry.node_sources import Origin
from pflow_mcp_plugin.storage import CorruptFile, JsonStore

NAME = "registry.json"
T = TypeVar("T")
K = TypeVar("K")
OriginOf = Callable[[str], Origin | None]
"""Returns the plugin's source that now provides an outdated entry's name, None if no plugin does."""

_NAMED = 3
_OF_THE_FILE = ("nodes", "schema_version")


class SavedEntries(NodeSource):
    """`registry.json` as a node source; the saved node types may have any name.

    Args:
        path: The file.
        report: Called with problems: a corrupt file, invalid entries, and those of an older pflow.
        origin_of: Looks up the plugin's source that provides a name.
    """

    name = NAME
    prefixes: tuple[str, ...] = ("",)

    def __init__(
        self, path: Path, report: Callable[[Problem], None], origin_of: OriginOf = lambda _: None
    ) -> None:
        self.store = JsonStore(path=path, schema_version=1, what="registry", rebuildable=True, report=report)
        self._report = report
        self._origin_of = origin_of
        self._read_as = ""
        self._entries: dict[str, Entry] = {}

    def fingerprint(self) -> str:
        """Return the state of `registry.json`: the time of its last change, its size and its inode."""
        try:
            status = self.store.path.stat()
        except OSError:
            return ""
        # The inode too: a file that replaces another may have its size and, on a coarse clock, its time.
        return f"{status.st_mtime_ns}-{status.st_size}-{status.st_ino}"

    def get(self, node_type: str) -> Entry | None:
        """Return the saved entry of a node type."""
        return self._load().get(node_type)

    def entries(self) -> Iterator[Entry]:
        """Yield every saved entry."""
        yield from self._load().values()

    def save(self, nodes: Mapping[str, JSONObject]) -> None:
        """Put entries into `registry.json`; those of other names stay.

        Raises:
            PflowError: The file cannot be written, or it does not hold entries.
        """

        def change(data: dict[str, JSON]) -> None:
            data["nodes"] = {**self._nodes(data), **{name: dict(node) for name, node in nodes.items()}}

        self.store.update(change)

    def check(self) -> None:
        """Report the problems of the saved entries, if the file can be read."""
        with suppress(PflowError):
            self._load()

    def _load(self) -> dict[str, Entry]:
        fingerprint = self.fingerprint()
        if fingerprint != self._read_as:
            self._entries = self._usable(self._readable()) if fingerprint else {}
            self._read_as = fingerprint
        return self._entries

    def _usable(self, data: JSONObject) -> dict[str, Entry]:
        """Return the valid entries, and report the parts of the file that cannot be used."""
        path, origin_of = str(self.store.path), self._origin_of
        for problem in unused_problems(path, data, origin_of):
            self._report(problem)
        found = filter(None, (self._entry(name, node) for name, node in self._nodes(data).items()))
        entries = {entry.node: entry for entry in found}
        for problem in uninstalled_problems(path, entries.values(), origin_of):
            self._report(problem)
        return entries

    def _readable(self) -> JSONObject:
        """Return the content of the file, an empty one if its nodes are invalid."""
        try:
            data = self.store.read()
            self._nodes(data)
        except CorruptFile as corrupt:
            self._report(
                Problem(
                    message=f"No saved entry is used: {corrupt.message}",
                    suggestion=corrupt.suggestions[0],
                    severity="warning",
                    kind="config",
                    source=NAME,
                )
            )
            return {}
        return data

    def _nodes(self, data: JSONObject) -> JSONObject:
        nodes = data.get("nodes", {})
        if not isinstance(nodes, dict):
            raise CorruptFile(self.store.path, f'"nodes" must be an object, not {type(nodes).__name__}')
        return nodes

    def _entry(self, name: str, node: Any) -> Entry | None:
        try:
            return Entry.from_dict(_normalised(name, node))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            self._report(
                Problem(
                    message=f"{self.store.path}: {name} is left out, it is not a valid entry",
                    path=f"$.nodes.{name}",
                    suggestion=f"Correct it: {type(error).__name__} {error}",
                    severity="warning",
                    kind="config",
                    source=NAME,
                )
            )
            return None


def _normalised(name: str, node: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry's JSON form; the older one has fields with `name` and an interface description."""
    interface = dict(node.get("interface", {}))
    description = interface.pop("description", "")
    interface.setdefault("open_outputs", "outputs" not in interface)  # nothing is known about outputs
    for part in ("params", "outputs"):
        interface[part] = [
            {**field, "key": field.get("key") or field["name"]} for field in interface.get(part, ())
        ]
    interface["inputs"] = [key if isinstance(key, str) else key["key"] for key in interface.get("inputs", ())]
    return {"description": description, **node, "node": name, "source": NAME, "interface": interface}


class Uninstalled(Problem):
    """A warning about outdated entries: their module is not installed, so they cannot run."""


def unused_problems(path: str, data: JSONObject, origin_of: OriginOf) -> Iterator[Problem]:
    """Yield the warnings about outdated entries outside `nodes`: those a plugin replaces, and the rest."""
    what = 'entries outside "nodes", where an older pflow put them, are not used'
    fix = 'Move them into "nodes", as in {"schema_version": 1, "nodes": {...}}, or remove them'
    for names in _by(lambda name: origin_of(name) is not None, _outside_nodes(data)).values():
        yield _warning(path, f"{what}: {_some(names)}", _replaced(names, origin_of) or fix)


def uninstalled_problems(path: str, entries: Iterable[Entry], origin_of: OriginOf) -> Iterator[Problem]:
    """Yield a warning about the outdated entries of each module that is not installed."""
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
