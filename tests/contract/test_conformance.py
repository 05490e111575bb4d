"""Both hosts keep the contract, and its checks notice a host that does not."""

import attrs
import foreign_host
import pytest
from foreign_host import ForeignHost, ForeignRegistry, ForeignRun, ForeignRunner
from shelf_library import Shelf

from pflow_mcp_plugin import contract
from pflow_mcp_plugin.contract import conformance


@pytest.mark.parametrize("check", conformance.CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("host", ["embedded", "foreign"])
def test_a_host_keeps_the_contract(host, check, tmp_path, request):
    check(conformance.Trial(request.getfixturevalue(host), tmp_path))


class UnconfiguresTwice(ForeignHost):
    def __exit__(self, *error):
        super().__exit__(*error)
        super().__exit__(*error)


class KeepsWhatFailedToConfigure(ForeignHost):
    def __enter__(self):
        self._manager.unregister = lambda **_: None
        return super().__enter__()


class HasAPartThatExtendsNothing(ForeignHost):
    settings = {"api_key": "x"}  # noqa: RUF012 - the mistake itself


class NamesNobody(ForeignHost):
    def warn(self, plugin, what):
        self.reported.append(what)


class ListsToLookUp(ForeignHost):
    class Registry(ForeignRegistry):
        def get(self, node_type):
            known = [entry for entry in self.entries() if entry.node == node_type]
            return known[0] if known else super().get(node_type)

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self._registry = self.Registry(self)


class DescribesUpToTheFirstUnknownOne(ForeignHost):
    class Registry(ForeignRegistry):
        def describe(self, node_types):
            return [self.get(node_type) for node_type in node_types]

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self._registry = self.Registry(self)


class ServesAnOlderShelf(ForeignHost):
    class OlderShelf(Shelf):
        def fingerprint(self):
            return "the same"

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.shelf = self.OlderShelf()

    @property
    def library(self):
        return self.shelf


class ForgetsNothing(ForeignHost):
    def refresh(self, source):
        pass


class ChecksConfigAtTheStart(ForeignHost):
    def __enter__(self):
        super().__enter__()
        self.check()
        return self


class WithRunner(ForeignHost):
    runner_class = ForeignRunner

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self._runner = self.runner_class(self)


class InjectsTwice(WithRunner):
    class runner_class(ForeignRunner):  # noqa: N801 - an attribute
        def _compile(self, node):
            super()._compile(node)
            return super()._compile(node)


class KeepsInjectionToItself(WithRunner):
    class runner_class(ForeignRunner):  # noqa: N801 - the same
        def _compile(self, node):
            return attrs.evolve(super()._compile(node), injected={})


class TellsContextsOfWhatDoesNotCompile(WithRunner):
    class runner_class(ForeignRunner):  # noqa: N801 - the same
        def _compile(self, node):
            try:
                return super()._compile(node)
            except contract.PflowError:
                for _, context in self._host.ask("pflow_run_context", None):
                    context.__enter__()
                raise


class LetsPluginsSetAnyParameter(WithRunner):
    class runner_class(ForeignRunner):  # noqa: N801 - the same
        def _compile(self, node):
            return attrs.evolve(super()._compile(node), injected={})

        def run(self, workflow, inputs, **options):
            self._host.implementations = self._implementations
            return super().run(workflow, inputs, **options)

        def _implementations(self, hook):
            for name, call in ForeignHost.implementations(self._host, hook):
                if hook != "pflow_inject_params":
                    yield name, call


class TellsContextsNothing(WithRunner):
    class runner_class(ForeignRunner):  # noqa: N801 - the same
        def _leaving(self, plugin, context):
            leave = super()._leaving(plugin, context)
            return lambda *_: leave(None, None, None)


class LetsContextsUndoAFailure(WithRunner):
    class runner_class(ForeignRunner):  # noqa: N801 - the same
        def _leaving(self, plugin, context):
            return context.__exit__


class RunsAgain(WithRunner):
    class runner_class(ForeignRunner):  # noqa: N801 - the same
        def run(self, *arguments, **options):
            once = foreign_host._step

            def again(*step):
                try:
                    return once(*step)
                except contract.PflowError as error:
                    if not error.retryable:
                        raise
                    return once(*step)

            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(foreign_host, "_step", again)
                return super().run(*arguments, **options)


class ShowsSecrets(WithRunner):
    class runner_class(ForeignRunner):  # noqa: N801 - the same
        def run(self, *arguments, **options):
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(ForeignRun, "redacted", lambda run, value: value)
                return super().run(*arguments, **options)


class RunsWhatIsWithheld(WithRunner):
    class runner_class(ForeignRunner):  # noqa: N801 - the same
        def _compile(self, node):
            get = self._host.registry.get
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(
                    self._host.registry, "get", lambda name: attrs.evolve(get(name), withheld=None)
                )
                return super()._compile(node)


class LosesTheFieldsOfErrors(WithRunner):
    class runner_class(ForeignRunner):  # noqa: N801 - the same
        def run(self, *arguments, **options):
            outcome = super().run(*arguments, **options)
            error = outcome.error and contract.PflowError(outcome.error.message)
            return attrs.evolve(outcome, error=error)


MISTAKES = {
    UnconfiguresTwice: "a_plugin_is_configured_once_and_unconfigured_at_the_end",
    KeepsWhatFailedToConfigure: "a_plugin_that_fails_to_configure_is_named_and_left_out",
    HasAPartThatExtendsNothing: "the_version_and_the_parts_are_those_of_the_contract",
    NamesNobody: "a_plugin_that_fails_to_register_nodes_is_named_and_the_others_stay",
    ListsToLookUp: "a_node_is_looked_up_without_listing_every_entry",
    DescribesUpToTheFirstUnknownOne: "several_nodes_are_described_and_every_unknown_one_is_named",
    ServesAnOlderShelf: "the_fingerprint_of_a_library_changes_with_what_is_saved",
    ForgetsNothing: "a_changed_source_is_seen_after_a_refresh",
    ChecksConfigAtTheStart: "config_is_checked_only_when_asked",
    InjectsTwice: "each_node_is_injected_once_and_knows_its_host",
    KeepsInjectionToItself: "each_node_is_injected_once_and_knows_its_host",
    TellsContextsOfWhatDoesNotCompile: "a_plugin_that_fails_to_inject_stops_the_compilation",
    LetsPluginsSetAnyParameter: "a_parameter_that_is_not_special_is_refused",
    TellsContextsNothing: "a_failure_reaches_every_context_and_none_can_undo_it",
    LetsContextsUndoAFailure: "a_context_that_fails_to_close_is_reported_and_changes_nothing",
    RunsAgain: "a_node_runs_exactly_once",
    ShowsSecrets: "secrets_of_a_run_are_redacted",
    RunsWhatIsWithheld: "a_withheld_node_is_refused_before_anything_runs",
    LosesTheFieldsOfErrors: "a_failing_node_fails_the_run_with_its_own_fields",
}
"""Hosts with one mistake each, and the check that has to notice it."""


@pytest.mark.parametrize("mistaken", MISTAKES)
def test_a_mistake_of_a_host_is_noticed(mistaken, foreign_of, tmp_path):
    failed = set()
    for number, check in enumerate(conformance.CHECKS):
        try:
            check(conformance.Trial(foreign_of(mistaken), tmp_path / str(number)))
        except Exception:  # noqa: BLE001 - a mistaken host may fail in any way
            failed.add(check.__name__)
    assert MISTAKES[mistaken] in failed
    assert len(failed) < len(conformance.CHECKS) / 2
