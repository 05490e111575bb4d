"""A workflow as a tool of a server of one's own."""

import json
import subprocess
import sys
from pathlib import Path

import anyio
import mcp_types as types
import pytest
from conversations import MODES, talk
from mcp.server import MCPServer
from mcp.server.lowlevel import Server
from workflow_parts import flow, step

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.server import as_tool

GREET = {
    "description": "Greet someone",
    "inputs": {"name": {"type": "str"}},
    "nodes": [{"id": "greet", "type": "echo", "params": {"message": "Hello"}}],
    "outputs": {"greeting": "${greet.message}, ${name}"},
}
SLOW = flow(step("first", "echo", {"message": 1}), step("wait", "shell", {"command": ["sleep", "60"]}))


def high_level(tool):
    server = MCPServer("mine", tools=[tool])

    @server.tool()
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    return server


def low_level(tool):
    async def list_tools(context, params):
        return types.ListToolsResult(tools=[tool.declaration])

    async def call_tool(context, params):
        return await tool.call(context, params)

    return Server("mine", on_list_tools=list_tools, on_call_tool=call_tool)


@pytest.fixture(params=[high_level, low_level])
def mounted(request, pflow_host):
    """Return a server with a workflow as a tool."""
    return lambda workflow, **more: request.param(as_tool(workflow, host=pflow_host.host, **more))


@pytest.mark.parametrize("mode", MODES)
def test_a_mounted_workflow_has_types_and_returns_its_outputs(mounted, mode):
    async def conversation(client):
        tool = (await client.list_tools()).tools[0]
        right = await client.call_tool("greet", {"name": "Ada"})
        wrong = await client.call_tool("greet", {"name": 3})
        return tool, right, wrong

    tool, right, wrong = talk(mounted(GREET, name="greet"), conversation, mode)
    assert tool.description == "Greet someone\n\nReturns:\n- greeting (string)"
    assert tool.input_schema["properties"] == {"name": {"type": "string"}}
    assert tool.output_schema["properties"] == {"greeting": {"type": "string"}}
    assert tool.annotations.read_only_hint
    assert (right.structured_content, right.is_error) == ({"greeting": "Hello, Ada"}, False)
    assert wrong.is_error
    assert "name must be of type string" in json.loads(wrong.content[0].text)["error"]["message"]


def test_a_saved_workflow_and_a_file_are_mounted_by_name(pflow_host, tmp_path):
    pflow_host.host.library.save("greet", GREET)
    file = tmp_path / "hello.json"
    file.write_text(json.dumps(GREET), encoding="utf-8")
    beside = tmp_path / "beside.yaml"
    beside.write_text("nodes: [{id: a, type: workflow, params: {workflow: ./hello.json, name: Ada}}]\n")
    host = pflow_host.host
    tools = [
        as_tool("greet", host=host),
        as_tool(file, host=host),
        as_tool(str(file), name="hi", description="Say hi", host=host),
        as_tool(beside, host=host),
    ]
    assert [tool.name for tool in tools] == ["greet", "hello", "hi", "beside"]
    assert [tool.declaration.description.splitlines()[0] for tool in tools[:3]] == [
        "Greet someone",
        "Greet someone",
        "Say hi",
    ]


@pytest.mark.parametrize(
    ("workflow", "name", "kind"),
    [
        ("no-such", "", "not_found"),
        (Path("no/such.json"), "", "not_found"),
        (GREET, "", "usage"),
        (GREET, "two words", "usage"),
        ({"nodes": [{"id": "x", "type": "no-such-node"}]}, "x", "validation"),
        ({}, "x", "validation"),
    ],
)
def test_what_cannot_be_mounted_is_refused_at_once(pflow_host, workflow, name, kind):
    with pytest.raises(PflowError) as caught:
        as_tool(workflow, name=name, host=pflow_host.host)
    assert caught.value.kind == kind


def test_progress_is_reported_and_a_cancelled_call_ends_the_run(mounted, pflow_host):
    async def conversation(client):
        began = anyio.Event()

        async def progressed(progress, total, message):
            if "wait" in (message or ""):
                began.set()

        async with anyio.create_task_group() as group:
            group.start_soon(lambda: client.call_tool("slow", {}, progress_callback=progressed))
            await began.wait()
            group.cancel_scope.cancel()

    talk(mounted(SLOW, name="slow"), conversation)
    paths = pflow_host.host.traces.paths()
    assert pflow_host.host.traces.read(paths[0])["error"]["type"] == "interrupted"


def test_without_a_host_the_installed_one_is_opened(pflow_home, pflow, tmp_path):
    file = tmp_path / "greet.json"
    file.write_text(json.dumps(GREET), encoding="utf-8")
    assert pflow("workflow", "save", file, "--name", "greet").exit_code == 0
    program = (
        "import anyio\n"
        "from mcp import Client\n"
        "from mcp.server import MCPServer\n"
        "from pflow_mcp_plugin.server import as_tool\n"
        "async def main():\n"
        "    async with Client(MCPServer('mine', tools=[as_tool('greet')])) as client:\n"
        "        print((await client.call_tool('greet', {'name': 'Ada'})).structured_content)\n"
        "anyio.run(main)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("{'greeting': 'Hello, Ada'}\n", 0), done.stderr
