"""A collector that receives the spans of real programs, and servers that return what `_meta` they got."""

import json
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import attrs
import pytest
from http_server import FaultServer, Reply, Request

SCRIPTED = Path(__file__).parents[1] / "client" / "scripted.py"
TOKEN = "planted-4711-token"
TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in ("meta", "fail", "refuse")]
NEAR_SERVER = f"""
if request["method"] == "tools/list":
    reply({{"tools": {TOOLS}, "ttlMs": 0, "cacheScope": "private"}})
else:
    meta = {{key: value for key, value in params["_meta"].items() if "/" not in key}}
    text = {{"type": "text", "text": "said " + os.environ["TOKEN"]}}
    reply({{"content": [text], "structuredContent": {{"meta": meta}}, "isError": params["name"] == "fail"}})
"""


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


async def far_server(request: Request, reply: Reply) -> bool:
    """Answer over HTTP with what `_meta` a call had, or refuse it with the token."""
    params = request.message.get("params", {})
    if request.rpc == "tools/list":
        await reply.result({"tools": TOOLS})
    elif request.rpc == "tools/call" and params["name"] == "refuse":
        await reply.error(-32000, f"refused {TOKEN}")
    elif request.rpc == "tools/call":
        meta = {key: value for key, value in params["_meta"].items() if "/" not in key}
        await reply.result({"content": [], "structuredContent": {"meta": meta}})
    return request.rpc.startswith("tools/")


@pytest.fixture
def servers(pflow: Callable[..., Any], pflow_home: Path) -> Iterator[None]:
    """Configure and sync `near` over stdio and `far` over HTTP."""
    with FaultServer(far_server) as far:
        env = {"TOKEN": TOKEN, "AT_START": "modern()"}
        tables = {
            "near": {"command": sys.executable, "args": [str(SCRIPTED), NEAR_SERVER], "env": env},
            "far": {"type": "http", "url": f"{far.url()}?key={TOKEN}", "headers": {"X-Token": TOKEN}},
        }
        added = pflow("mcp", "add", "--sync", json.dumps({"mcpServers": tables}))
        assert added.exit_code == 0, added.stderr
        yield
