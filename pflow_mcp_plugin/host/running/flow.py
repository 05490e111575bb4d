"""The workflow as a pocketflow `Flow`. Importing this imports pocketflow, and asyncio with it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, MutableMapping
from functools import partial
from typing import Any, cast

import pocketflow

from pflow_mcp_plugin.host.running.attempts import Result
from pflow_mcp_plugin.host.running.run_errors import endless
from pflow_mcp_plugin.host.running.shared_store import NodeAwareSharedStore
from pflow_mcp_plugin.host.running.steps import Steps
from pflow_mcp_plugin.host.running.sub_run import SubRun
from pflow_mcp_plugin.host.workflow.compilation import Compiled, PlannedNode
from pflow_mcp_plugin.host.workflow.node_class import load_node

MOST_STEPS = 1_000
STEPS_PER_NODE = 10


class StepNode(pocketflow.BaseNode):
    """A node of any class as a node of the pocketflow flow.

    pocketflow's `Flow` overwrites the params of each node with its own before the node runs. It does
    so to this object's params; the real node gets the compiled ones.
    """

    def __init__(self, planned: PlannedNode, node: Any, steps: Steps) -> None:
        super().__init__()
        self.planned = planned
        self.result: Result | None = None
        self._node = node
        self._steps = steps

    def _run(self, shared: MutableMapping[str, Any]) -> str:
        self.result = self._steps.perform(self.planned, self._prepared)
        return self._steps.route(self.planned, self.result)

    def _prepared(self, params: Mapping[str, object]) -> Callable[[NodeAwareSharedStore], object]:
        # A copy for each execution, as pocketflow itself does: no state is left over from the last one.
        node = copy.copy(self._node)
        if isinstance(node, pocketflow.Node):
            # One attempt: `attempts` decides whether a retry is safe. With 0, pocketflow never calls `exec`.
            node.max_retries = 1
        node.set_params(dict(params))
        if isinstance(node, pocketflow.AsyncNode):
            import asyncio

            return lambda store: asyncio.run(node._run_async(store))  # noqa: SLF001  # as pocketflow's flows do
        run = node._run if isinstance(node, pocketflow.BaseNode) else node.run  # noqa: SLF001  # the same
        return cast(Callable[[NodeAwareSharedStore], object], run)


class RoutedFlow(pocketflow.Flow):
    """The pocketflow flow: goes from node to node by their actions.

    Args:
        start: The first node.
        bound: How many steps a run may take.

    Attributes:
        history: The ids of the nodes that have run and were left by an edge or at the end.
    """

    def __init__(self, start: StepNode, bound: int) -> None:
        super().__init__(start=start)
        self._bound = bound
        self.history: list[str] = []

    def get_next_node(self, curr: StepNode, action: str | None) -> StepNode | None:
        """Return the node that an action leads to, None at the end of the pocketflow flow.

        Raises:
            PflowError: `curr` failed and no edge handles its failure.
            PflowError: The run has taken as many steps as it may.
        """
        # pocketflow only warns of an action without an edge; a failure must not pass silently.
        following: StepNode | None = curr.successors.get(action or "default")
        if following is None and curr.result and curr.result.failure:
            raise curr.result.failure
        self.history.append(curr.planned.ref.id)
        if following is not None and len(self.history) >= self._bound:
            raise endless([*self.history, following.planned.ref.id], self._bound)
        return following


def build_flow(compiled: Compiled, steps: Steps, most: int | None = None) -> RoutedFlow:
    """Return the pocketflow `Flow` that runs a compiled workflow; imports the node classes.

    Args:
        compiled: The workflow.
        steps: Performs its steps.
        most: How many steps a run may take; by default `MOST_STEPS`, or `STEPS_PER_NODE` times the nodes of
            the workflow where that is more.

    Raises:
        PflowError: A class cannot be imported or instantiated.
    """
    nodes = {planned.id: StepNode(planned, _node(planned, steps, most), steps) for planned in compiled.nodes}
    for node in nodes.values():
        for action, target in node.planned.successors.items():
            node.next(nodes[target], action)
    # A flow may loop on purpose, so only a limit on its steps detects an endless loop.
    bound = most or max(MOST_STEPS, STEPS_PER_NODE * len(compiled.nodes))
    return RoutedFlow(nodes[compiled.graph.start], bound)


def _node(planned: PlannedNode, steps: Steps, most: int | None) -> Any:
    if planned.sub is None:
        return load_node(planned.ref)
    return SubRun(planned, steps, partial(build_flow, most=most))
