"""A stdio server without the SDK: `github` or `slack`, the first argument, with tools that answer plainly.

The second argument is a file that gets a line of JSON for each call: server, tool and arguments.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from stdio_loop import Message, send, serve

TEXT = {"type": "string"}
SEARCH = {
    "query": {"type": "string", "description": "What to look for"},
    "language": {"type": "string", "description": "The language of the code"},
    "max_results": {"type": "integer", "default": 10, "description": "How many results"},
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
        case "get_repo":
            return {"text": f"{given['owner']}/{given['repo']}"}
    return {"text": f"sent to {given['channel']}: {given['message']}"}


def call(request: Message) -> None:
    name, given = request["params"]["name"], request["params"].get("arguments", {})
    with Path(sys.argv[2]).open("a", encoding="utf-8") as file:
        file.write(json.dumps([sys.argv[1], name, given]) + "\n")
    found = answer(name, given)
    result: Message = {"content": [], "structuredContent": found}
    if "text" in found:
        result = {"content": [{"type": "text", "text": found["text"]}]}
    send(id=request["id"], result=result)


if __name__ == "__main__":
    serve(lambda: SERVERS[sys.argv[1]], call, name=sys.argv[1])
