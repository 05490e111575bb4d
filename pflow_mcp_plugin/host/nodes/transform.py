"""The node `transform`."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

import attrs
import pocketflow

from pflow_mcp_plugin.host.nodes.expression_values import Evaluate, evaluator, no_expression


@attrs.frozen
class _Given:
    evaluate: Evaluate
    data: tuple[Any, ...]


class Transform(pocketflow.Node):
    """The node `transform` makes new values from others with expressions."""

    def prep(self, shared: MutableMapping[str, Any]) -> _Given:
        """Return what evaluates the expressions of a `transform`, and the data that they are evaluated on."""
        data = (self.params["data"],) if "data" in self.params else ()
        return _Given(evaluator(self.params, shared), data)

    def exec(self, prep_res: _Given) -> dict[str, Any]:
        """Return the outputs of a `transform`.

        Raises:
            PflowError: It has no expression, or one cannot be evaluated.
        """
        expressions: dict[str, str] = dict(self.params.get("outputs") or {})
        if self.params.get("expression"):
            expressions["result"] = self.params["expression"]
        if not expressions:
            raise no_expression("expression")
        return {name: prep_res.evaluate(text, *prep_res.data) for name, text in expressions.items()}

    def post(self, shared: MutableMapping[str, Any], prep_res: _Given, exec_res: dict[str, Any]) -> str:
        """Write the outputs of a `transform` and return the action.

        Args:
            shared: The node's view of the shared store.
            prep_res: What `prep` returned.
            exec_res: What `exec` returned.
        """
        shared.update(exec_res)
        return "default"
