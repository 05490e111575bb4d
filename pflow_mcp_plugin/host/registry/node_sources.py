"""The node sources by precedence, saved entries among them, and a record for when a plugin's is absent."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from pflow_mcp_plugin import contract
from pflow_mcp_plugin.contract import NodeSource, PflowError, Problem
from pflow_mcp_plugin.contract.problems import advice, problem_of
from pflow_mcp_plugin.host.plugins import DISABLE_VARIABLE, Plugin, PluginFailed, Plugins, plugin_code
from pflow_mcp_plugin.storage import CorruptFile, JsonStore, StoreError, encode_json, file_stamp, write_atomic
from pflow_mcp_plugin.terminal.human_units import names_text

if TYPE_CHECKING:
    from pflow_mcp_plugin.contract import Entry, NodeUse, Sketch
    from pflow_mcp_plugin.contract.json_types import JSON, JSONObject

T = TypeVar("T")

NAME = "registry.json"
"""The file of the user's own entries, and the name of that source."""
_NAMED = 3
"""The most names that a warning lists."""
_OF_THE_FILE = ("nodes", "schema_version")
_MARKS = {"module", "class_name"}
"""Keys by which an entry is recognised."""


class Origin:
    """A node source with the plugin it comes from.

    A source is a plugin's code: what it raises becomes `PluginFailed`, which names the plugin. Its own
    PflowError passes where it may say why it cannot answer.
    """

    def __init__(self, source: NodeSource, plugin: Plugin) -> None:
        self.source = source
        self.plugin = plugin
        self.name = source.name
        self.prefixes = tuple(source.prefixes)

    def fits(self, node_type: str) -> bool:
        return node_type.startswith(self.prefixes)

    def get(self, node_type: str) -> Entry | None:
        with self._asking("look up a node", passing=(PflowError,)):
            entry = self.source.get(node_type)
            return None if entry is None else self._signed(entry)

    def entries(self) -> list[Entry]:
        with self._asking("list its nodes", passing=(PflowError,)):
            return [self._signed(entry) for entry in self.source.entries()]

    def sketches(self) -> list[Sketch]:
        with self._asking("list its nodes", passing=(PflowError,)):
            sketches = list(self.source.sketches())
            # A `Sketch` is not validated on creation, since there may be ten thousand.
            for sketch in sketches:
                for text in (sketch.node, sketch.description, *sketch.params, *sketch.params.values()):
                    if not isinstance(text, str):
                        raise TypeError(f"{text!r} in the entry of {sketch.node!r} is not a string")
            return [
                sketch if sketch.source else attrs.evolve(sketch, source=self.name) for sketch in sketches
            ]

    def fingerprint(self) -> str:
        with self._asking("return its fingerprint"):
            return str(self.source.fingerprint())

    def missing(self, node_type: str) -> Problem | None:
        with self._asking("explain a missing node"):
            try:
                problem = self.source.missing(node_type)
            except PflowError as error:
                return problem_of(error, source=self.name)
            return _expected(problem, Problem)

    def lacking(self, text: str) -> list[Problem]:
        with self._asking("say what it lacks"):
            try:
                found = _problems(self.source.lacking(text))
            except PflowError:  # it is unreadable, which the search itself reports
                return []
            return [attrs.evolve(problem, severity="warning") for problem in found]

    def unmet(self, uses: Sequence[NodeUse]) -> list[Problem]:
        with self._asking("say what its nodes need"):
            return _problems(self.source.unmet(uses))

    def check_use(self, use: NodeUse) -> list[Problem]:
        with self._asking(f"check a use of {use.entry.node}"):
            return _problems(self.source.check_use(use))

    def upgrade(self, node: JSONObject) -> JSONObject | None:
        with self._asking("upgrade a node"):
            rewritten = self.source.upgrade(node)
            return _expected(rewritten, Mapping)

    def files(self) -> dict[Path, str]:
        with self._asking("list its files"):
            return {Path(path): str(role) for path, role in self.source.files.items()}

    def _signed(self, entry: Entry) -> Entry:
        _expected(entry, contract.Entry)
        return entry if entry.source else attrs.evolve(entry, source=self.name)

    def _asking(
        self, doing: str, passing: tuple[type[BaseException], ...] = ()
    ) -> AbstractContextManager[None]:
        return plugin_code(self.plugin, f"(node source {self.name}) failed to {doing}", passing=passing)


def collect_sources(plugins: Plugins, saved: Origin) -> list[Origin]:
    """Return all node sources by precedence: the host's own, saved entries, then those of plugins by name."""
    found: list[Origin] = []
    for plugin, sources in plugins.collect("pflow_register_nodes"):
        for source in sources:
            with plugins.reporting(plugin, "registered an invalid node source"):
                if not isinstance(source, NodeSource):
                    raise TypeError(f"{source!r} does not extend NodeSource")
                # `tuple("git-")` would be four prefixes of one character each.
                if isinstance(source.prefixes, str):
                    raise TypeError(f"prefixes of {source.name} must be a tuple, not a string")
                origin = Origin(source, plugin)
                if not all(isinstance(text, str) for text in (origin.name, *origin.prefixes)):
                    raise TypeError(f"the name and the prefixes of {type(source).__name__} must be strings")
                found.append(origin)
    own = [origin for origin in found if origin.plugin.own]
    others = sorted((origin for origin in found if not origin.plugin.own), key=lambda origin: origin.name)
    taken: dict[str, Origin] = {}
    for origin in (*own, saved, *others):
        first = taken.setdefault(origin.name, origin)
        if first is not origin:
            message = (
                f"Plugins {first.plugin.label} and {origin.plugin.label} both register a node source "
                f"named {origin.name}; the latter is left out"
            )
            plugins.report(advice("", message, source=origin.plugin.name))
    return list(taken.values())


def asked(attempt: Callable[[], T], report: Callable[[Problem], None]) -> T | None:
    """Return the answer of a plugin's source of nodes; if the plugin fails, report that and return None."""
    try:
        return attempt()
    except PluginFailed as failed:
        report(failed.as_warning())
        return None


def _problems(answer: Iterable[Problem]) -> list[Problem]:
    found = list(answer)
    for problem in found:
        _expected(problem, Problem)
    return found


def _expected(answer: T | None, kind: type) -> T | None:
    if answer is not None and not isinstance(answer, kind):
        raise TypeError(f"it returned a {type(answer).__name__}")
    return answer


class Memory:
    """The record of every node source ever seen: `{"sources": {name: {plugin, distribution, prefixes}}}`.

    It is written without a lock: what two writers lose is recorded again at the next start, and a lock would
    cost every first listing more than it is worth.
    """

    def __init__(self, path: Path, report: Callable[[Problem], None]) -> None:
        self.path = path
        self.report = report

    def note(self, origins: Iterable[Origin]) -> None:
        """Record the node sources of plugins that came from a distribution."""
        known = self._read()
        new: dict[str, JSON] = {}
        for origin in origins:
            plugin, prefixes = origin.plugin, list(origin.prefixes)
            noted = known.get(origin.name, {})
            is_noted = noted.get("prefixes") == prefixes and noted.get("plugin") == plugin.name
            if plugin.metadata and not is_noted:
                new[origin.name] = {
                    "plugin": plugin.name,
                    "distribution": plugin.distribution,
                    "prefixes": prefixes,
                }
        if new:
            data: dict[str, JSON] = {"schema_version": 1, "sources": {**known, **new}}
            try:
                write_atomic(self.path, encode_json(self.path, data))
            except StoreError:
                return  # all that is lost is a better message later

    def explain(self, node_type: str, plugins: Iterable[Plugin]) -> Problem | None:
        """Return why the source of an unknown node is absent, from the record; None if no absent one fits."""
        plugins = list(plugins)
        for record in self._read().values():
            if node_type.startswith(tuple(record["prefixes"])):
                installed = next((plugin for plugin in plugins if plugin.name == record["plugin"]), None)
                return _absent(node_type, installed, record)
        for plugin in plugins:  # not recorded, but plugins are often named like their nodes
            if node_type.startswith(f"{plugin.name}-") and plugin.status != "loaded":
                return _absent(node_type, plugin, {})
        return None

    def _read(self) -> dict[str, dict[str, list[str] | str]]:
        store = JsonStore(
            path=self.path, schema_version=1, what="list of sources", rebuildable=True, report=self.report
        )
        try:
            sources = store.read().get("sources")
        except StoreError:
            return {}
        records = sources.items() if isinstance(sources, dict) else ()
        return {
            name: record
            for name, record in records
            if isinstance(record, dict) and record.keys() >= {"plugin", "prefixes"}
        }


def _absent(node_type: str, plugin: Plugin | None, record: dict[str, list[str] | str]) -> Problem | None:
    """Return why a plugin's node source is absent, so its node is unknown; None if the plugin is loaded."""
    distribution = str(record.get("distribution", ""))
    if plugin is None:
        origin = f"the distribution {distribution}, which is not installed"
        fix = f"pip install {distribution}"
    elif plugin.status == "disabled":
        origin = f"the plugin {plugin.name}, which {DISABLE_VARIABLE} disables"
        fix = f"Remove {plugin.name} from {DISABLE_VARIABLE}"
    elif plugin.status == "skipped":
        origin = f"the plugin {plugin.label}, which is skipped: {plugin.reason}"
        fix = "See: pflow plugins"
    else:
        return None
    message = f"Node type {node_type} comes from {origin}"
    return Problem(message=message, suggestion=fix, kind="not_found", source=distribution)


class Uninstalled(Problem):
    """A warning that a node source has nodes that cannot run, as their module is not installed."""


class SavedEntries(NodeSource):
    """The node source without a plugin: the entries saved in `registry.json`, of any name."""

    name = NAME
    prefixes: tuple[str, ...] = ("",)

    def __init__(self, path: Path, report: Callable[[Problem], None]) -> None:
        self.store = JsonStore(path=path, schema_version=1, what="registry", rebuildable=True, report=report)
        self._report = report
        self._read_as = ""
        self._entries: dict[str, Entry] = {}

    def fingerprint(self) -> str:
        try:
            return "-".join(map(str, file_stamp(self.store.path)))
        except StoreError:
            return ""

    def get(self, node_type: str) -> Entry | None:
        return self._load().get(node_type)

    def entries(self) -> Iterator[Entry]:
        yield from self._load().values()

    def save(self, nodes: Mapping[str, JSONObject]) -> None:
        """Save nodes as entries of this source, in JSON form by node type; saved ones of other names stay."""

        def change(data: dict[str, JSON]) -> None:
            data["nodes"] = {**self._nodes(data), **{name: dict(node) for name, node in nodes.items()}}

        self.store.update(change)

    def check(self) -> None:
        with suppress(PflowError):
            self._load()

    def _load(self) -> dict[str, Entry]:
        fingerprint = self.fingerprint()
        if fingerprint != self._read_as:
            try:
                self._entries = self._usable(self.store.read()) if fingerprint else {}
            except CorruptFile as corrupt:
                said = f"No saved entry is used: {corrupt.message}"
                warning = problem_of(corrupt, message=said, severity="warning", kind="config", source=NAME)
                self._report(warning)
                self._entries = {}
            self._read_as = fingerprint
        return self._entries

    def _usable(self, data: JSONObject) -> dict[str, Entry]:
        nodes = self._nodes(data)
        unused = [
            name
            for name, value in data.items()
            if name not in _OF_THE_FILE and isinstance(value, Mapping) and _MARKS & value.keys()
        ]
        if unused:
            fix = 'Remove them, as a plugin\'s nodes need no entry, or move your own into "nodes"'
            self._warn(f'entries outside "nodes" are not used: {names_text(unused, _NAMED)}', fix)
        found = filter(None, (self._entry(name, node) for name, node in nodes.items()))
        entries = {entry.node: entry for entry in found}
        modules: dict[str, list[str]] = {}
        for entry in entries.values():
            modules.setdefault(entry.module, []).append(entry.node)
        for module, names in modules.items():
            if not is_installed(module):
                listed = names_text(names, _NAMED)
                message = f"module {module} is not installed, so entries of it cannot run: {listed}"
                fix = "Install the package that provides it, or remove them"
                fix += ", as a plugin's nodes need no entry"
                self._warn(message, fix, Uninstalled)
        return entries

    def _warn(self, message: str, suggestion: str, kind: type[Problem] = Problem) -> None:
        path = str(self.store.path)
        told = f"{path}: {message}"
        self._report(
            kind(message=told, suggestion=suggestion, severity="warning", kind="config", source=path)
        )

    def _nodes(self, data: JSONObject) -> JSONObject:
        nodes = data.get("nodes", {})
        if not isinstance(nodes, dict):
            raise CorruptFile(self.store.path, f'"nodes" must be an object, not {type(nodes).__name__}')
        return nodes

    def _entry(self, name: str, node: Any) -> Entry | None:
        try:
            return contract.Entry.from_dict(_normalised(name, node))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            message = f"{self.store.path}: {name} is left out, it is not a valid entry"
            step = f"Correct it: {type(error).__name__} {error}"
            self._report(advice(f"$.nodes.{name}", message, step, source=NAME))
            return None


def is_installed(module: str) -> bool:
    """Whether a module that a node source names is installed; nothing is imported to find out."""
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


def _normalised(name: str, node: Mapping[str, Any]) -> dict[str, Any]:
    interface = dict(node.get("interface", {}))
    description = interface.pop("description", "")
    interface.setdefault("open_outputs", "outputs" not in interface)  # nothing is known of the outputs
    # Older nodes name fields by `name`.
    for part in ("params", "outputs"):
        interface[part] = [
            {**field, "key": field.get("key") or field["name"]} for field in interface.get(part, ())
        ]
    interface["inputs"] = [key if isinstance(key, str) else key["key"] for key in interface.get("inputs", ())]
    return {"description": description, **node, "node": name, "source": NAME, "interface": interface}
