"""The earlier steps of a run that is resumed: which of them answers for which step.

One is matched by what it does, its `identity`, and by its place in the workflow. A workflow may be edited
before its run is resumed, so a step whose place is gone, or does something else now, answers elsewhere. A
step that may do harm is not begun while a recorded one of the same type has no counterpart that may still
come: it could be the same, renamed or changed. What follows a step that is run again on purpose, or failed
items that run again, is forgotten: it had other inputs, and answers only for a step that does the same.
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


_INDEX = re.compile(r"\[(\d+)\]")


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
        self._announced: dict[str, str] = {}
        self._items: dict[str, Sequence[str]] = {}
        self._nodes = {node.ref.id for node in compiled.every()} if steps else set()
        self._after = _following(compiled) if steps else {}
        self._repeated = {it.number for it in failed_items(steps, compiled)} if only_failed else set()
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
            self._visited |= {step.place, _without_pass(step.place)}
            if self._expected[step.identity] > 0:
                self._expected[step.identity] -= 1
            # A forgotten step is not done again if it comes after all.
            known = [it[step.identity] for it in (self._waiting, self._again, self._forgotten)]
            found = self._counterpart(step, list(itertools.chain(*known))) if step.identity else None
            if found is None:
                return None, None
            of_state = next(steps for steps in known if found in steps)
            of_state.remove(found)
            if of_state is not self._again[step.identity]:
                return found, None
            step.number, step.reruns, step.attempts = found.number, found.reruns, found.attempts
            step.key = found.key or step.key
            return None, found

    def _counterpart(self, step: RecordedStep, alike: Sequence[RecordedStep]) -> RecordedStep | None:
        """Return which of the earlier steps that did the same answers: by key, place, or as its own is gone.

        If that could be steps of several nodes, none does.
        """
        of_key = [it for it in alike if step.key and it.key == step.key]
        candidates = of_key or alike
        own = [it for it in candidates if it.place == step.place]
        own = own or [it for it in candidates if _once(it.place) == step.place]
        if own or of_key:
            return (own or of_key)[0]
        gone = [it for it in alike if self._is_gone(it, step)]
        forgotten = self._forgotten[step.identity]
        gone = [it for it in gone if it not in forgotten] or gone
        # The item and pass of a renamed node stay the same.
        of_item = [it for it in gone if _items(it.place) == _items(step.place)]
        found = of_item or gone
        return found[0] if len({it.node for it in found}) == 1 else None

    def _is_gone(self, earlier: RecordedStep, now: RecordedStep) -> bool:
        """Return whether nothing at the place of an earlier step does the same in this run."""
        place = _without_pass(earlier.place)
        if earlier.node not in self._nodes or self._is_beyond(place):
            return True
        if announced := self._announced.get(place):
            return announced != earlier.identity
        if _once(earlier.place) in self._visited:
            return True
        is_same = self._is_same_item(earlier, now)
        # Passes of a loop may be other ones now.
        return _of_any_pass(earlier.place) == _of_any_pass(now.place) if is_same is None else not is_same

    def _is_beyond(self, place: str) -> bool:
        """Return whether a place is an item that its batch no longer has."""
        found = ((re.match(rf"{re.escape(it)}\[(\d+)\]", place), count) for it, count in self._counts.items())
        return any(index is not None and int(index[1]) >= count for index, count in found)

    def _is_same_item(self, earlier: RecordedStep, now: RecordedStep) -> bool | None:
        """Return whether another item of a batch around two steps is the same; None if there is no such."""
        for theirs, ours in zip(levels(earlier.place), levels(now.place), strict=False):
            if theirs[:2] != ours[:2]:
                break
            keys = self._items.get(f"{theirs[0]}{theirs[1].rpartition('/')[2]}", ())
            indexes = [int(it[1]) for it in (_INDEX.match(theirs[2]), _INDEX.match(ours[2])) if it]
            if keys and len(set(indexes)) > 1:
                return keys[indexes[0]] == keys[indexes[1]]
            if theirs[2] != ours[2]:
                break
        return None

    def free_place(self, step: RecordedStep) -> str:
        """Return the step's place, with a number if it is that of an earlier step whose node was moved."""
        places = (f"{step.place}~{number}" if number > 1 else step.place for number in itertools.count(1))
        return next(it for it in places if self._places.get(it, step.number) == step.number)

    def expect(self, place: str, identities: Sequence[str]) -> None:
        """Reserve earlier steps for the items of a batch that match them and are still to come."""
        with self._lock:
            self._expected.update(filter(None, identities))
            items = {f"{place}[{index}]": identity for index, identity in enumerate(identities)}
            self._visited |= items.keys()
            self._announced |= items
            self._counts[place] = len(identities)

    def expect_items(self, place: str, keys: Sequence[str]) -> None:
        """Note the items, by key, for which a batch runs a workflow: earlier steps are matched by item."""
        with self._lock:
            self._items[place], self._counts[place] = keys, len(keys)

    def announce(self, place: str, identity: str) -> None:
        """Note what the node at a place will do if it comes, to match earlier steps.

        The identity is empty if unknown.
        """
        with self._lock:
            self._announced[place] = identity

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
                elif not self._may_come(it, step) or not self._is_certain(it, step):
                    found.append(it)
            return found

    def _is_certain(self, earlier: RecordedStep, now: RecordedStep) -> bool:
        """Return whether an earlier step, whose place may still come, cannot be the new step, moved."""
        announced = self._announced.get(_without_pass(earlier.place))
        is_same_node = earlier.node == now.node and self._is_same_item(earlier, now)
        return earlier.identity != now.identity or announced == earlier.identity or bool(is_same_node)

    def _may_come(self, earlier: RecordedStep, now: RecordedStep) -> bool:
        place = _without_pass(earlier.place)
        if earlier.node not in self._nodes or place in self._visited or self._is_beyond(place):
            return False
        for theirs, ours in zip(levels(earlier.place), levels(now.place), strict=False):
            if theirs[0] != ours[0]:
                break  # another item of a batch around both, or another pass
            if theirs[1] != ours[1]:  # here their paths part: ours must lead to theirs
                return theirs[1] in self._after[ours[1]]
        return True


def failed_items(steps: Sequence[RecordedStep], compiled: Compiled) -> list[RecordedStep]:
    """Return those earlier steps that are failed items of batches, or made one fail, and can be run again."""
    routed = {node.ref.id: node.routed for node in compiled.every()} if steps else {}
    return [
        it
        for it in steps
        if it.state == "failed" and it.routed and "[" in it.place
        # Inside an item, a step whose failure an edge handled did not fail the item.
        if _without_pass(it.place).endswith("]") or it.action not in routed.get(it.node, ())
    ]


def _following(compiled: Compiled, above: str = "") -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for node in compiled.nodes:
        found[f"{above}{node.id}"] = {f"{above}{name}" for name in compiled.graph.after(node.id)}
        if node.sub:
            found |= _following(node.sub, f"{above}{node.id}/")
    return found


def _without_pass(place: str) -> str:
    return re.sub(r"(#\d+)?(~\d+)?$", "", place)


def _of_any_pass(place: str) -> str:
    return re.sub(r"(#\d+)?(~\d+)?(?=/|$)", "", place)


def _once(place: str) -> str:
    """Return the place that an earlier step would have if no other had been in it."""
    return re.sub(r"~\d+$", "", place)


def _items(place: str) -> list[str]:
    return [_once(level[2]) for level in levels(place)]
