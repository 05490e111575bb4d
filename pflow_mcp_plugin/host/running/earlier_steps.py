"""The earlier steps of a run that is resumed: which of them answers for which step.

One is matched by what it does, its `identity`, and by how often the same was done before; where it stands in
the workflow only decides between equals. So a workflow may be edited before its run is resumed. A step that
may do harm is not begun while a recorded one of the same type has no counterpart that may still come: it
could be the same, renamed or changed. What follows a step that is run again on purpose, or failed items that
run again, is forgotten: it had other inputs, and answers only for a step that does the same.
"""

from __future__ import annotations

import itertools
import re
import threading
from collections import Counter, defaultdict
from collections.abc import Sequence

from pflow_mcp_plugin.host.running.run_record import UNDECIDED, RecordedStep, levels
from pflow_mcp_plugin.host.workflow.compilation import Compiled

ASK = "ask"
"""The node type of a question: only the last one at a place is kept."""


class EarlierSteps:
    """Matches a run's earlier steps with those that it takes now: each answers for one.

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
        routed = {node.ref.id: node.routed for node in compiled.every()} if steps else {}
        self._nodes = routed.keys()
        self._after = _following(compiled) if steps else {}
        self._repeated = {
            it.number
            for it in steps
            if only_failed and it.state == "failed" and it.routed and "[" in it.place
            # Inside an item, a step whose failure an edge handled did not fail the item.
            if _without_pass(it.place).endswith("]") or it.action not in routed.get(it.node, ())
        }
        changed: defaultdict[str, set[str]] = defaultdict(set)  # the nodes after those, by the place around
        again = (it for it in steps if self.repeats(it) or (it.reruns and it.state == "not sent"))
        for around, name in {it[:2] for step in again for it in levels(step.place)}:
            changed[around] |= self._after.get(name, set())
        self.changed = [
            step
            for step in steps
            if step.state == "done" and any(it[1] in changed.get(it[0], ()) for it in levels(step.place))
        ]
        """What was done after a step or an item that runs again; it answers for what does the same."""
        forgotten = {step.number for step in self.changed}
        for step in steps:
            answers = step.state in ("done", "skipped") or (step.state == "failed" and step.routed)
            found = self._waiting if answers and not self.repeats(step) else self._again
            is_forgotten = step.state == "forgotten" or step.number in forgotten
            (self._forgotten if is_forgotten else found)[step.identity].append(step)

    def repeats(self, step: RecordedStep) -> bool:
        """Whether an earlier step is a failed item that runs again, or made such an item fail."""
        return step.number in self._repeated

    def never_came(self) -> list[RecordedStep]:
        """Return the failed items that were to run again but never came: an earlier one succeeds now."""
        return [it for steps in self._again.values() for it in steps if self.repeats(it)]

    def take(self, step: RecordedStep) -> tuple[RecordedStep | None, RecordedStep | None]:
        """Return the earlier step that did the same, if it is not taken yet; else the one to repeat.

        A step to repeat is replaced, and its key is sent again.
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
            # A forgotten step is not done again if it comes after all.
            return _taken(self._forgotten[step.identity], step), None

    def free_place(self, step: RecordedStep) -> str:
        """Return a step's place, with a number if an earlier step, whose node was moved, has it too."""
        places = (f"{step.place}~{number}" if number > 1 else step.place for number in itertools.count(1))
        return next(it for it in places if self._places.get(it, step.number) == step.number)

    def expect(self, place: str, identities: Sequence[str], count: int) -> None:
        """Reserve earlier steps for the items of a batch that match them and are still to come."""
        if self.known:
            with self._lock:
                self._expected.update(identities)
                self._visited.update(f"{place}[{index}]" for index in range(count) if identities)
                self._counts[place] = count

    def left(self) -> list[RecordedStep]:
        """Return the earlier steps that may have done harm and have not answered for any step now."""
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
        for theirs, ours in zip(levels(earlier.place), levels(now.place), strict=False):
            if theirs[0] != ours[0]:
                break  # another item of a batch around both, or another pass
            if theirs[1] != ours[1]:  # here their paths part: ours must lead to theirs
                return theirs[1] in self._after[ours[1]]
        return True


def _taken(alike: list[RecordedStep], step: RecordedStep) -> RecordedStep | None:
    """Take one of several earlier steps that did the same: by key, else by place, else the first."""
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
