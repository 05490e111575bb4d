"""`registry.json`: the entries that users and `Registry.save()` put there."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pflow_mcp_plugin.contract import Entry, NodeSource, PflowError, Problem
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.storage import CorruptFile, JsonStore

NAME = "registry.json"
_NAMED = 3
_OF_THE_FILE = ("nodes", "schema_version")
_MARKS = {"module", "class_name"}
"""Keys by which an entry is recognised."""


class Uninstalled(Problem):
    """A warning about saved entries whose module is not installed: they cannot run."""


class SavedEntries(NodeSource):
    """`registry.json` as a node source; the saved node types may have any name.

    Args:
        path: The file.
        report: Called with problems: a corrupt file, and entries that are invalid or cannot run.
    """

    name = NAME
    prefixes: tuple[str, ...] = ("",)

    def __init__(self, path: Path, report: Callable[[Problem], None]) -> None:
        self.store = JsonStore(path=path, schema_version=1, what="registry", rebuildable=True, report=report)
        self._report = report
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

        Args:
            nodes: The JSON form of an entry by node type.

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
        others = {name: value for name, value in data.items() if name not in _OF_THE_FILE}
        unused = [
            name for name, value in others.items() if isinstance(value, Mapping) and _MARKS & value.keys()
        ]
        if unused:
            fix = 'Remove them, as a plugin\'s nodes need no entry, or move your own into "nodes"'
            self._report(self._warning(f'entries outside "nodes" are not used: {_some(unused)}', fix))
        found = filter(None, (self._entry(name, node) for name, node in self._nodes(data).items()))
        entries = {entry.node: entry for entry in found}
        modules: dict[str, list[str]] = {}
        for entry in entries.values():
            modules.setdefault(entry.module, []).append(entry.node)
        for module, names in modules.items():
            if not is_installed(module):
                message = f"module {module} is not installed, so entries of it cannot run: {_some(names)}"
                fix = (
                    "Install the package that provides it, or remove them, as a plugin's nodes need no entry"
                )
                self._report(self._warning(message, fix, Uninstalled))
        return entries

    def _warning(self, message: str, suggestion: str, kind: type[Problem] = Problem) -> Problem:
        path = str(self.store.path)
        text = f"{path}: {message}"
        return kind(message=text, suggestion=suggestion, severity="warning", kind="config", source=path)

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


def _some(names: Sequence[str]) -> str:
    rest = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + rest


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
