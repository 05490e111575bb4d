"""Where the files lie."""

from __future__ import annotations

from pflow_mcp_plugin.config import where
from pflow_mcp_plugin.storage import default_paths


def test_every_file_has_a_place_and_a_role(pflow_home):
    places = where.roles(default_paths())
    assert pflow_home / "config" / "mcp-servers.toml" in places
    assert pflow_home / "data" / "servers" in places
    assert where.SCHEMA_FILE in places
    assert where.SCHEMA_FILE.is_file()
