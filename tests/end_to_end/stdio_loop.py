"""What the stdio servers of these tests share, who need no SDK: the handshake, and a loop over requests."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

Message = dict[str, Any]


def send(**message: Any) -> None:
    """Send a message to the client."""
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def serve(
    listed: Callable[[], list[Any]],
    call: Callable[[Message], None],
    *,
    name: str,
    version: str = "1",
    **more: Any,
) -> None:
    """Answer requests until the client hangs up.

    Args:
        listed: Returns the tools.
        call: Gets the request for a call, and answers it.
        name: The server's name.
        version: Its version.
        more: What its answer to `initialize` has besides.
    """
    for line in sys.stdin:
        request = json.loads(line)
        match request.get("method"):
            case "initialize":
                info = {"name": name, "version": version}
                spoken = {"protocolVersion": request["params"]["protocolVersion"], "serverInfo": info}
                send(id=request["id"], result={**spoken, "capabilities": {"tools": {}}, **more})
            case "tools/list":
                send(id=request["id"], result={"tools": listed()})
            case "tools/call":
                call(request)
            case str() if "id" in request:
                send(id=request["id"], error={"code": -32601, "message": "Method not found"})
