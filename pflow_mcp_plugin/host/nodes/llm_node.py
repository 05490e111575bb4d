"""The node `llm`: asks a language model through the `llm` library, the extra `[llm]`."""

from __future__ import annotations

import json
from collections.abc import Mapping, MutableMapping
from typing import Any

import attrs
import pocketflow

from pflow_mcp_plugin.contract import PflowError, Run
from pflow_mcp_plugin.contract.json_types import JSON, JSONObject
from pflow_mcp_plugin.host.language_model import (
    kept_key,
    llm_library,
    not_accepted,
    turned_away,
    unknown_model,
)
from pflow_mcp_plugin.host.nodes.value_nodes import argument
from pflow_mcp_plugin.host.workflow.templates import as_text
from pflow_mcp_plugin.terminal.printable_text import abbreviated

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
        """Ask the language model."""
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
        """Raise the language model's failure; as a retryable error if the model did nothing."""
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
    """Return the response of a model; the request is sent only when its text is read."""
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
        raise PflowError(f"The model's answer is not JSON: {abbreviated(text, _SHOWN)}") from error
    return answer
