"""The nodes `echo`, `branch`, `transform`, `fail`, `ask`, which only work on values; how nodes get those."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, MutableMapping
from pathlib import Path
from typing import Any

import pocketflow

from pflow_mcp_plugin.contract import PflowError, Run
from pflow_mcp_plugin.contract.validators import is_reserved
from pflow_mcp_plugin.host.workflow.templates import as_text
from pflow_mcp_plugin.host.workflow.workflow_reads import ASKING, EVALUATE

_REQUIRED = object()
_LARGEST = 2_000_000.0
"""The largest number of seconds or MiB; the operating system does not wait longer than 24 days."""


def argument(params: Mapping[str, Any], shared: Mapping[str, Any], key: str, default: Any = _REQUIRED) -> Any:
    """Return the value that a node such as `echo` works on: from params, the shared store, or the default."""
    for place in (params, shared):
        if key in place:
            return place[key]
    if default is _REQUIRED:
        raise PflowError(f"parameter {key} is missing", suggestions=(f"Set {key} in params",))
    return default


def written_params(params: Mapping[str, Any], run: Run | None) -> Mapping[str, Any]:
    """For nodes that take values: params as written, without those of templates; outside a run, as given."""
    if run is None:
        return params
    own = params.get("__node_id__")
    return next((node.params for node in run.workflow.nodes if node.id == own), {})


def positive(params: Mapping[str, Any], key: str, default: float, unit: str) -> float:
    """Return the number that a node got for a parameter, which must be positive; messages name the `unit`."""
    value: float = params.get(key, default)
    if not value > 0:
        message = f"parameter {key} must be more than 0 {unit}, got {value:g}"
        raise PflowError(message, ran="not ran")
    return min(value, _LARGEST)


def utf8(text: str, what: str, errors: str = "strict") -> bytes:
    """Encode as UTF-8 a text that a node got; lone surrogates, which have no UTF-8, are errors naming `what`.

    With `errors` "surrogateescape" the bytes of a file's name that are not UTF-8 stay as they are.
    """
    try:
        return text.encode("utf-8", errors)
    except UnicodeEncodeError as error:
        shown = ascii(text[error.start])
        message = f"{what} has the character {shown} at position {error.start}, which UTF-8 cannot hold"
        raise PflowError(message, suggestions=("Remove or replace it",), ran="not ran") from error


def path_from(given: str, key: str, *, is_written: bool = False) -> Path:
    """Return the path that a node got for a parameter, with the home folder for `~`.

    One that can name no file is an error; so is a folder's, as in `reports/`, for a file that `is_written`.
    """
    if not given:
        raise PflowError(f"parameter {key} is empty", suggestions=(f"Set {key} in params",), ran="not ran")
    utf8(given, f"parameter {key}", "surrogateescape")
    reason, step = "", f"Correct {key}"
    path = Path(given)
    try:
        path = path.expanduser()
    except RuntimeError:
        reason = f"there is no home folder {path.parts[0]}"
    if "\0" in given:
        reason = "no path contains NUL"
    elif is_written and given.endswith(os.sep):
        reason, step = f"{given} is a folder", "Name a file in it"
    if reason:
        raise PflowError(f"parameter {key}: {reason}", suggestions=(step,), ran="not ran")
    return path


Evaluate = Callable[..., Any]
"""Takes an expression and the value that it is evaluated on, by default all values in scope."""


def evaluator(params: Mapping[str, Any], shared: Mapping[str, Any]) -> Evaluate:
    """Return the function by which the nodes `branch` and `transform` get the value of an expression.

    In a plain pocketflow program no host has set one, and expressions see the shared store.
    """
    given: Evaluate | None = params.get(EVALUATE)
    if given:
        return given
    # Imported late, as it imports jmespath.
    from pflow_mcp_plugin.host.workflow.expressions import parsed

    everything = {key: value for key, value in shared.items() if not is_reserved(key)}
    return lambda text, *current: parsed(text).value(everything, *(current or (everything,)))


def no_expression(key: str) -> PflowError:
    """Return the error of a node `branch` or `transform` whose expression is missing or empty."""
    return PflowError(f"parameter {key} is missing or empty", suggestions=(f"Set {key} in params",))


def ended(shared: MutableMapping[str, Any], failure: PflowError | None) -> str:
    """End a node such as `transform` or `fail`: set its value `error`, and return its action."""
    shared["error"] = None if failure is None else failure.message
    if failure is None:
        return "default"
    shared["__error__"] = failure
    return failure.action


class OutputsNode(pocketflow.Node):
    """The base of nodes such as `echo` and `transform`, whose `exec` returns values as outputs by name."""

    def post(self, shared: MutableMapping[str, Any], prep_res: Any, exec_res: dict[str, Any]) -> str:
        shared.update(exec_res)
        return "default"


class Echo(OutputsNode):
    """The node `echo` passes its message on: a constant, or several values combined in one string."""

    def prep(self, shared: MutableMapping[str, Any]) -> object:
        return argument(self.params, shared, "message")

    def exec(self, prep_res: object) -> dict[str, Any]:
        return {"message": prep_res}


class Branch(pocketflow.Node):
    """The node `branch` takes the action of the first of its cases whose condition is true."""

    def prep(self, shared: MutableMapping[str, Any]) -> Evaluate:
        return evaluator(self.params, shared)

    def exec(self, prep_res: Evaluate) -> dict[str, str]:
        from pflow_mcp_plugin.host.workflow.expressions import is_true

        cases: list[dict[str, str]] = self.params.get("cases") or []
        if not cases:
            raise no_expression("cases")
        return next((case for case in cases if is_true(prep_res(case["when"]))), {})

    def post(self, shared: MutableMapping[str, Any], prep_res: Evaluate, exec_res: dict[str, str]) -> str:
        action = exec_res.get("action", "default")
        shared["case"] = action
        run = shared.get("__run__")
        if run:
            details = {"case": action, **({"when": exec_res["when"]} if exec_res else {})}
            run.annotate(self.params.get("__node_id__"), {"branch": details})
        return action


class Transform(OutputsNode):
    """The node `transform` makes new values from others with expressions."""

    def prep(self, shared: MutableMapping[str, Any]) -> Evaluate:
        evaluate, data = evaluator(self.params, shared), self.params.get("data")
        return (lambda text: evaluate(text, data)) if "data" in self.params else evaluate

    def exec(self, prep_res: Evaluate) -> dict[str, Any]:
        expressions: dict[str, str] = dict(self.params.get("outputs") or {})
        if self.params.get("expression"):
            expressions["result"] = self.params["expression"]
        if not expressions:
            raise no_expression("expression")
        return {name: prep_res(text) for name, text in expressions.items()}


class Fail(pocketflow.Node):
    """The node `fail` fails with its message, on purpose."""

    def prep(self, shared: MutableMapping[str, Any]) -> PflowError:
        message = as_text(argument(self.params, shared, "message"))
        return PflowError(message, kind=self.params.get("kind", "execution"))

    def exec(self, prep_res: PflowError) -> None:
        raise prep_res


class Ask(OutputsNode):
    """The node `ask`, whose value is the answer to a question; it also shows the steps that follow."""

    def prep(self, shared: MutableMapping[str, Any]) -> str:
        return str(argument(self.params, {}, "question"))

    def exec(self, prep_res: str) -> dict[str, Any]:
        asking = self.params.get(ASKING)
        if asking is None:
            raise PflowError("Nobody can be asked outside a run of pflow", ran="not ran")
        answer: str = asking(prep_res, [str(choice) for choice in self.params.get("choices") or ()])
        return {"answer": answer, "error": None}
