"""What a command is given for the inputs of a workflow or the params of a node."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pflow_mcp_plugin.contract import PflowError


def parse_inputs(words: Sequence[str]) -> dict[str, str]:
    """Return the inputs that are written `name=value`.

    Raises:
        PflowError: One has no name, or comes twice.
    """
    values: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not name or not equals:
            message = f"{word!r} is no input"
            raise PflowError(message, suggestions=("Write NAME=VALUE",), kind="usage")
        if name in values:
            message = f"The input {name} is given twice"
            raise PflowError(message, kind="usage")
        values[name] = value
    return values


def piped_inputs(
    document: Mapping[str, Any], given: Mapping[str, Any], check: Callable[[Mapping[str, Any]], object]
) -> dict[str, str]:
    """Return what is piped in, for the input that the workflow declares with `"stdin": true`.

    Without such an input, or when its value is given, standard input is not touched. Where nothing
    comes, an input that can do without a value gets none.

    Args:
        document: The workflow.
        given: The inputs that are there already.
        check: Raises for a workflow, or inputs of it, that do not do. It is asked before anything is
            read, so that nobody waits for what is piped in only to hear of a mistake.
    """
    inputs = document.get("inputs")
    declared = inputs.items() if isinstance(inputs, dict) else ()
    wanted = [name for name, spec in declared if isinstance(spec, dict) and spec.get("stdin") is True]
    if not wanted or wanted[0] in given or sys.stdin is None or sys.stdin.isatty():
        return {}
    from pflow_mcp_plugin.host.workflow import STILL_TO_COME

    name = wanted[0]
    check({**given, name: STILL_TO_COME})
    text = sys.stdin.buffer.read().decode("utf-8", "replace")
    spec = dict(declared)[name]
    can_do_without = "default" in spec or spec.get("required") is False
    return {} if not text and can_do_without else {name: text}
