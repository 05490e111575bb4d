"""A server of the SDK, and pflow's HTTP server around it, for tests."""

import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

import anyio
import attrs
import httpx2
import mcp_types as types
from mcp.server.lowlevel import Server

from pflow_mcp_plugin.redaction import Redactor
from pflow_mcp_plugin.server.http.http_app import AppOptions, build_app
from pflow_mcp_plugin.server.http.http_server import HttpServer, Tls
from pflow_mcp_plugin.server.http.listening_address import ListeningAddress, listen
from pflow_mcp_plugin.server.http.request_tokens import BearerToken, TokenCheck, http_caller

TOKEN = "a-token-only-for-tests"
ERA_2025 = {"mcp-protocol-version": "2025-11-25"}
ACCEPT = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


@attrs.define
class Work:
    """What the tool `wait` did: set when a call began, or may go on."""

    began: threading.Event = attrs.field(factory=threading.Event)
    go_on: threading.Event = attrs.field(factory=threading.Event)


def make_server(work: Callable[[], Work]) -> Server[Any]:
    """Return a server with a few tools; `wait` waits until the test lets it go on."""

    async def list_tools(ctx: Any, params: Any) -> types.ListToolsResult:
        names = ("echo", "owner", "steps", "wait", "crash")
        return types.ListToolsResult(
            tools=[types.Tool(name=name, input_schema={"type": "object"}) for name in names]
        )

    async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        text = str(params.arguments)
        if params.name == "owner":
            text = http_caller(ctx).owner
        elif params.name == "crash":
            raise RuntimeError(f"crashed with {TOKEN}")
        elif params.name == "steps":
            for step in range(3):
                await ctx.session.report_progress(step + 1, 3, f"step {step + 1}")
        elif params.name == "wait":
            work().began.set()
            while not work().go_on.is_set():  # noqa: ASYNC110 - set by another thread
                await anyio.sleep(0.01)
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)])

    return Server("tested", on_list_tools=list_tools, on_call_tool=call_tool)


@attrs.define(kw_only=True)
class Served:
    """A server that is being served."""

    port: int
    server: HttpServer
    work: Work = attrs.field(factory=Work)
    scheme: str = "http"

    @property
    def url(self) -> str:
        """Its endpoint."""
        return f"{self.scheme}://127.0.0.1:{self.port}/mcp"

    def connect(self) -> socket.socket:
        """Open a connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=20)

    def raw(self, data: bytes) -> bytes:
        """Send bytes on a connection of their own; return all that comes back until it is closed."""
        with closing(self.connect()) as connection:
            connection.sendall(data)
            return b"".join(iter(lambda: connection.recv(65536), b""))


@contextmanager
def serving(
    *, check: TokenCheck | None = None, tls: Tls | None = None, grace: float = 5, **options: Any
) -> Iterator[Served]:
    """Serve on a port of its own, in a thread, until the end of the block."""
    listening, address = listen(ListeningAddress(host="127.0.0.1", port=0))
    app, limits = build_app(
        make_server(lambda: served.work),
        AppOptions(address=address, check=check or BearerToken(TOKEN), tls=tls is not None, **options),
    )
    server = HttpServer(app, limits, listening, tls=tls, grace=grace)
    served = Served(port=address.port, server=server, scheme="https" if tls else "http")
    thread = threading.Thread(target=server.run, args=(Redactor([TOKEN]),))
    thread.start()
    try:
        yield served
    finally:
        served.work.go_on.set()
        server.stop()
        thread.join(30)
    assert not thread.is_alive()


def post(
    served: Served, body: Mapping[str, Any], headers: Mapping[str, str] | None = None
) -> httpx2.Response:
    """Send a request on a connection of its own; by default, with the token."""
    given = bearer() if headers is None else headers
    return httpx2.post(served.url, json=body, headers=given, timeout=20, trust_env=False, verify=False)


def request(method: str, params: Mapping[str, Any] | None = None, number: int = 1) -> dict[str, Any]:
    """Return a request of the handshake era."""
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": dict(params or {})}


def bearer(token: str = TOKEN) -> dict[str, str]:
    """Return the headers of a request with a token."""
    return {"authorization": f"Bearer {token}", **ACCEPT, **ERA_2025}


def modern_call(tool: str) -> dict[str, Any]:
    """Return a call of the era without handshakes; it asks for progress."""
    name = "io.modelcontextprotocol/"
    meta = {
        f"{name}protocolVersion": "2026-07-28",
        f"{name}clientInfo": {"name": "tests", "version": "1"},
        f"{name}clientCapabilities": {},
        "progressToken": 0,
    }
    return request("tools/call", {"name": tool, "arguments": {}, "_meta": meta})


def modern_headers(tool: str) -> dict[str, str]:
    """Return the headers that such a call needs."""
    return {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": tool}
