"""What the options of `pflow mcp serve` choose."""

from __future__ import annotations

from contextlib import suppress

import pytest
from conversations import talk
from mcp.shared.exceptions import MCPError

from pflow_mcp_plugin.contract import PflowError
from pflow_mcp_plugin.server.offer import ALL_TOOLS, Offer
from pflow_mcp_plugin.server.pflow_server import build_server

READS = {"nodes": [{"id": "say", "type": "echo", "params": {"message": "hello"}}]}
WRITES = {"nodes": [{"id": "run", "type": "shell", "params": {"command": ["true"]}}]}


@pytest.fixture
def names(pflow_host):
    """Return the names of the tools on offer."""
    pflow_host.host.library.save("daily-mail", WRITES)
    pflow_host.host.library.save("daily-report", READS)
    pflow_host.host.library.save("weekly", READS)

    def names(*patterns, **options):
        return [tool.name for tool in Offer(pflow_host.host, patterns, **options).tools()]

    return names


def test_workflows_are_served_when_they_are_asked_for_and_patterns_and_read_only_apply_to_them(names):
    own = [tool.name for tool in ALL_TOOLS]
    assert names() == own
    assert names(workflows=["*"]) == [*own, "daily-mail", "daily-report", "weekly"]
    assert names(workflows=["week*", "daily-mail"]) == [*own, "daily-mail", "weekly"]
    assert names("daily-*", "trace_read", workflows=["*"]) == ["trace_read", "daily-mail", "daily-report"]
    safe = names(workflows=["*"], read_only=True)
    assert ("daily-report" in safe, "weekly" in safe, "daily-mail" in safe) == (True, True, False)


@pytest.mark.parametrize(
    ("patterns", "read_only"), [((), False), ((), True), (("registry_*",), False), (("settings_get",), False)]
)
def test_what_agents_are_told_names_only_tools_that_are_served(pflow_host, patterns, read_only):
    offer = Offer(pflow_host.host, patterns, read_only=read_only)
    served = {tool.name for tool in offer.tools()}
    lacking = [tool.name for tool in ALL_TOOLS if tool.name not in served]

    async def conversation(client):
        texts = [client.instructions, *(tool.description for tool in (await client.list_tools()).tools)]
        (guide,) = (await client.read_resource("pflow://guide")).contents
        prompts = client.server_capabilities.prompts and (await client.list_prompts()).prompts
        return " ".join(texts), guide.text.partition("\n")[0], prompts

    server = build_server(pflow_host.host, offer.tools, offer.options())
    told, begin, prompts = talk(server, conversation, "legacy")
    assert [name for name in lacking if name in told] == []
    assert told.startswith("pflow runs workflows")
    assert begin == (
        f"This server does not serve {', '.join(lacking)}." if lacking else "# Working with pflow"
    )
    assert bool(prompts) == (not lacking)


def test_a_pattern_without_a_tool_is_refused_unless_a_workflow_may_have_the_name_later(names, pflow_host):
    with pytest.raises(PflowError, match="no tool later"):
        names("later")
    offer = Offer(pflow_host.host, ["later"], workflows=["*"])
    assert offer.tools() == ()
    pflow_host.host.library.save("later", READS)
    assert [tool.name for tool in offer.tools()] == ["later"]


def test_workflows_and_traces_are_resources_only_where_a_tool_gives_them(names, pflow_host):
    pflow_host.host.runner.run(READS, {})

    def prefixes(*patterns):
        offer = Offer(pflow_host.host, patterns)

        async def conversation(client):
            listed = [str(it.uri) for it in (await client.list_resources()).resources]
            read = []
            for uri in ("pflow://workflows/weekly", "pflow://traces/latest"):
                with suppress(MCPError):
                    await client.read_resource(uri)
                    read.append(uri)
            templates = [
                it.uri_template for it in (await client.list_resource_templates()).resource_templates
            ]
            return [{uri.split("/")[2] for uri in uris} for uris in (listed, read, templates)]

        return talk(build_server(pflow_host.host, offer.tools, offer.options()), conversation, "legacy")

    always = {"guide", "schema"}
    assert prefixes("workflow_validate") == [always, set(), set()]
    assert prefixes("workflow_list") == [always | {"workflows"}, {"workflows"}, {"workflows"}]
    assert prefixes("trace_read") == [always | {"traces"}, {"traces"}, {"traces"}]
