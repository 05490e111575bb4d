"""The `manifest.json` of an MCP bundle (MCPB, formerly DXT) that is unpacked in the folder it is in."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pflow_mcp_plugin.config.interchange.clients import System
from pflow_mcp_plugin.config.interchange.server_format import NoEquivalent, Table
from pflow_mcp_plugin.config.interchange.variable_syntax import variable_name

_PLATFORMS: Mapping[System, str] = {"linux": "linux", "macos": "darwin", "windows": "win32"}


def is_manifest(document: Mapping[str, Any]) -> bool:
    """Whether a document is a `manifest.json`."""
    versioned = "manifest_version" in document or "dxt_version" in document
    return versioned and isinstance(document.get("server"), Mapping)


def server(document: Mapping[str, Any], system: System) -> tuple[str, Table]:
    """Return the name and table of the server, with the references of the manifest.

    Raises:
        NoEquivalent: The manifest names no command.
    """
    config = document["server"].get("mcp_config")
    if not isinstance(config, Mapping):
        raise NoEquivalent("the manifest has no mcp_config, so only a client that knows bundles can start it")
    table = {key: value for key, value in config.items() if key != "platform_overrides"}
    overrides = config.get("platform_overrides")
    override = overrides.get(_PLATFORMS[system]) if isinstance(overrides, Mapping) else None
    if isinstance(override, Mapping):
        table |= {key: _merged(table.get(key), value) for key, value in override.items()}
    table["args"] = list(_expanded(table.get("args") or [], _settings(document)))
    return str(document.get("name", "bundle")), table


def known(document: Mapping[str, Any], folder: Path) -> dict[str, str]:
    """Return what the references of a manifest stand for, by the text between their braces."""
    name = str(document.get("name", "bundle"))
    meanings = {
        "__dirname": str(folder).replace("${", "$${"),
        "DESKTOP": "${HOME}/Desktop",
        "DOCUMENTS": "${HOME}/Documents",
        "DOWNLOADS": "${HOME}/Downloads",
        "pathSeparator": "/",
        "/": "/",
    }
    for key, about in _settings(document).items():
        variable = variable_name(f"{name}_{key}")
        default = about.get("default")
        text = str(default).lower() if isinstance(default, bool) else str(default)
        plain = default is not None and not isinstance(default, list) and not set("${}") & set(text)
        meanings[f"user_config.{key}"] = f"${{{variable}:-{text}}}" if plain else f"${{{variable}}}"
    return meanings


def _settings(document: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    declared = document.get("user_config")
    items = declared.items() if isinstance(declared, Mapping) else ()
    return {str(key): about for key, about in items if isinstance(about, Mapping)}


def _merged(value: object, override: object) -> object:
    both = isinstance(value, Mapping) and isinstance(override, Mapping)
    return {**value, **override} if both else override  # type: ignore[dict-item]


def _expanded(args: object, settings: Mapping[str, Mapping[str, Any]]) -> list[Any]:
    """Return arguments in which a setting with several values by default stands once for each."""
    expanded: list[Any] = []
    for arg in args if isinstance(args, list) else [args]:
        key = (
            arg[len("${user_config.") : -1]
            if isinstance(arg, str) and arg.startswith("${user_config.")
            else ""
        )
        default = settings.get(key, {}).get("default")
        expanded += default if isinstance(default, list) else [arg]
    return expanded
