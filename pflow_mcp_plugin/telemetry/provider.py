"""Whether an OpenTelemetry tracer provider is set, and setting one up from the environment."""

from __future__ import annotations

import os
import sys
import threading
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Tracer

_EXPORTER = "OTEL_TRACES_EXPORTER"
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_lock = threading.Lock()


def tracer() -> Tracer | None:
    """Return the OpenTelemetry tracer of this package, None if no tracer provider is in use.

    It is in use once a tracer provider is set: by the program, by `opentelemetry-instrument`, or here, if
    the environment names an exporter or an endpoint and the extra `[otel]` is installed.
    """
    if "opentelemetry.trace" not in sys.modules and not _is_requested():
        return None
    try:
        from opentelemetry import trace
    except ImportError:
        return None
    if not (_is_set() or (_is_requested() and _set_up())):
        return None
    return trace.get_tracer("pflow-mcp", _version())


@cache
def _version() -> str:
    from importlib.metadata import version

    return version("pflow-mcp")


def _is_set() -> bool:
    """Whether a real tracer provider is set, not the placeholder that records nothing."""
    from opentelemetry import trace

    return not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider | trace.NoOpTracerProvider)


@cache  # each call asks, and the environment is slow to read
def _is_requested() -> bool:
    if os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    exporter = os.environ.get(_EXPORTER, "")
    return exporter != "none" and bool(exporter or any(map(os.environ.get, _ENDPOINTS)))


def _set_up() -> bool:
    with _lock:
        if _is_set():
            return True
        try:
            from opentelemetry import trace
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor

            exporters = [*map(_exporter, os.environ.get(_EXPORTER, "").split(","))]
        except ImportError:  # the extra is not installed; the variables may be meant for other programs
            return False
        attributes = os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
        is_named = bool(os.environ.get("OTEL_SERVICE_NAME")) or "service.name=" in attributes
        made = TracerProvider(resource=Resource.create({} if is_named else {"service.name": "pflow"}))
        for exporter in filter(None, exporters):
            made.add_span_processor(BatchSpanProcessor(exporter))
        trace.set_tracer_provider(made)
        return True


def _exporter(name: str) -> SpanExporter | None:
    if name.strip() == "console":
        from opentelemetry.sdk.trace.export import ConsoleSpanExporter

        return ConsoleSpanExporter(out=sys.stderr)  # stdout belongs to results, and to the protocol
    if name.strip() in ("", "otlp", "otlp_proto_http"):
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        return OTLPSpanExporter()
    return None
