"""What a run is inside of: the contexts that plugins hold open, and the handling of signals that end it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from types import FrameType, TracebackType
from typing import Self

from pflow_mcp_plugin.contract import PflowError, Problem
from pflow_mcp_plugin.host.foreign_code import foreign_code
from pflow_mcp_plugin.host.plugins import Plugin, Plugins
from pflow_mcp_plugin.host.running.current_run import CurrentRun
from pflow_mcp_plugin.host.workflow.findings import said

_Context = AbstractContextManager[object]
# Windows has no SIGHUP.
_ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


class RunContexts:
    """Enters the contexts that plugins offer for a run in the order of the plugins, leaves them in reverse.

    A plugin that fails to offer or to leave one is reported; the others are not affected.

    Args:
        run: The run; Ctrl-C cancels it before the contexts are left.
        plugins: The plugins to ask.
    """

    def __init__(self, run: CurrentRun, plugins: Plugins) -> None:
        self._run = run
        self._plugins = plugins
        self._entered: list[tuple[Plugin, _Context]] = []

    def __enter__(self) -> None:
        """Enter the context of every plugin.

        Raises:
            PflowError: One could not be entered; those entered before have been left.
        """
        try:
            for plugin, context in list(_offers(self._run, self._plugins)):
                with foreign_code(
                    partial(_failed, plugin, "could not prepare the run"), passing=(PflowError,)
                ):
                    context.__enter__()
                self._entered.append((plugin, context))
        except BaseException as error:
            self._leave_all(error)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the context of every plugin, with the run's error if it failed."""
        self._leave_all(error)

    def _leave_all(self, error: BaseException | None) -> None:
        failure = error if isinstance(error, PflowError) else None
        if error is not None and failure is None:
            self._run.cancel()
            failure = PflowError("The run was interrupted", kind="interrupted")
        with ExitStack() as stack:  # each is left, even if leaving another one raises
            for plugin, context in self._entered:
                stack.callback(_leave, self._run, plugin, context, failure)
        self._entered.clear()


def _offers(run: CurrentRun, plugins: Plugins) -> Iterator[tuple[Plugin, _Context]]:
    for plugin, call in plugins.implementations("pflow_run_context"):
        offer: _Context | None = None
        with plugins.reporting(plugin, "could not take part in the run"):
            offer = call(run)
        if offer is not None:
            yield plugin, offer


def _leave(run: CurrentRun, plugin: Plugin, context: _Context, failure: PflowError | None) -> None:
    try:
        with foreign_code(partial(_failed, plugin, "failed to clean up after the run")):
            context.__exit__(type(failure) if failure else None, failure, None)
    except PflowError as error:  # the outcome of the run is decided by now
        if error.__cause__ is not failure:
            text = run.redactor.text(error.message)
            run.host.report(Problem(message=text, severity="warning", kind="execution", source=plugin.name))


def _failed(plugin: Plugin, doing: str, error: BaseException) -> PflowError:
    return PflowError(f"Plugin {plugin.label} {doing}: {said(error)}", details={"plugin": plugin.name})


class EndingSignals:
    """While entered, handles the ending signals: the first SIGTERM or SIGHUP raises KeyboardInterrupt.

    Later ones are ignored. Only in the main thread, and only for a signal that would end the program:
    one that is ignored, as SIGHUP is under `nohup`, or that the program handles itself, is left alone.

    Attributes:
        exit_code: The exit code of a program ended by the signal received; None if none was received.
    """

    def __init__(self) -> None:
        self.exit_code: int | None = None
        self._over = False
        self._taken: list[signal.Signals] = []

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            # Python sets handlers in the main thread only.
            self._taken = [number for number in _ENDING if signal.getsignal(number) is signal.SIG_DFL]
        for number in self._taken:
            signal.signal(number, self._end)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number in self._taken:
            signal.signal(number, signal.SIG_DFL)

    def no_more(self) -> None:
        """Ignore ending signals from now on: the run is over, and its outcome is being recorded."""
        self._over = True

    def _end(self, number: int, _frame: FrameType | None) -> None:
        # Once only: `timeout` and shells send theirs twice, and the second must not interrupt the clean-up.
        if not self._over:
            self._over = True
            # The shell's convention for a program ended by a signal.
            self.exit_code = 128 + number
            raise KeyboardInterrupt
