"""A stdio server of 2026-07-28 that does what its script says; see `scripted.py` for the other era.

Run as `python modern.py SCRIPT [HINTS]`: SCRIPT is executed for each request that is not answered
here, with `request`, `params`, `reply(result)` and `changed()` at hand. With HINTS, a JSON object,
there is a list of one tool that has them; its description counts how often it was asked for.
"""

from __future__ import annotations

import json
import sys

_HINTS = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
_DISCOVER = {
    **_HINTS,
    "supportedVersions": ["2026-07-28"],
    "capabilities": {"tools": {"listChanged": True}},
}


def send(message: dict[str, object]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def main() -> None:
    script = compile(sys.argv[1], "script", "exec")
    lists, listener = 0, None
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue

        def reply(result: dict[str, object], request: dict[str, object] = request) -> None:
            send({"id": request["id"], "result": {"resultType": "complete", **result}})

        def changed(listener: object = listener) -> None:
            meta = {"io.modelcontextprotocol/subscriptionId": listener}
            send({"method": "notifications/tools/list_changed", "params": {"_meta": meta}})

        match request["method"]:
            case "server/discover":
                reply(_DISCOVER)
            case "subscriptions/listen":
                listener = request["id"]
                meta = {"io.modelcontextprotocol/subscriptionId": listener}
                wanted = request["params"]["notifications"]
                acknowledged = {"_meta": meta, "notifications": wanted}
                send({"method": "notifications/subscriptions/acknowledged", "params": acknowledged})
            case "tools/list" if len(sys.argv) > 2:
                lists += 1
                tool = {"name": "act", "inputSchema": {"type": "object"}, "description": str(lists)}
                reply({"tools": [tool], **json.loads(sys.argv[2])})
            case _:
                names = {"request": request, "params": request["params"], "reply": reply}
                exec(script, {**names, "changed": changed, "send": send, "json": json})


if __name__ == "__main__":
    main()
