"""The strings that a command is started with, by the parameter that each comes from."""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import chain, repeat
from typing import Any

from pflow_mcp_plugin.host.workflow.templates import TemplateReference, as_text, lone, parse


def command_strings(params: Mapping[str, Any], written: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Return the strings that a command is started with, by names for messages, in groups.

    Args:
        params: The node's params.
        written: Its params as the workflow has them, whose templates are named.
    """
    env, raw = params.get("env", {}), written.get("env")
    variables = {
        _named(f"env.{key}", raw.get(key) if isinstance(raw, Mapping) else raw): f"{key}={as_text(value)}"
        for key, value in env.items()
    }
    inherited = {
        f"{key} in the environment of pflow": f"{key}={value}"
        for key, value in os.environ.items()
        if key not in env
    }
    return {
        "parameter command": _command(params.get("command"), written.get("command")),
        "parameter env": variables,
        "the environment of pflow": inherited,
    }


def _command(command: Any, raw: Any) -> dict[str, str]:
    if isinstance(command, Mapping):
        templates = (part.text for part in parse(raw or "") if isinstance(part, TemplateReference))
        values = zip(chain(templates, repeat("a template")), command["variables"].items(), strict=False)
        named = {f"the value of {text} in parameter command": "=".join(item) for text, item in values}
        return {"parameter command": command["line"], **named}
    if isinstance(command, str):
        return {"parameter command": command}
    words = raw if isinstance(raw, list) else repeat(raw)
    return {
        _named(f"command[{index}]", word): as_text(value)
        for index, (value, word) in enumerate(zip(command, words, strict=False))
    }


def _named(parameter: str, raw: Any) -> str:
    template = lone(raw)
    return f"parameter {parameter}" + (f" ({template.text})" if template else "")
