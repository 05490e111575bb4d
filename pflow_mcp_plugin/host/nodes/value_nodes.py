"""The nodes `echo`, `branch` and `transform`, which only work on values."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any

import attrs
import pocketflow

from pflow_mcp_plugin.contract import PflowError, Run
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.contract.validators import is_reserved
from pflow_mcp_plugin.host.language_model import (
    kept_key,
    llm_library,
    not_accepted,
    turned_away,
    unknown_model,
)
from pflow_mcp_plugin.host.workflow.templates import as_text
from pflow_mcp_plugin.host.workflow.workflow_reads import EVALUATE

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


Evaluate = Callable[..., Any]
"""Takes an expression and, if it is not evaluated on all values in scope, what it is evaluated on."""


def evaluator(params: Mapping[str, Any], shared: Mapping[str, Any]) -> Evaluate:
    """Return what evaluates the expressions of a node.

    In a plain pocketflow program no host has set it, and expressions see the shared store.
    """
    given: Evaluate | None = params.get(EVALUATE)
    if given:
        return given
    from pflow_mcp_plugin.host.workflow.expressions import parsed

    everything = {key: value for key, value in shared.items() if not is_reserved(key)}
    return lambda text, *current: parsed(text).value(everything, *(current or (everything,)))


def no_expression(key: str) -> PflowError:
    """Return the error of a node without an expression."""
    return PflowError(f"parameter {key} is missing or empty", suggestions=(f"Set {key} in params",))


class Echo(pocketflow.Node):
    """The node `echo` passes its message on: a constant, or several values combined in one string."""

    def prep(self, shared: MutableMapping[str, Any]) -> object:
        """Return the message that `echo` gets, from the params or else from the shared store."""
        return argument(self.params, shared, "message")

    def exec(self, prep_res: object) -> object:
        """Return the message that `echo` gets, unchanged."""
        return prep_res

    def post(self, shared: MutableMapping[str, Any], prep_res: object, exec_res: object) -> str:
        """Write the `message` of `echo` and return the action."""
        shared["message"] = exec_res
        return "default"


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
        """Write the `case` of a `branch` and return it as the action."""
        action = exec_res.get("action", "default")
        shared["case"] = action
        run = shared.get("__run__")
        if run:
            details = {"case": action, **({"when": exec_res["when"]} if exec_res else {})}
            run.annotate(self.params.get("__node_id__"), {"branch": details})
        return action


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
        """Write the outputs of a `transform` and return the action."""
        shared.update(exec_res)
        return "default"


_SHOWN = 200
"""Characters of an answer that go into a message."""


@attrs.frozen(kw_only=True)
class _Question:
    prompt: str
    system: str | None
    model: str | None
    schema: JSONObject | None
    options: JSONObject
    run: Run | None


@attrs.frozen(kw_only=True)
class _Answer:
    text: str
    model: str
    usage: Mapping[str, int | None]


class Llm(pocketflow.Node):
    """The node `llm` asks a language model; `llm models` lists the available ones.

    If the model's environment variable for its key is not set, the key of that name in pflow's
    settings is used.
    """

    def prep(self, shared: MutableMapping[str, Any]) -> _Question:
        """Return the question that the node `llm` asks its language model."""
        return _Question(
            prompt=_with_input(as_text(argument(self.params, shared, "prompt")), self.params.get("input")),
            system=self.params.get("system"),
            model=self.params.get("model"),
            schema=self.params.get("schema"),
            options=_options(self.params),
            run=shared.get("__run__"),
        )

    def exec(self, prep_res: _Question) -> _Answer:
        """Ask the language model.

        Raises:
            PflowError: The model cannot be asked.
        """
        llm = llm_library()
        try:
            model = llm.get_model(prep_res.model)
            response = _posed(model, prep_res)
            text = response.text()
        except llm.UnknownModelError as error:
            raise unknown_model(prep_res.model) from error
        except llm.NeedsKeyException as error:
            raise PflowError(str(error), kind="config") from error
        usage = response.usage()
        return _Answer(text=text, model=model.model_id, usage={"input": usage.input, "output": usage.output})

    def exec_fallback(self, prep_res: _Question, exc: Exception) -> _Answer:
        """Raise the language model's failure; as a retryable error if the model did nothing.

        Raises:
            PflowError: The connection failed, the rate limit was reached, or the provider is overloaded.
        """
        undone = turned_away(exc)
        if undone is None:
            raise exc
        raise undone from exc

    def post(self, shared: MutableMapping[str, Any], prep_res: _Question, exec_res: _Answer) -> str:
        """Write the language model's `response`, its name as `model`, and `usage`."""
        shared["response"] = exec_res.text if prep_res.schema is None else _parsed(exec_res.text)
        shared["model"] = exec_res.model
        shared["usage"] = exec_res.usage
        return "default"


def _with_input(prompt: str, about: object) -> str:
    """Return the prompt, followed by the text that it is about, if there is any."""
    text = "" if about is None else as_text(about)
    return f"{prompt}\n\n{text}" if text else prompt


def _posed(model: Any, question: _Question) -> Any:
    """Return the response of a model; the request is sent only when its text is read.

    Raises:
        PflowError: The model does not accept such options, or a schema.
    """
    try:
        return model.prompt(
            question.prompt,
            system=question.system,
            schema=question.schema,
            stream=False,
            **_key(model, question.run),
            **question.options,
        )
    except ValueError as error:
        raise not_accepted(model, error) from error


def _options(params: Mapping[str, Any]) -> dict[str, JSON]:
    options = dict(params.get("options", {}))
    if "temperature" in params:
        options["temperature"] = params["temperature"]
    return options


def _key(model: Any, run: Run | None) -> dict[str, str]:
    if run is None or run.host.settings is None:
        return {}
    key = kept_key(model, run.host.settings.get)
    if key is None:
        return {}
    run.add_secrets([key])
    return {"key": key}


def _parsed(text: str) -> JSON:
    try:
        answer: JSON = json.loads(text)
    except ValueError as error:
        beginning = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
        raise PflowError(f"The model's answer is not JSON: {beginning}") from error
    return answer
