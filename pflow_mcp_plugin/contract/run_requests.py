"""What a program gives any host for a run that it requests (origin, options, control), and what it gets."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar, cast

import attrs

from pflow_mcp_plugin.contract.json_types import JSONObject
from pflow_mcp_plugin.contract.problems import PflowError, Problem
from pflow_mcp_plugin.contract.validators import each, flag, items, one_of, text, valid_name
from pflow_mcp_plugin.terminal.human_units import seconds_in


class Closeable(Protocol):
    """An object that a `Keeper` keeps between the runs that one caller requests."""

    def close(self) -> object:
        """Free what was kept between requests for runs; called once none uses it, must not raise."""
        ...


T = TypeVar("T", bound=Closeable)


class Keeper:
    """Keeps what plugins need when a caller requests another run in any host; safe to use from any thread.

    Whoever starts the runs of a caller makes it, and closes it when no more are to come.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[str, Closeable] = {}
        self._closed = False

    def get(self, key: str, make: Callable[[], T]) -> T:
        """Return what a plugin keeps for the next requested run, by its own key; make it if there is none."""
        with self._lock:
            if key in self._kept:
                return cast("T", self._kept[key])
            made = self._kept[key] = make()
            if self._closed:  # a run that began just before
                made.close()
            return made

    def close(self) -> None:
        """Close all that is kept between a program's requests for runs; safe to call twice."""
        with self._lock:
            self._closed = True
            kept = list(self._kept.values())
        for program in kept:
            program.close()


@attrs.frozen(kw_only=True)
class RunOrigin:
    """Who requested a run in any host, and through what; by default the user.

    Attributes:
        owner: Who asked for it, such as the subject of a token; empty for the user. The trace records it.
        above: Identifiers of the workflows that led to this run, outermost first. Plugins write and compare
            them to recognize a workflow that calls itself through another program.
        trace_parent: The `traceparent` of the request (W3C Trace Context); empty if it had none.
        keeper: Keeps what plugins need again in the caller's further runs, such as connections; None if it
            is not known whether there will be any.
    """

    owner: str = attrs.field(default="", validator=text)
    above: tuple[str, ...] = attrs.field(default=(), converter=items, validator=each(str))
    trace_parent: str = attrs.field(default="", validator=text)
    keeper: Keeper | None = attrs.field(default=None, eq=False, repr=False)


THE_USER = RunOrigin()
"""The origin of a run that the user started."""


USUAL_TTL = 3_600.0
"""Seconds for which a kept result is used if nobody says for how long."""


def _seconds(value: str | float | None) -> float | None:
    if not isinstance(value, str):
        return value
    try:
        return seconds_in(value)
    except ValueError as error:
        raise PflowError(f"--cache: {error}", suggestions=("Write --cache=1h",), kind="usage") from error


_AT_LEAST_NONE = attrs.validators.optional(attrs.validators.ge(0))


@attrs.frozen(kw_only=True)
class RunOptions:
    """The options with which a user requests runs in any host, wherever they begin.

    Attributes:
        trust_readonly: Nodes that claim to only read are believed.
        locked: Nodes that differ from a lock file are refused.
        cache: The results of read-only nodes are kept, and used for so many seconds, or for a time such as
            `15m`; None leaves it to nodes.
        no_cache: No results are kept or used.
        items_must_succeed: A run in which items of a batch failed, and which went on, ends as failed.
        max_calls: A run that has made this many calls stops before the next; None leaves it to the config.
        max_writes: The same for calls of what is not known to only read.

    Raises:
        PflowError: `cache` is not a time, or is given with `no_cache`.
        ValueError: A limit is negative.
    """

    trust_readonly: bool = attrs.field(default=False, validator=flag)
    locked: bool = attrs.field(default=False, validator=flag)
    cache: float | None = attrs.field(default=None, converter=_seconds)
    no_cache: bool = attrs.field(default=False, validator=flag)
    items_must_succeed: bool = attrs.field(default=False, validator=flag)
    max_calls: int | None = attrs.field(default=None, validator=_AT_LEAST_NONE)
    max_writes: int | None = attrs.field(default=None, validator=_AT_LEAST_NONE)

    def __attrs_post_init__(self) -> None:
        if self.cache is not None and self.no_cache:
            raise PflowError("--cache and --no-cache exclude each other", kind="usage")


USUAL_OPTIONS = RunOptions()
"""The options of a run for which the user chose none."""


@attrs.frozen(kw_only=True)
class Progress:
    """The progress of a requested run in any host: how many of its nodes have ended.

    Attributes:
        done: The number of node executions that have ended.
        total: The number expected if every node takes its default action; None if unknown.
        message: What the run does now, for people: `node fetch`, or what the node itself reports.
    """

    done: float
    total: float | None = None
    message: str = attrs.field(default="", validator=text)


class RunControl:
    """Follows and cancels one run that was requested of any host; safe to use from any thread.

    Args:
        on_progress: Called with each step of the run's progress, from the thread that makes it.

    Attributes:
        run_id: The id of the run, from its beginning; the host sets it.
    """

    run_id: str = ""

    def __init__(self, on_progress: Callable[[Progress], object] | None = None) -> None:
        self._on_progress = on_progress
        self._lock = threading.Lock()
        self._cancelled = threading.Event()
        self._stops: list[Callable[[], object]] = []
        self._secrets: frozenset[str] = frozenset()

    @property
    def secrets(self) -> frozenset[str]:
        """The secret values of a requested run, to be redacted wherever it is shown or recorded."""
        return self._secrets

    def add_secrets(self, values: Iterable[str]) -> None:
        """Add secret values of a requested run: its caller does so before it, the host during it."""
        with self._lock:
            self._secrets |= frozenset(values)

    @property
    def cancelled(self) -> bool:
        """Whether the requested run has been cancelled."""
        return self._cancelled.is_set()

    def cancel(self) -> None:
        """Cancel the requested run: nodes are stopped, what it opened is closed, it ends as interrupted."""
        with self._lock:
            self._cancelled.set()
            stops, self._stops = self._stops, []
        for stop in stops:
            stop()

    def on_cancel(self, stop: Callable[[], object]) -> None:
        """Call `stop` when whoever requested the run cancels it, or at once if they have; must not raise."""
        with self._lock:
            if not self._cancelled.is_set():
                self._stops.append(stop)
                return
        stop()

    def wait(self, seconds: float) -> bool:
        """Wait at most `seconds` until the requested run is cancelled; return whether it is."""
        return self._cancelled.wait(seconds)

    def report(self, progress: Progress) -> None:
        """Report progress to whoever requested the run; the host calls it."""
        if self._on_progress is not None:
            self._on_progress(progress)


@attrs.frozen(kw_only=True)
class Decision:
    """Part of a request to resume a run: what somebody decided about a step of it.

    Attributes:
        choice: It was `done`, with this result; it was `not done`, so it is run; `skip` it as if its
            condition were false; `rerun` what was done; `forget` a step that no node does any more; or
            `answer` what a node asks, with this result.
        result: What the step returned, if it was done; the answer, a text.
    """

    choice: Literal["done", "not done", "skip", "rerun", "forget", "answer"] = attrs.field(
        validator=one_of("done", "not done", "skip", "rerun", "forget", "answer")
    )
    result: Any = attrs.field(default=None, repr=False)


@attrs.frozen(kw_only=True)
class Outcome:
    """The outcome of a requested run, as any host returns it.

    Attributes:
        success: Whether it ended without an unrouted failure.
        outputs: The workflow's outputs by name.
        run_id: Unique; names the trace.
        trace_path: The trace file, None when none was written.
        error: The failure, None on success.
        steps: The number of node executions that began.
        exit_code: 0; 3 if a server could not be reached, or 2 for a mistake or something missing, before
            any node had run; 4 if somebody has to answer a question, or to decide whether a step happened;
            130 if it was interrupted; 1 for any other failure.
        checkpoint: On failure, what each node had written by node id: shortened and redacted, as in the
            trace. Empty on success.
        warnings: What the run warned of, in order.
        shown: Returns a value of the run as people and models should see it: the same unless it is large;
            else shortened, secrets redacted, with the files that hold what is left out. By default, and
            in a pickled copy, the value itself.
    """

    success: bool = attrs.field(validator=flag)
    outputs: Mapping[str, Any]
    run_id: str = attrs.field(validator=valid_name)
    trace_path: Path | None = None
    error: PflowError | None = None
    steps: int = 0
    exit_code: int = 0
    checkpoint: JSONObject = attrs.field(factory=dict, repr=False)
    warnings: tuple[Problem, ...] = attrs.field(default=(), converter=items, validator=each(Problem))
    shown: Callable[[Any], Any] = attrs.field(default=lambda value: value, repr=False, eq=False)

    def __reduce__(self) -> tuple[Callable[..., Outcome], tuple[()]]:
        # `shown` needs the run, which a copy in another process does not have.
        known = {each.name: getattr(self, each.name) for each in attrs.fields(Outcome)[:-1]}
        return partial(Outcome, **known), ()
