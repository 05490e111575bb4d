"""A second host for pflow's plugins, written from the documentation of the contract alone.

It shares no code with the embedded host: a dict for a registry, a loop for a runner, templates of
one line; it keeps no settings, library or traces, and says so. What works here works in any host.
"""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Self

import attrs
import pluggy

from pflow_mcp_plugin import contract

_TEMPLATE = re.compile(r"\$\{([^}]+)\}")
_SPECIAL = re.compile(r"__\w+__")


def not_found(message: str) -> contract.PflowError:
    return contract.PflowError(message, kind="not_found")


class ForeignRun(contract.Run):
    """One run, as nodes and plugins see it."""

    def __init__(
        self,
        run_id: str,
        workflow: contract.Workflow,
        host: contract.Host,
        origin: contract.RunOrigin,
        control: contract.RunControl,
    ) -> None:
        self.run_id = run_id
        self.workflow = workflow
        self.host = host
        self.artifacts_dir = host.paths.state / run_id
        self.resources: dict[str, Any] = {}
        self.annotations: dict[str, Any] = {}
        self.origin = origin
        self._control = control
        self._secrets: set[str] = set()

    def annotate(self, node_id: str, details: Mapping[str, Any]) -> None:
        self.annotations.setdefault(node_id, {}).update(details)

    def cancelled(self) -> bool:
        return self._control.cancelled

    def check(self) -> None:
        if self.cancelled():
            raise contract.PflowError("The run was cancelled", kind="interrupted")

    def on_cancel(self, stop: Callable[[], object]) -> None:
        self._control.on_cancel(stop)

    def add_secrets(self, values: Iterable[str]) -> None:
        self._secrets.update(values)

    def redacted(self, value: Any) -> Any:
        """Return a value without the secrets of the run."""
        if isinstance(value, Mapping):
            return {key: self.redacted(item) for key, item in value.items()}
        if isinstance(value, str):
            for secret in self._secrets:
                value = value.replace(secret, "***")
        return value


class ForeignRegistry(contract.Registry):
    """A dict of what has been looked up, in front of the plugins' sources."""

    def __init__(self, host: ForeignHost) -> None:
        self._host = host
        self._table: dict[str, contract.Entry] = {}

    def get(self, node_type: str) -> contract.Entry:
        if node_type not in self._table:
            fitting = [source for source in self._sources() if node_type.startswith(tuple(source.prefixes))]
            entry = next(filter(None, (source.get(node_type) for source in fitting)), None)
            if entry is None:
                reasons = [str(source.missing(node_type)) for source in fitting]
                raise not_found("; ".join(reasons) or f"No node {node_type}")
            self._table[node_type] = entry
        return self._table[node_type]

    def entries(self, pattern: str = "") -> Iterator[contract.Entry]:
        found = [entry for source in self._sources() for entry in source.entries() if pattern in entry.node]
        return iter(sorted(found, key=lambda entry: entry.node))

    def forget(self, source: str) -> None:
        self._table = {name: entry for name, entry in self._table.items() if entry.source != source}

    def check_use(self, entry: contract.Entry, params: Mapping[str, Any]) -> None:
        """Refuse a use of a node that its source finds an error in."""
        use = contract.NodeUse(entry=entry, params=_known(params), supplied=None)
        sources = [source for source in self._sources() if source.name == entry.source]
        for problem in (found for source in sources for found in source.check_use(use)):
            if problem.severity == "error":
                steps = (problem.suggestion,) if problem.suggestion else ()
                raise contract.PflowError(str(problem), kind=problem.kind, suggestions=steps)

    def _sources(self) -> Iterator[contract.NodeSource]:
        for name, registered in self._host.collect("pflow_register_nodes"):
            for source in registered:
                if isinstance(source, contract.NodeSource):
                    yield source
                else:
                    self._host.warn(name, f"registers {source!r}, which does not extend NodeSource")


class ForeignRunner(contract.Runner):
    """Runs the nodes of a workflow in a chain."""

    def __init__(self, host: ForeignHost) -> None:
        self._host = host
        self.runs: list[ForeignRun] = []

    def validate(self, workflow: Mapping[str, Any]) -> Sequence[contract.Problem]:
        """Find nothing: this host leaves it to the run."""
        return ()

    def run(
        self,
        workflow: Mapping[str, Any],
        inputs: Mapping[str, Any],
        *,
        name: str = "foreign",
        trace: bool = False,
        origin: contract.RunOrigin = contract.THE_USER,
        control: contract.RunControl | None = None,
    ) -> contract.Outcome:
        """Run the nodes; the outputs are what each node wrote, by its id. There are no traces."""
        nodes = tuple(self._compile(node) for node in workflow["nodes"])
        compiled = contract.Workflow(name=name, nodes=nodes, certain=frozenset(node.id for node in nodes))
        run_id = f"foreign-{len(self.runs) + 1}"
        run = ForeignRun(run_id, compiled, self._host, origin, control or contract.RunControl())
        self.runs.append(run)
        store: dict[str, Any] = {**inputs, "__run__": run}
        done: list[str] = []
        failure = None
        try:
            with ExitStack() as stack:
                self._enter_contexts(run, stack)
                for node in nodes:
                    run.check()
                    done.append(node.id)
                    store[node.id] = _step(node, store)
                stack.pop_all().close()
        except contract.PflowError as error:
            failure = error
            error.message = run.redacted(error.message)
            error.details = run.redacted(error.details)
            error.args = (error.message,)
        outputs = {node_id: store[node_id] for node_id in done if node_id in store}
        code = 1 if failure is None or failure.kind != "interrupted" else failure.exit_code
        return contract.Outcome(
            success=failure is None,
            outputs=outputs,
            run_id=run.run_id,
            error=failure,
            steps=len(done),
            exit_code=0 if failure is None else code,
            checkpoint={} if failure is None else run.redacted(outputs),
        )

    def _compile(self, node: Mapping[str, Any]) -> contract.NodeRef:
        entry = self._host.registry.get(node["type"])
        if reason := entry.withheld:
            steps = (reason.suggestion,) if reason.suggestion else ()
            raise contract.PflowError(f"{node['id']}: {reason.message}", kind=reason.kind, suggestions=steps)
        self._host.registry.check_use(entry, node.get("params", {}))
        ref = contract.NodeRef(
            id=node["id"], type=node["type"], entry=entry, params=node.get("params", {}), host=self._host
        )
        injected: dict[str, Any] = {}
        givers: dict[str, str] = {}
        for plugin, call in self._host.implementations("pflow_inject_params"):
            try:
                given = call(ref) or {}
            except Exception as error:
                raise contract.PflowError(f"Plugin {plugin} failed: {error}", kind="config") from error
            for key, value in given.items():
                if not _SPECIAL.fullmatch(key):
                    raise contract.PflowError(f"Plugin {plugin} may not inject {key}", kind="config")
                if key in givers:
                    raise contract.PflowError(f"{givers[key]} and {plugin} both inject {key}", kind="config")
                injected[key], givers[key] = value, plugin
        return attrs.evolve(ref, injected=injected)

    def _enter_contexts(self, run: ForeignRun, stack: ExitStack) -> None:
        for plugin, context in list(self._host.ask("pflow_run_context", run)):
            if context is None:
                continue
            try:
                context.__enter__()
            except contract.PflowError:
                raise
            except Exception as error:
                raise contract.PflowError(f"Plugin {plugin} could not prepare the run: {error}") from error
            stack.push(self._leaving(plugin, context))

    def _leaving(self, plugin: str, context: Any) -> Callable[..., bool]:
        def leave(kind: object, failure: BaseException | None, trace: object) -> bool:
            try:
                context.__exit__(kind, failure, trace)
            except Exception as error:  # noqa: BLE001 - the outcome of the run stands
                if error is not failure:
                    self._host.warn(plugin, f"failed to clean up: {error}")
            return False

        return leave


class ForeignHost(contract.Host):
    """The handle for plugins.

    Args:
        home: The folder of everything.
        plugins: Objects to register in place of the installed plugins.
    """

    api = (1, 0)

    def __init__(self, home: Path, plugins: Mapping[str, object] | None = None) -> None:
        self.paths = contract.Paths(
            config=home / "config", data=home / "data", state=home / "state", cache=home / "cache"
        )
        self.reported: list[str] = []
        self._plugins = plugins
        self._manager = pluggy.PluginManager(contract.PROJECT)
        self._registry = ForeignRegistry(self)
        self._runner = ForeignRunner(self)

    @property
    def hook(self) -> pluggy.HookRelay:
        return self._manager.hook

    @property
    def registry(self) -> ForeignRegistry:
        return self._registry

    @property
    def runner(self) -> ForeignRunner:
        return self._runner

    def __enter__(self) -> Self:
        self._manager.add_hookspecs(contract.hookspecs)
        self.hook.pflow_addhooks.call_historic(kwargs={"manager": self._manager})
        for name, load in self._found():
            try:
                self._manager.register(load(), name)
            except Exception as error:  # noqa: BLE001 - a plugin is anyone's code
                self.warn(name, f"could not be loaded: {error}")
        for name, call in list(self.implementations("pflow_configure")):
            try:
                call(self)
            except Exception as error:  # noqa: BLE001 - the same
                self._manager.unregister(name=name)
                self.warn(name, f"could not be configured: {error}")
        return self

    def __exit__(self, *_: object) -> None:
        list(self.ask("pflow_unconfigure", self))

    def _found(self) -> Iterator[tuple[str, Callable[[], object]]]:
        if self._plugins is None:
            for point in entry_points(group=contract.ENTRY_POINT_GROUP):
                yield point.name, point.load
        else:
            for name, plugin in self._plugins.items():
                yield name, lambda plugin=plugin: plugin

    def report(self, problem: contract.Problem) -> None:
        self.reported.append(str(problem))

    def warn(self, plugin: str, what: str) -> None:
        message = f"Plugin {plugin} {what}"
        self.report(contract.Problem(message=message, severity="warning", kind="config", source=plugin))

    def refresh(self, source: str) -> None:
        self._registry.forget(source)

    def implementations(self, hook: str) -> Iterator[tuple[str, Callable[[object], Any]]]:
        """Yield each plugin that implements a hook, in the order of registration, and its function."""
        for found in getattr(self.hook, hook).get_hookimpls():
            yield (
                found.plugin_name,
                lambda value, found=found: found.function(*[value][: len(found.argnames)]),
            )

    def ask(self, hook: str, argument: object) -> Iterator[tuple[str, Any]]:
        """Yield what each plugin answers; one that fails is named and skipped."""
        for name, call in self.implementations(hook):
            try:
                yield name, call(argument)
            except Exception as error:  # noqa: BLE001 - a plugin is anyone's code
                self.warn(name, f"failed in {hook}: {error}")

    def collect(self, hook: str) -> Iterator[tuple[str, list[Any]]]:
        """Yield what each plugin contributes to a hook that returns an iterable."""
        for name, answer in self.ask(hook, self):
            yield name, list(answer or ())

    def run_chain(self, words: Sequence[str], prog_name: str) -> contract.Report:
        """Run nodes that follow each other, `then` between them; a flag is a word and its value as text."""
        nodes: list[dict[str, Any]] = []
        ends = [index for index, word in enumerate(words) if word == "then"]
        for start, end in zip([0, *(index + 1 for index in ends)], [*ends, len(words)], strict=True):
            node_type, *flags = words[start:end]
            params = {key.lstrip("-"): value for key, value in zip(flags[::2], flags[1::2], strict=True)}
            nodes.append({"id": f"{prog_name}-{len(nodes) + 1}", "type": node_type, "params": params})
        outcome = self._runner.run({"nodes": nodes}, {})
        return contract.Report(data=dict(outcome.outputs), error=outcome.error)

    def check(self) -> list[contract.Problem]:
        """Return what every plugin finds wrong with its config."""
        return [problem for _, found in self.collect("pflow_validate_config") for problem in found]

    def command(self, words: Sequence[str]) -> contract.Report | None:
        """Run a plugin's command: its path, then its arguments."""
        commands = [
            (plugin, item) for plugin, found in self.collect("pflow_register_commands") for item in found
        ]
        fitting = [pair for pair in commands if tuple(words[: len(pair[1].path)]) == pair[1].path]
        if not fitting:
            raise not_found(f"No command {' '.join(words)}")
        plugin, command = max(fitting, key=lambda pair: len(pair[1].path))
        module, _, name = command.load.partition(":")
        try:
            loaded: contract.CommandLike = getattr(import_module(module), name)
        except Exception as error:
            raise contract.PflowError(f"Plugin {plugin}: cannot load {command.load}: {error}") from error
        rest = list(words[len(command.path) :])
        return loaded.main(rest, "foreign " + " ".join(command.path), standalone_mode=False, obj=self)


def _step(node: contract.NodeRef, store: dict[str, Any]) -> dict[str, Any]:
    made: contract.Node = getattr(import_module(node.entry.module), node.entry.class_name)()
    made.set_params({**_resolve(node.params, store), **node.injected, "__node_id__": node.id})
    own: dict[str, Any] = {}
    try:
        action = made.run(ChainMap(own, store)) or "default"
    except contract.PflowError as error:
        error.message = f"{node.id}: {error.message}"
        raise
    except Exception as error:
        raise contract.PflowError(f"{node.id}: {error}") from error
    if action != "default":
        raise contract.PflowError(f"{node.id}: {own.get('error', action)}")
    return own


def _resolve(value: Any, store: Mapping[str, Any]) -> Any:
    """Fill in `${node.key}`; alone it keeps the value's type, inside text it becomes text."""
    if isinstance(value, Mapping):
        return {key: _resolve(item, store) for key, item in value.items()}
    if isinstance(value, list):
        return [_resolve(item, store) for item in value]
    if not isinstance(value, str):
        return value
    if alone := _TEMPLATE.fullmatch(value):
        return _look_up(alone[1], store)
    return _TEMPLATE.sub(lambda match: str(_look_up(match[1], store)), value)


def _known(value: Any) -> Any:
    """Put UNKNOWN in place of every text with a template."""
    if isinstance(value, Mapping):
        return {key: _known(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_known(item) for item in value]
    return contract.UNKNOWN if isinstance(value, str) and _TEMPLATE.search(value) else value


def _look_up(path: str, store: Mapping[str, Any]) -> Any:
    found: Any = store
    for key in path.split("."):
        found = found[key]
    return found
