"""Every tool of the reference server gives through pflow's client what it gives to the bare SDK."""

import asyncio
import json
import re
from base64 import b64encode

import pytest
from mcp import Client, StdioServerParameters

from pflow_mcp_plugin.client import Pool
from pflow_mcp_plugin.exchange import Launch, ToolCall
from pflow_mcp_plugin.types import Server

pytestmark = [pytest.mark.servers, pytest.mark.slow]

DATA_URL = f"data:text/plain;base64,{b64encode(b'hello').decode()}"
CALLS = [
    ("echo", {"message": 'grüße "你好"'}),
    ("get-annotated-message", {"messageType": "success", "includeImage": True}),
    ("get-annotated-message", {"messageType": "error"}),
    ("get-resource-links", {"count": 3}),
    ("get-resource-reference", {"resourceType": "Text", "resourceId": 1}),
    ("get-structured-content", {"location": "New York"}),
    ("get-sum", {"a": 2, "b": 40.5}),
    ("get-tiny-image", {}),
    ("gzip-file-as-resource", {"name": "a.gz", "data": DATA_URL, "outputType": "resource"}),
    ("gzip-file-as-resource", {"name": "a.gz", "data": DATA_URL, "outputType": "resourceLink"}),
    ("toggle-simulated-logging", {}),
    ("toggle-subscriber-updates", {}),
    ("trigger-long-running-operation", {"duration": 0.2, "steps": 2}),
]
NOT_CALLED = {"simulate-research-query", "get-env"}
"""One asks for tasks, which a plain call cannot give; the SDK passes other variables to the other."""
CHANGING = re.compile(r"\d+:\d\d:\d\d [AP]M")
"""What differs between two calls: the time that a resource shows."""


def bare(command):
    """Return the names of a server's tools, and what the bare SDK gets for each call."""

    async def ask():
        async with Client(StdioServerParameters(command=command[0], args=command[1:])) as client:
            names = {tool.name for tool in (await client.list_tools()).tools}
            results = [await client.call_tool(name, arguments) for name, arguments in CALLS]
            return names, [it.model_dump(mode="json", by_alias=True, exclude_none=True) for it in results]

    return asyncio.run(ask())


def steady(content):
    return json.loads(CHANGING.sub("", json.dumps(content)))


def test_the_reference_server_with_all_its_tools(everything_command, no_leftovers):
    names, expected = bare(everything_command)
    assert names == {name for name, _ in CALLS} | NOT_CALLED
    program, *arguments = everything_command
    launch = Launch(server=Server(name="real", command=program, args=tuple(arguments)))
    with Pool(pytest.fail) as pool:
        found = [
            pool.call(launch, ToolCall(server="real", tool=name, arguments=given)) for name, given in CALLS
        ]
    for call, ours, theirs in zip(CALLS, found, expected, strict=True):
        assert steady(ours.content) == steady(theirs["content"]), call
        assert ours.structured == theirs.get("structuredContent"), call
        assert ours.is_error == theirs.get("isError", False), call
