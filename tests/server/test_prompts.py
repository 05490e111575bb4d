"""The prompt that pflow serves."""

from __future__ import annotations

import re

import pytest
from conversations import MODES, talk
from mcp.shared.exceptions import MCPError

from pflow_mcp_plugin.server.offer import ALL_TOOLS, Offer
from pflow_mcp_plugin.server.pflow_server import build_server


@pytest.fixture
def server(pflow_host):
    offer = Offer(pflow_host.host)
    return build_server(pflow_host.host, offer.tools, offer.options())


@pytest.mark.parametrize("mode", MODES)
def test_the_prompt_walks_an_agent_from_discovery_to_a_saved_workflow(server, mode):
    async def conversation(client):
        (prompt,) = (await client.list_prompts()).prompts
        assert [(each.name, each.required) for each in prompt.arguments] == [("task", True)]
        return await client.get_prompt(prompt.name, {"task": "Count the {words} of ${a} file"})

    (message,) = talk(server, conversation, mode).messages
    assert message.role == "user"
    assert "Count the {words} of ${a} file" in message.content.text
    steps = ["workflow_discover", "registry_run", "workflow_validate", "workflow_execute", "workflow_save"]
    places = [message.content.text.index(step) for step in steps[:1] + steps[1:3]]
    assert places == sorted(places)
    named = set(re.findall(r"(?:workflow|registry|trace)_\w+", message.content.text))
    assert {*steps} <= named <= {tool.name for tool in ALL_TOOLS}


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("build-workflow", {}, "task is missing"),
        ("build-workflow", {"task": "  "}, "task is missing"),
        ("build-workflow", {"task": "x" * 10_001}, "at most 10,000"),
        ("other", {"task": "x"}, "There is no prompt other"),
    ],
)
def test_a_wrong_request_is_an_error_of_the_protocol(server, name, arguments, said):
    async def conversation(client):
        with pytest.raises(MCPError, match=said):
            await client.get_prompt(name, arguments)

    talk(server, conversation)
