"""The tools of 70 real servers, from their lists to registry entries: nothing of them is lost."""

import ast
import asyncio
import json
import sys
from pathlib import Path

import livemcpbench
import pytest

from pflow_mcp_plugin.catalog.tool_catalog import Catalog
from pflow_mcp_plugin.client import Pool
from pflow_mcp_plugin.client.tool_lists import ToolPages
from pflow_mcp_plugin.config.server_store import ServerStore
from pflow_mcp_plugin.discovery.servers import Servers
from pflow_mcp_plugin.discovery.tool_sync import sync
from pflow_mcp_plugin.exchange import Launch, Listing
from pflow_mcp_plugin.registration.class_signature import node_type, stub
from pflow_mcp_plugin.registration.tool_entry import interface
from pflow_mcp_plugin.registration.tool_source import ToolSource
from pflow_mcp_plugin.types import Server, ServerInfo, Tool

SERVERS = livemcpbench.servers()
LISTED = {(server.name, tool["name"]): tool for server in SERVERS for tool in server.tools}


class Answers:
    def list_tools(self, launch):
        (tools,) = (server.tools for server in SERVERS if server.name == launch.server.name)
        pages = ToolPages()

        async def request(_cursor):
            return None, {"tools": tools}

        asyncio.run(pages.collect(request))
        listed, doubled = pages.tools()
        return Listing(info=ServerInfo(version="1"), tools=listed, skipped=tuple(doubled))


@pytest.fixture(scope="module")
def synced(tmp_path_factory):
    """The folder that a sync of all of them leaves, and what the sync said."""
    folder = tmp_path_factory.mktemp("real")
    store, catalog = ServerStore(folder / "mcp-servers.toml"), Catalog(folder / "servers")
    store.add({server.name: server.config for server in SERVERS})
    known = Servers(store=store, catalog=catalog, pin_folder=folder / "pins")
    return folder, sync(store.names(), known, Answers().list_tools, {}.get)


@pytest.fixture
def folder(synced):
    return synced[0]


@pytest.fixture
def catalog(folder):
    return Catalog(folder / "servers")


@pytest.fixture
def source(folder, catalog):
    return ToolSource(catalog, ServerStore(folder / "mcp-servers.toml"))


def text(value):
    return json.dumps(value)


def test_every_tool_is_taken_without_a_word_against_it(synced, source):
    assert (len(SERVERS), len(LISTED)) == (70, 527)
    _, results = synced
    assert not [result for result in results if result.error or result.skipped or result.notes]
    assert sum(result.tools_registered for result in results) == 527
    assert list(source.clashes(SERVERS)) == []


def test_every_tool_is_a_class_of_its_own_in_a_stub_that_is_python(source):
    entries = list(source.entries())
    written = stub(entries)
    compile(written, "nodes.pyi", "exec")
    made = [item.name for item in ast.parse(written).body if isinstance(item, ast.ClassDef)]
    assert [node_type(name) for name in made[1:]] == sorted(entry.node for entry in entries)


def test_every_argument_with_a_type_has_a_friendly_one():
    for listed in LISTED.values():
        found = interface(Tool(name=listed["name"], input_schema=listed["inputSchema"]))
        assert [field.key for field in found.params if field.type == "any" and field.schema.get("type")] == []


def test_their_schemas_come_through_a_real_connection_as_they_were_sent(tmp_path):
    sent = [
        {**tool, "name": f"{server}.{name}", "annotations": {}} for (server, name), tool in LISTED.items()
    ]
    file = tmp_path / "tools.json"
    file.write_text(json.dumps(sent))
    script = Path(__file__).parents[1] / "client" / "scripted.py"
    server = Server(
        name="all",
        command=sys.executable,
        args=(str(script), ""),
        env={"AT_START": f"state['tools'] = json.load(open({str(file)!r}))"},
        list_timeout=60,
    )
    with Pool(pytest.fail) as pool:
        listing = pool.list_tools(Launch(server=server))
    assert listing.skipped == ()
    assert [tool.name for tool in listing.tools] == [tool["name"] for tool in sent]
    for tool, raw in zip(listing.tools, sent, strict=True):
        assert text(tool.input_schema) == text(raw["inputSchema"])
