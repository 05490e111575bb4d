"""What plugins hold open while a workflow runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

from pflow_mcp_plugin.contract import PflowError, Problem
from pflow_mcp_plugin.host.interruption import end_if_interrupted
from pflow_mcp_plugin.host.plugins import Plugin, Plugins
from pflow_mcp_plugin.host.running.failures import RunFailed, said
from pflow_mcp_plugin.host.running.run import CurrentRun

_Context = AbstractContextManager[object]


@contextmanager
def run_contexts(run: CurrentRun, plugins: Plugins) -> Iterator[None]:
    """Hold open what plugins offer for a run: entered in their order, left in reverse.

    A plugin that fails to offer, or to leave, is reported and the rest go on.

    Raises:
        PflowError: One could not be entered; those entered before have been left.
    """
    with ExitStack() as stack:
        for plugin, context in list(_offers(run, plugins)):
            _enter(plugin, context)
            stack.callback(_leave, run, plugin, context)
        yield


def _offers(run: CurrentRun, plugins: Plugins) -> Iterator[tuple[Plugin, _Context]]:
    for plugin, call in plugins.implementations("pflow_run_context"):
        offer: _Context | None = None
        with plugins.reporting(plugin, "could not take part in the run"):
            offer = call(run)
        if offer is not None:
            yield plugin, offer


def _enter(plugin: Plugin, context: _Context) -> None:
    try:
        context.__enter__()
    except PflowError:
        raise
    except Exception as error:
        message = f"Plugin {plugin.label} could not prepare the run: {said(error)}"
        raise RunFailed(message, details={"plugin": plugin.name}) from error


def _leave(run: CurrentRun, plugin: Plugin, context: _Context) -> None:
    try:
        # Without the exception: how the run ends is decided, and cleaning up is not to depend on it.
        context.__exit__(None, None, None)
    except Exception as error:  # noqa: BLE001  # the outcome of the run stands by now
        end_if_interrupted(error)
        message = f"Plugin {plugin.label} failed to clean up after the run: {said(error)}"
        _report(run, message, plugin.name)


def _report(run: CurrentRun, message: str, plugin: str) -> None:
    text = run.redactor.text(message)
    run.host.report(Problem(message=text, severity="warning", kind="execution", source=plugin))
