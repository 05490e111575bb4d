"""Spans for OpenTelemetry: one for a run, one for each tool call."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pflow_mcp_plugin.contract import PflowError, Run
from pflow_mcp_plugin.exchange import CallResult, Launch, ToolCall
from pflow_mcp_plugin.telemetry.provider import tracer

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

_OUTCOME = "pflow.outcome"
_NETWORK = {"stdio": "pipe", "pipe": "pipe", "uds": "unix"}


@contextmanager
def run_span(run: Run) -> Iterator[None]:
    """Trace a run by a span, which is current in this thread until the run ends.

    Its parent is the current span, or else the one that the origin of the run names.
    """
    traced = tracer()
    if traced is None:
        yield
        return
    from opentelemetry import trace
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    parent = None  # the current span
    if run.origin.trace_parent and not trace.get_current_span().get_span_context().is_valid:
        parent = TraceContextTextMapPropagator().extract({"traceparent": run.origin.trace_parent})
    name = run.workflow.name
    attributes = {"pflow.run_id": run.run_id, "pflow.workflow": name}
    with _started(traced, f"pflow.run {name}", context=parent, attributes=attributes) as span:
        yield
        span.set_attribute(_OUTCOME, "success")


@contextmanager
def call_span(launch: Launch, call: ToolCall) -> Iterator[Callable[[CallResult], None]]:
    """Trace a tool call by a span that follows OpenTelemetry's conventions for MCP; yield its recorder.

    Its parent is the current span. The span is current inside the block, so the request names it.
    """
    traced = tracer()
    if traced is None:
        yield lambda _: None
        return
    from opentelemetry.trace import SpanKind, StatusCode

    def record(answer: CallResult) -> None:
        span.set_attribute(_OUTCOME, "tool_error" if answer.is_error else "success")
        if answer.info.protocol:
            span.set_attribute("mcp.protocol.version", answer.info.protocol)
        if answer.is_error:
            span.set_attribute("error.type", "tool_error")
            span.set_status(StatusCode.ERROR)

    address: dict[str, str | int | None] = {}
    if launch.server.url:  # the rest of the URL may contain secrets
        parts = urlsplit(launch.server.url)
        host = launch.redactor.text(parts.hostname or "")
        address = {"server.address": host, "server.port": parts.port}
    given: dict[str, str | int | None] = {
        "mcp.method.name": "tools/call",
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": call.label,
        "network.transport": _NETWORK.get(launch.server.transport, "tcp"),
        "pflow.server": launch.server.name,
        "pflow.node_id": call.node_id,
        "pflow.run_id": call.run_id,
        **address,
    }
    attributes = {key: value for key, value in given.items() if value}
    with _started(traced, f"tools/call {call.label}", kind=SpanKind.CLIENT, attributes=attributes) as span:
        yield record


def carried_context() -> contextvars.Context:
    """Return the context for work in another thread, which carries nothing but the current span.

    Nothing else that a program keeps in context variables reaches that thread: what a run opens there
    outlives the call. Baggage is left behind too: it may be meant for pflow alone, not for servers.
    """
    made = contextvars.Context()
    if tracer() is not None:
        from opentelemetry import context, trace

        made.run(context.attach, trace.set_span_in_context(trace.get_current_span(), context.Context()))
    return made


@contextmanager
def _started(traced: Tracer, name: str, **options: Any) -> Iterator[Span]:
    """Start a span; record the kind of an error, not its message, which may quote what a server said."""
    from opentelemetry.trace import StatusCode

    with traced.start_as_current_span(
        name, record_exception=False, set_status_on_exception=False, **options
    ) as span:
        try:
            yield span
        except BaseException as error:
            kind = error.kind if isinstance(error, PflowError) else type(error).__qualname__
            span.set_attributes({"error.type": kind, _OUTCOME: kind})
            span.set_status(StatusCode.ERROR)
            raise
