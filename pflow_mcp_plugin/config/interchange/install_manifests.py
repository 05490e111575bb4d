"""Files that describe a server to install.

A `server.json` of the MCP Registry (schema 2025-12-11) says how to install a server, or its URL; the
`manifest.json` of an MCP bundle (MCPB, formerly DXT) stands in the folder in which the bundle is unpacked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pflow_mcp_plugin.config.interchange.clients import System
from pflow_mcp_plugin.config.interchange.server_translation import (
    NoEquivalent,
    Table,
    reference_to,
    variable_name,
)
from pflow_mcp_plugin.config.server_schema import mapping

_RUNNERS = {"npm": "npx", "pypi": "uvx", "oci": "docker", "nuget": "dnx"}
_TEMPLATE = re.compile(r"\{(?P<name>[^{}]+)\}")
_REMOTE_TYPES = {"streamable-http": "http", "http": "http", "sse": "sse"}


def is_registry_manifest(document: Mapping[str, Any]) -> bool:
    """Whether a document is a `server.json`, an install manifest of the Registry."""
    offers = [document.get("packages"), document.get("remotes")]
    return isinstance(document.get("name"), str) and any(isinstance(offer, list) for offer in offers)


def unwrapped(document: Any) -> Any:
    """Return the `server.json` in an answer of the Registry, which wraps it as `server`."""
    inner = document.get("server") if isinstance(document, Mapping) else None
    return inner if isinstance(inner, Mapping) and is_registry_manifest(inner) else document


def registry_server(document: Mapping[str, Any]) -> tuple[str, Table, tuple[str, ...]]:
    """Return name and table of the server in a `server.json`, and what in it has no place in them."""
    # The first package that a known runner can start is taken, otherwise the first remote.
    name = document["name"].rpartition("/")[2]
    packages, remotes = _tables(document.get("packages")), _tables(document.get("remotes"))
    usable = [
        package
        for package in packages
        if str(package.get("registryType")) in _RUNNERS
        and mapping(package.get("transport")).get("type", "stdio") == "stdio"
        and "identifier" in package
    ]
    if usable:
        table, lost = _package(name, usable[0])
    elif remotes:
        remote = remotes[0]
        kind = str(remote.get("type"))
        url = _filled(name, str(remote.get("url", "")), remote.get("variables"))
        headers, lost = _inputs(
            name, _tables(remote.get("headers")), lambda header: variable_name(f"{name}_{header}")
        )
        table = {"type": _REMOTE_TYPES.get(kind, remote.get("type")), "url": url}
        table |= {"headers": headers} if headers else {}
    else:
        kinds = ", ".join(str(package.get("registryType")) for package in packages) or "none"
        raise NoEquivalent(f"no runner is known for its packages ({kinds}), and it has no remote")
    others = len(packages) + len(remotes) - 1
    return name, table, (*lost, *([f"{others} other way{'s' * (others > 1)} to run it"] if others else []))


def _package(name: str, package: Mapping[str, Any]) -> tuple[Table, list[str]]:
    kind, identifier, version = package["registryType"], str(package["identifier"]), package.get("version")
    runner = str(package.get("runtimeHint") or _RUNNERS[kind])
    env, lost = _inputs(name, _tables(package.get("environmentVariables")), variable_name)
    before = list(_arguments(name, _tables(package.get("runtimeArguments"))))
    after = list(_arguments(name, _tables(package.get("packageArguments"))))
    if kind == "npm":
        start = [*(["-y"] if "-y" not in before else []), *before, _pinned(identifier, "@", version)]
    elif kind == "pypi":
        start = [*before, _pinned(identifier, "==", version)]
    elif kind == "oci":
        image = identifier if ":" in identifier.rpartition("/")[2] else _pinned(identifier, ":", version)
        passed = [word for name in env for word in ("-e", name)]
        start = ["run", "-i", "--rm", *passed, *before, image]
    else:
        start = [*before, _pinned(identifier, "@", version), "--yes", *(["--"] if after else [])]
    table: Table = {"command": runner, "args": [*start, *after]}
    return table | ({"env": env} if env else {}), lost


def _pinned(identifier: str, separator: str, version: object) -> str:
    return f"{identifier}{separator}{version}" if isinstance(version, str) and version else identifier


def _inputs(
    server: str, declared: Sequence[Mapping[str, Any]], variable: Callable[[str], str]
) -> tuple[dict[str, str], list[str]]:
    """Return a manifest's variables or headers by name, and a word for each optional one without a value."""
    values: dict[str, str] = {}
    lost = []
    for item in declared:
        name = str(item.get("name", ""))
        if any(key in item for key in ("value", "default")) or item.get("isRequired"):
            values[name] = _value(server, item, variable(name))
        else:
            lost.append(f"optional {name}")
    return values, lost


def _arguments(server: str, declared: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for item in declared:
        name = str(item.get("name", "")) if item.get("type") == "named" else ""
        hint = str(item.get("valueHint") or name.lstrip("-") or "argument")
        is_given = any(key in item for key in ("value", "default"))
        if name and (is_given or item.get("isRequired")):
            yield name
        if is_given or (item.get("isRequired") and (not name or item.get("valueHint"))):
            yield _value(server, item, variable_name(f"{server}_{hint}"))


def _value(server: str, item: Mapping[str, Any], variable: str) -> str:
    """Return a manifest's fixed value with references for its variables, or a reference to a variable."""
    if "value" in item:
        return _filled(server, str(item["value"]), item.get("variables"))
    return reference_to(variable, str(item.get("default") or ""))


def _filled(server: str, text: str, variables: Any) -> str:
    """Return a manifest's template with a reference for each of its variables; other braces stay."""

    def reference(piece: re.Match[str]) -> str:
        about = mapping(variables).get(piece["name"])
        if not isinstance(about, Mapping):
            return piece[0]
        return _value(server, about, variable_name(f"{server}_{piece['name']}"))

    return _TEMPLATE.sub(reference, text)


def _tables(value: object) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def is_bundle(document: Mapping[str, Any]) -> bool:
    """Whether a document is the `manifest.json` of an MCP bundle."""
    versioned = "manifest_version" in document or "dxt_version" in document
    return versioned and isinstance(document.get("server"), Mapping)


def bundle_server(document: Mapping[str, Any], system: System) -> tuple[str, Table]:
    """Return name and table of the server in a bundle's manifest, with the manifest's own references."""
    config = document["server"].get("mcp_config")
    if not isinstance(config, Mapping):
        raise NoEquivalent("the manifest has no mcp_config, so only a client that knows bundles can start it")
    table = {key: value for key, value in config.items() if key != "platform_overrides"}
    platform = {"linux": "linux", "macos": "darwin", "windows": "win32"}[system]
    override = mapping(mapping(config.get("platform_overrides")).get(platform))
    for key, value in override.items():
        there = table.get(key)
        is_table = isinstance(there, Mapping) and isinstance(value, Mapping)
        table[key] = {**mapping(there), **mapping(value)} if is_table else value
    settings, args = _settings(document), table.get("args") or []
    table["args"] = []
    for arg in args if isinstance(args, list) else [args]:
        # A setting whose default is a list stands for all its values.
        named = re.fullmatch(r"\$\{user_config\.(.*).", arg, re.DOTALL) if isinstance(arg, str) else None
        default = settings.get(named[1], {}).get("default") if named else None
        table["args"] += default if isinstance(default, list) else [arg]
    return str(document.get("name", "bundle")), table


def bundle_references(document: Mapping[str, Any], folder: Path) -> dict[str, str]:
    """Return what the references of a bundle's manifest stand for, by the text between their braces."""
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
        default = about.get("default")
        if isinstance(default, bool):
            default = str(default).lower()
        text = None if default is None or isinstance(default, list) else str(default)
        meanings[f"user_config.{key}"] = reference_to(variable_name(f"{name}_{key}"), text)
    return meanings


def _settings(document: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    declared = mapping(document.get("user_config"))
    return {str(key): about for key, about in declared.items() if isinstance(about, Mapping)}
