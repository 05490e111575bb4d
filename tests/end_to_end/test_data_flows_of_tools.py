"""Data flows between tools of real servers, as the program shows and denies them."""

import asyncio
import json
from pathlib import Path

import pytest
from programs import script_server
from served_pflow import serving

SERVER = Path(__file__).with_name("scripted_tools.py")
READS = {"readOnlyHint": True}
CLOSED = {"openWorldHint": False}


@pytest.fixture
def servers(configured, tmp_path):
    """Sync three servers: one that reads the web, one that reads files, one that posts; return its log."""
    text = {"type": "object", "properties": {"text": {"type": "string"}}}
    for server, tool, hints in (
        ("web", "fetch", {**READS, "openWorldHint": True}),
        ("files", "count", {**READS, **CLOSED}),
        ("slack", "post", {}),
    ):
        tools = json.dumps([{"name": tool, "inputSchema": text, "annotations": hints}])
        env = {"TOOLS": tools, "LOG": str(tmp_path / "log"), "ANSWER": "text", "TEXT": "words"}
        configured(server, script_server(SERVER, env=env))
    (tmp_path / "log").unlink()
    return tmp_path / "log"


@pytest.fixture
def post(workflow):
    return workflow(
        ("get", "mcp-web-fetch", {"text": "https://example.com"}),
        ("sum", "mcp-files-count", {"text": "${get.result}"}),
        ("say", "mcp-slack-post", {"text": "It says ${sum.result}"}),
    )


@pytest.fixture
def policy(pflow_home):
    def write(*rules: tuple[str, str]) -> None:
        rows = ", ".join(f'{{ from = "{begin}", to = "{end}" }}' for begin, end in rules)
        (pflow_home / "config" / "pflow.toml").write_text(f"[flows]\ndeny = [{rows}]\n")

    return write


def test_a_denied_flow_is_refused_wherever_a_workflow_starts(
    pflow, python, servers, post, policy, tmp_path, pflow_home
):
    policy(("untrusted_output", "write-file"), ("inputs", "*"))
    assert pflow("run", post, "--no-trace").exit_code == 0
    exported = tmp_path / "exported.py"
    assert pflow("workflow", "export-python", str(post), "--output", str(exported)).exit_code == 0
    servers.unlink()
    policy(("untrusted_output", "destructive"))
    chain = ("mcp-web-fetch", "--text", "x", "then", "mcp-slack-post")
    program = ("workflow", "export-python", post)
    for words in (("run", post), ("validate", post), ("validate", "--flows", post), chain, program):
        refused = pflow(*map(str, words))
        assert refused.exit_code == 2, words
        assert "flows.deny[0] of pflow.toml denies this data flow" in refused.stderr
    refused = pflow("validate", "--flows", post, "--json").envelope["error"]
    (flow,) = refused["details"]["flows"]
    assert [it["node"] for it in flow["path"]] == ["get", "sum", "say"]
    assert flow["denied_by"] == "flows.deny[0]"
    ended = python(exported)
    assert ended.exit_code == 2
    assert "denies this data flow" in ended.stderr

    async def execute():
        arguments = {"workflow": json.loads(post.read_text())}
        with serving("stdio", pflow_home, tmp_path) as served:
            async with served.client() as client:
                for name in ("workflow_execute", "workflow_validate"):
                    result = await client.call_tool(name, arguments)
                    assert "denies this data flow" in json.dumps(result.structured_content)

    asyncio.run(execute())
    assert not servers.exists()


def test_config_check_warns_about_a_rule_that_matches_nothing(pflow, servers, policy, pflow_home):
    policy(("inputs", "mcp-slack-*"), ("mcp-wep-*", "destructive"))
    checked = pflow("config", "check")
    assert checked.exit_code == 0
    assert "flows.deny[1].from: mcp-wep-* matches no node type" in checked.stdout
    assert "flows.deny[0]" not in checked.stdout
    assert str(pflow_home / "config" / "pflow.toml") in pflow("config", "path").stdout
