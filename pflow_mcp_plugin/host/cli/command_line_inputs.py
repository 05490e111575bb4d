"""Inputs of a workflow and params of a node, as they are typed or piped in."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.contract.json_types import JSONObject
from pflow_mcp_plugin.host.standard_input import piped_text


def parse_inputs(words: Sequence[str]) -> dict[str, str]:
    """Parse inputs typed on the command line as `name=value`.

    Raises:
        PflowError: One has another form, or a name is repeated.
    """
    values: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not name or not equals:
            message = f"Invalid input {word!r}"
            raise PflowError(message, suggestions=("Write NAME=VALUE",), kind="usage")
        if name in values:
            message = f"The input {name} is given twice"
            raise PflowError(message, kind="usage")
        values[name] = value
    return values


def piped_inputs(
    document: JSONObject, given: Mapping[str, object], check: Callable[[Mapping[str, object]], object]
) -> dict[str, str]:
    """Read the input that the workflow declares with `"stdin": true` as it is piped in.

    Standard input is read only if the workflow declares such an input and its value is not given. If it
    is empty, an input that does not require a value gets none. A single line comes without its end.

    Args:
        document: The workflow.
        given: The inputs that already have a value.
        check: Raises if the workflow or its inputs are invalid. It is called before anything is read, so
            that a mistake is reported without waiting for piped input.
    """
    inputs = document.get("inputs")
    declared = inputs.items() if isinstance(inputs, dict) else ()
    wanted = [name for name, spec in declared if isinstance(spec, dict) and spec.get("stdin") is True]
    if not wanted or wanted[0] in given or sys.stdin is None or sys.stdin.isatty():
        return {}
    from pflow_mcp_plugin.host.workflow import STILL_TO_COME

    name = wanted[0]
    check({**given, name: STILL_TO_COME})
    text = piped_text()
    spec = dict(declared)[name]
    can_do_without = "default" in spec or spec.get("required") is False
    return {} if not text and can_do_without else {name: text}
