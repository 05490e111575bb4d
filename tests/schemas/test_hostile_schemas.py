"""Whatever a schema holds, its tool is registered, its arguments are checked, and nothing crashes."""

import ast
import json
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic

import pytest
from hostile import ARGUMENTS, JUNK, KEYWORDS, ODD, SCHEMAS, one_by_one
from hypothesis import given
from hypothesis import strategies as st

from pflow_mcp_plugin.catalog.tool_catalog import Catalog
from pflow_mcp_plugin.config.server_store import ServerStore
from pflow_mcp_plugin.errors import McpError, Where
from pflow_mcp_plugin.exchange import Listing
from pflow_mcp_plugin.registration import class_signature
from pflow_mcp_plugin.registration.class_signature import stub
from pflow_mcp_plugin.registration.tool_source import ToolSource
from pflow_mcp_plugin.schemas.argument_validation import Validator
from pflow_mcp_plugin.types import ServerInfo, Tool

SCALARS = st.sampled_from([value for value in ODD if not isinstance(value, list | dict)])
VALUES = st.recursive(
    SCALARS | st.floats() | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner)
        | st.dictionaries(st.sampled_from(["a", "b", 1, None, (1,)]), inner, max_size=3)
    ),
    max_leaves=8,
)


def checked(schema, *several):
    validator = Validator(schema, Where(server="s", tool="t"))
    for arguments in several:
        started = monotonic()
        with suppress(McpError):
            validator.error(validator.violations(arguments))
            validator.without_unset(arguments)
        assert monotonic() - started < 10


def registered(folder, tools):
    """Sync tools twice, the second time with each other's schemas, and look at their entries."""
    store, catalog = ServerStore(folder / "mcp-servers.toml"), Catalog(folder / "servers")
    store.add({"s": {"command": "x"}})
    schemas = reversed([tool.input_schema for tool in tools])
    turned = [Tool(name=tool.name, input_schema=schema) for tool, schema in zip(tools, schemas, strict=True)]
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


@pytest.mark.slow
@pytest.mark.parametrize("keyword", KEYWORDS)
def test_each_keyword_may_hold_anything(tmp_path, keyword):
    schemas = list(one_by_one(keyword))
    for schema in schemas:
        checked(schema, *ARGUMENTS)
    registered(
        tmp_path,
        [
            Tool(name=f"t{number}", input_schema=schema, output_schema=schema)
            for number, schema in enumerate(schemas)
        ],
    )
    kept = Catalog(tmp_path / "servers").file("s").tools
    assert [json.dumps(tool.input_schema) for tool in kept] == [json.dumps(schema) for schema in schemas]


@given(SCHEMAS, JUNK, VALUES)
def test_any_schema_and_any_arguments_will_do(schema, other, arguments):
    checked(schema, arguments)
    tools = [
        Tool(name="a", input_schema=schema, output_schema=other if isinstance(other, dict) else None),
        Tool(name="b", input_schema={"properties": {"x": other}}),
    ]
    with TemporaryDirectory() as folder:
        registered(Path(folder), tools)


def test_what_is_nested_without_end_is_refused():
    value = []
    value.append(value)
    deep = None
    for _ in range(100_000):
        deep = [deep]
    for endless in (value, deep):
        (found,) = Validator({}, Where()).violations({"a": endless})
        assert found.expected == "a JSON value"
