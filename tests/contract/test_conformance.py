"""Both hosts keep the contract, and its checks notice a host that does not."""

import io
import json
from contextlib import contextmanager, redirect_stderr, redirect_stdout

import attrs
import foreign_host
import pytest
from foreign_host import ForeignHost, ForeignRegistry, ForeignRun, ForeignRunner
from shelf_library import Shelf

from pflow_mcp_plugin import contract
from pflow_mcp_plugin.contract import PflowError, conformance
from pflow_mcp_plugin.host.cli.command_line import main
from pflow_mcp_plugin.host.embedded_host import open_host
from pflow_mcp_plugin.host.plugins import create_manager


class Embedded:
    def __init__(self, plugins):
        self.plugins = plugins
        self.reported = []

    def manager(self):
        manager = create_manager()
        for name, plugin in self.plugins.items():
            manager.register(plugin, name)
        return manager

    def warnings(self):
        return "\n".join(map(str, self.reported))

    def command(self, words):
        out = io.StringIO()
        with redirect_stdout(out), redirect_stderr(io.StringIO()):
            code = main([*words, "--json"], self.manager())
        return code, json.loads(out.getvalue())


class Foreign:
    def __init__(self, host):
        self.host = host

    def warnings(self):
        return "\n".join(self.host.reported)

    def command(self, words):
        try:
            report = self.host.command(words)
        except PflowError as error:
            return error.exit_code, {"success": False, "error": error.to_dict()}
        return 0, {"success": True, "data": report.data}


@pytest.fixture
def foreign_of():
    def opener(kind):
        @contextmanager
        def opened(plugins, home):
            with kind(home, plugins) as host:
                yield Foreign(host)

        return opened

    return opener


@pytest.fixture
def foreign(foreign_of):
    return foreign_of(ForeignHost)


@pytest.fixture
def embedded(monkeypatch):
    @contextmanager
    def opened(plugins, home):
        monkeypatch.setenv("PFLOW_HOME", str(home))
        subject = Embedded(plugins)
        with open_host(subject.manager(), show=subject.reported.append) as subject.host:
            yield subject

    return opened


@pytest.mark.parametrize("check", conformance.CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("host", ["embedded", "foreign"])
def test_a_host_keeps_the_contract(host, check, tmp_path, request):
    check(conformance.Trial(request.getfixturevalue(host), tmp_path))


MISTAKES: dict[type[ForeignHost], str] = {}
"""Hosts with one mistake each, and the check that has to notice it."""


def noticed_by(check):
    """Add a mistaken host, or one with a mistaken runner or registry, to `MISTAKES`."""

    def add(kind):
        def init(self, *arguments):
            ForeignHost.__init__(self, *arguments)
            setattr(self, "_runner" if issubclass(kind, ForeignRunner) else "_registry", kind(self))

        is_host = issubclass(kind, ForeignHost)
        MISTAKES[kind if is_host else type(kind.__name__, (ForeignHost,), {"__init__": init})] = check
        return kind

    return add


@noticed_by("a_plugin_is_configured_once_and_unconfigured_at_the_end")
class UnconfiguresTwice(ForeignHost):
    def __exit__(self, *error):
        super().__exit__(*error)
        super().__exit__(*error)


@noticed_by("a_plugin_that_fails_to_configure_is_named_and_left_out")
class KeepsWhatFailedToConfigure(ForeignHost):
    def __enter__(self):
        self._manager.unregister = lambda **_: None
        return super().__enter__()


@noticed_by("the_version_and_the_parts_are_those_of_the_contract")
class HasAPartThatExtendsNothing(ForeignHost):
    settings = {"api_key": "x"}  # noqa: RUF012 - the mistake itself


@noticed_by("a_plugin_that_fails_to_register_nodes_is_named_and_the_others_stay")
class NamesNobody(ForeignHost):
    def warn(self, plugin, what):
        self.reported.append(what)


@noticed_by("a_node_is_looked_up_without_listing_every_entry")
class ListsToLookUp(ForeignRegistry):
    def get(self, node_type):
        known = [entry for entry in self.entries() if entry.node == node_type]
        return known[0] if known else super().get(node_type)


@noticed_by("several_nodes_are_described_and_every_unknown_one_is_named")
class DescribesUpToTheFirstUnknownOne(ForeignRegistry):
    def describe(self, node_types):
        return [self.get(node_type) for node_type in node_types]


@noticed_by("the_fingerprint_of_a_library_changes_with_what_is_saved")
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


@noticed_by("a_changed_source_is_seen_after_a_refresh")
class ForgetsNothing(ForeignHost):
    def refresh(self, source):
        pass


@noticed_by("config_is_checked_only_when_asked")
class ChecksConfigAtTheStart(ForeignHost):
    def __enter__(self):
        super().__enter__()
        self.check()
        return self


@noticed_by("each_node_is_injected_once_and_knows_its_host")
class InjectsTwice(ForeignRunner):
    def _compile(self, node):
        super()._compile(node)
        return super()._compile(node)


@noticed_by("a_plugin_that_fails_to_inject_stops_the_compilation")
class TellsContextsOfWhatDoesNotCompile(ForeignRunner):
    def _compile(self, node):
        try:
            return super()._compile(node)
        except contract.PflowError:
            for _, context in self._host.ask("pflow_run_context", None):
                context.__enter__()
            raise


@noticed_by("a_parameter_that_is_not_special_is_refused")
class LetsPluginsSetAnyParameter(ForeignRunner):
    def _compile(self, node):
        return attrs.evolve(super()._compile(node), injected={})

    def run(self, workflow, inputs, **options):
        self._host.implementations = self._implementations
        return super().run(workflow, inputs, **options)

    def _implementations(self, hook):
        for name, call in ForeignHost.implementations(self._host, hook):
            if hook != "pflow_inject_params":
                yield name, call


@noticed_by("a_failure_reaches_every_context_and_none_can_undo_it")
class TellsContextsNothing(ForeignRunner):
    def _leaving(self, plugin, context):
        leave = super()._leaving(plugin, context)
        return lambda *_: leave(None, None, None)


@noticed_by("a_context_that_fails_to_close_is_reported_and_changes_nothing")
class LetsContextsUndoAFailure(ForeignRunner):
    def _leaving(self, plugin, context):
        return context.__exit__


@noticed_by("a_node_runs_exactly_once")
class RunsAgain(ForeignRunner):
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


@noticed_by("secrets_of_a_run_are_redacted")
class ShowsSecrets(ForeignRunner):
    def run(self, *arguments, **options):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(ForeignRun, "redacted", lambda run, value: value)
            return super().run(*arguments, **options)


@noticed_by("a_withheld_node_is_refused_before_anything_runs")
class RunsWhatIsWithheld(ForeignRunner):
    def _compile(self, node):
        get = self._host.registry.get
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(self._host.registry, "get", lambda name: attrs.evolve(get(name), withheld=None))
            return super()._compile(node)


@noticed_by("a_failing_node_fails_the_run_with_its_own_fields")
class LosesTheFieldsOfErrors(ForeignRunner):
    def run(self, *arguments, **options):
        outcome = super().run(*arguments, **options)
        error = outcome.error and contract.PflowError(outcome.error.message)
        return attrs.evolve(outcome, error=error)


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
