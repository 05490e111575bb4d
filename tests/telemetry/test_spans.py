"""When OpenTelemetry is in use, and the spans that real programs send to a collector.

Each case is a program of its own, because a provider is set once.
"""

import itertools
import json
import os
import subprocess
import sys
from contextvars import ContextVar
from pathlib import Path

import anyio
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
TRACE = "0af7651916cd43dd8448eb211c80319c"
SPAN = "b7ad6b7169203331"
META = {"traceparent": f"00-{TRACE}-{SPAN}-01", "tracestate": "vendor=kept", "baggage": "user=ada"}


def workflow(folder, *nodes, **outputs):
    """Write a workflow of nodes that follow each other."""
    edges = [{"from": one["id"], "to": other["id"]} for one, other in itertools.pairwise(nodes)]
    path = folder / "traced.json"
    path.write_text(json.dumps({"nodes": list(nodes), "edges": edges, "outputs": outputs}))
    return path


def attributes(span):
    return {each.key: each.value.string_value or each.value.int_value for each in span.attributes}


def test_a_run_and_its_calls_are_one_trace_and_each_server_is_told(collector, pflow, servers, tmp_path):
    nodes = {"id": "a", "type": "mcp-near-meta"}, {"id": "b", "type": "mcp-far-meta"}
    path = workflow(tmp_path, *nodes, near="${a.meta}", far="${b.meta}")
    done = pflow("run", path, "--json", env=collector.environment)
    assert done.exit_code == 0, done.stderr
    run = collector.one(f"pflow.run {path}")
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
    assert {call.kind for call in calls} == {calls[0].SPAN_KIND_CLIENT}
    near, far = map(attributes, calls)
    assert (near["pflow.server"], far["pflow.server"]) == ("near", "far")
    assert (near["mcp.method.name"], near["gen_ai.tool.name"]) == ("tools/call", "meta")
    assert (near["network.transport"], far["network.transport"]) == ("pipe", "tcp")
    assert far["server.address"] == "127.0.0.1"
    assert near["mcp.protocol.version"] == "2026-07-28"


def test_a_failure_is_recorded_by_its_kind_and_no_secret_with_it(collector, pflow, servers, tmp_path):
    path = workflow(tmp_path, {"id": "a", "type": "mcp-near-fail"})
    for words in (("run", path), ("registry", "run", "mcp-far-refuse")):
        assert pflow(*words, env=collector.environment).exit_code != 0
    for tool, kind in (("fail", "tool_error"), ("refuse", "execution")):
        call = collector.one(f"tools/call {tool}")
        assert attributes(call)["error.type"] == kind
        assert call.status.code == call.status.STATUS_CODE_ERROR
    run = collector.one(f"pflow.run {path}")
    assert attributes(run)["pflow.outcome"] == "execution"
    assert run.status.code == run.status.STATUS_CODE_ERROR
    assert not run.events
    assert TOKEN not in "".join(map(str, collector.spans))


def test_calls_of_a_parallel_batch_belong_to_the_run(collector, pflow, servers, tmp_path):
    batch = {"items": [1, 2, 3, 4], "parallel": True, "max_concurrent": 4}
    path = workflow(tmp_path, {"id": "a", "type": "mcp-near-meta", "batch": batch})
    assert pflow("run", path, env=collector.environment).exit_code == 0
    run = collector.one(f"pflow.run {path}")
    calls = collector.named("tools/call meta")
    assert [call.parent_span_id for call in calls] == [run.span_id] * 4


def test_the_parent_is_the_current_span_or_else_what_the_origin_names():
    pytest.importorskip("opentelemetry.sdk", reason="the extra [otel] is not installed")
    command = [sys.executable, "-c", IN_A_SPAN, META["traceparent"]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == [SPAN, "True"]


def test_a_thread_that_works_for_another_gets_none_of_its_context_variables():
    variable = ContextVar("variable")
    variable.set("mine")
    assert variable not in carried_context()


ASK = """
import sys
{before}
from pflow_mcp_plugin.telemetry.provider import tracer
made = tracer()
print("traces" if made else "none", "imported" if "opentelemetry" in sys.modules else "untouched")
"""
OWN = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
trace.set_tracer_provider(TracerProvider())
"""
OTEL = ("OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_SDK_DISABLED")


@pytest.fixture
def imported(monkeypatch):
    """Say whether a program with these variables traces, and whether OpenTelemetry was imported."""
    for name in OTEL:
        monkeypatch.delenv(name, raising=False)

    def run(before="", **variables):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        command = [sys.executable, "-c", ASK.format(before=before)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        return done.stdout.split()

    return run


@pytest.fixture
def sdk():
    pytest.importorskip("opentelemetry.sdk", reason="the extra [otel] is not installed")


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_SDK_DISABLED": "true"},
    ],
)
def test_nothing_is_imported_unless_traces_are_asked_for(imported, variables):
    assert imported(**variables) == ["none", "untouched"]


def test_the_api_alone_which_the_sdk_of_mcp_imports_is_not_use(imported):
    assert imported("import opentelemetry.trace") == ["none", "imported"]


def test_without_the_extra_the_variables_have_no_effect(imported):
    absent = "sys.modules['opentelemetry.sdk'] = None"
    assert imported(absent, OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9")[0] == "none"


def test_with_the_extra_a_provider_that_the_program_sets_is_used_and_the_environment_is_enough(imported, sdk):
    assert imported(OWN) == ["traces", "imported"]
    assert imported(OTEL_TRACES_EXPORTER="console") == ["traces", "imported"]


def test_a_console_gets_spans_on_stderr(pflow, sdk):
    done = pflow("registry", "run", "echo", "message=Hi", "--json", env={"OTEL_TRACES_EXPORTER": "console"})
    assert done.envelope["success"]
    assert '"pflow.outcome": "success"' in done.stderr
    assert '"service.name": "pflow"' in done.stderr


async def asked(home, mode, variables, workflow):
    """Return what pflow, served over stdio, answers to a traced request to run a workflow."""
    from mcp import Client, StdioServerParameters

    command = ["-P", "-m", "pflow_mcp_plugin", "mcp", "serve"]
    environment = {**os.environ, "PFLOW_HOME": str(home), **variables}
    program = StdioServerParameters(command=sys.executable, args=command, env=environment)
    async with Client(program, mode=mode) as client:
        return await client.call_tool("workflow_execute", {"workflow": workflow}, meta=META)


@pytest.fixture
def ask(servers, pflow_home, tmp_path):
    nodes = {"id": "a", "type": "mcp-near-meta"}, {"id": "b", "type": "mcp-far-meta"}
    path = workflow(tmp_path, *nodes, near="${a.meta}", far="${b.meta}")

    def ask(mode="auto", variables=None):
        answer = anyio.run(asked, pflow_home, mode, variables or {}, json.loads(path.read_text()))
        assert not answer.is_error, answer
        return answer.structured_content["data"]["outputs"]

    return ask


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_trace_of_a_request_goes_through_the_run_to_every_server_without_its_baggage(
    collector, ask, mode
):
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
        assert "baggage" not in outputs[name]


def test_without_opentelemetry_nothing_is_passed_on(ask):
    for said in ask().values():
        assert not {"traceparent", "tracestate", "baggage"} & set(said)
