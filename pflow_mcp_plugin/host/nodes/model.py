"""The node `llm`: a language model through the `llm` library, the extra `[llm]`."""

from __future__ import annotations

import json
from collections.abc import Mapping, MutableMapping
from typing import Any, ClassVar

import attrs
import pocketflow  # type: ignore[import-untyped]

from pflow_mcp_plugin.contract import Kind, PflowError, Run
from pflow_mcp_plugin.host.models import kept_key
from pflow_mcp_plugin.host.nodes.arguments import argument
from pflow_mcp_plugin.host.plugins import own_distribution
from pflow_mcp_plugin.host.workflow.templates import as_text


class ModelUnusable(PflowError):
    """The library, the model or its key is not there; nothing was asked."""

    kind: ClassVar[Kind] = "config"


@attrs.frozen(kw_only=True)
class _Question:
    prompt: str
    system: str | None
    model: str | None
    schema: Mapping[str, Any] | None
    options: Mapping[str, Any]
    run: Run | None


@attrs.frozen(kw_only=True)
class _Answer:
    text: str
    model: str
    usage: Mapping[str, int | None]


class Llm(pocketflow.Node):  # type: ignore[misc]  # pocketflow ships no types
    """Asks a language model; which ones there are, `llm models` lists.

    A key that pflow's settings hold under the name of the model's environment variable is used
    where that variable is not set.
    """

    def prep(self, shared: MutableMapping[str, Any]) -> _Question:
        """Return what is to be asked."""
        return _Question(
            prompt=as_text(argument(self.params, shared, "prompt")),
            system=self.params.get("system"),
            model=self.params.get("model"),
            schema=self.params.get("schema"),
            options=_options(self.params),
            run=shared.get("__run__"),
        )

    def exec(self, prep_res: _Question) -> _Answer:
        """Ask the model.

        Raises:
            ModelUnusable: It cannot be asked.
        """
        llm = _library()
        try:
            model = llm.get_model(prep_res.model)
            response = model.prompt(
                prep_res.prompt,
                system=prep_res.system,
                schema=prep_res.schema,
                stream=False,
                **_key(model, prep_res.run),
                **prep_res.options,
            )
            text = response.text()
        except llm.UnknownModelError as error:
            message = f"There is no model {prep_res.model}"
            raise ModelUnusable(message, suggestions=("See: llm models",)) from error
        except llm.NeedsKeyException as error:
            raise ModelUnusable(str(error)) from error
        usage = response.usage()
        return _Answer(text=text, model=model.model_id, usage={"input": usage.input, "output": usage.output})

    def post(self, shared: MutableMapping[str, Any], prep_res: _Question, exec_res: _Answer) -> str:
        """Write `response`, `model` and `usage`."""
        shared["response"] = exec_res.text if prep_res.schema is None else _parsed(exec_res.text)
        shared["model"] = exec_res.model
        shared["usage"] = exec_res.usage
        return "default"


def _library() -> Any:
    try:
        import llm
    except ImportError as error:
        mine = own_distribution()
        package = f"'{mine.name}[llm]'" if mine else "llm"
        message = "The library llm is not installed"
        raise ModelUnusable(message, suggestions=(f"pip install {package}",)) from error
    return llm


def _options(params: Mapping[str, Any]) -> dict[str, Any]:
    options = dict(params.get("options", {}))
    if "temperature" in params:
        options["temperature"] = params["temperature"]
    return options


def _key(model: Any, run: Run | None) -> dict[str, str]:
    if run is None or "settings" not in run.host.features:
        return {}
    key = kept_key(model, run.host.settings.get)
    if key is None:
        return {}
    run.add_secrets([key])
    return {"key": key}


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise PflowError(f"The model's answer is not JSON: {text[:200]}") from error
