"""Checks that a host runs against itself: how it treats good and bad plugins, and runs.

Each check opens the host with plugins of its own and fails with an `AssertionError` that states the
requirement of the contract. With pytest:

    @pytest.mark.parametrize("check", conformance.CHECKS, ids=lambda check: check.__name__)
    def test_the_host_keeps_the_contract(check, tmp_path):
        check(conformance.Trial(open_my_host, tmp_path))

The checks of runs pass for a host without a runner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol

import attrs

from pflow_mcp_plugin.contract.commands import Command, Report
from pflow_mcp_plugin.contract.entries import Entry, Field, Interface, NodeSource
from pflow_mcp_plugin.contract.hookspecs import hookimpl
from pflow_mcp_plugin.contract.hosts import (
    Host,
    Library,
    NodeRef,
    Outcome,
    Registry,
    Run,
    Runner,
    Settings,
    Traces,
)
from pflow_mcp_plugin.contract.problems import PflowError, Problem

SECRET = "sw0rdfish-sw0rdfish"  # noqa: S105 - not a real secret
"""The secret that the checks tell a run to redact."""


class Subject(Protocol):
    """An open host, as the checks use it."""

    host: Host

    def warnings(self) -> str:
        """Return all warnings that the host has shown to the user so far."""
        ...

    def command(self, words: Sequence[str]) -> tuple[int, Mapping[str, Any]]:
        """Run a command line with `--json`; return the exit code and the envelope."""
        ...


Open = Callable[[Mapping[str, object], Path], AbstractContextManager[Subject]]
"""Opens a host with these plugins, by name and in this order, and with folders below the given one."""


@attrs.frozen
class Trial:
    """The host and the folder that a check works with.

    Attributes:
        opener: Opens the host.
        home: An empty folder, the host's own for this check.
    """

    opener: Open
    home: Path

    @contextmanager
    def open(self, **plugins: object) -> Iterator[Subject]:
        """Open the host with these plugins, in this order."""
        with self.opener(plugins, self.home) as subject:
            yield subject


Check = Callable[[Trial], None]
CHECKS: list[Check] = []
"""Every check; its name states a requirement of the contract."""


def _check(function: Check) -> Check:
    CHECKS.append(function)
    return function


class Recite:
    """A node that records its params and behaves as they say."""

    def set_params(self, params: Mapping[str, Any]) -> None:
        """Store the params."""
        self._params = dict(params)

    def run(self, shared: MutableMapping[str, Any]) -> str | None:
        """Write `said`; fail, or read the store, if a param says so."""
        run: Run = shared["__run__"]
        run.resources.setdefault("recited", []).append(self._params)
        run.annotate(self._params["__node_id__"], {"recited": True})
        wanted = self._params.get("fail")
        if wanted == "raise":
            run.add_secrets([SECRET])
            raise PflowError(f"no voice for {SECRET}", details={"key": SECRET}, ran="ran", retryable=True)
        if wanted == "action":
            shared["error"] = "hoarse"
            return "error"
        shared["said"] = self._params.get("text", shared.get("text"))
        shared["error"] = None
        return None


class Poems(NodeSource):
    """A source of one node, `poem-recite`, with the alias `poem-RECITE`.

    Args:
        name: The name of the source.
        prefix: The prefix of its node types.
        description: The description of its node.

    Attributes:
        listed: The number of calls of `entries`.
        asked: The node types passed to `get`.
    """

    def __init__(
        self, name: str = "poems", prefix: str = "poem-", description: str = "Recite a poem"
    ) -> None:
        self.name = name
        self.prefixes = (prefix,)
        self.description = description
        self.listed = 0
        self.asked: list[str] = []

    def fingerprint(self) -> str:
        """Return a string that changes with the description."""
        return self.description

    def get(self, node_type: str) -> Entry | None:
        """Return the entry, by its name or its alias."""
        self.asked.append(node_type)
        return self._entry() if node_type.lower() == f"{self.prefixes[0]}recite" else None

    def entries(self) -> Iterator[Entry]:
        """Yield the one entry."""
        self.listed += 1
        yield self._entry()

    def missing(self, node_type: str) -> Problem | None:
        """Explain that the poem was never written."""
        return Problem(message=f"{node_type} was never written", suggestion="Write it", kind="not_found")

    def _entry(self) -> Entry:
        return Entry(
            node=f"{self.prefixes[0]}recite",
            class_name="Recite",
            module=__name__,
            description=self.description,
            source=self.name,
            interface=Interface(
                params=(Field(key="text"), Field(key="fail", type="str")),
                outputs=(Field(key="said"),),
                inputs=("text",),
            ),
        )


class _Orate:
    """A command, without a parser."""

    def main(self, args: Sequence[str], prog_name: str, *, standalone_mode: bool, **extra: Any) -> Report:
        host: Host = extra["obj"]
        words = [word for word in args if word != "--json"]
        if "fail" in words:
            raise PflowError("nothing to say", kind="connection", details={"words": words})
        return Report(data={"words": words, "program": prog_name, "config": str(host.paths.config)})


orate = _Orate()


def plugin(**hooks: Callable[..., Any]) -> SimpleNamespace:
    """Return a plugin that implements these hooks."""
    return SimpleNamespace(**{name: hookimpl(function) for name, function in hooks.items()})


def poetry(*sources: object) -> SimpleNamespace:
    """Return a plugin that registers these sources, `Poems` if none is given."""
    found = list(sources) or [Poems()]
    return plugin(pflow_register_nodes=lambda host: found)


def _node(node_id: str = "one", node_type: str = "poem-recite", **params: Any) -> dict[str, Any]:
    return {"id": node_id, "type": node_type, "params": params}


def _run(subject: Subject, *nodes: Mapping[str, Any], **inputs: Any) -> Outcome:
    assert subject.host.runner is not None
    declared = {name: {"type": "any"} for name in inputs}
    return subject.host.runner.run({"nodes": list(nodes), "inputs": declared}, inputs, name="conformance")


def _refusal(subject: Subject, *nodes: Mapping[str, Any]) -> PflowError:
    """Return the error with which a host refuses a workflow before anything has run."""
    try:
        outcome = _run(subject, *nodes)
    except PflowError as error:
        return error
    raise AssertionError(f"the workflow was not refused: {outcome}")


def _not_found(registry: Registry, node_type: str) -> PflowError:
    try:
        found = registry.get(node_type)
    except PflowError as error:
        return error
    raise AssertionError(f"{node_type} should not exist, it is {found}")


def _names(text: str, *names: str) -> None:
    for name in names:
        assert name in text, f"{name!r} is not named in {text!r}"


class _Listening:
    """A plugin whose contexts record how they are entered and left, and keep the run."""

    def __init__(self, name: str, events: list[Any], *, swallow: bool = False) -> None:
        self.name = name
        self.events = events
        self.swallow = swallow
        self.run: Run | None = None

    @hookimpl
    def pflow_run_context(self, run: Run) -> _Listening:
        """Offer itself."""
        self.run = run
        return self

    def __enter__(self) -> None:
        self.events.append(f"{self.name} in")

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        self.events.append(f"{self.name} out")
        if error is not None:
            self.events.append(error)
        return self.swallow


@_check
def a_plugin_is_configured_once_and_unconfigured_at_the_end(trial: Trial) -> None:
    """`pflow_configure` first, with the host; `pflow_unconfigure` last; each exactly once."""
    events: list[tuple[str, object]] = []

    def register(host: Host) -> list[NodeSource]:
        events.append(("nodes", host))
        return [Poems()]

    noted = plugin(
        pflow_configure=lambda host: events.append(("configure", host)),
        pflow_unconfigure=lambda host: events.append(("unconfigure", host)),
        pflow_register_nodes=register,
    )
    with trial.open(noted=noted) as subject:
        host = subject.host
        assert host.registry.find("poem-recite")
        assert [event for event, _ in events] == ["configure", "nodes"]
    assert [event for event, _ in events] == ["configure", "nodes", "unconfigure"]
    assert all(given is host for _, given in events)


@_check
def a_plugin_that_fails_to_configure_is_named_and_left_out(trial: Trial) -> None:
    """Its nodes are missing, its `pflow_unconfigure` is not called, the others stay."""
    events = []

    def fail(host: Host) -> None:
        raise RuntimeError("no paper")

    broken = plugin(
        pflow_configure=fail,
        pflow_unconfigure=lambda host: events.append("unconfigured"),
        pflow_register_nodes=lambda host: [Poems("torn", "torn-")],
    )
    with trial.open(broken=broken, sound=poetry()) as subject:
        _names(subject.warnings(), "broken", "no paper")
        assert subject.host.registry.find("torn-recite") is None
        assert subject.host.registry.find("poem-recite")
    assert not events


@_check
def a_plugin_that_fails_to_register_nodes_is_named_and_the_others_stay(trial: Trial) -> None:
    """One bad plugin never brings down the host."""

    def fail(host: Host) -> list[NodeSource]:
        raise ValueError("no ink")

    with trial.open(broken=plugin(pflow_register_nodes=fail), sound=poetry()) as subject:
        assert subject.host.registry.find("poem-recite")
        _names(subject.warnings(), "broken", "no ink")


@_check
def an_object_that_is_not_a_node_source_is_named_and_left_out(trial: Trial) -> None:
    """A source extends `NodeSource`."""
    with trial.open(broken=poetry(7), sound=poetry()) as subject:
        assert subject.host.registry.find("poem-recite")
        _names(subject.warnings(), "broken")


@_check
def the_version_and_the_parts_are_those_of_the_contract(trial: Trial) -> None:
    """`api` is a pair of numbers; a part is None or extends its class."""
    with trial.open() as subject:
        host = subject.host
        assert isinstance(host, Host)
        assert isinstance(host.api, tuple)
        assert [type(number) for number in host.api] == [int, int]
        assert isinstance(host.registry, Registry)
        for name, kind in (
            ("runner", Runner),
            ("settings", Settings),
            ("library", Library),
            ("traces", Traces),
        ):
            part = getattr(host, name)
            assert part is None or isinstance(part, kind), f"host.{name} is {part!r}"
        if host.settings is not None:
            assert host.settings.get("CONFORMANCE_NOT_SET") is None


@_check
def a_node_is_looked_up_without_listing_every_entry(trial: Trial) -> None:
    """`get` asks the sources with a matching prefix only, and does not list them."""
    poems, other = Poems(), Poems("tales", "tale-")
    with trial.open(poetry=poetry(poems, other)) as subject:
        assert subject.host.registry.get("poem-recite").description == "Recite a poem"
    assert "poem-recite" in poems.asked
    assert not other.asked
    assert poems.listed == other.listed == 0


@_check
def an_alias_finds_its_entry(trial: Trial) -> None:
    """A source may accept another name; the entry keeps its own."""
    with trial.open(poetry=poetry()) as subject:
        assert subject.host.registry.get("poem-RECITE").node == "poem-recite"


@_check
def a_missing_node_is_explained_by_its_source(trial: Trial) -> None:
    """`get` raises kind `not_found` in the source's words, `find` returns None."""
    with trial.open(poetry=poetry()) as subject:
        error = _not_found(subject.host.registry, "poem-lost")
        assert error.kind == "not_found"
        _names(error.message, "poem-lost was never written")
        assert subject.host.registry.find("poem-lost") is None
        assert _not_found(subject.host.registry, "nobodys-node").kind == "not_found"


@_check
def entries_are_listed_and_found_by_words(trial: Trial) -> None:
    """`entries`, `search` and `discover` return what sources list."""
    with trial.open(poetry=poetry()) as subject:
        registry = subject.host.registry
        assert "poem-recite" in [entry.node for entry in registry.entries("poem-")]
        assert not list(registry.entries("no-such-node-at-all"))
        assert "poem-recite" in [entry.node for entry, _ in registry.search("recite poem")]
        assert "poem-recite" in [entry.node for entry, _ in registry.discover("recite poem")]


@_check
def a_changed_source_is_seen_after_a_refresh(trial: Trial) -> None:
    """`refresh` rebuilds what was derived from a source."""
    poems = Poems()
    with trial.open(poetry=poetry(poems)) as subject:
        registry = subject.host.registry
        assert registry.get("poem-recite").description == "Recite a poem"
        assert "poem-recite" in [entry.node for entry, _ in registry.search("poem")]
        poems.description = "Sing a ballad"
        subject.host.refresh("poems")
        assert "poem-recite" in [entry.node for entry, _ in registry.search("ballad")]
        assert registry.get("poem-recite").description == "Sing a ballad"


@_check
def each_node_is_injected_once_and_knows_its_host(trial: Trial) -> None:
    """`pflow_inject_params` is asked once per node; its result is in the params and in `NodeRef.injected`."""
    asked: list[NodeRef] = []

    def inject(node: NodeRef) -> Mapping[str, object]:
        asked.append(node)
        return {"__volume__": len(asked)}

    listening = _Listening("a", [])
    with trial.open(poetry=poetry(), loud=plugin(pflow_inject_params=inject), a=listening) as subject:
        if subject.host.runner is None:
            return
        assert _run(subject, _node("one"), _node("two", "poem-RECITE")).success
        assert [(node.id, node.type, node.entry.node) for node in asked] == [
            ("one", "poem-recite", "poem-recite"),
            ("two", "poem-RECITE", "poem-recite"),
        ]
        assert all(node.host is subject.host for node in asked)
    assert listening.run is not None
    assert [dict(node.injected) for node in listening.run.workflow.nodes] == [
        {"__volume__": 1},
        {"__volume__": 2},
    ]
    recited = [(params["__node_id__"], params["__volume__"]) for params in listening.run.resources["recited"]]
    assert recited == [("one", 1), ("two", 2)]


def _injecting(given: Mapping[str, object]) -> SimpleNamespace:
    return plugin(pflow_inject_params=lambda node: given)


@_check
def a_parameter_that_is_not_special_is_refused(trial: Trial) -> None:
    """Only `__dunder__` names may be injected; otherwise nothing runs."""
    events: list[Any] = []
    with trial.open(
        poetry=poetry(), pushy=_injecting({"text": "mine"}), a=_Listening("a", events)
    ) as subject:
        if subject.host.runner is not None:
            _names(_refusal(subject, _node()).message, "pushy", "text")
    assert not events


@_check
def two_plugins_that_inject_one_parameter_are_both_named(trial: Trial) -> None:
    """No plugin silently overwrites what another injected."""
    with trial.open(
        poetry=poetry(), loud=_injecting({"__volume__": 1}), quiet=_injecting({"__volume__": 2})
    ) as subject:
        if subject.host.runner is not None:
            _names(_refusal(subject, _node()).message, "loud", "quiet", "__volume__")


@_check
def a_plugin_that_fails_to_inject_stops_the_compilation(trial: Trial) -> None:
    """A node never runs without the parameters that it should get."""
    events: list[Any] = []

    def fail(node: NodeRef) -> None:
        raise LookupError("no pitch")

    with trial.open(
        poetry=poetry(), broken=plugin(pflow_inject_params=fail), a=_Listening("a", events)
    ) as subject:
        if subject.host.runner is not None:
            _names(_refusal(subject, _node()).message, "broken", "no pitch")
    assert not events


@_check
def values_keep_their_types_from_node_to_node(trial: Trial) -> None:
    """A template alone in a param keeps the value's type; an input is found at the root of the store."""
    listening = _Listening("a", [])
    with trial.open(poetry=poetry(), a=listening) as subject:
        if subject.host.runner is None:
            return
        first = {"id": "one", "type": "poem-recite"}
        outcome = _run(subject, first, _node("two", text="${one.said}"), text={"verses": [1, 2]})
        assert outcome.success, outcome.error
        assert outcome.steps == 2
    assert listening.run is not None
    assert listening.run.resources["recited"][1]["text"] == {"verses": [1, 2]}


@_check
def contexts_are_entered_in_order_and_left_in_reverse(trial: Trial) -> None:
    """They are entered in the order of the plugins, around the nodes."""
    events: list[Any] = []
    with trial.open(poetry=poetry(), a=_Listening("a", events), b=_Listening("b", events)) as subject:
        if subject.host.runner is None:
            return
        assert _run(subject, _node()).success
        assert events == ["a in", "b in", "b out", "a out"]


@_check
def a_failure_reaches_every_context_and_none_can_undo_it(trial: Trial) -> None:
    """`__exit__` receives the failure as a `PflowError`; returning true changes nothing."""
    events: list[Any] = []
    with trial.open(
        poetry=poetry(), a=_Listening("a", events), b=_Listening("b", events, swallow=True)
    ) as subject:
        if subject.host.runner is None:
            return
        outcome = _run(subject, _node(fail="action"))
        assert not outcome.success
        failures = [event for event in events if isinstance(event, BaseException)]
        assert [event for event in events if isinstance(event, str)] == ["a in", "b in", "b out", "a out"]
        assert len(failures) == 2, "each context receives the failure"
        assert all(isinstance(error, PflowError) and "hoarse" in error.message for error in failures)


@_check
def a_context_that_cannot_be_entered_fails_the_run(trial: Trial) -> None:
    """Those entered before it are exited, and no node runs."""
    events: list[Any] = []

    @contextmanager
    def closed(run: Run) -> Iterator[None]:
        raise OSError("no stage")
        yield

    first = _Listening("a", events)
    with trial.open(poetry=poetry(), a=first, broken=plugin(pflow_run_context=closed)) as subject:
        if subject.host.runner is None:
            return
        outcome = _run(subject, _node())
        assert not outcome.success
        assert outcome.error is not None
        _names(outcome.error.message, "broken", "no stage")
        assert outcome.steps == 0
    assert events[:2] == ["a in", "a out"]
    assert first.run is not None
    assert "recited" not in first.run.resources


@_check
def a_context_that_fails_to_close_is_reported_and_changes_nothing(trial: Trial) -> None:
    """The run has succeeded by then; the contexts around it are exited nevertheless."""
    events: list[Any] = []

    @contextmanager
    def stuck(run: Run) -> Iterator[None]:
        yield
        raise OSError("no exit")

    with trial.open(
        poetry=poetry(), a=_Listening("a", events), broken=plugin(pflow_run_context=stuck)
    ) as subject:
        if subject.host.runner is None:
            return
        assert _run(subject, _node()).success
        _names(subject.warnings(), "broken", "no exit")
    assert events == ["a in", "a out"]


@_check
def a_failing_node_fails_the_run_with_its_own_fields(trial: Trial) -> None:
    """An unrouted failure: `success` is false and the error keeps kind, details, `ran` and `retryable`."""
    with trial.open(poetry=poetry()) as subject:
        if subject.host.runner is None:
            return
        outcome = _run(subject, _node(fail="raise"))
        assert not outcome.success
        assert outcome.exit_code == 1
        error = outcome.error
        assert error is not None
        _names(error.message, "one", "no voice")
        assert (error.kind, error.ran, error.retryable) == ("execution", "ran", True)
        assert "key" in error.details


@_check
def a_node_runs_exactly_once(trial: Trial) -> None:
    """Even a retryable failure is not retried unless the workflow says so."""
    listening = _Listening("a", [])
    with trial.open(poetry=poetry(), a=listening) as subject:
        if subject.host.runner is None:
            return
        assert not _run(subject, _node(fail="raise")).success
    assert listening.run is not None
    assert len(listening.run.resources["recited"]) == 1


@_check
def secrets_of_a_run_are_redacted(trial: Trial) -> None:
    """Values passed to `add_secrets` do not appear in any error of the run."""
    with trial.open(poetry=poetry()) as subject:
        if subject.host.runner is None:
            return
        outcome = _run(subject, _node(fail="raise"))
        assert outcome.error is not None
        assert SECRET not in f"{outcome.error} {outcome.error.to_dict()}"


@_check
def a_command_gets_its_arguments_and_the_host(trial: Trial) -> None:
    """Its report or failure is in the envelope, with the exit code of its kind."""
    announced = Command(path=("verse", "orate"), help="Speak.", load=f"{__name__}:orate")
    with trial.open(verse=plugin(pflow_register_commands=lambda host: [announced])) as subject:
        code, envelope = subject.command(["verse", "orate", "a", "b"])
        assert (code, envelope["success"]) == (0, True)
        assert envelope["data"]["words"] == ["a", "b"]
        assert envelope["data"]["config"] == str(subject.host.paths.config)
        _names(envelope["data"]["program"], "verse orate")
        code, envelope = subject.command(["verse", "orate", "fail"])
        assert (code, envelope["success"]) == (3, False)
        assert envelope["error"]["type"] == "connection"
        assert envelope["error"]["message"] == "nothing to say"


@_check
def an_announced_command_is_imported_only_when_it_runs(trial: Trial) -> None:
    """A command that cannot be imported does not harm the others; calling it names the plugin."""
    absent = Command(path=("verse", "lost"), help="Nothing.", load="no_such_module_at_all:lost")
    announced = Command(path=("verse", "orate"), help="Speak.", load=f"{__name__}:orate")
    with trial.open(verse=plugin(pflow_register_commands=lambda host: [absent, announced])) as subject:
        assert subject.command(["verse", "orate"])[0] == 0
        code, envelope = subject.command(["verse", "lost"])
        assert code != 0
        _names(envelope["error"]["message"], "verse", "no_such_module_at_all")


@_check
def config_is_checked_only_when_asked(trial: Trial) -> None:
    """`pflow_validate_config` is never called at start-up or for a run."""
    asked: list[Host] = []

    def check(host: Host) -> list[Problem]:
        asked.append(host)
        return []

    checking = plugin(pflow_validate_config=check)
    with trial.open(poetry=poetry(), checking=checking) as subject:
        assert subject.host.registry.find("poem-recite")
        if subject.host.runner is not None:
            assert _run(subject, _node()).success
    assert not asked
