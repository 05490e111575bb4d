"""`registry.json`: the entries that users and `Registry.save()` put there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pflow_mcp_plugin.contract import Entry, NodeSource, PflowError, Problem
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.storage import CorruptFile, JsonStore

if TYPE_CHECKING:
    from pflow_mcp_plugin.host.registry.outdated_entries import OriginOf

NAME = "registry.json"


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
        from pflow_mcp_plugin.host.registry.outdated_entries import uninstalled_problems, unused_problems

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
