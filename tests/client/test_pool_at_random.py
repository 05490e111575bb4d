"""Whatever threads do with whatever servers, and whenever the pool is closed, nothing is left of it."""

from __future__ import annotations

import gc
import os
import random
import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from itertools import islice
from pathlib import Path

import pytest

from pflow_mcp_plugin.client import Pool
from pflow_mcp_plugin.errors import McpError
from pflow_mcp_plugin.exchange import Launch, ToolCall
from pflow_mcp_plugin.processes.reaper_process import marked_processes
from pflow_mcp_plugin.types import Server

BAD = {
    "exits": "raise SystemExit(3)",
    "reads one line": "sys.stdin.readline()",
    "talks and exits": "print('hello')",
    "closes its stdout": "os.close(1); time.sleep(60)",
    "says nothing": "time.sleep(60)",
}
USES: tuple[Callable[[Pool, Launch], object], ...] = (
    Pool.prepare,
    Pool.info,
    Pool.list_tools,
    lambda pool, launch: pool.call(launch, ToolCall(server=launch.server.name, tool="now")),
)


def servers(demo: Launch) -> list[Launch]:
    launches = [demo]
    for name, script in BAD.items():
        for protocol in ("auto", "handshake"):
            arguments = ("-c", f"import os, sys, time; {script}")
            options = {"args": arguments, "protocol": protocol, "startup_timeout": 0.4}
            server = Server(name=f"{name} {protocol}", command=sys.executable, **options)
            launches.append(Launch(server=server))
    return launches


def descriptors() -> int:
    gc.collect()
    return len(list(Path("/proc/self/fd").iterdir()))


def children() -> set[str]:
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii").split())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_nothing_is_left_of_a_pool_closed_at_any_moment(demo, seed):
    chance = random.Random(seed)
    with Pool(print) as pool:  # what stays open for good is there after the first
        pool.info(demo)
    before, others = descriptors(), children()

    def use(launch: Launch) -> bool:
        try:
            chance.choice(USES)(pool, launch)
        except McpError:
            return False
        return True

    for _ in range(2):
        pool = Pool(lambda _: None)
        launches = chance.sample(servers(demo), chance.randint(1, 5))
        with ThreadPoolExecutor(8) as threads:
            uses: list[Future[bool]] = [threads.submit(use, chance.choice(launches)) for _ in range(30)]
            list(islice(as_completed(uses, timeout=60), chance.randint(0, 30)))
            pool.close()
        assert all(isinstance(used.result(), bool) for used in uses)
        assert marked_processes(f"{os.getpid()}-") == []
        assert children() <= others
        assert descriptors() == before
