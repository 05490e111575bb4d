"""The config of a server, made from a preset."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pflow_mcp_plugin.types import ServerPreset
from pflow_mcp_plugin.variable_references import references, substitute

_TIMES = ("startup_timeout", "list_timeout", "call_timeout", "call_timeout_max")


def server_table(preset: ServerPreset, texts: Mapping[str, str]) -> dict[str, Any]:
    """Return the server table made from a preset, as the config file holds it.

    Args:
        preset: The preset.
        texts: What each input stands for. An argument, variable or header that refers to an input without
            a text is left out.
    """
    table: dict[str, Any] = {} if preset.transport == "stdio" else {"type": preset.transport}
    table |= {key: _filled(getattr(preset, key), texts) for key in ("command", "url") if getattr(preset, key)}
    args = [_filled(value, texts) for value in preset.args if _is_complete(value, texts)]
    table |= {"args": args} if args else {}
    for key in ("env", "headers"):
        pairs = getattr(preset, key).items()
        filled = {name: _filled(value, texts) for name, value in pairs if _is_complete(value, texts)}
        table |= {key: filled} if filled else {}
    table |= {"tools": {"allow": [*preset.tools]}} if preset.tools else {}
    table |= {"rename": dict(preset.rename)} if preset.rename else {}
    table |= {key: getattr(preset, key) for key in _TIMES if getattr(preset, key) is not None}
    return {**table, "preset": preset.name}


def _is_complete(value: str, texts: Mapping[str, str]) -> bool:
    return all(reference.name in texts for reference in references(value))


def _filled(value: str, texts: Mapping[str, str]) -> str:
    escaped = value.replace("$${", "$$${")  # the config file holds an escaped ${ as escaped
    return substitute(escaped, lambda reference: texts[reference.name])
