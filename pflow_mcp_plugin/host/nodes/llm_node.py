"""The node `llm`: asks a language model through the `llm` library, the extra `[llm]`."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from pflow_mcp_plugin.contract import PflowError, Run
from pflow_mcp_plugin.host.language_model import (
    kept_key,
    llm_library,
    not_accepted,
    turned_away,
    unknown_model,
)
from pflow_mcp_plugin.host.nodes.value_nodes import OutputsNode, argument
from pflow_mcp_plugin.host.workflow.templates import as_text
from pflow_mcp_plugin.storage.json_and_toml import strict_json
from pflow_mcp_plugin.terminal.looks import abbreviated

_SHOWN = 200
"""The number of characters of an answer that a message shows."""


class Llm(OutputsNode):
    """The node `llm` asks a language model; `llm models` lists the available ones.

    If the environment variable for the model's key is not set, the setting of that name is used.
    """

    def prep(self, shared: MutableMapping[str, Any]) -> tuple[str, Run | None]:
        """Return the prompt for the language model, followed by the text it is about, if any, and the run."""
        prompt, about = as_text(argument(self.params, shared, "prompt")), self.params.get("input")
        text = "" if about is None else as_text(about)
        return f"{prompt}\n\n{text}" if text else prompt, shared.get("__run__")

    def exec(self, prep_res: tuple[str, Run | None]) -> dict[str, Any]:
        llm, name = llm_library(), self.params.get("model")
        prompt, run = prep_res
        options = dict(self.params.get("options", {}))
        if "temperature" in self.params:
            options["temperature"] = self.params["temperature"]
        system, schema = self.params.get("system"), self.params.get("schema")
        try:
            model = llm.get_model(name)
            key = kept_key(model, run.host.settings.get) if run and run.host.settings else None
            if run and key is not None:
                run.add_secrets([key])  # the library's errors may contain it
                options["key"] = key
            try:
                response = model.prompt(prompt, system=system, schema=schema, stream=False, **options)
            except ValueError as error:
                raise not_accepted(model, error) from error
            text = response.text()  # only now is the request sent
        except llm.UnknownModelError as error:
            raise unknown_model(name) from error
        except llm.NeedsKeyException as error:
            raise PflowError(str(error), kind="config") from error
        usage = response.usage()
        return {
            "response": text,
            "model": model.model_id,
            "usage": {"input": usage.input, "output": usage.output},
        }

    def exec_fallback(self, prep_res: tuple[str, Run | None], exc: Exception) -> dict[str, Any]:
        undone = turned_away(exc)
        if undone is None:
            raise exc
        raise undone from exc

    def post(self, shared: MutableMapping[str, Any], prep_res: Any, exec_res: dict[str, Any]) -> str:
        shared.update(exec_res)
        if self.params.get("schema") is not None:
            text = exec_res["response"]
            try:
                shared["response"] = strict_json(text)
            except (ValueError, RecursionError) as error:
                raise PflowError(f"The model's answer is not JSON: {abbreviated(text, _SHOWN)}") from error
        return "default"
