"""What the results of tools link to is read, in workflows and from Python, in both eras of the protocol."""

import json
from pathlib import Path

import pytest
from programs import script_server

from pflow_mcp_plugin.calls import read_resource, session
from pflow_mcp_plugin.contract import PflowError

pytestmark = [pytest.mark.programs, pytest.mark.usefixtures("no_leftovers")]

SERVER = """
import os
from mcp.server import MCPServer
from mcp_types import ResourceLink

server = MCPServer("docs")

@server.resource("docs://note", mime_type="text/plain")
def note() -> str:
    return os.environ.get("KEY", "a note")

@server.resource("docs://page/{number}", mime_type="application/octet-stream")
def page(number: str) -> bytes:
    return bytes([int(number)]) * 5

@server.resource("docs://broken")
def broken() -> str:
    raise RuntimeError("it is torn")

@server.tool(structured_output=False)
def find(words: str) -> ResourceLink:
    return ResourceLink(type="resource_link", uri="docs://page/7", name=words)

server.run("stdio")
"""


@pytest.fixture(params=["handshake", "2026-07-28"])
def docs(request, configured, homes):
    program = homes / "docs.py"
    program.write_text(SERVER, encoding="utf-8")
    configured("docs", script_server(program, protocol=request.param))


@pytest.mark.parametrize("docs", ["handshake"], indirect=True)
def test_a_workflow_follows_the_link_in_a_result(docs, pflow, workflow):
    path = workflow(
        ("find", "mcp-docs-find", {"words": "seven"}),
        ("page", "mcp-docs-read-resource", {"uri": "${find.result.uri}"}),
        ("note", "mcp-docs-read-resource", {"uri": "docs://note"}),
        outputs={"link": "${find.result}", "page": "${page.result}", "note": "${note.result.text}"},
    )
    ran = pflow("run", path, "--json")
    assert ran.exit_code == 0, ran.stderr
    outputs = ran.envelope["data"]["outputs"]
    assert (outputs["link"]["uri"], outputs["link"]["name"]) == ("docs://page/7", "seven")
    assert outputs["note"] == "a note"
    assert Path(outputs["page"]["path"]).read_bytes() == b"\x07" * 5
    trace = json.loads(pflow("trace", "show", "--json").stdout)["data"]
    steps = {step["id"]: step.get("details", {}) for step in trace["steps"]}
    assert steps["find"]["resource_links"] == ["docs://page/7"]
    assert "resource_links" not in steps["page"]


def test_python_reads_resources_beside_calls_and_what_it_cannot_read_is_an_error_of_the_server(docs):
    assert read_resource("docs", "docs://note")["text"] == "a note"
    with session() as tools:
        link = tools.call("docs", "find", words="x")
        assert tools.read_resource("docs", link["uri"])["size"] == 5
        for uri in ("docs://none", "docs://broken"):
            with pytest.raises(PflowError, match="server docs"):
                tools.read_resource("docs", uri)


@pytest.mark.servers
def test_the_links_of_the_reference_server_are_followed_and_its_task_is_refused(
    pflow, everything_command, workflow, tmp_path
):
    assert pflow("mcp", "add", "all", "--", *everything_command).exit_code == 0
    [synced] = pflow("mcp", "sync", "all", "--json").envelope["data"]
    assert [note for note in synced["notes"] if "simulate-research-query" in note and "task" in note]
    path = workflow(
        ("links", "mcp-all-get-resource-links", {"count": 2}),
        ("read", "mcp-all-read-resource", {"uri": "${links.result[2].uri}"}),
        outputs={"text": "${read.result.text}", "type": "${links.result[1].type}"},
    )
    ran = pflow("run", path, "--json")
    assert ran.exit_code == 0, ran.stderr
    assert ran.envelope["data"]["outputs"]["type"] == "resource_link"
    assert "Resource 2" in ran.envelope["data"]["outputs"]["text"]
    before = tmp_path / "before.txt"
    path = workflow(
        ("before", "write-file", {"file_path": str(before), "content": "x"}),
        ("task", "mcp-all-simulate-research-query", {"topic": "x"}),
    )
    for command in ("validate", "run"):
        refused = pflow(command, path)
        assert refused.exit_code == 2
        assert "simulate-research-query of server all runs as a task only" in refused.stderr
    assert not before.exists()
