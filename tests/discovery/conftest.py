import pytest

from pflow_mcp_plugin.catalog.tool_catalog import Catalog


@pytest.fixture
def catalog(tmp_path):
    return Catalog(tmp_path / "servers")
