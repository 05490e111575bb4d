"""The node `llm`: asks a language model through the `llm` library, the extra `[llm]`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from email.message import Message
from http import HTTPStatus
from socket import gaierror
from typing import Any

import attrs
import pocketflow

from pflow_mcp_plugin.contract import PflowError, Run
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.host.entrypoints import own_distribution
from pflow_mcp_plugin.host.model_keys import kept_key
from pflow_mcp_plugin.host.nodes.node_arguments import argument
from pflow_mcp_plugin.host.workflow.templates import as_text

_SHOWN = 200
"""Characters of an answer that go into a message."""
_TURNED_AWAY = (429, 503, 529)
"""HTTP statuses of a model's provider: too many requests, unavailable, overloaded."""


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
        llm = _library()
        try:
            model = llm.get_model(prep_res.model)
            response = _posed(model, prep_res)
            text = response.text()
        except llm.UnknownModelError as error:
            message = f"Unknown model {prep_res.model}"
            raise PflowError(message, suggestions=("See: llm models",), kind="config") from error
        except llm.NeedsKeyException as error:
            raise PflowError(str(error), kind="config") from error
        usage = response.usage()
        return _Answer(text=text, model=model.model_id, usage={"input": usage.input, "output": usage.output})

    def exec_fallback(self, prep_res: _Question, exc: Exception) -> _Answer:
        """Raise the language model's failure; as a retryable error if the model did nothing.

        Raises:
            PflowError: The connection failed, the rate limit was reached, or the provider is overloaded.
        """
        undone = _undone(exc)
        if undone is None:
            raise exc
        raise undone from exc

    def post(self, shared: MutableMapping[str, Any], prep_res: _Question, exec_res: _Answer) -> str:
        """Write the language model's `response`, its name as `model`, and `usage`.

        Args:
            shared: The node's view of the shared store.
            prep_res: What `prep` returned.
            exec_res: What `exec` returned.
        """
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
        message = f"The model {model.model_id} does not accept this: {_mistakes(error)}"
        raise PflowError(message, suggestions=("See: llm models --options",), kind="config") from error


def _mistakes(error: ValueError) -> str:
    """Return the mistakes; pydantic's errors, which invalid options raise, list them."""
    listed = getattr(error, "errors", None)
    if not callable(listed):
        return str(error)
    return "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in listed())


def _undone(error: Exception) -> PflowError | None:
    """Return the failure as a retryable one if the model did nothing, else None."""
    chain = list(_chain(error))
    status = next((found for found in map(_status, chain) if found), None)
    if status in _TURNED_AWAY:
        return _busy(error, status, _retry_after(chain))
    if any(isinstance(cause, (ConnectionRefusedError, gaierror)) for cause in chain):
        message = f"The model could not be reached: {chain[-1]}"
        return PflowError(message, kind="connection", ran="not ran", retryable=True)
    return None


def _busy(error: Exception, status: int | None, retry_after: float | None) -> PflowError:
    return PflowError(
        f"The model rejected the request: {error}",
        details={"status": status},
        action="rate_limited" if status == HTTPStatus.TOO_MANY_REQUESTS else "error",
        ran="not ran",
        retryable=True,
        retry_after=retry_after,
    )


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _status(error: BaseException) -> int | None:
    # `status_code` if a model's library raised it, `code` if Python's own `urllib` did.
    for name in ("status_code", "code"):
        status = getattr(error, name, None)
        if isinstance(status, int):
            return status
    return None


def _retry_after(chain: Sequence[BaseException]) -> float | None:
    """Return the seconds of a `Retry-After` header; dates are ignored, as clocks may differ."""
    for error in chain:
        headers = getattr(getattr(error, "response", error), "headers", None)
        if isinstance(headers, Mapping | Message) and str(headers.get("Retry-After", "")).isdecimal():
            return float(headers["Retry-After"])
    return None


def _library() -> Any:
    try:
        import llm
    except ImportError as error:
        mine = own_distribution()
        package = f"'{mine.name}[llm]'" if mine else "llm"
        message = "The library llm is not installed"
        raise PflowError(message, suggestions=(f"pip install {package}",), kind="config") from error
    return llm


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
        raise PflowError(f"The model's answer is not JSON: {_beginning(text)}") from error
    return answer


def _beginning(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
