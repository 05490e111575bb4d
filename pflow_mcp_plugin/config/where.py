"""Where the files of the MCP side lie."""

from __future__ import annotations

from pathlib import Path

from pflow_mcp_plugin.contract import Paths

SCHEMA_FILE = Path(__file__).with_name("mcp-servers.schema.json")
"""JSON Schema of the server config, for editors."""


def server_file(paths: Paths) -> Path:
    """Return the config file of the servers."""
    return paths.config / "mcp-servers.toml"


def tool_folder(paths: Paths) -> Path:
    """Return the folder of what was learnt from the servers: one JSON file for each."""
    return paths.data / "servers"
