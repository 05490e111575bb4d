"""A collector that receives the spans of real programs, and servers that return what `_meta` they got."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import attrs
import pytest

META_SERVER = Path(__file__).parent / "meta_server.py"
TOKEN = "planted-4711-token"


@attrs.define
class Collector:
    """Receives spans over OTLP, as a collector of OpenTelemetry does."""

    url: str = ""
    spans: list[Any] = attrs.field(factory=list)

    @property
    def environment(self) -> dict[str, str]:
        """What a program needs to send its spans here."""
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": self.url}

    def take(self, body: bytes) -> None:
        """Keep the spans of a request."""
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            for scope in resource.scope_spans:
                self.spans.extend(scope.spans)

    def named(self, name: str) -> list[Any]:
        """Return the spans of a name."""
        return [span for span in self.spans if span.name == name]

    def one(self, name: str) -> Any:
        """Return the only span of a name."""
        (span,) = self.named(name)
        return span

    def above(self, span: Any) -> Any:
        """Return the span's parent, None if it is not here."""
        return next((other for other in self.spans if other.span_id == span.parent_span_id), None)


@pytest.fixture
def collector() -> Iterator[Collector]:
    pytest.importorskip("opentelemetry.sdk", reason="the extra [otel] is not installed")
    kept = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            kept.take(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        kept.url = f"http://127.0.0.1:{server.server_port}"
        yield kept
        server.shutdown()
        thread.join()


@pytest.fixture
def servers(pflow, pflow_home) -> Iterator[None]:
    """Configure and sync `near` over stdio and `far` over HTTP."""
    command = [sys.executable, str(META_SERVER)]
    with subprocess.Popen([*command, "http"], stdout=subprocess.PIPE, text=True) as far:
        assert far.stdout is not None
        url = f"http://127.0.0.1:{far.stdout.readline().strip()}/mcp"
        tables = {
            "near": {"command": command[0], "args": command[1:], "env": {"TOKEN": TOKEN}},
            "far": {"type": "http", "url": f"{url}?key={TOKEN}", "headers": {"X-Token": TOKEN}},
        }
        added = pflow("mcp", "add", "--sync", json.dumps({"mcpServers": tables}))
        try:
            assert added.exit_code == 0, added.stderr
            yield
        finally:
            far.kill()
