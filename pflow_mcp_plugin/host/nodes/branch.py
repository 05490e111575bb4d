"""The node `branch`."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

import pocketflow

from pflow_mcp_plugin.host.nodes.expression_values import Evaluate, evaluator, no_expression


class Branch(pocketflow.Node):
    """The node `branch` takes the action of the first of its cases whose condition is true."""

    def prep(self, shared: MutableMapping[str, Any]) -> Evaluate:
        """Return what evaluates the conditions of a `branch`."""
        return evaluator(self.params, shared)

    def exec(self, prep_res: Evaluate) -> dict[str, str]:
        """Return the case of a `branch` that holds, empty if none does.

        Raises:
            PflowError: There are no cases, or a condition cannot be evaluated.
        """
        from pflow_mcp_plugin.host.workflow.expressions import is_true

        cases: list[dict[str, str]] = self.params.get("cases") or []
        if not cases:
            raise no_expression("cases")
        return next((case for case in cases if is_true(prep_res(case["when"]))), {})

    def post(self, shared: MutableMapping[str, Any], prep_res: Evaluate, exec_res: dict[str, str]) -> str:
        """Write the `case` of a `branch` and return it as the action.

        Args:
            shared: The node's view of the shared store.
            prep_res: What `prep` returned.
            exec_res: What `exec` returned.
        """
        action = exec_res.get("action", "default")
        shared["case"] = action
        run = shared.get("__run__")
        if run:
            details = {"case": action, **({"when": exec_res["when"]} if exec_res else {})}
            run.annotate(self.params.get("__node_id__"), {"branch": details})
        return action
