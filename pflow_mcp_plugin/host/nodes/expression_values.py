"""The values of a node's expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.contract.validators import is_reserved
from pflow_mcp_plugin.host.workflow.expression_places import EVALUATE

Evaluate = Callable[..., Any]
"""Takes an expression and, if it is not evaluated on all values in scope, what it is evaluated on."""


def evaluator(params: Mapping[str, Any], shared: Mapping[str, Any]) -> Evaluate:
    """Return what evaluates the expressions of a node.

    In a plain pocketflow program no host has set it, and expressions see the shared store.
    """
    given: Evaluate | None = params.get(EVALUATE)
    return given or (lambda text, *current: _on_store(shared, text, *current))


def _on_store(shared: Mapping[str, Any], text: str, *current: Any) -> Any:
    from pflow_mcp_plugin.host.workflow.expressions import parsed

    everything = {key: value for key, value in shared.items() if not is_reserved(key)}
    return parsed(text).value(everything, *(current or (everything,)))


def no_expression(key: str) -> PflowError:
    """Return the error of a node without an expression.

    Args:
        key: The parameter that should have one.
    """
    return PflowError(f"parameter {key} is missing or empty", suggestions=(f"Set {key} in params",))
