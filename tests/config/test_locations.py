"""Where the files lie."""

from __future__ import annotations

from pflow_mcp_plugin.config import locations
from pflow_mcp_plugin.storage import default_paths


def test_config_and_tools_lie_in_the_users_folders(pflow_home):
    assert locations.server_file(default_paths()) == pflow_home / "config" / "mcp-servers.toml"
    assert locations.tool_folder(default_paths()) == pflow_home / "data" / "servers"


def test_the_schema_for_editors_is_shipped():
    assert locations.SCHEMA_FILE.is_file()
