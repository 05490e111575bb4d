"""Call one tool of a stdio server several times, in one session, with the SDK alone.

`python benchmarks/bare_sdk.py 10 add '{"a": 1, "b": 2}' COMMAND ARGS...`
"""

import asyncio
import json
import sys

from mcp import Client, StdioServerParameters


async def main() -> None:
    """Make the calls; print the last result."""
    count, tool, arguments, command, *rest = sys.argv[1:]
    async with Client(StdioServerParameters(command=command, args=rest)) as client:
        for _ in range(int(count)):
            result = await client.call_tool(tool, json.loads(arguments))
            assert not result.is_error, result
        print(result.structured_content)


asyncio.run(main())
