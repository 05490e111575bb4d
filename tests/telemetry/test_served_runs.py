"""A request with a `traceparent`, the run that it asks for, and the servers that the run calls: one trace."""

from __future__ import annotations

import os
import sys

import anyio
import pytest

pytest.importorskip("mcp")
from mcp import Client, StdioServerParameters

pytestmark = pytest.mark.programs

TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"
META = {"traceparent": f"00-{TRACE}-{SPAN}-01", "tracestate": "vendor=kept"}
NODES = [{"id": "a", "type": "mcp-near-meta"}, {"id": "b", "type": "mcp-far-meta"}]
WORKFLOW = {
    "nodes": NODES,
    "edges": [{"from": "a", "to": "b"}],
    "outputs": {"near": {"source": "${a.meta}"}, "far": {"source": "${b.meta}"}},
}


async def asked(home, mode, variables, meta):
    """Return what pflow, served over stdio, answers to the request to run the workflow."""
    command = ["-P", "-m", "pflow_mcp_plugin", "mcp", "serve"]
    environment = {**os.environ, "PFLOW_HOME": str(home), **variables}
    program = StdioServerParameters(command=sys.executable, args=command, env=environment)
    async with Client(program, mode=mode) as client:
        arguments = {"workflow": WORKFLOW}
        return await client.call_tool("workflow_execute", arguments, meta=meta)


@pytest.fixture
def ask(servers, pflow_home):
    def ask(mode="auto", variables=None, meta=META):
        answer = anyio.run(asked, pflow_home, mode, variables or {}, meta)
        assert not answer.is_error, answer
        return answer.structured_content["data"]["outputs"]

    return ask


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_trace_of_a_request_goes_through_the_run_to_every_server(ask, collector, mode):
    outputs = ask(mode, collector.environment)
    request = collector.one("tools/call workflow_execute")
    assert request.parent_span_id.hex() == SPAN
    (run,) = (span for span in collector.spans if span.name.startswith("pflow.run"))
    assert collector.above(run) == request
    calls = collector.named("tools/call meta")
    assert [collector.above(call) for call in calls] == [run, run]
    sent = collector.named("MCP send tools/call meta")
    assert [collector.above(span) for span in sent] == calls
    assert {span.trace_id.hex() for span in (request, run, *calls, *sent)} == {TRACE}
    for name, span in zip(("near", "far"), sent, strict=True):
        assert outputs[name]["traceparent"].startswith(f"00-{TRACE}-{span.span_id.hex()}-")
        assert outputs[name]["tracestate"] == "vendor=kept"


def test_the_baggage_of_a_request_is_not_passed_on(ask, collector):
    outputs = ask(variables=collector.environment, meta={**META, "baggage": "user=ada"})
    assert outputs["near"]["traceparent"].startswith(f"00-{TRACE}-")
    assert "baggage" not in outputs["near"]
    assert "baggage" not in outputs["far"]


def test_without_opentelemetry_nothing_is_passed_on(ask):
    for said in ask().values():
        assert not {"traceparent", "tracestate", "baggage"} & set(said)
