import ast
import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hostile import JUNK, KEYWORDS, SCHEMAS, one_by_one
from hypothesis import given

from pflow_mcp_plugin.catalog.tool_catalog import Catalog
from pflow_mcp_plugin.config.server_store import ServerStore
from pflow_mcp_plugin.exchange import Listing
from pflow_mcp_plugin.registration import class_signature
from pflow_mcp_plugin.registration.class_signature import stub
from pflow_mcp_plugin.registration.tool_source import ToolSource
from pflow_mcp_plugin.types import ServerInfo, Tool

pytestmark = pytest.mark.slow


def registered(folder, tools):
    """Sync tools twice, the second time with each other's schemas, and look at their entries."""
    store, catalog = ServerStore(folder / "mcp-servers.toml"), Catalog(folder / "servers")
    store.add({"s": {"command": "x"}})
    schemas = [tool.input_schema for tool in tools]
    turned = [
        Tool(name=tool.name, input_schema=schema)
        for tool, schema in zip(tools, reversed(schemas), strict=True)
    ]
    for listed in (turned, tools):
        catalog.save("s", Listing(info=ServerInfo(), tools=tuple(listed)), "")
    source = ToolSource(Catalog(folder / "servers"), store)
    entries = list(source.entries())
    for entry in entries:
        assert source.get(entry.node).node == entry.node
        json.dumps(entry.to_dict())
        assert "Interface:" in class_signature.docstring(entry)
    ast.parse(stub(entries).encode())
    assert len(list(source.sketches())) == len(entries) == len(tools)
    return source


@pytest.mark.parametrize("keyword", KEYWORDS)
def test_each_keyword_may_hold_anything(tmp_path, keyword):
    schemas = list(one_by_one(keyword))
    registered(
        tmp_path,
        [
            Tool(name=f"t{number}", input_schema=schema, output_schema=schema)
            for number, schema in enumerate(schemas)
        ],
    )
    kept = Catalog(tmp_path / "servers").file("s").tools
    assert [json.dumps(tool.input_schema) for tool in kept] == [json.dumps(schema) for schema in schemas]


@given(SCHEMAS, JUNK)
def test_any_schema_will_do(schema, other):
    tools = [
        Tool(name="a", input_schema=schema, output_schema=other if isinstance(other, dict) else None),
        Tool(name="b", input_schema={"properties": {"x": other}}),
    ]
    with TemporaryDirectory() as folder:
        registered(Path(folder), tools)
