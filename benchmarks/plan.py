"""Checks the plans that `pflow plan` makes without a language model, on tasks that need several tools.

`python -m benchmarks.plan` uses the tools and tasks of `benchmarks.discover` and prints which share of the
plans validates, and which share of the tools that a task needs is in its plan, beside the share among as
many nodes that `registry discover` puts first. Tuning uses the split `dev` only.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

import attrs

from benchmarks.discover import SPLITS, TOOLS, Task, entries, tasks
from pflow_mcp_plugin.contract import Entry, NodeSource, Paths, hookimpl
from pflow_mcp_plugin.host.embedded_host import EmbeddedHost
from pflow_mcp_plugin.host.planning.offline_plan import offline_plan
from pflow_mcp_plugin.host.planning.plan import Plan
from pflow_mcp_plugin.host.plugins import create_manager


class Tools(NodeSource):
    """The node source of the benchmark's tools.

    Args:
        known: The entry of each tool.
    """

    name = "mcp"
    prefixes = ("mcp-",)

    def __init__(self, known: Mapping[str, Entry]) -> None:
        self.names = {item.node: name for name, item in known.items()}
        self._entries = {item.node: item for item in known.values()}

    def fingerprint(self) -> str:
        """Return a constant: the tools do not change."""
        return "tools"

    def get(self, node_type: str) -> Entry | None:
        """Return the entry of a tool."""
        return self._entries.get(node_type)

    def entries(self) -> Iterator[Entry]:
        """Yield the entry of every tool."""
        yield from self._entries.values()

    @hookimpl
    def pflow_register_nodes(self, host: object) -> list[NodeSource]:
        """Register the tools as a plugin does."""
        return [self]


@attrs.frozen(kw_only=True)
class Planned:
    """The plan of a task.

    Attributes:
        task: The task.
        plan: Its plan.
        tools: The tools in it.
        discovered: The tools among as many nodes that discovery puts first.
    """

    task: Task
    plan: Plan
    tools: frozenset[str]
    discovered: frozenset[str]

    def recall(self, found: frozenset[str]) -> float:
        """Return the share of the tools that the task needs which are among those found."""
        return len(found.intersection(self.task.relevant)) / len(self.task.relevant)


@contextmanager
def host_of(tools: Tools) -> Iterator[EmbeddedHost]:
    """Open a host whose node types are its own and these tools."""
    manager = create_manager()
    manager.register(tools, "tools")
    with TemporaryDirectory() as folder:
        home = Path(folder)
        paths = Paths(config=home, data=home, state=home, cache=home / "cache")
        host = EmbeddedHost(paths, manager, lambda problem: print(problem.message, file=sys.stderr))
        host.plugins.load()
        host.plugins.configure(host)
        yield host
        host.close()


def planned(host: EmbeddedHost, tools: Tools, split: str) -> list[Planned]:
    """Plan every task of a split."""
    return [_planned(host, tools, task) for task in tasks(split)]


def _planned(host: EmbeddedHost, tools: Tools, task: Task) -> Planned:
    plan = offline_plan(task.task, host.registry, host.runner)
    chosen = list(dict.fromkeys(plan.selection.chosen_nodes))
    first = [match.item.node for match in host.registry.discover(task.task, len(chosen)).matches]
    found, discovered = (
        frozenset(tools.names[node] for node in nodes if node in tools.names) for nodes in (chosen, first)
    )
    return Planned(task=task, plan=plan, tools=found, discovered=discovered)


def main() -> int:
    """Print what the plans of each split are worth; return 1 if one does not validate."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.plan", description=__doc__)
    parser.add_argument("tools", type=Path, nargs="?", default=TOOLS, help="path of another `tools.json`")
    parser.add_argument("--split", action="append", choices=SPLITS, help="only this split")
    parser.add_argument("--show", action="store_true", help="print each plan's nodes too")
    options = parser.parse_args()
    splits = options.split or SPLITS
    tools = Tools(dict(entries(options.tools)))
    with host_of(tools) as host:
        plans = {split: planned(host, tools, split) for split in splits}
    if options.show:
        _show(plan for split in splits for plan in plans[split])
    rows = {
        "plans that validate": [fmean(not it.plan.errors for it in plans[split]) for split in splits],
        "recall of the plan": [fmean(it.recall(it.tools) for it in plans[split]) for split in splits],
        "recall of as many by discover": [
            fmean(it.recall(it.discovered) for it in plans[split]) for split in splits
        ],
        "nodes in a plan": [
            fmean(len(it.plan.selection.chosen_nodes) for it in plans[split]) for split in splits
        ],
    }
    print(f"| offline plans | {' | '.join(splits)} |\n|---|{'---|' * len(splits)}")
    for name, values in rows.items():
        print(f"| {name} | {' | '.join(f'{value:.3f}' for value in values)} |")
    return int(any(it.plan.errors for split in splits for it in plans[split]))


def _show(plans: Iterator[Planned]) -> None:
    for it in plans:
        needed = ", ".join(sorted(set(it.task.relevant) - it.tools)) or "nothing"
        print(f"{it.task.id}. {it.task.task}\n  {it.plan.selection.flow_structure}\n  lacks {needed}")


if __name__ == "__main__":
    sys.exit(main())
