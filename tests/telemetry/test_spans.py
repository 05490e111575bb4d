"""The spans of runs and calls, as real programs send them to a collector."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from contextvars import ContextVar
from pathlib import Path

import pytest

from pflow_mcp_plugin.telemetry.spans import carried_context

IN_A_SPAN = """
import sys
from types import SimpleNamespace
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from pflow_mcp_plugin.contract import RunOrigin
from pflow_mcp_plugin.telemetry.spans import run_span

trace.set_tracer_provider(TracerProvider())
origin = RunOrigin(trace_parent=sys.argv[1])
run = SimpleNamespace(run_id="r", workflow=SimpleNamespace(name="w"), origin=origin)
with run_span(run):
    print(format(trace.get_current_span().parent.span_id, "016x"))
with trace.get_tracer("test").start_as_current_span("outer") as outer, run_span(run):
    print(trace.get_current_span().parent == outer.get_span_context())
"""
TOKEN = "planted-4711-token"


def workflow(folder, *nodes, **outputs):
    """Write a workflow of nodes that follow each other."""
    edges = [{"from": one["id"], "to": other["id"]} for one, other in itertools.pairwise(nodes)]
    path = folder / "traced.json"
    path.write_text(json.dumps({"nodes": list(nodes), "edges": edges, "outputs": outputs}))
    return path


@pytest.fixture
def near_and_far(servers, tmp_path):
    nodes = {"id": "a", "type": "mcp-near-meta"}, {"id": "b", "type": "mcp-far-meta"}
    return workflow(tmp_path, *nodes, near="${a.meta}", far="${b.meta}")


def attributes(span):
    return {each.key: each.value.string_value or each.value.int_value for each in span.attributes}


def test_a_run_and_its_calls_are_one_trace_and_each_server_is_told(pflow, collector, near_and_far):
    done = pflow("run", near_and_far, "--json", env=collector.environment)
    assert done.exit_code == 0, done.stderr
    run = collector.one(f"pflow.run {near_and_far}")
    assert attributes(run)["pflow.run_id"] == Path(done.envelope["trace_path"]).stem
    assert attributes(run)["pflow.outcome"] == "success"
    assert {span.trace_id for span in collector.spans} == {run.trace_id}
    calls = collector.named("tools/call meta")
    assert {call.parent_span_id for call in calls} == {run.span_id}
    requests = collector.named("MCP send tools/call meta")
    assert [collector.above(request) for request in requests] == calls
    outputs = done.envelope["data"]["outputs"]
    for name, request in zip(("near", "far"), requests, strict=True):
        told = f"00-{request.trace_id.hex()}-{request.span_id.hex()}-"
        assert outputs[name]["traceparent"].startswith(told)


def test_a_call_is_described_by_the_conventions_for_mcp(pflow, collector, near_and_far):
    pflow("run", near_and_far, env=collector.environment)
    near, far = map(attributes, collector.named("tools/call meta"))
    assert (near["pflow.server"], far["pflow.server"]) == ("near", "far")
    assert (near["mcp.method.name"], near["gen_ai.tool.name"]) == ("tools/call", "meta")
    assert (near["network.transport"], far["network.transport"]) == ("pipe", "tcp")
    assert far["server.address"] == "127.0.0.1"
    assert near["mcp.protocol.version"] == "2026-07-28"
    call = collector.named("tools/call meta")[0]
    assert call.kind == call.SPAN_KIND_CLIENT


@pytest.mark.parametrize(("tool", "kind"), [("fail", "tool_error"), ("refuse", "execution")])
def test_a_failure_is_recorded_by_its_kind_and_no_secret_with_it(pflow, collector, servers, tool, kind):
    for server in ("near", "far"):
        done = pflow("registry", "run", f"mcp-{server}-{tool}", env=collector.environment)
        assert done.exit_code != 0
    for call in collector.named(f"tools/call {tool}"):
        assert attributes(call)["error.type"] == kind
        assert call.status.code == call.status.STATUS_CODE_ERROR
    assert len(collector.named(f"tools/call {tool}")) == 2
    assert TOKEN not in "".join(map(str, collector.spans))


def test_calls_of_a_parallel_batch_belong_to_the_run(pflow, collector, servers, tmp_path):
    batch = {"items": [1, 2, 3, 4], "parallel": True, "max_concurrent": 4}
    path = workflow(tmp_path, {"id": "a", "type": "mcp-near-meta", "batch": batch})
    assert pflow("run", path, env=collector.environment).exit_code == 0
    run = collector.one(f"pflow.run {path}")
    calls = collector.named("tools/call meta")
    assert [call.parent_span_id for call in calls] == [run.span_id] * 4


def test_a_run_that_fails_says_so(pflow, collector, servers, tmp_path):
    path = workflow(tmp_path, {"id": "a", "type": "mcp-near-fail"})
    assert pflow("run", path, env=collector.environment).exit_code != 0
    run = collector.one(f"pflow.run {path}")
    assert attributes(run)["pflow.outcome"] == "execution"
    assert run.status.code == run.status.STATUS_CODE_ERROR
    assert not run.events


def test_without_opentelemetry_servers_are_told_nothing(pflow, servers):
    for server in ("near", "far"):
        done = pflow("registry", "run", f"mcp-{server}-meta", "--json")
        assert "traceparent" not in done.envelope["data"]["outputs"]["meta"]


def test_the_parent_is_the_current_span_or_else_what_the_origin_names():
    pytest.importorskip("opentelemetry.sdk", reason="the extra [otel] is not installed")
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    command = [sys.executable, "-c", IN_A_SPAN, parent]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["b7ad6b7169203331", "True"]


def test_a_thread_that_works_for_another_gets_none_of_its_context_variables():
    variable = ContextVar("variable")
    variable.set("mine")
    assert variable not in carried_context()
