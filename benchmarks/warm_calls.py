"""Measures calls on a warm connection, ours and the bare SDK's in turn, in one process.

`python benchmarks/warm_calls.py PAIRS CALLS IN_FLIGHT` prints JSON: the seconds of each block of
CALLS calls on the demo server, `{"ours": [...], "theirs": [...]}`.
"""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

from mcp import Client, StdioServerParameters

from pflow_mcp_plugin.client import Pool
from pflow_mcp_plugin.exchange import Launch, ToolCall
from pflow_mcp_plugin.types import Server

_COMMAND = (sys.executable, ("-m", "pflow_mcp_plugin.server.demo_server"))
_ARGUMENTS = {"a": 1, "b": 2}
_WARM_UP = 50


async def main() -> None:
    """Open one connection of each kind and call in turn."""
    pairs, calls, in_flight = map(int, sys.argv[1:])
    times: dict[str, list[float]] = {"ours": [], "theirs": []}
    with Pool(print) as pool, ThreadPoolExecutor(in_flight) as threads:
        async with Client(StdioServerParameters(command=_COMMAND[0], args=list(_COMMAND[1]))) as client:

            async def ours(count: int) -> None:
                await asyncio.to_thread(_our_calls, pool, threads, count, in_flight)

            async def theirs(count: int) -> None:
                await _their_calls(client, count, in_flight)

            await ours(_WARM_UP)
            await theirs(_WARM_UP)
            for number in range(pairs):
                order = [("ours", ours), ("theirs", theirs)]
                for name, block in order if number % 2 else reversed(order):
                    times[name].append(await _timed(block, calls))
    print(json.dumps(times))


async def _timed(block: Callable[[int], Awaitable[None]], calls: int) -> float:
    begin = time.perf_counter()
    await block(calls)
    return time.perf_counter() - begin


def _our_calls(pool: Pool, threads: ThreadPoolExecutor, count: int, in_flight: int) -> None:
    launch = Launch(server=Server(name="demo", command=_COMMAND[0], args=_COMMAND[1]))
    call = ToolCall(server="demo", tool="add", arguments=_ARGUMENTS)
    if in_flight == 1:
        for _ in range(count):
            pool.call(launch, call)
    else:
        list(threads.map(lambda _: pool.call(launch, call), range(count)))


async def _their_calls(client: Client, count: int, in_flight: int) -> None:
    room = asyncio.Semaphore(in_flight)

    async def one() -> None:
        async with room:
            await client.call_tool("add", _ARGUMENTS)

    await asyncio.gather(*(one() for _ in range(count)))


asyncio.run(main())
