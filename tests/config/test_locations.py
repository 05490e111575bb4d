"""Where the files lie."""

from __future__ import annotations

from pathlib import Path

import attrs

from pflow_mcp_plugin.config import locations
from pflow_mcp_plugin.storage import default_paths


def test_config_and_tools_lie_in_the_users_folders(pflow_home):
    assert locations.server_file(default_paths()) == pflow_home / "config" / "mcp-servers.toml"
    assert locations.tool_folder(default_paths()) == pflow_home / "data" / "servers"


def test_a_projects_file_lies_in_the_folder_asked_for_or_the_current_one(pflow_home, tmp_path):
    paths = default_paths()
    assert locations.project_file(paths) == Path(".mcp.json")
    assert locations.project_file(attrs.evolve(paths, project=tmp_path)) == tmp_path / ".mcp.json"
    assert locations.approvals_file(paths) == pflow_home / "data" / "approvals.json"


def test_the_schema_for_editors_is_shipped():
    assert locations.SCHEMA_FILE.is_file()
