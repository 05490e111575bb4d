"""Reads results of one line each: `python benchmarks/long_line.py MB ROUNDS`.

Prints JSON: `{"seconds": [...], "peak_mb": N}`; the peak is what reading added to this process.
"""

import json
import resource
import sys
import time
from pathlib import Path

from pflow_mcp_plugin.client import Pool
from pflow_mcp_plugin.types import Launch, Server, ToolCall

_MB = 1_000_000
_SERVER = Path(__file__).with_name("plain_server.py")


def peak_mb() -> float:
    """Return the largest resident size that this process had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / _MB


def main() -> None:
    """Ask for the line as often as told."""
    megabytes, rounds = map(int, sys.argv[1:])
    server = Server(name="plain", command=sys.executable, args=(str(_SERVER), "0"), call_timeout=300)
    launch = Launch(server=server, era="handshake")
    seconds = []
    with Pool(print) as pool:
        pool.call(launch, ToolCall(server="plain", tool="text", arguments={"length": 1}))
        before = peak_mb()
        for _ in range(rounds):
            begin = time.perf_counter()
            call = ToolCall(server="plain", tool="text", arguments={"length": megabytes * _MB})
            result = pool.call(launch, call)
            seconds.append(time.perf_counter() - begin)
            assert len(result.content[0]["text"]) == megabytes * _MB
            del result
    print(json.dumps({"seconds": seconds, "peak_mb": peak_mb() - before}))


main()
