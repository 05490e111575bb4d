"""Reads a result of one long line: `python benchmarks/long_line.py MB`.

Prints JSON: `{"seconds": N, "peak_mb": N}`; the peak is the memory that reading added to this process.
"""

import json
import resource
import sys
import time
from pathlib import Path

from pflow_mcp_plugin.client import Pool
from pflow_mcp_plugin.exchange import Launch, ToolCall
from pflow_mcp_plugin.types import Server

_MB = 1_000_000
_SERVER = Path(__file__).with_name("plain_server.py")


def peak_mb() -> float:
    """Return the largest resident size that this process had, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / _MB


def read(pool: Pool, launch: Launch, length: int) -> float:
    """Request a line of `length` letters and return the seconds that it took."""
    begin = time.perf_counter()
    result = pool.call(launch, ToolCall(server="plain", tool="text", arguments={"length": length}))
    seconds = time.perf_counter() - begin
    assert len(result.content[0]["text"]) == length
    return seconds


def main() -> None:
    """Connect with a short line, then request the long one."""
    server = Server(name="plain", command=sys.executable, args=(str(_SERVER), "0"), call_timeout=300)
    launch = Launch(server=server, era="handshake")
    with Pool(print) as pool:
        read(pool, launch, 1)
        before = peak_mb()
        seconds = read(pool, launch, int(sys.argv[1]) * _MB)
    print(json.dumps({"seconds": seconds, "peak_mb": peak_mb() - before}))


main()
