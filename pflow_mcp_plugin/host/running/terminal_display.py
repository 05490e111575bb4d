"""What a run shows on a terminal: a line for each step, and below them what happens now.

Lines of steps that have ended stay. The lines below them are drawn again and again: what is being prepared,
the running step with its time, a bar for a batch, and the messages of its node. They are erased before
anything else is written, and at the end. Nothing is imported for this that a run does not need anyway.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import IO, Literal

import attrs

from pflow_mcp_plugin.host.running.trace_recorder import Preparation, RunWatcher, Step
from pflow_mcp_plugin.host.trace_files import MARKS, is_skipped, shown_type, step_words
from pflow_mcp_plugin.terminal.human_units import count_text, duration_text, running_text
from pflow_mcp_plugin.terminal.live_lines import SOON, LiveLines, spinner
from pflow_mcp_plugin.terminal.looks import Look, Part, cut, padded, printable, text_width

Detail = Literal["brief", "usual", "verbose"]
"""How much is shown: only what happens now; lines for the steps too; or all that nodes say."""
State = Literal["succeeded", "failed", "interrupted"]
"""How a run ended."""

_BARS = range(6, 21)
"""How wide a bar may be."""
_BESIDE_BAR = 29
"""The width of the text beside a bar: ` 200/200 11 failed  15 s left`."""
_NAMES = range(8, 29)
"""How wide the column of names may be."""
_TIMES = 10
_GAP: Part = ("  ", "")


@attrs.define(eq=False)
class _Running:
    """A running step on the display, or one whose line is still to be written; times are in seconds.

    `waited` is how long it waited for what is prepared. Of a batch, `counts` has `count`, `succeeded` and
    `failed`. `said` is the message of its node. A step is `headed` if a line about it is above those of the
    steps inside it.
    """

    step: Step
    began: float
    waited: float = 0.0
    counts: Mapping[str, int] = attrs.field(factory=dict)
    remaining: RemainingTime = attrs.field(
        default=attrs.Factory(lambda self: RemainingTime(self.began), takes_self=True)
    )
    said: str = ""
    headed: bool = False

    @property
    def done(self) -> int:
        return self.counts["succeeded"] + self.counts["failed"] if self.counts else 0

    def needs(self, preparation: Preparation) -> bool:
        inside = f"{self.step.node.id}/"
        return any(f"{node}/".startswith(inside) for node in preparation.nodes)

    def bar(self, width: int) -> Iterator[Part]:
        if not self.counts:
            return
        total, failed = self.counts["count"], self.counts["failed"]
        filled = width * self.done // total if total else width
        yield ("█" * filled, "good")
        yield ("░" * (width - filled), "dim")
        yield (f" {self.done:>{len(str(total))}}/{total}", "")  # a constant width
        if failed:
            yield (f" {failed} failed", "warn")
        yield _GAP


class TerminalDisplay(RunWatcher):
    """Shows a run on a stream that is a terminal, or takes plain lines.

    `names` are the ids of the nodes, for the width of their column.
    """

    def __init__(self, stream: IO[str], names: Sequence[str], detail: Detail, *, terminal: bool) -> None:
        widest = max(map(text_width, map(_shown_name, names)), default=0)
        self._room = min(max(widest, _NAMES.start), _NAMES.stop - 1)
        self._detail = detail
        self.shows_handled = detail != "brief"
        self._lines = LiveLines(stream, self._now, terminal=terminal)
        self._lock = self._lines.lock
        self._began = time.monotonic()
        self._running: list[_Running] = []
        self._waiting: dict[Preparation, float] = {}  # when each began, until it ends
        self._lost: list[Preparation] = []
        self._failed: list[_Running] = []
        self._ended = 0
        self._handled = 0
        self._failed_items = 0

    def start(self) -> None:
        self._lines.start()

    def step_began(self, step: Step) -> None:
        """Show that a step runs; an earlier failure must have been handled, since the run has gone on.

        The steps of a workflow that another step runs stand below a line about that one.
        """
        with self._lock:
            self._settle("handled")
            for outer in self._running:
                if not outer.headed and step.node.id.startswith(f"{outer.step.node.id}/"):
                    outer.headed = True
                    node = outer.step.node
                    self._keep([*self._name("▸", "dim", node.id, ""), (shown_type(node.type), "dim")])
            self._running.append(_Running(step, time.monotonic()))

    def step_ended(self, step: Step) -> None:
        """Write the line of a step that has ended; for a failure, later, when it is known what came of it."""
        with self._lock:
            running = next(it for it in self._running if it.step is step)
            self._running = [it for it in self._running if it is not running]
            self._ended += "/" not in step.node.id
            self._failed_items += running.counts.get("failed", 0) if step.error is None else 0
            if step.error is not None:
                self._failed.append(running)
                return
            self._keep_step(running, *MARKS["skipped" if is_skipped(_traced(step)) else "ok"])

    def items_ended(self, node_id: str, counts: Mapping[str, int]) -> None:
        with self._lock:
            for running in self._of(node_id):
                running.counts = counts
                running.remaining.update(running.done, counts["count"], time.monotonic())

    def progressed(self, node_id: str, done: float, total: float | None, message: str) -> None:
        far = f"{done:g}" if total is None else f"{done:g} of {total:g}"
        said = " ".join(printable(f"{far}, {message}" if message else far).split())
        with self._lock:
            for running in self._of(node_id):
                running.said = said
            if self._detail == "verbose":
                self._keep([*self._name("", "", node_id, ""), (said, "dim")])

    def preparing(self, preparation: Preparation) -> None:
        with self._lock:
            self._waiting[preparation] = time.monotonic()

    def prepared(self, preparation: Preparation) -> None:
        """Write a line for what was prepared; for a failure, later, when it is known what ended the run."""
        now = time.monotonic()
        with self._lock:
            began = self._waiting.pop(preparation, now)
            for running in self._running:
                # The time of the step that waited for it, and of its batch, begins now.
                if running.needs(preparation) and not running.done:
                    running.waited += now - max(began, running.began + running.waited)
                    running.remaining = RemainingTime(now)
            if preparation.error:
                self._lost.append(preparation)  # perhaps only because the run was interrupted
            else:
                self._keep(self._start_line(preparation, *MARKS["ok"]))

    def paused(self) -> AbstractContextManager[None]:
        return self._lines.paused()

    def close(self) -> None:
        self._lines.close()

    def summarize(self, state: State, trace: str) -> None:
        """Write the display's last lines: how the run ended, and the path of its trace unless it is empty."""
        with self._lock:
            self._settle("handled" if state == "succeeded" else state)
            if self._detail == "brief":
                return
            how = "" if state == "succeeded" else f"{state} after "
            handled = f", {self._handled} failed and handled" if self._handled else ""
            lost = f", {count_text(self._failed_items, 'item')} failed" if self._failed_items else ""
            took = duration_text((time.monotonic() - self._began) * 1000)
            told = f" {how}{count_text(self._ended, 'step')} in {took}"
            self._keep(
                [MARKS["ok" if state == "succeeded" else state], (told, ""), (f"{handled}{lost}", "warn")]
            )
            if trace:
                self._lines.keep([(f"  trace: {printable(trace)}", "dim")], whole=True)

    def _of(self, node_id: str) -> list[_Running]:
        return [it for it in self._running if it.step.node.id == node_id]

    def _settle(self, how: Literal["handled", "failed", "interrupted"]) -> None:
        """Write the lines of failed steps, now that the display knows what came of them."""
        lost, self._lost = self._lost, []
        for preparation in lost:
            mark = MARKS["interrupted" if how == "interrupted" else "failed"]
            self._keep(self._start_line(preparation, *mark))
        failed, self._failed = self._failed, []
        self._handled += how == "handled" and bool(failed)
        for running in failed:  # the innermost first; the outermost is what was handled
            error = " ".join(printable(running.step.error or "").split())
            if how == "interrupted":
                error = how
            elif how == "handled" and running is failed[-1]:
                error = f"handled: {error}"
            self._keep_step(running, *MARKS[how], error)

    def _start_line(self, preparation: Preparation, mark: str, look: Look) -> list[Part]:
        took = duration_text(preparation.milliseconds or 0.0)
        return [*self._name(mark, look, "start", took), (printable(preparation.label), "dim")]

    def _keep_step(self, running: _Running, mark: str, look: Look, told: str = "") -> None:
        step = running.step
        took = "" if mark == MARKS["skipped"][0] else duration_text(max(step.milliseconds - step.waited, 0.0))
        words: list[Part] = [(it, "dim") for it in (step_words(_traced(step)),) if it]
        if self._detail == "verbose" and step.waited:
            words.append((f"after waiting {duration_text(step.waited)}", "dim"))
        words += [(told, look)] if told else []
        self._keep(self._fitted(running, [*self._name(mark, look, step.node.id, took)], words))

    def _fitted(
        self, running: _Running, name: list[Part], words: Sequence[Part], *, beside_bar: int = 0
    ) -> list[Part]:
        """Return a step's line fitted to the terminal: to save room, the bar shrinks, or the type goes.

        `name` are the first columns, `words` the text about the step. `beside_bar` is the room to keep for
        the text beside a bar, which grows and shrinks meanwhile.
        """
        columns = self._lines.columns
        kind: Part = (shown_type(running.step.node.type), "dim")
        told = [part for each in words for part in (_GAP, each)]
        room = columns - _width(name) - 1 if columns is not None else None
        if room is None:
            return [*name, *running.bar(_BARS.stop - 1), kind, *told]
        beside = max(_BESIDE_BAR, _width([*running.bar(0), *told[1:]]))
        bar = [*running.bar(min(max(room - beside, _BARS.start), _BARS.stop - 1))]
        kept = max(_width([*bar, *told]), _BARS.stop + beside_bar if bar else 0) if bar or told else 0
        if kept and kept + text_width(kind[0]) > room:
            return [*name, *bar, *told[1:]]
        return [*name, *bar, kind, *told]

    def _name(self, mark: str, look: Look, name: str, took: str) -> Iterator[Part]:
        yield (padded(mark, 2), look)
        yield (padded(cut(printable(_shown_name(name)), self._room), self._room), "")
        yield (padded(took, _TIMES, right=True), "")
        yield _GAP

    def _keep(self, parts: Sequence[Part]) -> None:
        if self._detail != "brief":
            self._lines.keep(parts)

    def _now(self) -> Iterator[list[Part]]:
        now = time.monotonic()
        turn = spinner()
        waiting = [it for it, began in self._waiting.items() if now - began > SOON]
        if waiting:
            took = running_text(now - min(self._waiting[it] for it in waiting))
            labels = ", ".join(printable(it.label) for it in waiting)
            yield [*self._name(turn, "good", "start", took), (labels, "")]
        for running in self._running:
            # The steps inside it are shown, unless it is a batch.
            if running.headed or any(running.needs(it) for it in waiting if not running.done):
                continue
            own = now - running.began - running.waited
            if own > SOON:
                name = [*self._name(turn, "good", running.step.node.id, running_text(own))]
                left = running.remaining.text(now)
                yield self._fitted(running, name, [(left, "dim")] if left else [], beside_bar=_BESIDE_BAR)
                if running.said:
                    yield [("    ", ""), (running.said, "dim")]


def _traced(step: Step) -> dict[str, object]:
    return {"details": step.details, "error": step.error}


def _width(parts: Sequence[Part]) -> int:
    return sum(text_width(text) for text, _ in parts)


def _shown_name(node_id: str) -> str:
    """Return a node's name in its line of the display: indented if its workflow runs inside another."""
    return "  " * node_id.count("/") + node_id.rpartition("/")[2]


class RemainingTime:
    """Estimates for a batch's line on the terminal when all its items have ended, by their average time.

    Parallel items end in bursts: so the average covers the time up to the last end of an item only, it is
    read when the estimate is shown rather than when an item ends, and the estimate follows it slowly.
    """

    def __init__(self, began: float) -> None:
        self._began = began
        self._first: float | None = None
        self._expected = began
        self._at = began
        self._end: float | None = None

    def update(self, done: int, total: int, now: float) -> None:
        if done:
            self._first = now if self._first is None else self._first
            self._expected = now + (total - done) * (now - self._began) / done

    def text(self, now: float) -> str:
        # Those items that end within a second of the first count too.
        if self._first is None or now < max(self._began + 2.0, self._first + 1.0):
            return ""
        if now > self._expected + 2.0:  # no estimate until another item ends
            self._end = None
            return ""
        if self._end is None:
            self._end = self._expected
        # The seconds in which the estimate follows a change by two thirds; fewer at the beginning.
        pace = min(4.0, (now - self._began) / 3)
        self._end += (1 - math.exp((self._at - now) / pace)) * (self._expected - self._end)
        self._at = now
        seconds = self._end - now
        step = 1 if seconds < 10 else 5 if seconds < 60 else 30 if seconds < 600 else 60
        rounded = max(1, round(seconds / step)) * step
        return f"{rounded} s left" if rounded < 60 else f"{duration_text(rounded * 1000)} left"
