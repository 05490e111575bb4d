"""The conformance checks about plugins (nodes, commands, config) and the library that they use."""

from __future__ import annotations

from pflow_mcp_plugin.contract.conformance import sample_plugins
from pflow_mcp_plugin.contract.conformance.sample_plugins import Poems, plugin, poetry
from pflow_mcp_plugin.contract.conformance.trial import Trial, assert_named, node, raised, run_nodes
from pflow_mcp_plugin.contract.hosts import Command, Host, Settings, Traces
from pflow_mcp_plugin.contract.json_types import JSONObject
from pflow_mcp_plugin.contract.libraries import Library
from pflow_mcp_plugin.contract.problems import Problem
from pflow_mcp_plugin.contract.registries import NodeSource, Registry
from pflow_mcp_plugin.contract.runners import Runner
from pflow_mcp_plugin.contract.runs import LockCheck


def a_plugin_is_configured_once_and_unconfigured_at_the_end(trial: Trial) -> None:
    """Plugin check: `pflow_configure` first, with the host; `pflow_unconfigure` last; each exactly once."""
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


def a_plugin_that_fails_to_configure_is_named_and_left_out(trial: Trial) -> None:
    """Plugin check: one that fails to configure is left out, is not unconfigured, and the others stay."""
    events = []

    def fail(host: Host) -> None:
        raise RuntimeError("no paper")

    broken = plugin(
        pflow_configure=fail,
        pflow_unconfigure=lambda host: events.append("unconfigured"),
        pflow_register_nodes=lambda host: [Poems("torn", "torn-")],
    )
    with trial.open(broken=broken, sound=poetry()) as subject:
        assert_named(subject.warnings(), "broken", "no paper")
        assert subject.host.registry.find("torn-recite") is None
        assert subject.host.registry.find("poem-recite")
    assert not events


def a_plugin_that_fails_to_register_nodes_is_named_and_the_others_stay(trial: Trial) -> None:
    """Plugin check: one bad plugin never brings down the host."""

    def fail(host: Host) -> list[NodeSource]:
        raise ValueError("no ink")

    with trial.open(broken=plugin(pflow_register_nodes=fail), sound=poetry()) as subject:
        assert subject.host.registry.find("poem-recite")
        assert_named(subject.warnings(), "broken", "no ink")


def an_object_that_is_not_a_node_source_is_named_and_left_out(trial: Trial) -> None:
    """Plugin check: a source extends `NodeSource`."""
    with trial.open(broken=poetry(7), sound=poetry()) as subject:
        assert subject.host.registry.find("poem-recite")
        assert_named(subject.warnings(), "broken")


def the_version_and_the_parts_are_those_of_the_contract(trial: Trial) -> None:
    """Plugin check: `api` is a pair of numbers; a part is None or extends its class."""
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


def a_node_is_looked_up_without_listing_every_entry(trial: Trial) -> None:
    """Plugin check: `get` asks the sources with a matching prefix only, and does not list them."""
    poems, other = Poems(), Poems("tales", "tale-")
    with trial.open(poetry=poetry(poems, other)) as subject:
        assert subject.host.registry.get("poem-recite").description == "Recite a poem"
    assert "poem-recite" in poems.asked
    assert not other.asked
    assert poems.listed == other.listed == 0


def an_alias_finds_its_entry(trial: Trial) -> None:
    """Plugin check: a source may accept another name; the entry keeps its own."""
    with trial.open(poetry=poetry()) as subject:
        assert subject.host.registry.get("poem-RECITE").node == "poem-recite"


def a_missing_node_is_explained_by_its_source(trial: Trial) -> None:
    """Plugin check: `get` raises kind `not_found` in the source's words, `find` returns None."""
    with trial.open(poetry=poetry()) as subject:
        registry = subject.host.registry
        error = raised(lambda: registry.get("poem-lost"))
        assert error.kind == "not_found"
        assert_named(error.message, "poem-lost was never written")
        assert registry.find("poem-lost") is None
        assert raised(lambda: registry.get("nobodys-node")).kind == "not_found"


def entries_are_listed_and_found_by_words(trial: Trial) -> None:
    """Plugin check: `entries`, `search` and `discover` return what sources list."""
    with trial.open(poetry=poetry()) as subject:
        registry = subject.host.registry
        assert "poem-recite" in [entry.node for entry in registry.entries("poem-")]
        assert not list(registry.entries("no-such-node-at-all"))
        assert "poem-recite" in [entry.node for entry, _ in registry.search("recite poem")]
        found = {match.item.node: match.item for match in registry.discover("recite poem").matches}
        assert found["poem-recite"] == registry.get("poem-recite")


def several_nodes_are_described_and_every_unknown_one_is_named(trial: Trial) -> None:
    """Plugin check: `describe` returns entries in the order asked; what is unknown hides nothing else."""
    with trial.open(poetry=poetry()) as subject:
        registry = subject.host.registry
        entry = registry.get("poem-recite")
        assert registry.describe(["poem-recite"]) == [entry]
        error = raised(lambda: registry.describe(["poem-lost", "poem-recite", "nobodys-node"]))
        assert error.kind == "not_found"
        assert_named("\n".join(map(str, error.problems)), "poem-lost", "nobodys-node")
        assert error.details["entries"] == [entry.to_dict()]


def a_changed_source_is_seen_after_a_refresh(trial: Trial) -> None:
    """Plugin check: `refresh` rebuilds what was derived from a source."""
    poems = Poems()
    with trial.open(poetry=poetry(poems)) as subject:
        registry = subject.host.registry
        assert registry.get("poem-recite").description == "Recite a poem"
        assert "poem-recite" in [entry.node for entry, _ in registry.search("poem")]
        poems.description = "Sing a ballad"
        subject.host.refresh("poems")
        assert "poem-recite" in [entry.node for entry, _ in registry.search("ballad")]
        assert registry.get("poem-recite").description == "Sing a ballad"


def a_command_gets_its_arguments_and_the_host(trial: Trial) -> None:
    """Plugin check: a command's report or failure is in the envelope, with the exit code of its kind."""
    announced = Command(path=("verse", "orate"), help="Speak.", load=f"{sample_plugins.__name__}:orate")
    with trial.open(verse=plugin(pflow_register_commands=lambda host: [announced])) as subject:
        code, envelope = subject.command(["verse", "orate", "a", "b"])
        assert (code, envelope["success"]) == (0, True)
        assert envelope["data"]["words"] == ["a", "b"]
        assert envelope["data"]["config"] == str(subject.host.paths.config)
        assert_named(envelope["data"]["program"], "verse orate")
        code, envelope = subject.command(["verse", "orate", "fail"])
        assert (code, envelope["success"]) == (3, False)
        assert envelope["error"]["type"] == "connection"
        assert envelope["error"]["message"] == "nothing to say"


def an_announced_command_is_imported_only_when_it_runs(trial: Trial) -> None:
    """Plugin check: a command that cannot be imported harms no other; calling it names the plugin."""
    absent = Command(path=("verse", "lost"), help="Nothing.", load="no_such_module_at_all:lost")
    announced = Command(path=("verse", "orate"), help="Speak.", load=f"{sample_plugins.__name__}:orate")
    with trial.open(verse=plugin(pflow_register_commands=lambda host: [absent, announced])) as subject:
        assert subject.command(["verse", "orate"])[0] == 0
        code, envelope = subject.command(["verse", "lost"])
        assert code != 0
        assert_named(envelope["error"]["message"], "verse", "no_such_module_at_all")


def config_is_checked_only_when_asked(trial: Trial) -> None:
    """Plugin check: `pflow_validate_config` is never called at start-up or for a run."""
    asked: list[Host] = []

    def check(host: Host) -> list[Problem]:
        asked.append(host)
        return []

    checking = plugin(pflow_validate_config=check)
    with trial.open(poetry=poetry(), checking=checking) as subject:
        assert subject.host.registry.find("poem-recite")
        if subject.host.runner is not None:
            assert run_nodes(subject, node()).success
    assert not asked


def a_lock_is_checked_only_when_asked(trial: Trial) -> None:
    """Plugin check: `pflow_check_lock` is called neither to look up a node nor for a run of no lock."""
    asked: list[LockCheck] = []

    def check_lock(check: LockCheck) -> list[Problem]:
        asked.append(check)
        return [Problem(message="not as locked")]

    with trial.open(poetry=poetry(), locking=plugin(pflow_check_lock=check_lock)) as subject:
        assert subject.host.registry.find("poem-recite")
        if subject.host.runner is not None:
            assert run_nodes(subject, node()).success
    assert not asked


_NAME = "conformance-ballad"
_PURPOSE = "Recite a ballad to the harbour master"


def a_saved_workflow_is_listed_filtered_and_found(trial: Trial) -> None:
    """Check a plugin's view of the library: it lists and finds what `save_workflow` saved until `delete`."""
    with trial.open(poetry=poetry()) as subject:
        library = subject.host.library
        if library is None:
            return
        wanted: JSONObject = {"inputs": {"town": {"type": "str", "default": "x"}}, "nodes": [node()]}
        saved, _ = subject.host.save_workflow(wanted, _NAME, _PURPOSE)
        assert (saved.name, saved.description, saved.problem) == (_NAME, _PURPOSE, "")
        assert _NAME in [item.name for item in library.saved()]
        assert [item.name for item in library.saved("HARBOUR MASTER")] == [_NAME]
        assert not library.saved("no such workflow at all")
        best = library.discover(_PURPOSE).matches[0]
        assert (best.item.name, best.confidence > 0.9) == (_NAME, True), f"{_PURPOSE!r} found {best}"
        library.delete(_NAME)
        assert _NAME not in [item.name for item in library.saved()]


def the_fingerprint_of_a_library_changes_with_what_is_saved(trial: Trial) -> None:
    """Check that a plugin sees a library's `fingerprint` change with what is saved, and at no other time."""
    with trial.open(poetry=poetry()) as subject:
        library = subject.host.library
        if library is None:
            return
        seen = [library.fingerprint()]
        library.save(_NAME, {"nodes": [node()]}, _PURPOSE)
        seen.append(library.fingerprint())
        assert library.fingerprint() == seen[-1]
        library.save(_NAME, {"nodes": [node(town="Bergen")]}, _PURPOSE)
        seen.append(library.fingerprint())
        library.delete(_NAME)
        assert len({*seen[1:], library.fingerprint()}) == len(seen), f"it did not change: {seen}"


def a_workflow_with_mistakes_is_not_saved(trial: Trial) -> None:
    """Check that a plugin's `save_workflow` raises kind `validation` with the problems, and saves nothing."""
    with trial.open(poetry=poetry()) as subject:
        library = subject.host.library
        if library is None or subject.host.runner is None:
            return
        save = subject.host.save_workflow
        error = raised(lambda: save({"nodes": [node(), node()]}, _NAME))
        assert error.kind == "validation"
        assert error.problems
        assert _NAME not in library.names()
