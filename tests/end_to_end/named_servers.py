"""A stdio server without the SDK: `github` or `slack`, the first argument, with tools that answer plainly.

The second argument is a file that gets a line of JSON for each call: server, tool and arguments.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

TEXT = {"type": "string"}
NUMBER = {"type": "integer"}
SEARCH = {
    "query": {"type": "string", "description": "What to look for"},
    "language": {"type": "string", "description": "The language of the code"},
    "max_results": {"type": "integer", "default": 10, "description": "How many results"},
}
ISSUE = {
    "title": TEXT,
    "body": TEXT,
    "labels": {"type": "array", "items": TEXT},
    "assigneeName": TEXT,
    "draft": {"type": "boolean", "default": True},
    "priority": NUMBER,
    "weight": {"type": "number"},
    "milestone": {"type": "object"},
}
FOUND = {"search_results": {"type": "array", "items": {"type": "object"}}}


def tool(name: str, description: str, properties: Any, required: list[str], outputs: Any = None) -> Any:
    described = {"name": name, "description": description}
    described["inputSchema"] = {"type": "object", "properties": properties, "required": required}
    return {**described, **({"outputSchema": {"type": "object", "properties": outputs}} if outputs else {})}


SERVERS = {
    "github": [
        tool("search_code", "Search code in repositories", SEARCH, ["query"], FOUND),
        tool("get_repo", "Get repository information", {"owner": TEXT, "repo": TEXT}, ["owner", "repo"]),
        tool("create_issue", "Create new issue", ISSUE, ["title"], {"issue": {"type": "object"}}),
    ],
    "slack": [
        tool("send_message", "Send a message", {"message": TEXT, "channel": TEXT}, ["message", "channel"]),
    ],
}


def answer(name: str, given: Any) -> dict[str, Any]:
    match name:
        case "search_code":
            paths = [f"{given['query']} {number}.py" for number in (1, 2)]
            return {"search_results": [{"path": path} for path in paths]}
        case "create_issue":
            return {"issue": given}
        case "get_repo":
            return {"text": f"{given['owner']}/{given['repo']}"}
    return {"text": f"sent to {given['channel']}: {given['message']}"}


def call(server: str, calls: Path, params: Any) -> dict[str, Any]:
    name, given = params["name"], params.get("arguments", {})
    with calls.open("a", encoding="utf-8") as file:
        file.write(json.dumps([server, name, given]) + "\n")
    found = answer(name, given)
    if "text" in found:
        return {"content": [{"type": "text", "text": found["text"]}]}
    return {"content": [], "structuredContent": found}


def main() -> None:
    server, calls = sys.argv[1], Path(sys.argv[2])
    for line in sys.stdin:
        request = json.loads(line)
        body: dict[str, Any] = {"result": {}}
        match request.get("method"):
            case "initialize":
                body["result"] = {
                    "protocolVersion": request["params"]["protocolVersion"],
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": server, "version": "1"},
                }
            case "tools/list":
                body["result"] = {"tools": SERVERS[server]}
            case "tools/call":
                body["result"] = call(server, calls, request["params"])
            case _:
                body = {"error": {"code": -32601, "message": "Method not found"}}
        if "id" in request:
            print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **body}), flush=True)


if __name__ == "__main__":
    main()
