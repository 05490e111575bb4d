"""Measures calls of a served tool, pflow's and those of a bare SDK server in turn, with the same client.

`python benchmarks/served_calls.py PAIRS CALLS TOOL ARGUMENTS PROGRAM WORD...` starts `PROGRAM WORD...` and
`bare_server.py`, whose tool `settings_get` returns as many bytes, and prints JSON: the seconds of each block
of CALLS calls, `{"ours": [...], "theirs": [...]}`.
"""

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters

_BARE = Path(__file__).with_name("bare_server.py")
_WARM_UP = 30


async def main() -> None:
    """Open a connection to each server and call in turn."""
    pairs, calls = map(int, sys.argv[1:3])
    tool, arguments = sys.argv[3], json.loads(sys.argv[4])
    times: dict[str, list[float]] = {"ours": [], "theirs": []}
    async with _client(sys.argv[5:]) as ours:
        answer = await _call(ours, tool, arguments)
        async with _client([sys.executable, str(_BARE), json.dumps(answer)]) as theirs:
            same = await _call(theirs, "settings_get", {"key": "any"})
            assert same == answer, (same, answer)
            sides = [("ours", ours, tool, arguments), ("theirs", theirs, "settings_get", {"key": "any"})]
            for _, client, name, values in sides:
                await _block(client, name, values, _WARM_UP)
            for number in range(pairs):
                for side, client, name, values in sides if number % 2 else reversed(sides):
                    times[side].append(await _block(client, name, values, calls))
    print(json.dumps(times))


def _client(command: list[str]) -> Client:
    return Client(StdioServerParameters(command=command[0], args=command[1:], env=dict(os.environ)))


async def _call(client: Client, tool: str, arguments: dict[str, Any]) -> Any:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result
    return result.structured_content


async def _block(client: Client, tool: str, arguments: dict[str, Any], calls: int) -> float:
    begin = time.perf_counter()
    for _ in range(calls):
        await client.call_tool(tool, arguments)
    return time.perf_counter() - begin


asyncio.run(main())
