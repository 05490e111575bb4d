"""Call a tool of the demo server many times concurrently, with the SDK alone; print the seconds it took.

`python benchmarks/bare_parallel.py CALLS IN_FLIGHT`
"""

import asyncio
import sys
import time

from mcp import Client, StdioServerParameters


async def main() -> None:
    """Make the calls in one session."""
    calls, in_flight = map(int, sys.argv[1:])
    room = asyncio.Semaphore(in_flight)
    server = StdioServerParameters(command=sys.executable, args=["-m", "pflow_mcp_plugin.server.demo_server"])
    async with Client(server) as client:

        async def one(number: int) -> None:
            async with room:
                await client.call_tool("add", {"a": number, "b": 1})

        await one(0)
        begin = time.perf_counter()
        await asyncio.gather(*(one(number) for number in range(calls)))
        print(time.perf_counter() - begin)


asyncio.run(main())
