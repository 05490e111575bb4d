"""The steps of the earlier parts of a run that is resumed: which of them answers for which step.

One is matched by what it does, its `identity`, and by how often the same was done before; where it stands in
the workflow only decides between equals. So a workflow may be edited before its run is resumed. A step that
may do harm is not begun while a recorded one of the same type has no counterpart that may still come: it
could be the same, renamed or changed.
"""

from __future__ import annotations

import itertools
import re
import threading
from collections import Counter, defaultdict
from collections.abc import Sequence

from pflow_mcp_plugin.host.running.run_record import UNDECIDED, RecordedStep
from pflow_mcp_plugin.host.workflow.compilation import Compiled

ASK = "ask"
"""The node type of a question: at one place there is only the last."""


class EarlierSteps:
    """Matches the steps of a run's earlier parts with those that it takes now: each answers for one.

    With `only_failed`, failed items of batches run again.
    """

    def __init__(self, steps: Sequence[RecordedStep], compiled: Compiled, *, only_failed: bool) -> None:
        self.known = bool(steps)
        self._lock = threading.Lock()
        self._waiting: defaultdict[str, list[RecordedStep]] = defaultdict(list)
        self._again: defaultdict[str, list[RecordedStep]] = defaultdict(list)
        self._forgotten: defaultdict[str, list[RecordedStep]] = defaultdict(list)
        self._places = {step.place: step.number for step in steps if step.type != ASK}
        self._expected: Counter[str] = Counter()
        self._visited: set[str] = set()
        self._counts: dict[str, int] = {}
        nodes = {node.ref.id: node for node in compiled.every()} if steps else {}
        self._nodes = nodes.keys()
        self._after = _following(compiled) if steps else {}
        for step in steps:
            is_item = _without_pass(step.place).endswith("]")
            node = nodes.get(step.node)
            is_handled = not is_item and node is not None and step.action in node.routed
            fails_item = "[" in step.place and not is_handled
            answers = step.state in ("done", "skipped") or (
                step.state == "failed" and step.routed and not (only_failed and fails_item)
            )
            found = self._waiting if answers else self._again
            (self._forgotten if step.state == "forgotten" else found)[step.identity].append(step)

    def take(self, step: RecordedStep) -> tuple[RecordedStep | None, RecordedStep | None]:
        """Return the earlier step that did the same, if it is not taken yet; else the one to repeat.

        The latter is replaced, and its key is sent again.
        """
        if not self.known:
            return None, None
        with self._lock:
            self._visited.add(_without_pass(step.place))
            if self._expected[step.identity] > 0:
                self._expected[step.identity] -= 1
            if not step.identity:
                return None, None
            waiting, again = self._waiting[step.identity], self._again[step.identity]
            begun = step.key and any(it.key == step.key for it in again)
            if not begun and (answer := _taken(waiting, step)):
                return answer, None
            if replaced := _taken(again, step):
                step.number, step.reruns = replaced.number, replaced.reruns
                step.attempts = replaced.attempts
                step.key = replaced.key or step.key
                return None, replaced
            # What was forgotten is not done again, should it come after all.
            return _taken(self._forgotten[step.identity], step), None

    def free_place(self, step: RecordedStep) -> str:
        """Return a step's place, with a number if an earlier step, whose node was moved, has the same."""
        places = (f"{step.place}~{number}" if number > 1 else step.place for number in itertools.count(1))
        return next(it for it in places if self._places.get(it, step.number) == step.number)

    def expect(self, place: str, identities: Sequence[str], count: int) -> None:
        """Keep earlier steps for the items of a batch that match them, and are still to come."""
        if self.known:
            with self._lock:
                self._expected.update(identities)
                self._visited.update(f"{place}[{index}]" for index in range(count) if identities)
                self._counts[place] = count

    def left(self) -> list[RecordedStep]:
        """Return the earlier steps that have answered for none of those now, and may have done harm."""
        done = [it for steps in self._waiting.values() for it in steps if it.state == "done"]
        begun = [it for steps in self._again.values() for it in steps if it.state in UNDECIDED]
        return [it for it in done + begun if not it.safe]

    def unmatched(self, step: RecordedStep) -> list[RecordedStep]:
        """Return earlier steps of the same type that nothing has matched, and nothing to come can match."""
        if not self.known:
            return []
        with self._lock:
            alike = [it for it in self.left() if it.type == step.type]
            waiting = Counter(self._expected)
            found = []
            for it in alike:
                if waiting[it.identity] > 0:  # an item of the batch that runs now does the same
                    waiting[it.identity] -= 1
                elif not self._may_come(it, step):
                    found.append(it)
            return found

    def _may_come(self, earlier: RecordedStep, now: RecordedStep) -> bool:
        place = _without_pass(earlier.place)
        if earlier.node not in self._nodes or place in self._visited:
            return False
        for batch, count in self._counts.items():
            index = re.match(rf"{re.escape(batch)}\[(\d+)\]", place)
            if index and int(index[1]) >= count:
                return False
        above = ""
        for theirs, ours in zip(earlier.place.split("/"), now.place.split("/"), strict=False):
            names = [re.sub(r"\[\d+\]$", "", _without_pass(part)) for part in (theirs, ours)]
            if names[0] != names[1]:  # here their ways part: the one must lead to the other
                return f"{above}{names[0]}" in self._after[f"{above}{names[1]}"]
            if theirs != ours:
                return True  # another item of a batch around both, or another pass
            above += f"{names[0]}/"
        return True


def _taken(alike: list[RecordedStep], step: RecordedStep) -> RecordedStep | None:
    """Take one of several earlier steps that did the same: by its key, else by its place, else the first."""
    if not alike:
        return None
    of_place = next((it for it in alike if it.place == step.place), alike[0])
    taken = next((it for it in alike if step.key and it.key == step.key), of_place)
    alike.remove(taken)
    return taken


def _following(compiled: Compiled, above: str = "") -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for node in compiled.nodes:
        found[f"{above}{node.id}"] = {f"{above}{name}" for name in compiled.graph.after(node.id)}
        if node.sub:
            found |= _following(node.sub, f"{above}{node.id}/")
    return found


def _without_pass(place: str) -> str:
    return re.sub(r"(#\d+)?(~\d+)?$", "", place)
