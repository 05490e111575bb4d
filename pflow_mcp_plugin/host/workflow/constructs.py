"""The constructs of a node, the members that change whether, how often and how it runs.

    "when": "length(list.files) > 0"
    "batch": {"items": "${list.files}", "as": "file", "parallel": true, "error_handling": "continue"}
    "retry": {"max": 3, "wait": 1, "backoff": 2}
    "cache": {"ttl": 3600}
    "verify": {"node": "find", "params": {"id": "arguments.id"}, "happened": "result != null"}
    "keep": false

`Constructs` says what they read, which names their node sees, how they change its outputs, what is wrong with
them, and how they are drawn. The reader, the checks, the data flows, the drawings and the export ask it and
need not know which there are. A new one needs a field of `Constructs`, its answers in the methods there, its
place in `workflow.schema.json`, and its effect in the room `running`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self, TypeGuard
from urllib.parse import quote

import attrs

from pflow_mcp_plugin.contract import Entry, Field, Recipe
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.contract.run_requests import USUAL_TTL
from pflow_mcp_plugin.host.workflow.findings import Findings, at, cut, shown
from pflow_mcp_plugin.host.workflow.templates import TemplateReference, item_among, item_of, lone
from pflow_mcp_plugin.redaction import REDACTED
from pflow_mcp_plugin.schemas.schema_reader import placed_at
from pflow_mcp_plugin.terminal.human_units import count_text
from pflow_mcp_plugin.terminal.similar_names import did_you_mean

MOST_ITEMS = 1_000
"""The most items of a batch that are looked at before it runs."""
IF_SKIPPED = 'Give this node a "when" too, or provide a value for that case with a transform'
"""The next step for a node that needs a value of a skipped one."""
IF_NOT_RUN = "Read it in a transform, where it is null then, as in not_null(small.result, large.result)"
"""The next step for a node that needs a value of one that a run did not come to."""
ITEMS = Field(key="items", type="list")
"""The declared type of `batch.items`."""
MOST_CONCURRENT = 1_000
MOST_RETRIES = 100
LONGEST_WAIT = 3_600
"""Seconds of the longest wait between two attempts."""
LONGEST_TTL = 31_536_000
"""Seconds in a year: older results are never used."""
_NAME = re.compile(r"(?!__)[^\W\d][\w-]*")

Path = tuple[str | int, ...]
Declared = Callable[[TemplateReference], Field | None]
"""Returns the declaration of the value that a template names, None if it is unknown."""
Known = Callable[[JSON], object]
"""Returns a value with its templates filled in, as far as it is known before a run."""


@attrs.frozen(kw_only=True)
class ExpressionPlace:
    """Where a construct such as `when` has an expression; also in a node's parameter or an edge's condition.

    In a `transform`, `output` is the output that its value becomes. The value of a condition counts only as
    true or false. With `on_data`, names in it are looked up in the parameter `data` of its node.
    """

    text: str
    path: str
    param: str
    output: str = ""
    is_condition: bool = False
    on_data: bool = False


@attrs.frozen(kw_only=True)
class TemplatePlace:
    """A value of a construct, such as `batch.items`, that may hold templates; `field` declares its type."""

    name: str
    value: JSON
    path: str
    field: Field


@attrs.frozen(kw_only=True)
class KnownRun:
    """A run that a node's constructs are known to make, such as for one item; only it sees `values`.

    `words` says which run it is; a `lenient` one may fail without affecting the others.
    """

    values: Mapping[str, object]
    words: str
    lenient: bool


def condition_at(value: object, path: str, findings: Findings) -> ExpressionPlace | None:
    """Read the construct `when` of a node or an edge, an expression that must be true; None without one."""
    if isinstance(value, str) and value:
        return ExpressionPlace(text=value, path=path, param="when", is_condition=True)
    if not isinstance(value, str | None):
        findings.error(path, f"Expected a string, found {shown(value)}", 'Write "..."')
    return None


@attrs.frozen(kw_only=True)
class Retry:
    """The construct `retry` of a node: how often and after how many seconds a failure is retried.

    Only what is safe to repeat is retried, see `running.attempts`. `max` attempts may follow the first one,
    the wait grows by the factor `backoff`, and `path` is where `max` is set.
    """

    max: int = attrs.field(default=0, converter=int)
    wait: float = attrs.field(default=1.0, converter=float)
    backoff: float = attrs.field(default=2.0, converter=float)
    path: str = ""

    @classmethod
    def read(cls, value: object, path: str, findings: Findings) -> Self | None:
        if value is None:
            return None
        needed = {"max": "Add max, the number of attempts after the first"}
        return cls(**valid_members(value, RETRY, path, findings, needed), path=path)

    def check(self, user: str, entry: Entry, findings: Findings, step: str) -> None:
        if self.max and not entry.retryable:
            why = "could do harm" if entry.purity != "flow_safe" else "would change nothing"
            message = f"{user} is never retried: retrying it {why}"
            findings.warning(self.path, message, step)


@attrs.frozen(kw_only=True)
class Batch:
    """The construct `batch` of a node, which runs once for each item of a list.

    `items` is the list, or a template of one. `name` is the item's name in templates of the node. With
    `fail_fast` the first failed item ends the batch; otherwise the rest go on, and with `must_succeed` the
    node fails after them. `retry` applies to each item.
    """

    items: JSON
    name: str
    parallel: bool
    max_concurrent: int
    fail_fast: bool
    must_succeed: bool
    retry: Retry
    path: str

    @classmethod
    def read(cls, value: object, path: str, findings: Findings) -> Self | None:
        """Read the construct `batch`; None if there is none.

        If it is invalid, a batch is returned anyway, so that references to its outputs are not reported too.
        """
        if value is None:
            return None
        needed = {"items": 'Add items, such as "${list.files}"'}
        table = valid_members(value, BATCH, path, findings, needed)
        usual = "continue" if "on_failed_items" in table else "fail_fast"
        return cls(
            items=table.get("items", []),
            name=table.get("as", "item"),
            parallel=table.get("parallel", False),
            max_concurrent=int(table.get("max_concurrent", 10)),
            fail_fast=table.get("error_handling", usual) == "fail_fast",
            must_succeed=table.get("on_failed_items") == "fail",
            retry=Retry(
                max=table.get("max_retries", 0),
                wait=table.get("retry_wait", 1.0),
                path=f"{path}.max_retries",
            ),
            path=path,
        )

    @property
    def goes_on(self) -> bool:
        """Whether the construct `batch` lets the run go on without the failed items."""
        return not (self.fail_fast or self.must_succeed)

    def count(self, known: Known) -> int | None:
        items = known(self.items)
        return len(items) if isinstance(items, list) else None


def _outputs_at(place: str, entry: Entry) -> dict[str, JSON]:
    known: dict[str, JSON] = {}
    for field in entry.interface.outputs:
        key = quote(field.key.replace("~", "~0").replace("/", "~1"), safe="~")
        known[field.key] = placed_at(field.schema, f"{place}/{key}") or {"type": list(field.types)}
    more: dict[str, JSON] = {"additionalProperties": True} if entry.interface.open_outputs else {}
    return {"properties": {"error": {}, **known}, **more}


@attrs.frozen(kw_only=True)
class Caching:
    """The construct `cache` of a node: `true`, `false` or a table.

    The result of an earlier run is used for `ttl` seconds instead of running the node; with 0 the node always
    runs, and its result is kept. With `never` results are neither kept nor used, whatever a run asks for.
    """

    ttl: float = USUAL_TTL
    never: bool = False
    path: str = ""

    @classmethod
    def read(cls, value: object, path: str, findings: Findings) -> Self | None:
        if value is None or isinstance(value, bool):
            return None if value is None else cls(never=not value, path=path)
        if not isinstance(value, dict):
            message = f"Expected true, false or an object, found {shown(value)}"
            findings.error(path, message, 'Write true, or {"ttl": SECONDS}')
            return cls(path=path)
        return cls(
            ttl=float(valid_members(value, CACHE, path, findings, {}).get("ttl", USUAL_TTL)), path=path
        )

    def check(self, user: str, entry: Entry, findings: Findings) -> None:
        if self.never or is_cacheable(entry):
            return
        reason = "its results are not kept" if entry.purity == "flow_safe" else "it may change something"
        step = "Remove it"
        if entry.purity != "flow_safe" and entry.claimed_purity:
            step = "It claims to be read-only: if you trust that, set trust_readonly, or run --trust-readonly"
        findings.warning(self.path, f"{user} is never cached: {reason}", step)


def _recipe(value: object, path: str, findings: Findings) -> Recipe | None:
    if value is None:
        return None
    needed = {"node": "Add node", "happened": "Add happened"}
    table = valid_members(value, VERIFY, path, findings, needed)
    return Recipe(**table) if "node" in table and "happened" in table else None


def is_cacheable(entry: Entry) -> bool:
    """Return whether a node may have the construct `cache`: its entry must allow that."""
    return entry.purity == "flow_safe" and entry.cacheable


@attrs.frozen(kw_only=True)
class Constructs:
    """The constructs of a node: `when`, `batch`, `retry`, `cache`, `verify` and `keep`.

    `path` is the JSON path of the node. `verify` says how to find out whether it did its work, when nobody
    knows. Without `keep`, neither the record nor the trace of a run has what the node returns.
    """

    path: str = ""
    when: ExpressionPlace | None = None
    batch: Batch | None = None
    retry: Retry | None = None
    cache: Caching | None = None
    verify: Recipe | None = None
    keep: bool = True

    @classmethod
    def read(cls, node: JSONObject, path: str, findings: Findings) -> Constructs:
        made = cls(
            path=path,
            when=condition_at(node.get("when"), f"{path}.when", findings),
            batch=Batch.read(node.get("batch"), f"{path}.batch", findings),
            retry=Retry.read(node.get("retry"), f"{path}.retry", findings),
            cache=Caching.read(node.get("cache"), f"{path}.cache", findings),
            verify=_recipe(node.get("verify"), f"{path}.verify", findings),
            keep=node.get("keep") is not False,
        )
        if not isinstance(keep := node.get("keep"), bool | None):
            findings.error(f"{path}.keep", f"Expected true or false, found {shown(keep)}", "Write false")
        if made.batch and made.retry:
            message = "A batch is not retried as a whole"
            findings.error(f"{path}.retry", message, "Set max_retries and retry_wait in batch")
        return made

    @property
    def may_skip(self) -> bool:
        """Whether a construct may skip the node, so that others may find no value there."""
        return self.when is not None

    @property
    def repeats(self) -> bool:
        """Whether a construct may run the node several times in one step, each run unaware of the others."""
        return self.batch is not None

    @property
    def repeated_outputs(self) -> frozenset[str]:
        """The outputs of a construct, such as a batch's `items`, that only repeat others."""
        return frozenset({"items"} if self.batch else ())  # has each result again, with its item

    @property
    def conditions(self) -> list[ExpressionPlace]:
        """The constructs that are conditions of the node; they do not see the names inside it."""
        return [self.when] if self.when else []

    @property
    def templates(self) -> list[TemplatePlace]:
        """The values of constructs that need their templates filled in before the node runs."""
        if self.batch is None:
            return []
        path = f"{self.batch.path}.items"
        return [TemplatePlace(name="batch.items", value=self.batch.items, path=path, field=ITEMS)]

    @property
    def names(self) -> Mapping[str, str]:
        """The names that constructs give to values inside the node, each with its JSON path."""
        return {self.batch.name: f"{self.batch.path}.as"} if self.batch else {}

    def inside(self, declared: Declared) -> dict[str, Field]:
        """Return what is known of the values of the names that constructs give inside the node."""
        if self.batch is None:
            return {}
        name, items, reference = self.batch.name, self.batch.items, lone(self.batch.items)
        if isinstance(items, list):
            return {name: item_among(items, name)}
        return {name: item_of(declared(reference) if reference else None, name)}

    def gathered(self, entry: Entry) -> Entry:
        """Apply the constructs to the node's entry, as later nodes see it: a batch has lists and counts."""
        if self.batch is None:
            return entry
        item = _outputs_at("#/items/properties", entry)
        result = _outputs_at("#/items/properties/result/properties", entry)
        given: dict[str, JSON] = {"item": {}, "index": {"type": "integer"}, "error": {}, "result": result}
        outputs = (
            Field(key="results", type="list", description="Outputs by item", schema={"items": item}),
            Field(key="errors", type="list", description="`{index, item, error}` of each failed item"),
            Field(key="count", type="int", description="How many items there are"),
            Field(key="succeeded", type="int", description="How many of them succeeded"),
            Field(key="failed", type="int", description="How many of them failed"),
            Field(
                key="items",
                type="list",
                description="`{index, item, result, error}` of each item",
                schema={"items": {"properties": given, "additionalProperties": False}},
            ),
        )
        interface = attrs.evolve(entry.interface, outputs=outputs, open_outputs=False, result="results")
        return attrs.evolve(entry, interface=interface)

    def read_of_one(self, path: Path) -> list[Path]:
        """Return which paths into a single run's outputs a path into the outputs of the whole `batch` reads.

        In a batch, `results[0].title` reads `title` of an item.
        """
        if self.batch is None:
            return [path]
        match path:
            case () | ("results" | "items",) | ("results" | "items", _) | ("items", _, "result"):
                return [()]
            case ("results", _, *rest) | ("items", _, "result", *rest):
                return [tuple(rest)]
        return []

    def known_runs(self, known: Known) -> Iterator[KnownRun]:
        """Yield the runs that constructs make of the node, as far as known: one for each item of a batch."""
        if (batch := self.batch) is None or not isinstance(items := known(batch.items), list):
            return
        for index, item in enumerate(items[:MOST_ITEMS]):
            words = f" (item {index} of the batch)"
            yield KnownRun(values={batch.name: item}, words=words, lenient=batch.goes_on)

    def check(self, user: str, entry: Entry, findings: Findings) -> None:
        """Report which constructs do not fit the entry of the node, called `user` in messages."""
        if self.batch:
            self.batch.retry.check(user, entry, findings, "Remove it")
        if self.retry:
            step = "Remove it, or route its failure back to it with an edge"
            self.retry.check(user, entry, findings, step)
        if self.cache:
            self.cache.check(user, entry, findings)
        if not self.keep and entry.node.partition(":")[0] == "workflow":
            message = f"{user} returns the results of its steps, which are kept"
            findings.warning(f"{self.path}.keep", message, "Set keep at the nodes of that workflow")

    def traced(self, written: Mapping[str, object]) -> dict[str, object]:
        """Return what the construct `keep` lets a trace have of a node's outputs: only `error` if false."""
        return {key: it if self.keep or key == "error" else REDACTED for key, it in written.items()}

    def words(self, known: Known = lambda _: None) -> list[str]:
        """Say how often a node's constructs, `when` and `batch`, let it run: `for each of 5 items`."""
        words = [f"if {self.when.text}"] if self.when else []
        count = self.batch.count(known) if self.batch else None
        if count is not None:
            return [*words, f"for each of {count_text(count, 'item')}"]
        return [*words, "for each item"] if self.batch else words

    def described(self, known: Known) -> dict[str, JSON]:
        return {
            "when": self.when.text if self.when else "",
            "batch": self.batch is not None,
            "items": self.batch.count(known) if self.batch else None,
        }


CONSTRUCT_KEYS = tuple(key for key in attrs.fields_dict(Constructs) if key != "path")
"""The keys of a node that hold its constructs."""


@attrs.frozen
class Rule:
    """The rule for the value of a member of a construct, and its words for messages."""

    accepts: Callable[[object], bool]
    expected: str


def valid_members(
    value: object, rules: Mapping[str, Rule], path: str, findings: Findings, needed: Mapping[str, str]
) -> dict[str, Any]:
    """Return the members of a construct that follow the rules; report the others, and missing `needed` ones.

    `needed` has the next step for each of its findings.
    """
    if not isinstance(value, dict):
        members = ", ".join(f'"{key}": ...' for key in needed)
        findings.error(path, f"Expected an object, found {shown(value)}", f"Write {{{members}}}")
        return {}
    for key, step in needed.items():
        if value.get(key) is None:
            findings.error(path, f"{key} is missing", step)
    kept = {}
    for key, member in value.items():
        if member is None:  # null counts as absent, as it does everywhere in a workflow
            continue
        rule = rules.get(key)
        if rule is None:
            hint = did_you_mean(str(key), rules, f"It takes {', '.join(rules)}")
            findings.error(at(path, str(key)), f"Unknown key {key}", hint)
        elif rule.accepts(member):
            kept[key] = member
        else:
            given = cut(str(member)) if _is_number(member) else shown(member)
            step = "Write one" if key in needed else f"Write one, or leave {key} out"
            if isinstance(member, str):
                given = cut(json.dumps(member, ensure_ascii=False))  # quoted, as `"[1, 2]"` is not a list
                if key in _WORDS:
                    words = _WORDS[key]
                    step = did_you_mean(member.replace("-", "_"), words, f"Use {' or '.join(words)}")
            findings.error(at(path, key), f"{key} must be {rule.expected}, got {given}", step)
    return kept


def _between(least: float, most: float, what: str, *, whole: bool = False) -> Rule:
    def accepts(value: object) -> bool:
        return _is_number(value) and least <= value <= most and (not whole or float(value).is_integer())

    return Rule(accepts, f"{what} from {least} to {most}")


def _is_text(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and -math.inf < value < math.inf


VERIFY: Mapping[str, Rule] = {
    "node": Rule(_is_text, "a node type"),
    "params": Rule(
        lambda value: isinstance(value, dict) and all(map(_is_text, value.values())),
        "an object of expressions",
    ),
    "happened": Rule(_is_text, "an expression"),
    "result": Rule(_is_text, "an expression"),
}
_WORDS = {"error_handling": ("fail_fast", "continue"), "on_failed_items": ("fail", "continue")}
_FLAG = Rule(lambda value: isinstance(value, bool), "true or false")
_RETRIES = _between(0, MOST_RETRIES, "a whole number", whole=True)
_SECONDS = _between(0, LONGEST_WAIT, "seconds")
BATCH: Mapping[str, Rule] = {
    "items": Rule(
        lambda value: isinstance(value, list) or (isinstance(value, str) and "${" in value),
        'a list or a template such as "${list.files}"',
    ),
    "as": Rule(
        lambda value: isinstance(value, str) and _NAME.fullmatch(value) is not None,
        "a name of letters, digits, _ and -",
    ),
    "parallel": _FLAG,
    "max_concurrent": _between(1, MOST_CONCURRENT, "a whole number", whole=True),
    **{key: Rule(words.__contains__, " or ".join(words)) for key, words in _WORDS.items()},
    "max_retries": _RETRIES,
    "retry_wait": _SECONDS,
}
RETRY: Mapping[str, Rule] = {"max": _RETRIES, "wait": _SECONDS, "backoff": _between(1, 10, "a number")}
CASE: Mapping[str, Rule] = {"when": Rule(_is_text, "an expression"), "action": Rule(_is_text, "a name")}
"""The rules for a case of a node `branch`."""
CACHE: Mapping[str, Rule] = {"ttl": _between(0, LONGEST_TTL, "seconds")}
