"""Looks up a node's arguments in its params and the shared store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pflow_mcp_plugin.contract import PflowError

_REQUIRED = object()
_LARGEST = 2_000_000.0
"""Of seconds or MiB; the operating system does not wait longer than 24 days."""


def argument(params: Mapping[str, Any], shared: Mapping[str, Any], key: str, default: Any = _REQUIRED) -> Any:
    """Look up a node's argument: in the params, else the shared store, else the default.

    Args:
        params: The node's params.
        shared: The shared store.
        key: The argument's name.
        default: Its value where neither has it; it is required if left out.

    Raises:
        PflowError: It is in neither and has no default.
    """
    for place in (params, shared):
        if key in place:
            return place[key]
    if default is _REQUIRED:
        raise PflowError(f"parameter {key} is missing", suggestions=(f"Set {key} in params",))
    return default


def positive(params: Mapping[str, Any], key: str, default: float, unit: str) -> float:
    """Return a number from the params, which is no larger than `_LARGEST`.

    Args:
        params: The node's params.
        key: The argument's name.
        default: Its value if the params lack it.
        unit: Its unit, for the message.

    Raises:
        PflowError: It is not more than 0.
    """
    value: float = params.get(key, default)
    if not value > 0:
        message = f"parameter {key} must be more than 0 {unit}, got {value:g}"
        raise PflowError(message, ran="not ran")
    return min(value, _LARGEST)
