"""Every tool of the reference server gives through pflow what it gives to the bare SDK, content included."""

from __future__ import annotations

import asyncio
import json
import re
from base64 import b64decode, b64encode
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from pflow_mcp_plugin.calls import session
from pflow_mcp_plugin.contract import PflowError

pytestmark = [pytest.mark.servers, pytest.mark.slow]

DATA_URL = f"data:text/plain;base64,{b64encode(b'hello').decode()}"
EVERYTHING = [
    ("echo", {"message": 'grüße "你好"'}),
    ("get-annotated-message", {"messageType": "success", "includeImage": True}),
    ("get-annotated-message", {"messageType": "error"}),
    ("get-env", {}),
    ("get-resource-links", {"count": 3}),
    ("get-resource-reference", {"resourceType": "Text", "resourceId": 1}),
    ("get-resource-reference", {"resourceType": "Blob", "resourceId": 2}),
    ("get-structured-content", {"location": "New York"}),
    ("get-sum", {"a": 2, "b": 40.5}),
    ("get-tiny-image", {}),
    ("gzip-file-as-resource", {"name": "a.gz", "data": DATA_URL, "outputType": "resource"}),
    ("gzip-file-as-resource", {"name": "a.gz", "data": DATA_URL, "outputType": "resourceLink"}),
    ("toggle-simulated-logging", {}),
    ("toggle-subscriber-updates", {}),
    ("trigger-long-running-operation", {"duration": 0.2, "steps": 2}),
]
NOT_CALLED = {"simulate-research-query"}
"""It asks for tasks, which a plain call cannot give."""
CHANGING = re.compile(r"\d+:\d\d:\d\d [AP]M")
"""What differs between two calls: the time that a resource shows."""


def bare(command, calls):
    """Return the names of a server's tools, and what the bare SDK gets for each call."""

    async def ask() -> tuple[set[str], list[dict[str, Any]]]:
        async with Client(StdioServerParameters(command=command[0], args=command[1:])) as client:
            names = {tool.name for tool in (await client.list_tools()).tools}
            results = [await client.call_tool(name, arguments) for name, arguments in calls]
            return names, [it.model_dump(mode="json", by_alias=True, exclude_none=True) for it in results]

    return asyncio.run(ask())


def through_pflow(pflow, command, calls):
    """Return the result of each call, or the failure that the tool reports."""
    added = pflow("mcp", "add", "--sync", "real", "--", *command)
    assert added.exit_code == 0, added.stderr
    found = []
    with session() as tools:
        for name, arguments in calls:
            try:
                found.append(tools.call_result("real", name, **arguments))
            except PflowError as error:
                found.append(error)
    return found


def same(ours, block):
    """Return whether one of our blocks is what the SDK has for it."""
    match block["type"]:
        case "text":
            words = block["text"]
            return steady(ours) in (steady(words), steady(parsed(words)))
        case "image" | "audio":
            return is_file_of(ours, block["data"], block["mimeType"])
        case "resource" if "blob" in block["resource"]:
            resource = block["resource"]
            return ours["uri"] == resource["uri"] and is_file_of(ours, resource["blob"], resource["mimeType"])
        case "resource":
            return steady(ours) == steady(block["resource"])
    return ours == block


def is_file_of(ours, data, mime_type):
    found, expected = (it.decode("latin-1") for it in (Path(ours["path"]).read_bytes(), b64decode(data)))
    return ours["mimeType"] == mime_type and steady(found) == steady(expected)


def parsed(words):
    try:
        value = json.loads(words)
    except ValueError:
        return words
    return value if isinstance(value, dict | list) else words


def steady(value):
    return CHANGING.sub("", value if isinstance(value, str) else json.dumps(value))


def compare(call, ours, theirs):
    content = theirs["content"]
    if theirs.get("isError"):
        assert isinstance(ours, PflowError), call
        assert ours.message.strip() == "\n".join(block["text"].strip() for block in content), call
        return
    assert not isinstance(ours, PflowError), (call, ours)
    if "structuredContent" in theirs:
        structured = theirs["structuredContent"]
        assert steady(ours.value) == steady(structured), call
        assert {key: steady(ours.natural[key]) for key in structured} == {
            key: steady(value) for key, value in structured.items()
        }
        content = [it for it in content if not is_repeated(it, structured)]
        assert len(ours.content_blocks) == len(content), call
        assert all(map(same, ours.content_blocks, content)), call
        return
    if call == ("get-env", {}):  # the SDK and pflow pass on different variables
        assert ours.value["PATH"] == parsed(content[0]["text"])["PATH"]
        return
    value = [ours.value] if len(content) == 1 else ours.value
    assert len(value) == len(content), call
    assert all(map(same, value, content)), call


def is_repeated(block, structured):
    said = block.get("text")
    return block["type"] == "text" and (said in structured.values() or parsed(said) == structured)


def test_the_reference_server_with_all_its_tools(pflow, everything_command, no_leftovers):
    names, theirs = bare(everything_command, EVERYTHING)
    assert names == {name for name, _ in EVERYTHING} | NOT_CALLED
    found = through_pflow(pflow, everything_command, EVERYTHING)
    for call, ours, expected in zip(EVERYTHING, found, theirs, strict=True):
        compare(call, ours, expected)
