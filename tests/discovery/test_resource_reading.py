"""The node that reads the resources of a server stands beside its tools, and takes no tool's name."""

import pytest

from pflow_mcp_plugin.catalog.tool_catalog import Catalog
from pflow_mcp_plugin.catalog.tool_file import READ_RESOURCE
from pflow_mcp_plugin.exchange import Listing
from pflow_mcp_plugin.types import ServerInfo, Tool

INFO = ServerInfo(name="docs", capabilities={"resources": {}})
NODE = "mcp-docs-read-resource"


def saved(catalog, *names, server="docs", has_resources=True):
    tools = tuple(Tool(name=name) for name in names)
    catalog.save(server, Listing(info=INFO, tools=tools, has_resources=has_resources), "")
    return Catalog(catalog.folder, catalog.renames)


def nodes(catalog):
    return {record.node: record.tool.name for record in catalog.records()}


@pytest.mark.parametrize("has_resources", [True, False])
def test_a_server_that_lists_resources_has_a_node_that_reads_them(catalog, has_resources):
    other = saved(catalog, "add", has_resources=has_resources)
    expected = {"mcp-docs-add": "add"} | ({NODE: READ_RESOURCE.name} if has_resources else {})
    assert nodes(other) == expected
    assert (other.find(NODE) is not None) is has_resources
    assert (other.tool("docs", "read-resource") is not None) is has_resources
    assert ("read-resource" in other.tool_names("docs", "read")) is has_resources
    assert [tool.name for tool in other.file("docs").tools] == ["add"]
    assert other.resource_reader("docs").tool is READ_RESOURCE  # a result may link to one that is not listed


@pytest.mark.parametrize("name", ["read-resource", "read_resource", "Read Resource!"])
def test_a_tool_of_that_name_keeps_it(catalog, name):
    other = saved(catalog, name)
    assert nodes(other) == {NODE: name}
    assert other.find(NODE).tool.method == "tools/call"
    assert other.tool("docs", name).tool.name == name
    assert other.tool_names("docs") == (name,)
    assert other.resource_reader("docs").tool.method == "resources/read"


def test_a_tool_that_is_renamed_to_it_keeps_it(tmp_path):
    catalog = Catalog(tmp_path / "servers", lambda server: {"fetch": "read_resource"})
    other = saved(catalog, "fetch")
    assert nodes(other) == {NODE: "fetch"}
    assert other.find(NODE).tool.name == "fetch"


def test_a_tool_of_another_server_that_claims_the_node_keeps_it(catalog):
    saved(catalog, "resource", server="docs-read", has_resources=False)
    other = saved(catalog, "add")
    assert nodes(other) == {"mcp-docs-add": "add", NODE: "resource"}
    assert other.find(NODE).server == "docs-read"


def test_the_file_of_an_older_version_has_no_such_node(catalog):
    saved(catalog, "add")
    path = catalog.folder / "docs.json"
    head, _, rest = path.read_bytes().partition(b"\n")
    path.write_bytes(head.replace(b'"has_resources": true, ', b"") + b"\n" + rest)
    assert nodes(Catalog(catalog.folder)) == {"mcp-docs-add": "add"}
